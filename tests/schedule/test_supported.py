"""Every form of the language either has machine code, which agrees with the interpreter, or is refused by name and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd

FORMS: dict[str, tuple[Callable[..., Any], str]] = {
    "scan": (lambda a, b: rd.scan(rd.add, 0, a), "rd.scan"),
    "reduce_by_index": (lambda a, b: rd.bincount(a, 5), "rd.reduce_by_index"),
    "scatter": (lambda a, b: rd.scatter(a, b, a), "rd.scatter"),
    "update": (lambda a, b: a.at[b].set(7), "rd.update"),
    "filter": (lambda a, b: rd.filter(lambda x: x > 1, a), "rd.filter"),
    "partition": (lambda a, b: rd.partition(lambda x: x > 1, a), "rd.partition"),
    "segmented_reduce": (lambda a, b: rd.segmented_reduce(rd.add, 0, a, b), "rd.segmented_reduce"),
    "segmented_scan": (lambda a, b: rd.segmented_scan(rd.add, 0, a, b), "rd.segmented_scan"),
    "sort": (lambda a, b: rd.sort(a), "rd.sort"),
    "argsort": (lambda a, b: rd.argsort(a), "rd.argsort"),
    "unique": (lambda a, b: rd.unique(a), "rd.sort"),
    "repeat": (lambda a, b: rd.repeat(a, a), ""),
    "slice": (lambda a, b: a[b[1] : b[2]], "size"),
    "iota": (lambda a, b: rd.iota(a[0]), "size"),
    "changing loop": (lambda a, b: rd.loop(2, lambda t, x: x[1:], a), "size"),
    "loop of rows": (
        lambda a, b: rd.map(lambda k: rd.sum(rd.loop(k, lambda i, x: x * 2, a)), b),
        "function of elements",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_runs_as_interpreted_or_says_that_it_cannot(form: str) -> None:
    function, words = FORMS[form]
    program = rd.algorithm(function)
    arguments = np.array([3, 1, 4, 2]), np.array([0, 1, 3, 3])
    try:
        result = program(*arguments)
    except rd.CompileError as error:
        assert words in str(error) and "has no machine code yet" in str(error)
        assert "test_supported.py" in str(error)
    else:
        expected = program.interpret(*arguments)
        parts = zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]
        for got, want in parts:
            np.testing.assert_array_equal(got, want)
