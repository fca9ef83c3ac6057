"""Rows of nested arrays, and of arrays updated in place: measurements for the test of asymptotic work (docs/laws.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import raido as rd
from rows.private import PRIVATE
from rows.row import Row, aligned, drawn, uniform, whole_numbers

Arrays = Callable[[int], list[np.ndarray]]


@rd.algorithm
def rows_in_maps(u: rd.f32["n", "m"]):
    return rd.map(lambda row: rd.loop(row.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i + 1] - 0.5 * y[i]), row), u)


def rows_in_maps_by_numpy(u: np.ndarray) -> np.ndarray:
    y = u.copy()
    for i in range(u.shape[1] - 1):
        y[:, i + 1] -= np.float32(0.5) * y[:, i]
    return y


@rd.algorithm
def loops_in_loops(a: rd.i32["n", "n"]):
    n = a.shape[0]
    inner = lambda i: lambda j, m: m.at[i + 1, j + 1].set(m[i, j] + m[i + 1, j])
    return rd.loop(n - 1, lambda i, m: rd.loop(n - 1, inner(i), m), a)


def loops_in_loops_by_numpy(a: np.ndarray) -> np.ndarray:
    m = a.copy()
    for i in range(len(m) - 1):
        m[i + 1, 1:] = m[i + 1, 0] + np.cumsum(m[i, :-1], dtype=np.int32)
    return m


@rd.algorithm
def sum_of_scans(x: rd.f32["n"], v: rd.f32["d"]):
    return rd.sum(rd.map(lambda a: rd.scan(rd.add, 0.0, v * a)[2], x))


def sum_of_scans_by_numpy(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.float32(np.sum(x, dtype=np.float64) * np.sum(v[:3], dtype=np.float64))


@rd.algorithm
def product_chain(ys: rd.f32["m", "n"], b: rd.f32["k", "n"], a: rd.f32["k", "k"], x: rd.f32["p", "k"]):
    return rd.map(lambda y: x @ (a @ (b @ y)), ys)


def product_chain_by_numpy(ys: np.ndarray, b: np.ndarray, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return ys @ b.T @ a.T @ x.T


@rd.algorithm
def tiles_in_loops(m: rd.f32["n"]):
    def step(d, m):
        tile = lambda k: rd.loop(64, lambda i, t: t * 0.5, rd.replicate((64, 64), rd.f32(k)))
        tiles = rd.map(tile, rd.iota(rd.minimum(d + 1, 4)))
        return rd.scatter(m, rd.iota(tiles.shape[0] * 4096), tiles.reshape(-1))

    return rd.loop(4, step, m)


def tiles_in_loops_by_numpy(m: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(4, dtype=np.float32) * np.float32(0.5**64), 4096)


@rd.algorithm
def block_elimination(m: rd.f32["n", "n", 32, 32]):
    def step(k, m):
        d = m[k, k]
        row = lambda j, r: r.at[j].set(r[j] - rd.sum(rd.where(rd.iota(32) < j, d[:, j] * r, 0.0)))
        left = rd.map(lambda b: rd.map(lambda r: rd.loop(32, row, r), b), m[k + 1 :, k])
        inner = rd.map(lambda l, row: rd.map(lambda b: b - l @ d, row), left, m[k + 1 :, k + 1 :])
        return m.at[k + 1 :, k].set(left).at[k + 1 :, k + 1 :].set(inner)

    return rd.loop(m.shape[0] - 1, step, m)


def block_elimination_by_numpy(m: np.ndarray) -> np.ndarray:
    m = m.copy()
    for k in range(len(m) - 1):
        d, left = m[k, k].copy(), m[k + 1 :, k]
        for j in range(32):
            left[..., j] -= left[..., :j] @ d[:j, j]
        m[k + 1 :, k + 1 :] -= (left @ d)[:, None]
    return m


@rd.algorithm
def shifted_slice(a: rd.f32["n"]):
    return rd.loop(200, lambda t, m: m.at[t : t + 16].set(m[t + 1 : t + 17] + 1), a)


def shifted_slice_by_numpy(a: np.ndarray) -> np.ndarray:
    m = a.copy()
    for t in range(200):
        m[t : t + 16] = m[t + 1 : t + 17] + 1
    return m


@rd.algorithm
def counted_scatter(a: rd.f32["n"]):
    def step(t, m):
        i = rd.iota(rd.minimum(t + 1, 16))
        return rd.scatter(m, i, m[i + 1] + 1.0, unique_indices=True)

    return rd.loop(200, step, a)


def counted_scatter_by_numpy(a: np.ndarray) -> np.ndarray:
    m = a.copy()
    for t in range(200):
        count = min(t + 1, 16)
        m[:count] = m[1 : count + 1] + 1
    return m


def eliminated(m: rd.Array, k: rd.Array) -> rd.Array:
    """One step of an LU decomposition: the column below the pivot divided by it, and the part to its right less the product."""
    m = m.at[k + 1 :, k].set(m[k + 1 :, k] / m[k, k])
    return m.at[k + 1 :, k + 1 :].set(m[k + 1 :, k + 1 :] - m[k + 1 :, k][:, None] * m[k, k + 1 :][None, :])


@rd.algorithm
def lu(a: rd.f32["n", "n"]):
    return rd.loop(a.shape[0] - 1, lambda k, m: eliminated(m, k), a)


@rd.algorithm
def lu_pivots(a: rd.f32["n", "n"]):
    def step(k, m):
        p = k + rd.argmax(rd.abs(m[k:, k]))
        return eliminated(m.at[[k, p]].set(m[[p, k]]), k)

    return rd.loop(a.shape[0] - 1, step, a)


def lu_by_numpy(a: np.ndarray, pivots: bool = False) -> np.ndarray:
    m = a.copy()
    for k in range(len(m) - 1):
        if pivots:
            p = k + np.argmax(np.abs(m[k:, k]))
            m[[k, p]] = m[[p, k]]
        m[k + 1 :, k] /= m[k, k]
        m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    return m


def dominant(n: int) -> Arrays:
    """A matrix whose diagonal is larger than all the rest of its row, so that no pivots are needed."""

    def make(scale: int) -> list[np.ndarray]:
        size = max(n // scale, 8)
        matrix = uniform(size, size)
        matrix[np.diag_indices(size)] += size
        return [matrix]

    return make


def out_of_order(n: int) -> Arrays:
    """A diagonally dominant matrix with its rows reversed: each elimination step exchanges two."""

    def make(scale: int) -> list[np.ndarray]:
        (matrix,) = dominant(n)(scale)
        turned = aligned(matrix.shape, "f4")
        turned[...] = matrix[::-1]
        return [turned]

    return make


@rd.algorithm
def scan_of_sums(a: rd.f32["k", "w"]):
    return rd.scan(rd.add, 0.0, rd.map(rd.sum, a))


@rd.algorithm
def scan_of_exp(a: rd.f32["n"]):
    return rd.scan(rd.add, 0.0, rd.exp(a) * rd.sin(a))


def scan_of_exp_by_numpy(a: np.ndarray) -> np.ndarray:
    wide = a.astype(np.float64)
    return np.cumsum(np.exp(wide) * np.sin(wide)).astype(np.float32)


@rd.algorithm
def rows_of_a_matrix(x: rd.f32["h", "w"]):
    return rd.loop(x.shape[0] - 1, lambda i, b: b.at[i + 1].set(0.9 * b[i] + b[i + 1]), x)


def rows_of_a_matrix_by_numpy(x: np.ndarray) -> np.ndarray:
    b = x.copy()
    for i in range(len(b) - 1):
        b[i + 1] += np.float32(0.9) * b[i]
    return b


@rd.algorithm
def wave(u: rd.f32["h", "w"]):
    c = 0.5
    k = (c - 1) / (c + 1)

    def step(t, state):
        before, now = state
        around = rd.stencil(
            lambda p: p[-1, 0] + p[1, 0] + p[0, -1] + p[0, 1] - 4 * p[0, 0], now, boundary="clamp", name="around"
        )
        after = 2 * now - before + c * c * around
        after = after.at[0, :].set(now[1, :] + k * (after[1, :] - now[0, :]))
        after = after.at[-1, :].set(now[-2, :] + k * (after[-2, :] - now[-1, :]))
        after = after.at[:, 0].set(now[:, 1] + k * (after[:, 1] - now[:, 0]))
        after = after.at[:, -1].set(now[:, -2] + k * (after[:, -2] - now[:, -1]))
        return now, after

    return rd.loop(200, step, (u, u))[1]


def wave_by_numpy(u: np.ndarray) -> np.ndarray:
    c = np.float32(0.5)
    k = np.float32((c - 1) / (c + 1))
    before, now = u, u
    for _ in range(200):
        padded = np.pad(now, 1, "edge")
        around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * now
        after = 2 * now - before + c * c * around
        after[0] = now[1] + k * (after[1] - now[0])
        after[-1] = now[-2] + k * (after[-2] - now[-1])
        after[:, 0] = now[:, 1] + k * (after[:, 1] - now[:, 0])
        after[:, -1] = now[:, -2] + k * (after[:, -2] - now[:, -1])
        before, now = now, after
    return now


@rd.algorithm
def plate(u: rd.f32["h", "w"]):
    def step(_, t):
        return t.at[1:-1, 1:-1].set((t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]) / 4)

    return rd.loop(200, step, u)


def plate_by_numpy(u: np.ndarray) -> np.ndarray:
    t = u.copy()
    for _ in range(200):
        t[1:-1, 1:-1] = (t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]) / np.float32(4)
    return t


def blocks(n: int) -> Arrays:
    """A matrix of n × n blocks of 32 × 32 numbers that stay small."""
    return lambda scale: [uniform(max(n // scale, 2), max(n // scale, 2), 32, 32, high=0.02)]


NESTED: dict[str, Row] = {
    "rows_in_maps": Row("a loop in each of 64 rows of 4,096", rows_in_maps, drawn((64, 4096)), rows_in_maps_by_numpy),
    "loops_in_loops": Row(
        "a loop in a loop over 1,024²", loops_in_loops, drawn((1024, 1024), high=9, dtype="i4"), loops_in_loops_by_numpy
    ),
    "sum_of_scans": Row(
        "a sum of 16,384 scans of 5", sum_of_scans, drawn((16384,), (5,)), sum_of_scans_by_numpy, tolerance=1e-4
    ),
    "product_chain": Row(
        "three products of matrices for each of 200 rows",
        product_chain,
        drawn((200, 114), (8, 114), (8, 8), (228, 8)),
        product_chain_by_numpy,
    ),
    "tiles_in_loops": Row(
        "tiles of 64² made in loops", tiles_in_loops, lambda scale: [uniform(16384)], tiles_in_loops_by_numpy
    ),
    "block_elimination": Row(
        "elimination of 16² blocks of 32²", block_elimination, blocks(16), block_elimination_by_numpy, tolerance=1e-4
    ),
    "shifted_slice": Row(
        "200 updates of 16 neighbours in 2²⁰",
        shifted_slice,
        lambda scale: [uniform(max((1 << 20) // scale, 256))],
        shifted_slice_by_numpy,
    ),
    "counted_scatter": Row(
        "200 scatters of up to 16 in 2²⁰",
        counted_scatter,
        lambda scale: [uniform(max((1 << 20) // scale, 256))],
        counted_scatter_by_numpy,
    ),
    "lu": Row("LU of 1,024², by slices", lu, dominant(1024), lu_by_numpy, tolerance=1e-4),
    "lu_pivots": Row(
        "LU of 1,024² with pivots", lu_pivots, out_of_order(1024), lambda a: lu_by_numpy(a, True), tolerance=1e-4
    ),
    "scan_of_sums": Row(
        "a scan of 2²⁰ sums of 10",
        scan_of_sums,
        whole_numbers((1 << 20, 10)),
        lambda a: np.cumsum(np.sum(a, axis=1), dtype=np.float32),
    ),
    "scan_of_exp": Row(
        "a scan of 2²² exp · sin",
        scan_of_exp,
        drawn((1 << 22,), low=-3, high=1),
        scan_of_exp_by_numpy,
        tolerance=1e-4,
    ),
    "rows_of_a_matrix": Row(
        "each of 2,048 rows from the one before", rows_of_a_matrix, drawn((2048, 2048)), rows_of_a_matrix_by_numpy
    ),
    "wave": Row(
        "a wave with absorbing borders, 512², 200 steps", wave, drawn((512, 512)), wave_by_numpy, tolerance=1e-4
    ),
    "plate": Row(
        "a plate with fixed borders, 512², 200 steps", plate, drawn((512, 512)), plate_by_numpy, tolerance=1e-4
    ),
    **PRIVATE,
}
