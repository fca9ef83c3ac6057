"""The interpreter on programs built from nodes by hand: every form, masks, faults, empty arrays, deep nesting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from raido.algo.errors import ArgumentError, ArithmeticFault, IndexOutOfRange, SizeMismatch
from raido.algo.graph import index as ix
from raido.algo.graph.bind_sizes import bind_sizes, evaluate_size
from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import DType, bool_, f16, f32, f64, i8, i32, i64
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Cond,
    Constant,
    Count,
    Expr,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    SizeVar,
    While,
    const,
    fresh,
    fresh_parameter,
)
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.program import Program, Site, SizeCheck
from raido.algo.graph.reduction import reduction_update
from raido.algo.interpreter.blocks import BLOCK
from raido.algo.interpreter.interpret import interpret

N, M = SizeVar("n"), SizeVar("m")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def parameter(name: str, dtype: DType, *shape: Any) -> Parameter:
    return Parameter(name, dtype, tuple(ix.as_index(s) for s in shape), 0)


def op(name: str, *args: Any) -> Expr:
    dtype = next(a.dtype for a in args if isinstance(a, Node) and not (name == "select" and a is args[0]))
    exprs = tuple(a if isinstance(a, Node) else const(dtype, a) for a in args)
    return Op(name, bool_ if name in COMPARISONS else dtype, exprs)


def cast(dtype: DType, e: Expr) -> Expr:
    return Op("cast", dtype, (e,))


def at(array: Array, *indices: Any) -> Load:
    return Load(array, tuple(ix.as_index(i) for i in indices), True)


def tabulate(shape: Sequence[Any], body: Callable[..., Any]) -> Any:
    axes = tuple(Axis(fresh(f"i{d}"), ix.as_index(s)) for d, s in enumerate(shape))
    bodies = body(*(a.var for a in axes))
    if isinstance(bodies, tuple):
        return tuple(Result(Generate(axes, bodies), k) for k in range(len(bodies)))
    return Result(Generate(axes, (bodies,)), 0)


def reduce(name: str, shape: Sequence[Any], neutral: Any, value: Callable[..., Expr]) -> Expr:
    axes = tuple(Axis(fresh(f"r{d}"), ix.as_index(s)) for d, s in enumerate(shape))
    e = value(*(a.var for a in axes))
    left, right = fresh("left", e.dtype), fresh("right", e.dtype)
    combine = op(name, left, right)
    return Item(Reduce(axes, (left,), (right,), (combine,), (const(e.dtype, neutral),), (e,), True, name), 0)


def run(results: Any, *arrays: Any, parameters: Sequence[Parameter] = (), **tables: Any) -> Any:
    outputs = results if isinstance(results, tuple) else (results,)
    sizes = tuple(dict.fromkeys(s for p in parameters for s in p.shape if isinstance(s, SizeVar)))
    program = Program("test", tuple(parameters), sizes, outputs, 0, 0, **tables)
    values = interpret(program, [np.asarray(a) for a in arrays])
    return values if isinstance(results, tuple) else values[0]


A, B, X = parameter("a", i64, N), parameter("b", i64, N), parameter("x", f32, N)
IMAGE = parameter("image", f32, N, M)


def test_a_generate_is_its_body_at_every_index() -> None:
    table = tabulate((3, 4), lambda i, j: op("add", op("mul", i, 10), j))
    np.testing.assert_array_equal(run(table), np.arange(3)[:, None] * 10 + np.arange(4))
    scalar = tabulate((), lambda: const(f16, 1.5))
    value = run(scalar)
    assert value.shape == () and value.dtype == np.float16 and value == 1.5


def test_large_arrays_are_evaluated_in_blocks_and_each_operation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Additions for every element; the arithmetic of an index along one axis for that axis alone."""
    evaluated: list[int] = []

    def counting(name: str, dtype: DType, values: Sequence[np.ndarray]) -> np.ndarray:
        result = evaluate(name, dtype, values)
        evaluated.append(result.size)
        return result

    monkeypatch.setattr("raido.algo.interpreter.interpret.evaluate", counting)

    def nine(y: Expr, x: Expr) -> Expr:
        total: Expr | None = None
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                row = Op("clamp_index", i64, (ix.add(y, dy), N))
                value = at(IMAGE, row, Op("mirror_index", i64, (ix.add(x, dx), M)))
                total = value if total is None else op("add", total, value)
        assert total is not None
        return total

    image = np.random.default_rng(0).random((1000, 1000), np.float32)
    actual = run(tabulate((N, M), nine), image, parameters=[IMAGE])
    block = BLOCK // 1000  # rows
    assert max(evaluated) == block * 1000
    assert len([size for size in evaluated if size > 10_000]) == 8 * -(-1000 // block)
    assert sum(evaluated) < 8.2 * image.size and len(evaluated) < 20 * -(-1000 // block)
    padded = np.pad(np.pad(image, ((1, 1), (0, 0)), mode="edge"), ((0, 0), (1, 1)), mode="reflect")
    expected = None
    for dy in range(3):
        for dx in range(3):
            part = padded[dy : dy + 1000, dx : dx + 1000]
            expected = part if expected is None else expected + part
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("n", [0, 1, 2, 31])
def test_stages_chain_and_several_results_share_a_form(n: int) -> None:
    double, square = tabulate((N,), lambda i: (op("add", at(A, i), at(A, i)), op("mul", at(A, i), at(A, i))))
    both = tabulate((N,), lambda i: op("sub", at(square, i), at(double, ix.sub(ix.sub(N, 1), i))))
    a = np.arange(n)
    results = run((double, both, A), a, parameters=[A])
    np.testing.assert_array_equal(results[0], a + a)
    np.testing.assert_array_equal(results[1], a * a - (a + a)[::-1])
    assert not np.shares_memory(results[2], a)


@pytest.mark.parametrize("n, m", [(0, 3), (3, 0), (1, 1), (4, 5)])
def test_reductions_fold_in_order_from_the_neutral_element(n: int, m: int) -> None:
    image = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    rows = tabulate((N,), lambda y: reduce("add", (M,), 0, lambda x: at(IMAGE, y, x)))
    total = tabulate((), lambda: reduce("add", (N, M), 0.5, lambda y, x: at(IMAGE, y, x)))
    least = tabulate((M,), lambda x: reduce("minimum", (N,), np.inf, lambda y: at(IMAGE, y, x)))
    actual = run((rows, total, least), image, parameters=[IMAGE])
    expected = np.zeros(n, np.float32)
    for x in range(m):
        expected = expected + image[:, x]
    np.testing.assert_array_equal(actual[0], expected)
    whole = np.float32(0.5)
    for value in image.flat:
        whole = whole + value
    assert actual[1] == whole
    np.testing.assert_array_equal(actual[2], image.min(axis=0, initial=np.inf))


def test_a_sum_of_products_is_fused_unless_the_program_says_no() -> None:
    x = (np.random.default_rng(1).standard_normal(40) * 3).astype(np.float32)
    dot = tabulate((), lambda: reduce("add", (N,), 0, lambda i: op("mul", at(X, i), at(X, i))))
    fused, plain = np.float32(0), np.float32(0)
    for value in x:
        exact = Fraction(float(value)) ** 2 + Fraction(float(fused))
        fused, plain = np.float32(float(exact)), plain + value * value
    assert abs(run(dot, x, parameters=[X]) - fused) <= np.spacing(fused)
    assert run(dot, x, parameters=[X], contract=False) == plain
    form = dot.form.bodies[0].form
    assert reduction_update(form)[0].name == "fma" and reduction_update(form, contract=False)[0].name == "add"


@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 300])
def test_an_operator_on_tuples_folds_in_order(n: int) -> None:
    """argmin, and a composition of affine maps, which does not commute."""
    axis = Axis(fresh("r"), N)
    left, right = (fresh("v", i64), fresh("i")), (fresh("w", i64), fresh("j"))
    first = op("le", left[0], right[0])
    combine = tuple(op("select", first, p, q) for p, q in zip(left, right, strict=True))
    neutral = (const(i64, np.iinfo(np.int64).max), const(i64, -1))
    form = Reduce((axis,), left, right, combine, neutral, (at(A, axis.var), axis.var), False, "")
    maps = (op("mul", left[0], right[0]), op("add", op("mul", left[1], right[0]), right[1]))
    affine = Reduce((axis,), left, right, maps, (const(i64, 1), const(i64, 0)), (at(A, axis.var), axis.var), False, "")
    results = tuple(tabulate((), lambda f=f, k=k: Item(f, k)) for f in (form, affine) for k in (0, 1))
    a = np.random.default_rng(n).integers(-50, 50, n)
    least, where, scale, offset = run(results, a, parameters=[A])
    assert (least, where) == (a.min(), a.argmin())
    p, q = 1, 0
    for i, value in enumerate(a.tolist()):
        p, q = p * value, q * value + i
    wrap = lambda e: (e + (1 << 63)) % (1 << 64) - (1 << 63)
    assert (scale, offset) == (wrap(p), wrap(q))


def test_a_reduction_inside_a_reduction_and_an_open_array() -> None:
    def body(y: Expr) -> Expr:
        inner = tabulate((M,), lambda x: op("mul", at(IMAGE, y, x), cast(f32, y)))
        return reduce(
            "maximum", (M,), -np.inf, lambda x: reduce("add", (M,), 0, lambda k: op("sub", at(inner, x), at(inner, k)))
        )

    image = np.random.default_rng(2).integers(-9, 9, (5, 7)).astype(np.float32)
    inner = image * np.arange(5, dtype=np.float32)[:, None]
    expected = (inner[:, :, None] - inner[:, None, :]).sum(axis=2).max(axis=1)
    np.testing.assert_array_equal(run(tabulate((N,), body), image, parameters=[IMAGE]), expected)


def test_a_branch_not_taken_is_not_evaluated() -> None:
    def body(i: Expr) -> Expr:
        return Item(Cond(op("ne", at(B, i), 0), (op("floordiv", at(A, i), at(B, i)),), (at(A, at(A, i)),)), 0)

    a, b = np.array([7, 1, -7, 0, 3]), np.array([2, 0, 3, 0, -1])
    np.testing.assert_array_equal(run(tabulate((N,), body), a, b, parameters=[A, B]), [3, 1, -3, 7, -3])
    with pytest.raises(IndexOutOfRange):
        run(tabulate((N,), body), a, np.zeros(5, int), parameters=[A, B])


def test_branches_nest_and_share_values() -> None:
    def body(i: Expr) -> tuple[Expr, Expr]:
        v = op("mul", at(A, i), 3)
        inner = Cond(op("gt", v, 10), (op("sub", v, 10), v), (op("neg", v), i))
        outer = Cond(op("ge", v, 0), (Item(inner, 0), Item(inner, 1)), (const(i64, 0), v))
        return Item(outer, 0), Item(outer, 1)

    a = np.arange(-4, 9)
    v = a * 3
    actual = run(tabulate((N,), body), a, parameters=[A])
    np.testing.assert_array_equal(actual[0], np.where(v >= 0, np.where(v > 10, v - 10, -v), 0))
    np.testing.assert_array_equal(actual[1], np.where(v >= 0, np.where(v > 10, v, np.arange(13)), v))


def test_loops_go_round_as_often_as_each_lane_says() -> None:
    def body(i: Expr) -> Expr:
        index, state = fresh("k"), fresh("s")
        step = op("add", op("mul", state, at(B, i)), op("mul", index, at(A, index)))
        return Item(Loop(at(A, i), index, (state,), (i,), (step,)), 0)

    a, b = np.array([0, 3, 1, -2, 4, 3]), np.array([5, -1, 2, 3, 1, 0])
    expected = []
    for i in range(6):
        state = i
        for k in range(a[i]):
            state = state * b[i] + k * a[k]
        expected.append(state)
    np.testing.assert_array_equal(run(tabulate((N,), body), a, b, parameters=[A, B]), expected)


def test_while_loops_nest_under_masks() -> None:
    """The lengths of Collatz sequences, each step halving by an inner loop."""

    def body(i: Expr) -> tuple[Expr, Expr]:
        value, steps = fresh("value"), fresh("steps")
        v, s = fresh("v"), fresh("s")
        even = op("eq", op("mod", v, 2), 0)
        halved = While(even, (v, s), (value, steps), (op("floordiv", v, 2), op("add", s, 1)))
        more = op("gt", Item(halved, 0), 1)
        then = (op("add", op("mul", Item(halved, 0), 3), 1), op("add", Item(halved, 1), 1))
        step = Cond(more, then, (Item(halved, 0), Item(halved, 1)))
        form = While(op("gt", value, 1), (value, steps), (at(A, i), const(i64, 0)), (Item(step, 0), Item(step, 1)))
        return Item(form, 0), Item(form, 1)

    def collatz(v: int) -> int:
        steps = 0
        while v > 1:
            v, steps = (v // 2 if v % 2 == 0 else 3 * v + 1), steps + 1
        return steps

    a = np.array([1, 2, 3, 7, 27, 97, 0, 64])
    last, steps = run(tabulate((N,), body), a, parameters=[A])
    np.testing.assert_array_equal(last, [1, 1, 1, 1, 1, 1, 0, 1])
    np.testing.assert_array_equal(steps, [collatz(int(v)) for v in a])


def test_array_loops_step_whole_arrays() -> None:
    state, index = fresh_parameter("s", i64, (N,)), fresh("t")
    turn = tabulate((N,), lambda i: op("add", at(state, Op("wrap_index", i64, (ix.add(i, 1), N))), index))
    loop = Result(ArrayLoop(const(i64, 3), index, (state,), (A,), (turn,)), 0)
    a = np.arange(5) * 10
    np.testing.assert_array_equal(run(loop, a, parameters=[A]), np.roll(a, -3) + 3)
    np.testing.assert_array_equal(run(loop, a[:0], parameters=[A]), [])

    total = reduce("add", (N,), 0, lambda i: at(state, i))
    double = tabulate((N,), lambda i: op("mul", at(state, i), 2))
    growing = Result(ArrayWhile(op("lt", total, 100), (state,), (A,), (double,)), 0)
    np.testing.assert_array_equal(run(growing, np.array([1, 2]), parameters=[A]), [64, 128])


def test_a_loop_may_change_a_dimension() -> None:
    size = fresh_parameter("length", i64, ())
    length = Count(size, None)
    state, index = fresh_parameter("s", i64, (length,)), fresh("t")
    half, whole = tabulate((), lambda: ix.floordiv(length, 2)), tabulate((), lambda: N)
    pairs = tabulate(
        (ix.floordiv(length, 2),), lambda i: op("add", at(state, ix.mul(i, 2)), at(state, ix.add(ix.mul(i, 2), 1)))
    )
    loop = Result(ArrayLoop(const(i64, 3), index, (state, size), (A, whole), (pairs, half)), 0)
    assert loop.shape == (Count(Result(loop.form, 1), None),)
    np.testing.assert_array_equal(run(loop, np.arange(16), parameters=[A]), np.arange(16).reshape(2, 8).sum(axis=1))


def test_array_branches_are_taken_whole() -> None:
    bad = tabulate((N,), lambda i: at(A, ix.add(i, 5)))
    branch = Result(ArrayCond(op("gt", at(A, 0), 0), (A,), (bad,)), 0)
    np.testing.assert_array_equal(run(branch, np.array([1, 2]), parameters=[A]), [1, 2])
    with pytest.raises(IndexOutOfRange):
        run(branch, np.array([0, 2]), parameters=[A])


def test_array_loops_inside_mapped_functions_have_state_for_each_lane() -> None:
    """Row y is shifted y times (counts differ), then chosen by a predicate that differs."""

    def body(y: Expr, x: Expr) -> Expr:
        state = fresh_parameter("s", f32, (M,))
        row = tabulate((M,), lambda k: at(IMAGE, y, k))
        shifted = tabulate((M,), lambda k: at(state, Op("wrap_index", i64, (ix.add(k, 1), M))))
        moved = Result(ArrayLoop(y, fresh("t"), (state,), (row,), (shifted,)), 0)
        return at(Result(ArrayCond(op("eq", op("mod", y, 2), 0), (moved,), (row,)), 0), x)

    image = np.arange(20, dtype=np.float32).reshape(5, 4)
    expected = np.stack([np.roll(r, -y) if y % 2 == 0 else r for y, r in enumerate(image)])
    np.testing.assert_array_equal(run(tabulate((N, M), body), image, parameters=[IMAGE]), expected)


def test_faults_name_the_line_and_the_values() -> None:
    load = at(A, ix.add(at(B, 0), 1))
    divide, power = op("floormod", at(A, 0), at(B, 0)), op("ipow", at(A, 0), at(B, 0))
    sites = {e: Site("user.py", line, "text") for line, e in enumerate((load, divide, power), 1)}
    for e, error, words in [
        (load, IndexOutOfRange, ["index 3", "dimension 0", "size 2", "user.py:1"]),
        (divide, ArithmeticFault, ["by zero", "user.py:2"]),
        (power, ArithmeticFault, ["negative power", "user.py:3", "-2"]),
    ]:
        b = np.array([{load: 2, divide: 0, power: -2}[e], 0])
        with pytest.raises(error) as caught:
            run(tabulate((), lambda e=e: e), np.array([5, 6]), b, parameters=[A, B], sites=sites)
        assert all(word in str(caught.value) for word in words)
    with pytest.raises(IndexOutOfRange, match="index -1"):
        run(tabulate((N,), lambda i: at(A, at(B, i))), np.arange(3), np.array([0, -1, 2]), parameters=[A, B])


def test_empty_arrays_never_fault() -> None:
    empty = np.zeros(0, int)
    results = (
        tabulate((N,), lambda i: op("floordiv", at(A, ix.add(i, 100)), 0)),
        tabulate((3, N), lambda i, j: op("floordiv", const(i64, 1), N)),
        tabulate((2,), lambda i: reduce("add", (N,), 7, lambda j: at(A, 99))),
    )
    values = run(results, empty, parameters=[A])
    assert [v.shape for v in values] == [(0,), (3, 0), (2,)] and values[2].tolist() == [7, 7]


def test_an_unchecked_load_from_an_empty_array_gives_zero() -> None:
    """Padding selects between a load whose index is brought inside and the border, even where there is no inside."""

    def padded(i: Expr) -> Expr:
        e = ix.sub(i, 1)
        inside = Op("logical_and", bool_, (op("ge", e, 0), op("lt", e, N)))
        return op("select", inside, Load(A, (Op("clamp_index", i64, (e, N)),), False), 7)

    for a in (np.zeros(0, int), np.array([1, 2])):
        expected = np.pad(a, 1, constant_values=7)
        np.testing.assert_array_equal(run(tabulate((ix.add(N, 2),), padded), a, parameters=[A]), expected)


def test_constants_scalars_and_dtypes() -> None:
    table = Constant(Data(np.array([3, 1, 2], np.int8)), i8, (const(i64, 3),))
    scalar = parameter("s", f64)
    body = lambda i: (at(table, i), op("mul", cast(f64, at(table, i)), at(scalar)), op("gt", at(table, i), 1))
    first, second, third = run(tabulate((3,), body), np.float64(0.5), parameters=[scalar])
    assert [v.dtype for v in (first, second, third)] == [np.int8, np.float64, np.bool_]
    np.testing.assert_array_equal(second, [1.5, 0.5, 1.0])
    nan = tabulate((), lambda: Op("bitcast", i32, (const(f32, -0.0),)))
    assert run(nan) == np.iinfo(np.int32).min


def test_depth_has_no_limit() -> None:
    e: Expr = at(A, 0)
    for _ in range(5000):
        e = op("add", e, at(A, 1))
    branch: Expr = at(A, 0)
    for k in range(2000):
        branch = Item(Cond(op("lt", at(A, 0), 10 + k), (op("add", branch, 1),), (const(i64, 0),)), 0)
    array: Array = A
    for _ in range(2000):
        array = tabulate((N,), lambda i, a=array: op("add", at(a, i), 1))
    values = run((tabulate((), lambda: e), tabulate((), lambda: branch), array), np.array([1, 2]), parameters=[A])
    assert values[0] == 10001 and values[1] == 2001 and values[2].tolist() == [2001, 2002]


def test_sizes_come_from_shapes_and_must_agree() -> None:
    longer = parameter("longer", i64, ix.add(ix.mul(N, 2), 1))
    program = Program("p", (longer, A), (N,), (A,), 0, 0)
    assert bind_sizes(program, [(7,), (3,)]) == {"n": 3}
    assert bind_sizes(Program("p", (longer,), (N,), (longer,), 0, 0), [(7,)]) == {"n": 3}
    with pytest.raises(SizeMismatch, match='dimension 0 of "longer" is 8, not'):
        bind_sizes(program, [(8,), (3,)])
    with pytest.raises(SizeMismatch, match="cannot be"):
        bind_sizes(Program("p", (longer,), (N,), (longer,), 0, 0), [(8,)])
    other = parameter("other", i64, M)
    checked = Program("p", (A, other), (N, M), (A,), 0, 0, (SizeCheck(N, ix.add(M, 1), "a", "other + 1"),))
    with pytest.raises(SizeMismatch, match=r"a is n = 3, other \+ 1 is m \+ 1 = 4"):
        bind_sizes(checked, [(3,), (3,)])
    assert evaluate_size(ix.maximum(ix.floordiv(N, 2), M), {"n": 9, "m": 1}) == 4


def test_arguments_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(ArgumentError, match='"a" is float64 of rank 1, not i64 of rank 1'):
        run(A, np.zeros(3), parameters=[A])
    with pytest.raises(ArgumentError, match="takes 1 arrays, not 0"):
        run(A, parameters=[A])
