"""Sizes that are divisors must not be 0, in extents and trip counts as in values: one error in every way of running a program."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.oracles.interpret import interpret_nest

X = np.arange(6.0)


def few(x: Any) -> Any:
    """The number of elements above 9: none of X."""
    return rd.filter(lambda v: v > 9, x).shape[0]


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "a slice": lambda x, k: x[: x.shape[0] // k],
    "a remainder": lambda x, k: rd.zeros(x.shape[0] % k),
    "a sum": lambda x, k: rd.sum(rd.iota(x.shape[0] // k)),
    "a sum for each element": lambda x, k: rd.map(lambda v: v + rd.sum(rd.iota(x.shape[0] // k)), x),
    "a loop over an array": lambda x, k: rd.loop(x.shape[0] // k, lambda i, s: s + 1, x),
    "a loop over a number": lambda x, k: rd.map(lambda v: rd.loop(x.shape[0] // k, lambda i, s: s + 1, v), x),
    "the condition of a loop": lambda x, k: rd.map(
        lambda v: rd.while_loop(lambda s: (s < 9) & (rd.sum(rd.iota(x.shape[0] // k)) < 99), lambda s: s + 1, v), x
    ),
    "the condition of a loop over a number": lambda x, k: rd.while_loop(
        lambda s: (s < 9) & (rd.sum(x[: x.shape[0] // k]) < 99), lambda s: s + 1, x[3]
    ),
    "a branch": lambda x, k: rd.cond(k == 0, lambda: x + rd.sort(x)[: x.shape[0] // k].sum(), lambda: x),
    "the body of a loop": lambda x, k: rd.loop(2, lambda i, s: s + rd.sort(s)[: x.shape[0] // k].sum(), x),
    "a size that data decides": lambda x, k: rd.iota(x.shape[0] // few(x) + k),
    "a size that data decides in a loop": lambda x, k: rd.loop(2, lambda i, s: s + rd.iota(6 // few(s)).sum() + k, x),
}


def made(name: str) -> Any:
    return rd.algorithm(FORMS[name], x="f64[n]", k="size")


@pytest.mark.parametrize("name", FORMS)
def test_a_division_by_a_size_of_0_is_one_error(name: str) -> None:
    f, said = made(name), []
    for run in (f, f.interpret):
        with pytest.raises(rd.ArithmeticFault, match=r"integer division of 6 by zero") as caught:
            run(X, 0)
        said.append(str(caught.value))
        assert "test_divided_sizes.py" in said[-1]
        assert re.search(r"size +(k = 0|one that data decides)$", said[-1])
    assert said[0].splitlines()[1:] == said[1].splitlines()[1:]
    if "data" not in name:
        np.testing.assert_array_equal(f(X, 4), f.interpret(X, 4))


def test_what_nobody_computes_divides_by_nothing() -> None:
    f = rd.algorithm(
        lambda x, k: rd.cond(k > 0, lambda: rd.sort(x)[: x.shape[0] // k].sum(), lambda: 0.0), x="f64[n]", k="size"
    )
    assert f(X, 0) == f.interpret(X, 0) == 0 and f(X, 3) == f.interpret(X, 3) == 1


def test_a_reshape_of_an_empty_array_divides_by_0_by_itself() -> None:
    f = rd.algorithm(lambda x, k: x.reshape(k, -1), x="f64[n]", k="size")
    assert f(X[:0], 0).shape == f.interpret(X[:0], 0).shape == (0, 0)
    for run in (f, f.interpret):
        with pytest.raises(rd.SizeMismatch, match="number of elements"):
            run(X, 0)
    said = rd.algorithm(lambda x, k: x.reshape(k, x.shape[0] // k), x="f64[n]", k="size")
    for run in (said, said.interpret):
        with pytest.raises(rd.ArithmeticFault, match="integer division of 0 by zero"):
            run(X[:0], 0)


def test_constant_divisors_and_unchecked_code_have_no_check() -> None:
    constant = rd.algorithm(lambda x: (x[: x.shape[0] // 3], rd.iota(x.shape[0] % 5)), x="f64[n]")
    above = rd.algorithm(lambda x, k: x[: x.shape[0] // (k + 1)], x="f64[n]", k="size")
    assert "check" not in constant.compile().source("nest") + above.compile().source("nest")
    assert "check k != 0 else division (n)" in made("a slice").compile().source("nest")
    assert "check" not in made("a slice").compile(unchecked=True).source("nest")


def test_one_check_serves_all_divisions_by_a_size() -> None:
    f = rd.algorithm(lambda x, k: (x[: x.shape[0] // k], rd.iota(x.shape[0] % k), x[: 7 // k]), x="f64[n]", k="size")
    assert f.compile().source("nest").count("check k != 0") == 1


def test_nests_say_the_same() -> None:
    schedule = made("a slice").schedule()
    nest = lower(schedule.graph, schedule.complete().variants())
    with pytest.raises(rd.ArithmeticFault, match="integer division of 6 by zero"):
        interpret_nest(nest, [X], {"k": 0, "n": 6})


def test_libraries_say_the_same(tmp_path: Path) -> None:
    f = rd.algorithm(FORMS["a slice"], x="f64[n]", k="size", name="part")
    library = f.compile().export(tmp_path / "libpart.so")
    with pytest.raises(rd.ArithmeticFault, match=r"size +k = 0"):
        rd.load(library)(X, 0)
    code = ctypes.CDLL(str(library))
    code.part_message.restype = ctypes.c_char_p
    address = ctypes.c_void_p(X.ctypes.data)
    assert code.part(address, ctypes.c_int64(6), ctypes.c_int64(0), address) != 0
    assert re.search(rb"integer division of 6 by zero\n.*\n  size      k = 0$", code.part_message())
