"""Every operation of the language against NumPy, through the reference interpreter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd

sys.path.append(str(Path(__file__).parent.parent))

from agreement import agree

rng = np.random.default_rng(0)
A = rng.standard_normal((5, 7)).astype(np.float32)
B = rng.standard_normal((5, 7)).astype(np.float32)
C = rng.standard_normal((3, 5, 7)).astype(np.float32)
V = rng.standard_normal(7).astype(np.float32)
I = rng.integers(-50, 50, (5, 7)).astype(np.int32)
AT = np.array([0, 3, 1])
TO = np.array([[0], [2]])


def check(function: Callable[..., Any], reference: Callable[..., Any], *arguments: Any) -> None:
    agree(rd.algorithm(function).interpret(*arguments), reference(*arguments))


SAME: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arithmetic": (lambda m, a, b: a * b + a / b - a * 2 + 2**a, (A, B)),
    "broadcast": (lambda m, a, v: a * v + v, (A, V)),
    "integers": (lambda m, i: (i // 3, i % 7, i * i, -i, i >> 1, i << 2, i & 3, ~i, i / 2, abs(i), i**2, i**3), (I,)),
    "comparisons": (
        lambda m, a, b: (a < b, a == b, (a > 0) & (b > 0), ~(a > 0), m.where(a > b, a, b), m.where(a > 0, 1, 0)),
        (A, B),
    ),
    "functions": (
        lambda m, a: (
            *(m.exp(a), m.sin(a), m.sqrt(m.abs(a)), m.floor(a), m.sign(a), m.round(a, 2), m.clip(a, -0.5, 0.5)),
            *(m.hypot(a, a), m.arctan2(a, a), a**3, abs(a) ** 0.5, m.cbrt(a), m.log1p(abs(a)), m.isnan(a)),
            *(m.minimum(a, 0), m.square(a), m.fmax(a, 0.5), m.reciprocal(a), m.degrees(a), m.logaddexp(a, 1.0)),
        ),
        (A,),
    ),
    "functions of integers": (
        lambda m, i: (m.exp(i / 10), m.sqrt(m.abs(i)), m.sin(i), m.floor(i), m.bitwise_count(i)),
        (I,),
    ),
    "slices": (
        lambda m, a: (
            *(a[0], a[-1], a[:, 1], a[1:3], a[:, ::-1], a[::2, 1:-1], a[..., None], a[None], a[1, 2], a[3:1]),
            *(a[-3:-1], a[:, 5:0:-2], a[..., -1], a[2:100], a[-100:2], a[:, 4::-3], a[np.int64(-1)]),
        ),
        (A,),
    ),
    "gathers": (lambda m, a, i: (a[i], a[:, i], a[i, i], a[0, i], a[i][:, 1]), (A, AT)),
    "gathers by constants": (
        lambda m, a: (a[AT, TO], a[TO, AT], a[TO, 1], a[:, TO], a[[0, -1]], a[:, np.array([-1, -2])]),
        (A,),
    ),
    "moves": (
        lambda m, a: (
            *(a.T, m.reshape(a, (7, 5)), m.reshape(a, -1), a.reshape(35), m.roll(a, 2, 1), m.roll(a, -3)),
            *(m.pad(a, ((1, 2), (0, 3))), m.pad(a, 2, mode="edge"), m.pad(a, 2, mode="reflect")),
            *(m.pad(a, 1, mode="wrap"), m.pad(a, 3, mode="symmetric"), m.expand_dims(a, 1), m.swapaxes(a, 0, 1)),
            *(m.stack([a, a * 2], 1), m.transpose(a, (1, 0)), m.reshape(a, (1, 5, 7, 1))),
        ),
        (A,),
    ),
    "matrix products": (lambda m, a, b, v: (a @ b.T, a @ v, v @ b.T, v @ v, m.dot(a, v)), (A, B, V)),
    "batches": (lambda m, c, a: (c @ a.T, m.matmul(c, c.transpose(0, 2, 1))), (C, A)),
    "constants": (lambda m, a: (np.arange(7, dtype="f") * a, a + np.float32(1), np.float64(2) * a), (A,)),
}


@pytest.mark.parametrize("case", SAME)
def test_a_program_written_alike_means_what_numpy_means(case: str) -> None:
    function, arguments = SAME[case]
    names = ", ".join(f"a{k}" for k in range(len(arguments)))
    wrapped = eval(f"lambda {names}: f(rd, {names})", {"f": function, "rd": rd})
    check(wrapped, lambda *values: function(np, *values), *arguments)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_numpys(axis: Any, keepdims: bool) -> None:
    def program(m: Any, a: Any, i: Any) -> Any:
        k = {"axis": axis, "keepdims": keepdims}
        sums = (m.sum(a, **k), m.prod(a, **k), m.sum(i, **k), m.mean(a, **k), m.mean(i, **k))
        return (*sums, m.min(a, **k), m.max(i, **k), m.any(a > 1, **k), m.all(i, **k))

    check(lambda a, i: program(rd, a, i), lambda a, i: program(np, a, i), A, I)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_argmin_takes_the_first_of_equals_and_the_first_nan(axis: Any) -> None:
    a = np.float32([[2, 1, 1], [np.nan, 0, np.nan], [1, 1, 5]])
    check(
        lambda a: (rd.argmin(a, axis), rd.argmax(a, axis), rd.argmax(a[::2], axis)),
        lambda a: (np.argmin(a, axis), np.argmax(a, axis), np.argmax(a[::2], axis)),
        a,
    )


def test_maps_nest_and_return_rows_and_tuples() -> None:
    check(lambda a: rd.map(lambda r: rd.map(lambda x: x * 2, r), a), lambda a: a * 2, A)
    check(lambda a, v: rd.map(lambda r: r * v + rd.sum(r), a), lambda a, v: a * v + a.sum(1, keepdims=True), A, V)
    check(
        lambda a: rd.map(lambda r: (rd.max(r), r[::-1], rd.iota(3) * r[0]), a),
        lambda a: (a.max(1), a[:, ::-1], a[:, :1] * np.arange(3, dtype="f")),
        A,
    )
    check(
        lambda c: rd.map(lambda x: rd.map(lambda y: rd.map(lambda z: z + rd.sum(y), y), x), c),
        lambda c: c + c.sum(-1, keepdims=True),
        C,
    )


def test_zipped_arrays_have_tuples_as_elements() -> None:
    check(
        lambda a, b: (rd.map(lambda p, q: p[0] * p[1] + q, rd.zip(a, b), a), *rd.zip(a, b)[1]),
        lambda a, b: (a * b + a, a[1], b[1]),
        A,
        B,
    )
    check(lambda a, b: rd.map(lambda p: p[0] - p[1], (a, b)), lambda a, b: a - b, A, B)


def test_reduce_takes_any_operator_axis_and_rows() -> None:
    check(
        lambda a: (rd.reduce(rd.add, 0, a), rd.reduce(rd.add, 0, a, axis=1), rd.reduce(rd.maximum, -np.inf, a)),
        lambda a: (a.sum(0), a.sum(1), a.max(0)),
        A,
    )
    check(
        lambda a, b: rd.reduce(lambda x, y: (x[0] + y[0], rd.minimum(x[1], y[1])), (0, 9.0), a, b),
        lambda a, b: (a.sum(), b.min()),
        V,
        V,
    )
    check(lambda a: rd.reduce(lambda x, y: rd.maximum(x, y) + 0, -np.inf, a), lambda a: a.max(0), A)


def test_loops_run_in_elements_and_over_arrays() -> None:
    check(
        lambda a: rd.elementwise(lambda x: rd.loop(3, lambda i, s: s * x + i, 0.0), a), lambda a: (a * 0 + 1) * a + 2, A
    )
    check(lambda a: rd.loop(3, lambda t, s: s * 2 + t, a), lambda a: ((a * 2) * 2 + 1) * 2 + 2, A)
    check(
        lambda a: rd.loop(2, lambda t, s: (s[0] + rd.sum(s[1]), s[1] * 2), (0.0, a)),
        lambda a: (np.float32(a.sum() * 3), a * 4),
        A,
    )
    check(lambda x: rd.loop(4, lambda t, s: s * x, rd.f32(1)), lambda x: x**4, np.float32(1.5))


def test_while_loops_go_round_for_each_element() -> None:
    def steps(v: Any) -> Any:
        def halve(s: Any) -> Any:
            return rd.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

        return rd.while_loop(lambda s: s[0] > 1, halve, (v, 0))[1]

    check(lambda i: rd.map(steps, i), lambda i: np.array([0, 1, 7, 2]), np.array([1, 2, 3, 4]))


def test_cond_takes_one_branch() -> None:
    check(
        lambda a, x: (
            rd.cond(x > 0, lambda: a, lambda: a * 2),
            rd.map(lambda r: rd.cond(r[0] > 0, lambda: r, lambda: -r), a),
            rd.cond(x > 0, lambda: 1.0, lambda: x),
        ),
        lambda a, x: (a * 2, np.where(a[:, :1] > 0, a, -a), x),
        A,
        np.float32(-2),
    )


def test_updates_are_new_arrays() -> None:
    def want(a: np.ndarray) -> Any:
        copies = [a.copy() for _ in range(5)]
        copies[0][1] = 0
        copies[1][1:3, ::2] += 5
        copies[2][-1, 2] = 9
        copies[3][:, 0] = a[:, 1]
        copies[4][::-1] = a
        return tuple(copies)

    check(
        lambda a: (
            *(a.at[1].set(0), a.at[1:3, ::2].add(5), a.at[-1, 2].set(9)),
            *(a.at[:, 0].set(a[:, 1]), a.at[::-1].set(a)),
        ),
        want,
        A,
    )
    with pytest.raises(rd.IndexOutOfRange):
        rd.algorithm(lambda a, i: a.at[i].set(1)).interpret(V, np.int64(7))


def test_arrays_are_made() -> None:
    check(
        lambda v: (
            *(rd.iota(v.shape[0]) * v, rd.iota(3), rd.iota(3, rd.u8), rd.replicate(2, v), rd.full((2, 2), 1)),
            *(rd.tabulate((2, 3), lambda i, j: i * 10 + j), rd.array([v[0], 2.0, v[1]]), rd.array([[1, 2], [3, 4]])),
            *(rd.concat([v, v * 2]), rd.shift(v, 2), rd.shift(v, -1, fill=9)),
        ),
        lambda v: (
            *(
                np.arange(7, dtype="f") * v,
                np.arange(3),
                np.arange(3, dtype="u1"),
                np.stack([v, v]),
                np.full((2, 2), 1),
            ),
            *(np.array([[0, 1, 2], [10, 11, 12]]), np.float32([v[0], 2, v[1]]), np.array([[1, 2], [3, 4]])),
            *(np.concatenate([v, v * 2]), np.float32([0, 0, *v[:-2]]), np.float32([*v[1:], 9])),
        ),
        V,
    )


MODES = {"clamp": "edge", "wrap": "wrap", "mirror": "reflect", "symmetric": "symmetric", 2.0: "constant"}


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (2, 1), (0, 4)])
@pytest.mark.parametrize("mode", MODES)
def test_stencils_have_numpys_boundaries_at_every_size(mode: Any, shape: tuple[int, int]) -> None:
    a = rng.standard_normal(shape).astype(np.float32)
    options = {"constant_values": mode} if mode == 2.0 else {}

    def reference(a: np.ndarray) -> np.ndarray:
        if a.size == 0:
            return a
        p = np.pad(a, 3, mode=MODES[mode], **options)  # type: ignore[call-overload]
        return p[: a.shape[0], 3:-3] + 2 * p[3:-3, 6:]

    boundary = rd.constant(mode) if mode == 2.0 else mode
    check(lambda a: rd.stencil(lambda p: p[-3, 0] + 2 * p[0, 3], a, boundary=boundary), reference, a)


def test_stencils_may_be_valid_strided_mixed_and_have_invariants() -> None:
    valid = lambda a: rd.stencil(lambda p: p[0, 0] + p[1, 2], a, boundary="valid")
    check(valid, lambda a: a[:-1, :-2] + a[1:, 2:], A)
    check(valid, lambda a: a[:0, :0], A[:1, :2])
    check(
        lambda a: rd.stencil(lambda p: p[0, 0] + p[1, 2], a, boundary=("valid", "wrap")),
        lambda a: a[:-1] + np.roll(a, -2, 1)[1:],
        A,
    )
    check(
        lambda a: rd.stencil(lambda p: p[0, 0] + p[0, 1], a, boundary="valid", stride=2),
        lambda a: (a[:, :-1] + a[:, 1:])[::2, ::2],
        A,
    )
    check(
        lambda a, b: rd.stencil(lambda p, q, c: (p[0, -1] * c, q[0, 0]), a, b, invariant=(b,)),
        lambda a, b: (np.pad(a, 1, mode="edge")[1:-1, :-2] * b, b),
        A,
        B,
    )


def test_gather_modes() -> None:
    check(
        lambda v, i: (rd.gather(v, i, mode="clamp"), rd.gather(v, i, mode=rd.constant(-1.0)), rd.gather(v, i, "wrap")),
        lambda v, i: (
            v[np.clip(i, 0, 6)],
            np.where((i >= 0) & (i < 7), v[np.clip(i, 0, 6)], np.float32(-1)),
            v[i % 7],
        ),
        V,
        np.array([-1, 0, 6, 9]),
    )


def test_the_contracts_first_program() -> None:
    @rd.algorithm
    def blur(img: rd.f32["h", "w"]):
        rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, boundary="clamp", name="rows")
        return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name="cols")

    p = np.pad(A, 1, mode="edge")
    rows = (p[:, :-2] + p[:, 1:-1] + p[:, 2:]) / 3
    agree(blur.interpret(A), (rows[:-2] + rows[1:-1] + rows[2:]) / 3)


@pytest.mark.parametrize("dtype", ("f32", "f64"))
@pytest.mark.parametrize("exponent", (3, 3.0, 4))
def test_small_whole_powers_are_products(dtype, exponent):
    """Below two units in the last place, with the special values of powers, and no logarithm."""
    algorithm = rd.algorithm(lambda a: a**exponent, a=f"{dtype}[n]")
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-200 if dtype == "f64" else 1e-30, -1e25, 1.0]
    a = np.concatenate([special, np.random.default_rng(3).uniform(-40, 40, 10_000)]).astype(kind)
    with np.errstate(all="ignore"):
        wanted = a.astype(np.longdouble) ** exponent
        got, rounded = algorithm.interpret(a), wanted.astype(kind)
        units = np.abs(got - wanted) / np.spacing(np.abs(rounded))
    finite = np.isfinite(rounded)
    assert got[~finite].tobytes() == rounded[~finite].tobytes() and np.signbit(got[1]) == np.signbit(rounded[1])
    assert units[finite].max() < 2
    text = algorithm.schedule().complete().nest_text()
    assert "pow" not in text and "*" in text
