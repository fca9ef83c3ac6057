"""The differential test against NumPy: a random program in NumPy's language gives NumPy's results.

`check(seed)` draws a program, runs it interpreted and, where asked, compiled under its default schedule, and compares every statement's
result with NumPy's, computed from raido's own results of the statements before it: errors do not add up, and the statement that is
wrong is known. Values, dtypes, shapes, signs of zeros and NaN are equal, but for the bounds of `near`; where the contract differs
from NumPy, `oracle` says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from processors import lacking

import raido as rd
from numpy_law import near, oracle
from numpy_law.families import FAMILIES
from numpy_law.writer import REFUSALS, Drawn, Writer, build

CPUS = tuple(cpu for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if not lacking(cpu))  # those whose code runs here
Expected = Mapping[str, Callable[..., Any]]


@dataclass
class Broken(AssertionError):
    """A counter-example: how the program was run, what was wrong with which statement, and a file that shows it."""

    way: str
    statement: str
    what: str
    script: str = ""

    def __str__(self) -> str:
        return f"{self.way}, {self.statement}: {self.what}\n{self.script}"


def statements_of(seed: int) -> int:
    """How many statements program number `seed` has."""
    return random.Random(f"size {seed}").choice((1, 2, 3, 3, 4, 5, 6))


def draw(seed: int, statements: int | None = None) -> Writer:
    """Program number `seed`, or its first so many statements."""
    writer = Writer(seed, FAMILIES)
    for _ in range(statements_of(seed) if statements is None else statements):
        if not writer.statement():
            break
    return writer


def check(seed: int, *, compiled: bool = True) -> int:
    """Checks program number `seed`; returns how many results were compared. Raises `Broken`."""
    writer = draw(seed)
    if not writer.statements:
        return 0
    drawn = build(writer.source(), f"numpy law {seed}")
    try:
        return hold(drawn.algorithm, drawn.arguments, drawn.expected, compiled and CPUS[seed % len(CPUS)])
    except Broken as broken:
        broken.script = narrow(writer, broken, drawn)
        raise


def hold(program: Any, arguments: Sequence[Any], expected: Expected, cpu: str | bool = CPUS[-1]) -> int:
    """Interprets a program, compiles it for `cpu` unless that is False, and compares; returns how many results were compared."""
    compare("interpreted", program, arguments, expected, lambda: program.interpret(*arguments))
    if not cpu:
        return len(expected)
    compare("compiled", program, arguments, expected, lambda: program.compile(f"llvm:{cpu}")(*arguments))
    return 2 * len(expected)


def compare(way: str, program: Any, arguments: Sequence[Any], expected: Expected, run: Callable[[], Any]) -> None:
    """One run against NumPy. Raises `Broken`."""
    names = [declaration.name for declaration in program.signature.positional]
    known = {name: np.asarray(a) for name, a in zip(names, arguments, strict=True)}
    try:
        results = run()
    except rd.RaidoError as error:
        failed(way, error, known, expected)
        return
    except Exception as error:
        raise Broken(way, "all", f"{type(error).__name__}: {error}") from error
    given = results if len(expected) > 1 else (results,)
    for (name, function), got in zip(expected.items(), given, strict=True):
        want = outcome(function, known)
        if isinstance(want, oracle.Raises):
            # "A fault in an element that no result needs may go unreported"
            if np.size(got) or not {*want.kinds} <= {rd.IndexOutOfRange, rd.ArithmeticFault}:
                raise Broken(way, name, f"expected {want}, got {got!r}")
            known[name] = np.asarray(got)
            continue
        fault = near.difference(want, got)
        if fault:
            raise Broken(way, name, fault)
        if not isinstance(got, tuple):
            known[name] = np.asarray(got)


def failed(way: str, error: rd.RaidoError, known: dict[str, Any], expected: Expected) -> None:
    """Whether a program had to end in this error."""
    for name, function in expected.items():
        want = outcome(function, known)
        if isinstance(want, oracle.Raises):
            if isinstance(error, want.kinds):
                return
            raise Broken(way, name, f"expected {want}, got {type(error).__name__}: {error}") from error
        known[name] = want.rounded if isinstance(want, near.Near) else want
    raise Broken(way, "all", f"{type(error).__name__}: {error}") from error


def outcome(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """What NumPy makes of a statement, or the error that it must end in."""
    code = function.__code__
    try:
        with np.errstate(all="ignore"):
            return function(*(known[name] for name in code.co_varnames[: code.co_argcount]))
    except oracle.Raises as error:
        return error
    except REFUSALS:
        return oracle.Raises(rd.RaidoError)


def narrow(writer: Writer, broken: Broken, drawn: Drawn) -> str:
    """The counter-example with as few statements as still fail: those that the wrong one is made of, or the first so many."""
    compiled = broken.way == "compiled"
    chosen = writer.statements
    candidates = [_behind(chosen, s.name) for s in chosen if broken.statement in ("all", s.name)]
    for some in sorted(candidates, key=len):
        smaller = build(writer.source(some), f"numpy law {writer.seed}, narrowed")
        try:
            hold(smaller.algorithm, smaller.arguments, smaller.expected, compiled and CPUS[writer.seed % len(CPUS)])
        except Broken:
            return smaller.script()
    return drawn.script()


def _behind(statements: Sequence[Any], name: str) -> list[Any]:
    """A statement and those that it reads."""
    wanted = {name}
    kept = []
    for statement in reversed(statements):
        if statement.name in wanted:
            kept.append(statement)
            wanted |= set(statement.uses)
    return kept[::-1]
