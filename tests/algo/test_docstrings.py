"""The examples in the docstrings of the language run as written."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "algorithm",
    "combinators",
    "control",
    "indexing",
    "joining",
    "making",
    "moves",
    "reductions",
    "stencil",
    "value",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"raido.algo.{name}")
    failed, _ = doctest.testmod(module)
    assert failed == 0
