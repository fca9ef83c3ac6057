"""Resolves the command line's `FILE.py:ALG`, static parameters and schedules to objects."""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from raido.algo.documents import Unreadable, read_text, shown
from raido.algo.errors import ArgumentError, RaidoError, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from raido import Algorithm, Schedule


def load_module(path: Path) -> ModuleType:
    """Imports a Python file as a module, once, with the file's folder on `sys.path` as when it is run as a script."""
    path = path.resolve()
    if not path.is_file():
        raise ArgumentError(f"no such file: {path}")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(path.stem, None)
        if isinstance(error, (RaidoError, KeyboardInterrupt)):
            raise
        raise ArgumentError(f"{path} cannot be run: {_failure(error, path)}") from error
    return module


def _failure(error: BaseException, path: Path) -> str:
    """The text of the exception that ended the import of a file, with its line in the file."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}" + (f" (line {error.lineno})" if error.lineno else "")
    if isinstance(error, SystemExit):
        return f"it ends the program (sys.exit) while it is read; put that under `if __name__ == '__main__':`{_line(error, path)}"
    return f"{type(error).__name__}: {error}{_line(error, path)}"


def _line(error: BaseException, path: Path) -> str:
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(path)]
    return f" (line {lines[-1]})" if lines else ""


def split_program(program: str) -> tuple[Path, str]:
    """Splits `FILE.py:ALG` into a path and a name."""
    file, colon, name = program.rpartition(":")
    if not colon or not name.isidentifier():
        raise ArgumentError(f"{program!r} does not name an algorithm: write FILE.py:ALG")
    return Path(file), name


def find_algorithm(program: str, statics: Sequence[str] | None = None) -> Algorithm:
    """The algorithm that `FILE.py:ALG` names, with `NAME=VALUE` static parameters fixed."""
    from raido import Algorithm, capture

    path, name = split_program(program)
    module = load_module(path)
    found = getattr(module, name, None)
    if not isinstance(found, Algorithm):
        there = sorted(key for key, value in vars(module).items() if isinstance(value, Algorithm))
        raise ArgumentError(f"{path} has no algorithm {name!r}; it has: {', '.join(there) or 'none'}")
    values = dict(_static(text) for text in statics or ())
    return capture(found, **values) if values else found


def _static(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"--set {text!r}: write NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: deeply nested brackets
        return name, value


def find_schedule(name: str | None, program: str, algorithm: Algorithm) -> Schedule | None:
    """A schedule from `FILE.json`, or from a function of the program's file that takes the algorithm; None for the default."""
    from raido import Schedule

    if name is None:
        return None
    if name.endswith(".json"):
        try:
            return Schedule.from_json(read_text(name), algorithm)
        except Unreadable as error:
            raise ArgumentError(f"cannot read the schedule {name}: {error}") from None
        except ScheduleError as error:
            raise ScheduleError(f"{name}: {error}") from None
    path, _ = split_program(program)
    function: Callable[[Algorithm], Schedule] | None = getattr(load_module(path), name, None)
    if not callable(function):
        raise ArgumentError(f"{path} has no function {name!r} that makes a schedule")
    made = function(algorithm)
    if not isinstance(made, Schedule):
        raise ArgumentError(f"the function {name!r} of {path} gives {shown(made)}, not a schedule")
    return made
