"""The examples in public docstrings run as written, and every public function has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import operator
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.language import ufuncs

FUNCTIONS = [
    name
    for name in sorted(set(rd.__all__) - set(ufuncs.__all__))
    if inspect.isfunction(getattr(rd, name)) and inspect.unwrap(getattr(rd, name)).__module__.startswith("raido.algo")
]
NAMESPACES = {"fft": rd.fft, "linalg": rd.linalg, "random": rd.random}
FUNCTIONS += [f"{space}.{name}" for space, module in NAMESPACES.items() for name in module.__all__]


def public(name: str) -> Any:
    """What `rd.name` is; the name may have a namespace in front."""
    return operator.attrgetter(name)(rd)


MODULES = sorted(
    {inspect.unwrap(public(name)).__module__ for name in FUNCTIONS}
    | {f"raido.algo.{m}" for m in ("trace.algorithm", "trace.value", "errors")}
)


FOLDERS = ("algo", "schedule", "targets", "autotune")
ROOT = Path(__file__).parents[2]
ELSEWHERE = ("raido.schedule.directives", "raido.schedule.schedule", "raido.schedule.holes")  # test_directive_docs.py


def with_examples() -> list[str]:
    """The modules of the package whose text has examples, without those that other tests run."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if ">>> " in path.read_text()]
    parts = [path.relative_to(ROOT).with_suffix("").parts for path in files]
    names = {".".join(("raido", *part)).removesuffix(".__init__") for part in parts}
    return sorted(name for name in names if name not in MODULES and not name.startswith(ELSEWHERE))


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    """The program that examples of schedules are about."""
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name="cols")


@pytest.mark.parametrize("name", with_examples())
def test_examples_in_modules_run(name: str) -> None:
    importlib.import_module(name)
    names = {"np": np, "rd": rd, "blur": blur}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(
        sys.modules[name], name, extraglobs=names
    ):  # `raido.targets` is a function, too
        runner.run(test)
    done = runner.summarize(verbose=False)
    assert done.attempted and not done.failed


def examples(thing: Any) -> int:
    """How many there are in the docstring of a thing."""
    return len(doctest.DocTestParser().get_examples(inspect.getdoc(thing) or ""))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    names = {"np": np, "rd": rd}
    failed, tried = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for function in vars(module).values():  # those that a decorator wraps: `testmod` passes over them
        if inspect.isfunction(function) and function.__module__ == name and hasattr(function, "__wrapped__"):
            own = inspect.unwrap(function)
            for test in doctest.DocTestFinder().find(own, globs={**own.__globals__, **names}):
                failed += runner.run(test).failed
                tried += len(test.examples)
    for kind in vars(module).values():  # whose module users see as raido: `testmod` passes over them, too
        if inspect.isclass(kind) and kind.__module__ == "raido":
            for test in doctest.DocTestFinder().find(kind, module=False, globs={**vars(module), **names}):
                failed += runner.run(test).failed
                tried += len(test.examples)
    assert tried and not failed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_an_example(name: str) -> None:
    assert examples(public(name))


ERRORS = [e for e in vars(rd).values() if inspect.isclass(e) and issubclass(e, rd.RaidoError)]
ONLY_IN_TROUBLE = {
    rd.RaidoError,
    rd.CompileError,
    rd.ExportError,
}  # the base class; a fault of raido's own; no compiler here


@pytest.mark.parametrize("error", sorted(set(ERRORS) - ONLY_IN_TROUBLE, key=str), ids=lambda e: e.__name__)
def test_every_error_has_an_example(error: type) -> None:
    assert examples(error)
