"""Signatures of public functions from `inspect.signature`: NumPy's parameters where NumPy has the name, never `*values`."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.language import ufuncs

OPERANDS = {name: getattr(np, name) for name in ufuncs.__all__ if isinstance(getattr(np, name, None), np.ufunc)}
OTHER_MEANING = {"choose", "partition", "size"}
SHARED = sorted(name for name in set(rd.__all__) - OTHER_MEANING if inspect.isroutine(getattr(np, name, None)))


def takes_any_number(function: Any) -> bool:
    """Whether a function has a parameter like `*arrays`."""
    kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds


@pytest.mark.parametrize("name", sorted(OPERANDS))
def test_ufuncs_take_their_operands_by_position(name: str) -> None:
    parameters = list(inspect.signature(getattr(rd, name)).parameters.values())
    operands = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
    assert [p.name for p in operands] == (["x"] if OPERANDS[name].nin == 1 else ["x1", "x2"])
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == ["out", "where", "dtype", "name"]
    assert len(parameters) == len(operands) + 4


@pytest.mark.parametrize("name", SHARED)
def test_no_function_of_numpys_takes_anything_at_all(name: str) -> None:
    assert not takes_any_number(getattr(rd, name)) or takes_any_number(getattr(np, name))


def test_operands_of_where_and_fma() -> None:
    assert list(inspect.signature(rd.where).parameters) == ["condition", "x", "y", "name"]
    assert list(inspect.signature(rd.fma).parameters) == ["x1", "x2", "x3", "name"]
    assert list(inspect.signature(rd.clip).parameters)[:3] == ["a", "a_min", "a_max"]
    assert list(inspect.signature(rd.sum).parameters)[:3] == ["a", "axis", "dtype"]


def test_help_shows_the_users_function() -> None:
    def blurred(img: Any, *, radius: int = 2) -> Any:
        """Blurs an image."""

    def plain(img: Any) -> Any:
        return img

    for function, doc in ((blurred, "Blurs an image."), (plain, "An algorithm of raido")):
        algorithm = rd.algorithm(function)
        assert inspect.signature(algorithm) == inspect.signature(function)
        assert inspect.signature(algorithm.__call__) == inspect.signature(function)  # IPython's `algorithm?` shows both
        head, _, rest = pydoc.render_doc(algorithm, renderer=pydoc.plaintext).partition(">\n")
        assert head.endswith(repr(algorithm)[:-1]) and rest.lstrip().startswith(doc)
        assert "Program" not in rest


def test_bounds_of_clip_have_all_of_numpys_names() -> None:
    f = rd.algorithm(lambda a: (rd.clip(a, a_min=1, a_max=2), rd.clip(a, min=1, max=2), a.clip(1, 2)))
    for result in f.interpret(np.arange(4)):
        assert result.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("first", ["raido.autotune.jobs.autotune", "raido.targets.target", "raido"])
def test_functions_that_are_packages_are_functions_to_help(first: str) -> None:
    code = (
        f"import {first}, pydoc, pickle, raido as rd\n"
        "for function in (rd.autotune, rd.targets): assert pickle.loads(pickle.dumps(function)) is function\n"
        "print(*(pydoc.plain(pydoc.render_doc(f)) for f in (rd.autotune, rd.targets)), sep='\\n')"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert re.search(
        r"^raido\.autotune\(\s*algorithm: [\s\S]*?\n    Searches for the fastest schedule", text, re.MULTILINE
    )
    assert re.search(r"^raido\.targets\(\) -> .*\n    The targets that this machine", text, re.MULTILINE)
    assert "PACKAGE CONTENTS" not in text
