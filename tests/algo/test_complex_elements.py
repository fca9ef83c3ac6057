"""Complex numbers as an element type: every public function gives NumPy's result for them, or refuses them in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from agreement import hold, row

_random = np.random.default_rng(3)
Z = (_random.normal(size=6) + 1j * _random.normal(size=6)).astype(np.complex64)
W = np.stack([Z, Z[::-1]])
X = _random.normal(size=6).astype(np.float32)
I = np.array([2, 0, 5, 1, 3, 2])
OFFSETS = np.array([0, 2, 2, 6])
NAN = np.nan
WITH_NAN = np.array([1 + 2j, NAN + 1j, 2 - 1j, complex(1, NAN), complex(NAN, NAN), 1 + 1j, complex(1, NAN), 1 + 2j])
ONE = np.complex64(1)


def changed(z: np.ndarray, change: Callable[[np.ndarray], Any]) -> np.ndarray:
    """A copy of an array, changed in place."""
    copy = z.copy()
    change(copy)
    return copy


def at(operation: Any, index: Any, values: Any) -> Callable[..., np.ndarray]:
    """An array with values combined into it, one after the other."""
    return lambda z, *_: changed(z, lambda copy: operation.at(copy, index, values))


def put(index: Any, values: Any) -> Callable[..., np.ndarray]:
    """An array with values set."""
    return lambda z, *_: changed(z, lambda copy: copy.__setitem__(index, values))


def both_sides(z: np.ndarray, fill: complex) -> np.ndarray:
    padded = np.pad(z, 1, constant_values=fill)
    return padded[:-2] + padded[2:]


FILLS = {
    "pad": row(lambda z: rd.pad(z, 1, constant_values=1), lambda z: np.pad(z, 1, constant_values=1), Z),
    "pad, complex": row(
        lambda z: rd.pad(z, (1, 2), constant_values=1 - 2j), lambda z: np.pad(z, (1, 2), constant_values=1 - 2j), Z
    ),
    "pad by a constant": row(lambda z: rd.pad(z, 1, rd.constant(3)), lambda z: np.pad(z, 1, constant_values=3), Z),
    "pad by itself": row(lambda z: rd.pad(z, 2, mode="reflect"), lambda z: np.pad(z, 2, mode="reflect"), Z),
    "pad a tuple": row(
        lambda z, x: rd.pad((z, x), 1, constant_values=(1j, 2)),
        lambda z, x: (np.pad(z, 1, constant_values=1j), np.pad(x, 1, constant_values=2)),
        Z,
        X,
    ),
    "shift": row(lambda z: rd.shift(z, 1, fill=2), lambda z: np.concatenate([2 * ONE[None], z[:-1]]), Z),
    "shift back": row(lambda z: rd.shift(z, -1, fill=2j), lambda z: np.concatenate([z[1:], 2j * ONE[None]]), Z),
    "gather": row(
        lambda z, i: rd.gather(z, i + 3, mode=rd.constant(1)),
        lambda z, i: np.where(i + 3 < 6, z[np.minimum(i + 3, 5)], ONE),
        Z,
        I,
    ),
    "gather, clamped": row(lambda z, i: rd.gather(z, i + 3, mode="clamp"), lambda z, i: z[np.minimum(i + 3, 5)], Z, I),
    "stencil": row(
        lambda z: rd.stencil(lambda p: p[-1] + p[1], z, boundary=rd.constant(1)), lambda z: both_sides(z, 1), Z
    ),
    "stencil, complex": row(
        lambda z: rd.stencil(lambda p: p[-1] + p[1], z, boundary=rd.constant(1 - 1j)),
        lambda z: both_sides(z, 1 - 1j),
        Z,
    ),
    "stencil beside reals": row(
        lambda z, x: rd.stencil(lambda p, q: p[-1] * q[-1], z, x, boundary=rd.constant(2)),
        lambda z, x: np.concatenate([4 * ONE[None], (z * x)[:-1]]),
        Z,
        X,
    ),
    "stencil by axes": row(
        lambda w: rd.stencil(lambda p: p[-1, 0] + p[0, 1], w, boundary=("wrap", rd.constant(1j))),
        lambda w: np.roll(w, 1, 0) + np.pad(w, ((0, 0), (0, 1)), constant_values=1j)[:, 1:],
        W,
    ),
}
REDUCTIONS = {
    "sum from 1": row(lambda z: rd.sum(z, initial=1), lambda z: np.sum(z, initial=1), Z),
    "sum from i": row(lambda z: z.sum(initial=1j), lambda z: np.sum(z, initial=1j), Z),
    "sum, wider": row(lambda z: rd.sum(z, dtype=rd.complex128), lambda z: np.sum(z, dtype=np.complex128), Z),
    "sum of reals": row(lambda x: rd.sum(x, dtype=rd.complex64), lambda x: np.sum(x, dtype=np.complex64), X),
    "sum of rows": row(lambda w: w.sum(axis=1, keepdims=True), lambda w: w.sum(axis=1, keepdims=True), W),
    "product": row(lambda z: z.prod(), np.prod, Z),
    "product from 2": row(lambda z: rd.prod(z, initial=2), lambda z: np.prod(z, initial=2), Z),
    "product of columns": row(
        lambda w: rd.prod(w, axis=0, keepdims=True, initial=1j),
        lambda w: np.prod(w, axis=0, keepdims=True, initial=1j),
        W,
    ),
    "mean": row(lambda w: w.mean(axis=1), lambda w: w.mean(axis=1), W),
    "any": row(lambda z: (z.any(), rd.any(z * 0)), (np.True_, np.False_), Z),
    "all": row(lambda z: (rd.all(z), rd.all(z * 0)), (np.True_, np.False_), Z),
    "reduce": row(lambda z: rd.reduce(rd.add, 0, z), np.sum, Z),
    "reduce from i": row(lambda z: rd.reduce(lambda a, b: a * b, 1j, z), lambda z: np.prod(z) * np.complex64(1j), Z),
    "reduce a tuple": row(
        lambda z, x: rd.reduce(lambda a, b: (a[0] * b[0], a[1] * b[1]), 1, z, x),
        lambda z, x: (z.prod(), x.prod()),
        Z,
        X,
    ),
    "scan": row(lambda z: rd.scan(rd.add, 1j, z), lambda z: np.cumsum(z) + np.complex64(1j), Z),
    "scan, exclusive": row(
        lambda z: rd.scan(rd.multiply, 2, z, exclusive=True),
        lambda z: np.concatenate([2 * ONE[None], 2 * np.cumprod(z)[:-1]]),
        Z,
    ),
    "segments": row(
        lambda z, o: rd.segmented_reduce(rd.add, 0, z, o),
        lambda z, o: np.array([z[:2].sum(), 0, z[2:].sum()], z.dtype),
        Z,
        OFFSETS,
    ),
    "matrix and vector": row(lambda w, z: w @ z, lambda w, z: w @ z, W, Z),
    "real matrix": row(lambda x, w: x @ w.T, lambda x, w: x @ w.T, X, W),
    "integer vector": row(lambda z, i: rd.matmul(z, i, name="product"), lambda z, i: z @ i, Z, I),
    "dot": row(lambda x, z: rd.dot(x, z), np.dot, X, Z),
}
MADE = {
    "array of elements": row(lambda z: rd.array([z[0], z[1]]), lambda z: z[:2], Z),
    "array, nested": row(
        lambda z: rd.array([[z[0], 1], [2j, z[1]]]), lambda z: np.array([[z[0], 1], [2j, z[1]]], z.dtype), Z
    ),
    "array, mixed": row(lambda z, x: rd.array([z[0], x[0], 3]), lambda z, x: np.array([z[0], x[0], 3], z.dtype), Z, X),
    "array of NumPy's": row(lambda z: rd.array(W) + z, lambda z: W + z, Z),
    "array of literals": row(lambda: rd.array([1j, 2, 3.5]), np.array([1j, 2, 3.5])),
    "array of a type": row(lambda: rd.array([1j, 2], rd.complex64), np.array([1j, 2], np.complex64)),
    "array of a complex array": row(lambda z: rd.array(z), lambda z: z, Z),
    "look-up": row(lambda i: rd.array(Z)[i], lambda i: Z[i], I),
    "full": row(lambda: rd.full((2, 3), 1j), np.full((2, 3), 1j)),
    "replicate": row(lambda z: rd.replicate(3, z), lambda z: np.stack([z] * 3), Z),
    "tabulate": row(lambda: rd.tabulate(3, lambda i: i * 1j), np.arange(3) * 1j),
    "wider": row(lambda z: z.astype(rd.complex128), lambda z: z.astype(np.complex128), Z),
    "narrower": row(lambda z: rd.astype(z, rd.complex64), lambda z: z.astype(np.complex64), WITH_NAN),
    "of reals": row(lambda x: x.astype(rd.complex64), lambda x: x.astype(np.complex64), X),
    "of integers": row(lambda i: rd.complex128(i), lambda i: i.astype(np.complex128), I),
    "joined with reals": row(lambda z, x: rd.concat([x, z, x]), lambda z, x: np.concatenate([x, z, x]), Z, X),
    "joined with integers": row(lambda i, z: rd.concat([i, z]), lambda i, z: np.concatenate([i, z]), I, Z),
    "stacked with reals": row(lambda z, x: rd.stack([x, z], 1), lambda z, x: np.stack([x, z], 1), Z, X),
    "joined tuples": row(
        lambda z, x: rd.concat([(z, x), (x, x)]), lambda z, x: (np.concatenate([z, x]), np.concatenate([x, x])), Z, X
    ),
}
CONTROL = {
    "a branch with a literal": row(
        lambda z: rd.map(lambda c: rd.cond(c.real > 0, lambda: c, lambda: 0), z),
        lambda z: np.where(z.real > 0, z, 0 * ONE),
        Z,
    ),
    "the other branch": row(
        lambda z: rd.map(lambda c: rd.cond(c.real > 0, lambda: 1, lambda: c * 1j), z),
        lambda z: np.where(z.real > 0, ONE, z * 1j),
        Z,
    ),
    "literals in both": row(
        lambda z: rd.map(lambda c: rd.cond(c.real > 0, lambda: 1, lambda: 1j), z),
        lambda z: np.where(z.real > 0, 1, 1j),
        Z,
    ),
    "branches of tuples": row(
        lambda z: rd.map(lambda c: rd.cond(c.real > 0, lambda: (c, 1), lambda: (0.5, 2)), z),
        lambda z: (np.where(z.real > 0, z, ONE / 2), np.where(z.real > 0, 1, 2)),
        Z,
    ),
    "whole arrays": row(lambda z: rd.cond(rd.sum(z.real) > 99, lambda: z, lambda: z * 2), lambda z: z * 2, Z),
    "where": row(lambda z, x: rd.where(x > 0, z, x), lambda z, x: np.where(x > 0, z, x), Z, X),
    "where a literal": row(lambda z, x: rd.where(x > 0, z, 2), lambda z, x: np.where(x > 0, z, 2 * ONE), Z, X),
    "where not zero": row(lambda z, x: rd.where(z, x, 2 * x), lambda z, x: np.where(z, x, 2 * x), Z, X),
    "a loop from a literal": row(
        lambda z: rd.map(lambda c: rd.loop(3, lambda i, s: s * c, 1), z), lambda z: z * z * z, Z
    ),
    "a loop from a tuple": row(
        lambda z: rd.map(lambda c: rd.loop(2, lambda i, s: (s[0] * c + 1, s[1] + 1), (1.0, 0)), z),
        lambda z: (z * z + z + 1, np.full(6, 2)),
        Z,
    ),
    "a loop that sets a literal": row(
        lambda z: rd.map(lambda c: rd.loop(1, lambda i, s: 2, c), z), np.full(6, 2 * ONE), Z
    ),
    "a loop over arrays": row(lambda z: rd.loop(2, lambda i, s: s * 1j, z), lambda z: -z, Z),
}
UPDATES = {
    "histogram": row(lambda z, i: rd.reduce_by_index(z, rd.add, 0, i, z * 2), at(np.add, I, 2 * Z), Z, I),
    "counted": row(lambda z, i: rd.reduce_by_index(z, rd.add, 0, i, 1), at(np.add, I, 1), Z, I),
    "multiplied": row(lambda z, i: rd.reduce_by_index(z, rd.multiply, 1, i, z), at(np.multiply, I, Z), Z, I),
    "scattered": row(lambda z, i: rd.scatter(z, i, z * 2), put(I, Z * 2), Z, I),
    "a literal scattered": row(lambda z, i: rd.scatter(z, i[:2], 7), put(I[:2], 7), Z, I),
    "i scattered": row(lambda z, i: rd.scatter(z, i[:2], 1j), put(I[:2], 1j), Z, I),
    "set": row(lambda z, i: z.at[i].set(5), put(I, 5), Z, I),
    "added": row(lambda z, i: z.at[i].add(1j), at(np.add, I, 1j), Z, I),
    "multiplied at a slice": row(lambda z: z.at[1:3].multiply(1j), at(np.multiply, slice(1, 3), 1j), Z),
    "set in rows": row(lambda w: rd.map(lambda r: r.at[0].set(1), w), put((slice(None), 0), 1), W),
}
MOVED = {
    "filter": row(lambda z: rd.filter(lambda c: c.real > 0, z), lambda z: z[z.real > 0], Z),
    "filter beside": row(lambda z, x: rd.filter(lambda c, r: r > 0, z, x), lambda z, x: (z[x > 0], x[x > 0]), Z, X),
    "partition": row(lambda z: rd.partition(lambda c: c.real > 0, z), lambda z: (z[z.real > 0], z[z.real <= 0]), Z),
    "repeat": row(
        lambda z, i: (rd.repeat(z, 2), rd.repeat(z, i)), lambda z, i: (np.repeat(z, 2), np.repeat(z, i)), Z, I
    ),
    "ravel": row(lambda w: (w.ravel(), w.T, w.transpose(1, 0)), lambda w: (w.ravel(), w.T, w.T), W),
    "indexed": row(lambda w: (w[:, 1:3], w[0][::-1], w[:, None]), lambda w: (w[:, 1:3], w[0][::-1], w[:, None]), W),
    "sorted": row(lambda z: (rd.sort(z), rd.argsort(z)), lambda z: (np.sort(z), np.argsort(z)), Z),
    "sorted with NaN": row(lambda z: rd.sort(z), np.sort, WITH_NAN),
    "sorted as tuples": row(lambda z, x: rd.sort((rd.round(z), x))[0], lambda z, x: np.sort(np.round(z)), Z, X),
    "unique": row(lambda w: rd.unique(w, True, True, True), lambda w: np.unique(w, True, True, True), np.stack([Z, Z])),
    "unpacked": row(lambda w: [c * 2 for c in w[:, 0]][1], lambda w: w[1, 0] * 2, W, w="complex64[2, n]"),
    "counted": row(lambda z: (z * len(z), z * z.size), lambda z: (z * 2, z * 2), Z[:2], z="complex64[2]"),
    "named": row(lambda z: (z * 2).named("twice"), lambda z: z * 2, Z),
    "rounded": row(lambda z: (rd.round(z, 1), z.round()), lambda z: (np.round(z, 1), np.round(z)), Z),
    "sizes and counters": row(
        lambda z: z * z.shape[0] + rd.iota(6), lambda z: z * np.float32(6) + np.arange(6, dtype="f4"), Z
    ),
    "NumPy's scalars": row(
        lambda z: (np.complex64(1j) * z + np.float32(2), np.complex128(1j) * z),
        lambda z: (np.complex64(1j) * z + np.float32(2), np.complex128(1j) * z),
        Z,
    ),
    "broadcast": row(lambda z: z[:, None] * z[None], lambda z: z[:, None] * z[None], Z),
}
TABLES = {"fill": FILLS, "reduction": REDUCTIONS, "made": MADE, "control": CONTROL, "update": UPDATES, "moved": MOVED}
CASES = {f"{table}: {name}": case for table, cases in TABLES.items() for name, case in cases.items()}


@pytest.mark.parametrize("case", CASES)
def test_complex_numbers_are_elements_like_others(case: str) -> None:
    hold(CASES[case])


NO_ORDER = (rd.DTypeError, "no order")
KINDS = (rd.DTypeError, "complex")
REFUSED: dict[str, tuple[Callable[[Any], Any], tuple[type, str]]] = {
    "comparison": (lambda z: z < 1, NO_ORDER),
    "max": (lambda z: rd.max(z), NO_ORDER),
    "argmin": (lambda z: z.argmin(), NO_ORDER),
    "clip": (lambda z: z.clip(0, 1), NO_ORDER),
    "smaller at": (lambda z: z.at[0].min(1), NO_ORDER),
    "larger at": (lambda z: z.at[0].max(1), NO_ORDER),
    "multiplied at indices": (lambda z: z.at[np.array([0])].multiply(2), (rd.TraceError, "reduce_by_index")),
    "floor": (lambda z: rd.floor(z), KINDS),
    "remainder": (lambda z: z % 2, KINDS),
    "bits": (lambda z: z & 1, KINDS),
    "arctan2": (lambda z: rd.arctan2(z, 1), KINDS),
    "erf": (lambda z: rd.erf(z), KINDS),
    "fma": (lambda z: rd.fma(z, z, z), KINDS),
    "as reals": (lambda z: z.astype(rd.f32), (rd.DTypeError, r"complex numbers as f32[\s\S]*\.real")),
    "a real of it": (lambda z: rd.f32(z), (rd.TraceError, "rd.f32 of complex numbers")),
    "view": (lambda z: z.view(rd.f32), (rd.TraceError, "view of complex numbers")),
    "sum as reals": (lambda z: rd.sum(z, dtype=rd.f32), (rd.DTypeError, "complex numbers as f32")),
    "if": (lambda z: 1 if z[0] else 2, (rd.TraceError, "traced value")),
    "float": (lambda z: float(z[0]), (rd.TraceError, r"float\(\)")),
    "in": (lambda z: 1j in z, (rd.TraceError, "`in`")),
    "NumPy's sine": (lambda z: np.sin(z), (rd.TraceError, "`np.sin` on a traced value")),
    "NumPy's svd": (lambda z: np.linalg.svd(z), (rd.DTypeError, "rd.linalg.svd of complex numbers")),
    "an index": (lambda z: z[z], (rd.TraceError, "complex numbers inside an index")),
    "a size": (lambda z: rd.replicate(z[0], 1), (rd.ShapeError, "a size is an int")),
    "counts": (lambda z: rd.repeat(z, z), (rd.ShapeError, "not complex numbers")),
    "a predicate": (lambda z: rd.filter(lambda c: c, z), (rd.TraceError, "one bool_, not complex numbers")),
    "weights": (lambda z: rd.bincount(np.array([1]), 3, z), (rd.TraceError, "complex numbers as the weights")),
    "a complex fill of reals": (lambda z: rd.pad(z.real, 1, constant_values=1j), KINDS),
    "set in reals": (lambda z: z.real.at[0].set(1j), (rd.TraceError, "complex numbers where one array of f32")),
    "scattered in reals": (lambda z: rd.scatter(z.real, np.array([0]), z[:1]), KINDS),
    "a wider number set": (
        lambda z: z.at[0].set(rd.complex128(1)),
        (rd.DTypeError, "complex128, where complex64 is due"),
    ),
    "a strong real set": (lambda z: z.at[0].set(rd.f64(1)), (rd.DTypeError, "f64, where complex64 is due")),
    "a strong real branch": (
        lambda z: rd.map(lambda c: rd.cond(c.real > 0, lambda: c, lambda: rd.f32(0)), z),
        (rd.DTypeError, "f32, where complex64 is due"),
    ),
    "a loop that becomes complex": (lambda z: rd.loop(2, lambda i, s: s * 1j, z.real), KINDS),
    "an operator that widens": (lambda z: rd.reduce(lambda a, b: a * 1j, 0, z.real), KINDS),
    "a wider neutral": (lambda z: rd.reduce(rd.add, rd.complex128(0), z), (rd.DTypeError, "`neutral` is complex128")),
    "joined with a tuple": (lambda z: rd.concat([z, (z.real, z.real)]), (rd.TraceError, "structures of one kind")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_complex_numbers_cannot_do_is_one_clear_error(case: str) -> None:
    program, (error, words) = REFUSED[case]
    with pytest.raises(error, match=words):
        rd.algorithm(program).trace(rd.complex64["n"])
