"""One test for every refusal while tracing and for every bad argument: the error's class and text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.rewrite import topological

F, FF, I = rd.f32["n"], rd.f32["h", "w"], rd.i32["n"]


def branch(x):
    if x[0] > 0:
        return x
    return -x


def assign(x):
    x[0] = 1
    return x


REFUSED: dict[str, tuple[Any, tuple[Any, ...], type[Exception], tuple[str, ...]]] = {
    "if": (branch, (F,), rd.TraceError, ("`if`", "rd.where", "rd.cond", "if x[0] > 0:", "test_trace_errors.py:")),
    "and": (lambda x: x[0] > 0 and x[1] > 0, (F,), rd.TraceError, ("`and`", "a & b")),
    "not": (lambda x: not x[0], (F,), rd.TraceError, ("`not`", "~a")),
    "min": (lambda x: min(x[0], x[1]), (F,), rd.TraceError, ("`min()`", "rd.minimum")),
    "in": (lambda x: 3.0 in x, (F,), rd.TraceError, ("`in`", "rd.any")),
    "chain": (lambda x: 0 < x[0] < 1, (F,), rd.TraceError, ("chained", "&")),
    "np.sin": (lambda x: np.sin(x), (F,), rd.TraceError, ("`np.sin`", "rd.sin")),
    "np.linalg.eig": (lambda x: np.linalg.eig(x), (F,), rd.TraceError, ("`np.linalg.eig`",)),
    "a function's method": (
        lambda x: rd.maximum.accumulate(x),
        (F,),
        rd.TraceError,
        ("rd.maximum.accumulate", "rd.scan(rd.maximum, neutral, a)"),
    ),
    "np's method": (lambda x: np.add.reduceat(x, [0]), (F,), rd.TraceError, ("rd.segmented_reduce(rd.add, ",)),
    "np's change": (
        lambda x: rd.minimum.at(x, 0, 1),
        (F,),
        rd.TraceError,
        ("a.at[index].min(values), or rd.reduce_by_index(",),
    ),
    "arrays without brackets": (lambda x: rd.stack(x, x), (F,), rd.TraceError, ("one array", "[a, b]")),
    "concatenate": (lambda x: rd.concatenate(x, x), (F,), rd.TraceError, ("one array", "[a, b]")),
    "filter by a mask": (lambda x: rd.filter(x > 0, x), (F,), rd.TraceError, ("predicate", "a[mask]")),
    "bincount of floats": (lambda x: rd.bincount(x), (F,), rd.DTypeError, ("rd.bincount", "f32", "rd.histogram")),
    "range": (lambda x: range(x.shape[0]), (F,), rd.TraceError, ("`range`", "rd.loop")),
    "int": (lambda x: int(x[0]), (F,), rd.TraceError, ("`int()`", "rd.i32")),
    "float": (lambda x: float(x[0]), (F,), rd.TraceError, ("`float()`", "rd.f32")),
    "len": (lambda x: len(x), (F,), rd.TraceError, ("`len()`", "a.shape[0]")),
    "iterate": (lambda x: list(x), (F,), rd.TraceError, ("iterate", "rd.map")),
    "assignment": (assign, (F,), rd.TraceError, (".at[i].set",)),
    "list": (lambda x: x * [1.0], (F,), rd.TraceError, ("list", "rd.array")),
    "shapes": (
        lambda x, y: x + y,
        (rd.f32[3], rd.f32[4]),
        rd.ShapeError,
        ("3", "4", "'x'", "'y'", "f32[3] and f32[4]"),
    ),
    "symbolic shapes": (lambda x, y: x + y, (F, rd.f32["n + 1"]), rd.ShapeError, ("n", "n + 1")),
    "matmul": (lambda x, y: x @ y, (rd.f32[3, 4], rd.f32[3, 4]), rd.ShapeError, ("4", "3")),
    "literal": (lambda x: x + 300, (rd.u8["n"],), rd.DTypeError, ("300", "u8", "0 to 255")),
    "u64": (lambda x, y: x + y, (rd.u64["n"], I), rd.DTypeError, ("u64", "i32", "astype")),
    "constant index": (lambda x: x[5], (rd.f32[3],), rd.IndexOutOfRange, ("5", "f32[3]")),
    "too many indices": (lambda x: x[0, 0], (F,), rd.ShapeError, ("2 indices", "rank 1")),
    "mask": (lambda x, m: x[m], (F, rd.bool_["n", "k"]), rd.ShapeError, ("a mask of higher rank",)),
    "axis": (lambda x: x.sum(axis=3), (FF,), rd.ShapeError, ("axis 3", "rank 2")),
    "offsets": (lambda x: rd.stencil(lambda p: p[0], x), (FF,), rd.ShapeError, ("1 offsets", "rank 2")),
    "offset": (lambda x: rd.stencil(lambda p: p[x[0]], x), (F,), rd.TraceError, ("constant",)),
    "boundary of a number": (
        lambda x: rd.stencil(lambda p: p[0], x, boundary=0.5),
        (F,),
        rd.TraceError,
        ("rd.constant(0.5)",),
    ),
    "boundary": (lambda x: rd.stencil(lambda p: p[0], x, boundary="no"), (F,), rd.TraceError, ("'no'", '"clamp"')),
    "widening": (
        lambda x: rd.reduce(lambda a, b: rd.f64(a) + b, 0, x),
        (F,),
        rd.DTypeError,
        ("f64", "f32", "never widens"),
    ),
    "rows of another type": (
        lambda x: rd.reduce(lambda a, b: rd.f64(a[::-1] + b), 0, x),
        (FF,),
        rd.DTypeError,
        ("f64", "f32", "never widens"),
    ),
    "rows of another shape": (
        lambda x: rd.reduce(lambda a, b: (a[::-1] + b)[1:], 0, x),
        (rd.f32["n", 3],),
        rd.ShapeError,
        ("f32[2]", "f32[3]"),
    ),
    "a loop over arrays in an operator": (
        lambda x: rd.reduce(lambda a, b: a + rd.sum(rd.loop(3, lambda t, s: s * 2, rd.replicate(99, b))), 0, x),
        (F,),
        rd.TraceError,
        ("operator of rd.reduce", "rd.loop"),
    ),
    "loop state": (lambda x: rd.loop(3, lambda i, s: s * rd.f64(2), x[0]), (F,), rd.DTypeError, ("f32", "f64")),
    "loop rank": (lambda x: rd.loop(3, lambda i, s: s[None], x), (F,), rd.ShapeError, ("changes its rank",)),
    "branches": (
        lambda x: rd.cond(x[0] > 0, lambda: x[0], lambda: rd.f64(1)),
        (F,),
        rd.DTypeError,
        ("f32", "f64", "astype"),
    ),
    "rows of sizes that differ": (
        lambda x: rd.map(lambda v: rd.iota(v.astype(rd.i64)), x),
        (F,),
        rd.TraceError,
        ("whose size depends on the element leaves the function",),
    ),
    "data as a bound": (lambda x: x[x[0].astype(rd.i64) : 0 : -1], (F,), rd.TraceError, ("slice", "negative step")),
    "None": (lambda x: None, (F,), rd.TraceError, ("None",)),
    "reshape": (lambda x: x.reshape(4, 2), (rd.f32[3, 3],), rd.ShapeError, ("9", "8")),
    "at": (lambda x: x.at[0].set(rd.f64(1)), (F,), rd.DTypeError, ("f64", "f32")),
    "bits of floats": (lambda x: x & 1, (F,), rd.DTypeError, ("f32", "view")),
    "negative power": (lambda x: x**-2, (I,), rd.DTypeError, ("negative power",)),
    "empty": (lambda x: rd.max(x), (rd.f32[0],), rd.ShapeError, ("empty",)),
    "unsolvable size": (lambda x: x, (rd.f32["n * m"],), rd.ShapeError, ("'m'", "rd.size")),
    "a fractional axis": (lambda x: rd.sum(x, axis=1.5), (FF,), rd.TraceError, ("an axis is an int, not 1.5", ".py:")),
    "axes that are no tuple": (lambda x: rd.transpose(x, 1), (FF,), rd.TraceError, ("tuple of ints",)),
    "an axis too far": (lambda x: rd.swapaxes(x, 0, 2), (FF,), rd.ShapeError, ("axis 2", "rank 2")),
    "a fractional offset": (lambda x: rd.roll(x, 0.5), (F,), rd.TraceError, ("an offset is an int, not 0.5",)),
    "a border that is a name": (lambda x: rd.pad(x, "a"), (F,), rd.TraceError, ("the width of a border is an int",)),
    "a bound that is a name": (lambda x: x["a":], (F,), rd.TraceError, ("the bound of a slice is an int",)),
    "a size that is an array": (lambda x: rd.iota(np.arange(3)), (F,), rd.TraceError, ("a size is an int",)),
    "a tuple of arrays in a function": (lambda x: rd.exp((x, x)), (F,), rd.TraceError, ("a tuple in rd.exp",)),
    "unknown name": (lambda x: x.named("a/b"), (F,), rd.TraceError, ("name",)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(case: str) -> None:
    function, types, error, words = REFUSED[case]
    with pytest.raises(error) as caught:
        rd.algorithm(function).trace(*types)
    for word in words:
        assert word in str(caught.value)


@rd.algorithm
def plain(x: rd.f32["n"], y: rd.f32["n"]):
    return x + y


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((), rd.ArgumentError, ("2 arguments", "x, y")),
        ((np.zeros(3), np.zeros(3)), rd.ArgumentError, ('"x"', "float64", "f32[n]", '.astype("float32")')),
        ((np.zeros((3, 3), "f"), np.zeros(3, "f")), rd.ArgumentError, ("shape (3, 3)", "f32[n]")),
        ((["1"], np.zeros(1, "f")), rd.ArgumentError, ("list",)),
        ((None, None), rd.ArgumentError, ("NoneType",)),
        ((np.zeros(3, "f"), np.zeros(4, "f")), rd.SizeMismatch, ("3", "4", '"y"')),
    ],
)
def test_bad_arguments_are_named(arguments: Any, error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        plain.interpret(*arguments)
    for word in words:
        assert word in str(caught.value)


def test_sizes_that_are_not_proved_equal_are_compared_at_the_call() -> None:
    added = rd.algorithm(lambda x, y: x + y, x="f32[n]", y="f32[m]")
    assert added.interpret(np.ones(2, "f"), np.ones(2, "f")).tolist() == [2, 2]
    with pytest.raises(rd.SizeMismatch, match=r"dimension 0 of 'x'.*dimension 0 of 'y'"):
        added.interpret(np.ones(2, "f"), np.ones(3, "f"))
    with pytest.raises(rd.SizeMismatch):
        rd.algorithm(lambda x: rd.max(x), x="f32[n]").interpret(np.zeros(0, "f"))


def test_checks_at_run_time_name_the_line() -> None:
    look = rd.algorithm(lambda x, i: x[i], x="f32[n]", i="i64[m]")
    with pytest.raises(rd.IndexOutOfRange, match=r"index -1.*size 3[\s\S]*test_trace_errors.py"):
        look.interpret(np.zeros(3, "f"), np.array([-1]))
    divide = rd.algorithm(lambda a, b: a // b, a="i32[n]", b="i32[n]")
    with pytest.raises(rd.ArithmeticFault, match=r"test_trace_errors.py"):
        divide.interpret(np.ones(1, "i4"), np.zeros(1, "i4"))


def test_a_return_annotation_is_checked() -> None:
    def longer(x: rd.f32["n"]) -> rd.f32["n + 1"]:
        return x

    def wider(x: rd.f32["n"]) -> rd.f64["n"]:
        return x

    with pytest.raises(rd.ShapeError, match=r"n \+ 1"):
        rd.algorithm(longer).trace()
    with pytest.raises(rd.DTypeError, match="f64"):
        rd.algorithm(wider).trace()


def test_checks_can_be_left_out() -> None:
    from raido.algo.passes.unchecked import without_checks

    look = rd.algorithm(lambda x, i: x[i], x="f32[n]", i="i64[m]").trace()
    assert any(getattr(n, "checked", False) for n in topological(*look.results))
    assert not any(getattr(n, "checked", False) for n in topological(*without_checks(look).results))
    plainly = plain.trace()
    assert without_checks(plainly) is plainly


def test_operations_outside_an_algorithm_say_so() -> None:
    with pytest.raises(rd.TraceError, match=r"rd\.algorithm"):
        rd.sum(np.zeros(3))
