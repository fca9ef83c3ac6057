"""Forms of calls: arguments by keyword, any array-like object without guessing, results in dicts, lambdas with a name."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import raido as rd

TWICE = rd.algorithm(name="twice")(lambda a: 2 * a)
EXPECTED = np.array([2, 4, 6])


class Holder:
    """An array of another library, by NumPy's protocol."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([1, 2, 3])


@pytest.mark.parametrize(
    "given",
    [
        [1, 2, 3],
        (1, 2, 3),
        range(1, 4),
        array.array("q", [1, 2, 3]),
        memoryview(np.array([1, 2, 3])),
        Holder(),
        [np.int64(1), np.int64(2), np.int64(3)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_that_is_an_array_is_an_argument(given: Any) -> None:
    declared = rd.algorithm(a="i64[n]")(lambda a: 2 * a)
    assert declared(given).tolist() == EXPECTED.tolist() == declared.interpret(a=given).tolist()
    if not isinstance(given, tuple):  # which is a tuple of values where no type says otherwise
        assert TWICE.interpret(given).tolist() == EXPECTED.tolist()


@pytest.mark.parametrize("given", ["123", b"123", {1, 2, 3}, [[1, 2], [3]], object(), None])
def test_what_would_be_a_guess_is_refused(given: Any) -> None:
    with pytest.raises(rd.ArgumentError):
        TWICE(given)


def test_arguments_by_keyword() -> None:
    f = rd.algorithm(lambda a, b: a - b)
    assert f(b=[1, 2], a=[5, 5]).tolist() == [4, 3] == f([5, 5], b=[1, 2]).tolist()
    executable = f.compile(like=(rd.i64["n"], rd.i64["n"]))
    assert executable(b=np.array([1, 2]), a=np.array([5, 5])).tolist() == [4, 3]


@rd.algorithm
def described(a: rd.f64["n"]) -> Any:
    return {"total": rd.sum(a), "parts": (a, {"largest": rd.max(a)}), "shift": a + 1j}


@pytest.mark.parametrize("how", ["interpret", "run"])
def test_dicts_are_results(how: str) -> None:
    result = getattr(described, how)(np.array([1.0, 3.0]))
    assert list(result) == ["total", "parts", "shift"]
    assert result["total"] == 4 and result["parts"][1]["largest"] == 3
    assert result["parts"][0].tolist() == [1, 3] and result["shift"].dtype == np.complex128


def test_dicts_of_inlined_algorithms_are_records() -> None:
    outer = rd.algorithm(lambda a: described(a).total + described(a).parts[1].largest)
    assert outer.interpret(np.array([1.0, 3.0])) == 7


@pytest.mark.parametrize("key", [1, "two words", "_hidden"])
def test_keys_of_results_are_names(key: Any) -> None:
    with pytest.raises(rd.TraceError, match="has names as keys"):
        rd.algorithm(lambda a: {key: a}).trace(rd.f32["n"])


def test_lambdas_have_the_name_they_are_given() -> None:
    assert TWICE.name == "twice" and repr(TWICE) == "<algorithm twice(a)>"
    with pytest.raises(rd.ArgumentError, match="twice"):
        TWICE.interpret([1], [2])
    with pytest.raises(rd.ArgumentError, match="name of an algorithm"):
        rd.algorithm(name="two words")(lambda a: a)


def test_a_parameter_may_be_called_name() -> None:
    f = rd.algorithm(name="f32[n]")(lambda name: 2 * name)
    assert f.name == "algorithm" and f.interpret([1.0]).dtype == np.float32


def test_parameters_are_declared_as_dicts_of_types():
    @rd.algorithm
    def f(p: {"a": "f64[n]", "b": (rd.f32["n"], rd.i64), "c": {"k": rd.size}}, x: rd.f64["n"]):
        return p["a"] * x + p.b[0] * p["b"][1] + p["c"].k

    ones, x = np.ones(2), np.arange(2.0)
    given = {"c": {"k": 4}, "b": (np.ones(2, np.float32), 3), "a": ones}
    assert repr(f) == "<algorithm f(p: record(a=f64[n], b=(f32[n], i64), c=record(k=size)), x: f64[n])>"
    for run in (f, f.interpret, f.compile()):
        assert run(given, x).tolist() == [7.0, 8.0]
    with pytest.raises(rd.SizeMismatch, match='"p_a" dimension 0'):
        f(given, np.ones(3))
    with pytest.raises(rd.ArgumentError, match="must have the fields"):
        f({"a": ones}, x)
    untyped = rd.algorithm(lambda p: p["a"] + p["b"])
    types = {"a": "f64[n]", "b": "f64[n]"}
    assert untyped.compile(like=(types,))({"a": ones, "b": x}).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("declared", [{}, {"a": 3}, {0: "f64[n]"}])
def test_dicts_of_something_else_are_no_types(declared):
    with pytest.raises(rd.TraceError, match="a dict of them by name"):
        rd.algorithm(lambda p: p["a"], p=declared).trace()


def test_sizes_are_parts_of_tuples():
    f = rd.algorithm(lambda p: p[0] * p[1], p=("f64[n]", rd.size))
    for run in (f, f.interpret):
        assert run((np.ones(2), 3)).tolist() == [3.0, 3.0]


def test_calls_of_known_kinds_find_their_executable_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @rd.algorithm
    def scaled(a: Any, by: rd.f64, *, power: int = 2) -> Any:
        return a * by**power

    asked: list[int] = []
    program_for = type(scaled).program_for
    monkeypatch.setattr(
        type(scaled), "program_for", lambda self, *given, **how: asked.append(0) or program_for(self, *given, **how)
    )
    one, two = np.ones(3), np.ones((2, 2), np.float32)
    for _ in range(3):
        assert scaled(one, 2.0).tolist() == [4, 4, 4] and scaled(one, 3).tolist() == [9, 9, 9]
        assert scaled(two, 2.0).shape == (2, 2)
    assert len(asked) == 2  # one for each dtype and rank
    out = np.empty(3)
    assert scaled(one, 2.0, out=out) is out and len(asked) == 2
    assert scaled(one, 2.0, power=3).tolist() == [8, 8, 8] and scaled([1.0], 2.0).tolist() == [4]
    assert scaled(one, 2.0).tolist() == [4, 4, 4]
    with pytest.raises(rd.ArgumentError, match="scaled takes 2 arguments"):
        scaled(one)


def test_an_executable_that_is_known_is_found_by_the_classes_of_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    @rd.algorithm
    def scaled(x: rd.f32["n"], by: rd.f32):
        return x * by

    x = np.ones(3, np.float32)
    assert scaled(x, 2.0).tolist() == [2, 2, 2]
    with monkeypatch.context() as patch:
        patch.setattr(type(scaled), "_kinds_of", None)
        out = np.empty_like(x)
        assert scaled(x, 3.0, out=out) is out
        assert out.tolist() == [3, 3, 3]
    assert scaled([1, 2], 2).tolist() == [2, 4]  # other classes, other ways
    with pytest.raises(rd.ArgumentError):
        scaled(x.astype(np.float64), "2")
