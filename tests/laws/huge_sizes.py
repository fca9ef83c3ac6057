"""Programs with sizes near 2³¹, 2³², 2⁵³, 2⁶⁰ … 2⁶³ wherever a size can stand: each gives the right answer, or one clear error.

`python tests/laws/huge_sizes.py --calls 5000` is the long run. A program is drawn from its number, and called several times with
its own numbers as sizes, as data that becomes sizes, and as shapes of arrays without elements. It runs in a child process with a limited
address space, so that impossible allocations are refused whatever the machine's memory, and an alarm ends calls that
take too long. An answer must be the interpreter's; an error must be one of raido's or a `MemoryError`; the child must survive.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import linecache
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

CALLS = 8  # of each program
ROOM = 1 << 28  # bytes of address space that a call may add: what fills them takes a second even in the interpreter
PATIENCE = 30  # seconds for a call: those that end at all take milliseconds
SMALL = (0, 0, 1, 1, 2, 3, 4, 5, 17)
EDGES = (1 << 16, 1 << 20, 1 << 40, 1 << 59, *((1 << k) + d for k in (31, 32, 53, 60, 61, 62, 63) for d in (-1, 0, 1)))
DTYPES = ("u8", "i32", "f32", "i64", "f64")
HEADER = "def program(x: rd.f32['n'], e: rd.f32['h', 'w'], c: rd.i64['k'], s: rd.size, t: rd.size):\n"


@dataclass(frozen=True)
class Expression:
    """An array of the program: its source and rank."""

    text: str
    rank: int


class Writer:
    """Draws one program."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []

    def program(self) -> str:
        """The source of the algorithm."""
        result = self._result(self._array(self.random.randrange(1, 4)))
        return HEADER + "".join(f"    {line}\n" for line in (*self.lines, f"return {result}"))

    def _size(self, depth: int = 2) -> str:
        choice = self.random.randrange(12 if depth else 7)
        if choice < 3:
            return self.random.choice(("s", "t"))
        if choice < 6:
            return f"c[{self.random.randrange(4)}]"
        if choice == 6:
            return self.random.choice(("x.shape[0]", "e.shape[0]", "e.shape[1]", "3"))
        a, b = self._size(depth - 1), self._size(depth - 1)
        k = self.random.choice((1, 2, 3, 1 << 20, 1 << 31))
        return self.random.choice((f"({a} * {b})", f"({a} * {k})", f"({a} + {b})", f"({a} + {k})", f"({a} // {k})"))

    def _named(self, text: str, rank: int) -> Expression:
        name = f"a{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return Expression(name, rank)

    def _array(self, depth: int) -> Expression:
        make = self.random.choice(_MAKERS) if depth <= 1 or self.random.random() < 0.4 else self.random.choice(_MOVES)
        return self._named(*make(self, depth))

    def vector(self, depth: int) -> str:
        """An array of rank 1."""
        array = self._array(depth)
        return array.text if array.rank == 1 else f"rd.flatten({array.text})"

    def _result(self, array: Expression) -> str:
        flat = array.text if array.rank == 1 else f"rd.flatten({array.text})"
        kept = f"rd.sort(rd.abs({flat}))"
        ways = [
            array.text,
            array.text,
            f"rd.sum({kept}.astype(rd.i64))",
            f"{kept}[0]",
            f"rd.scan(rd.add, 0, {flat}.astype(rd.i64))",
        ]
        ways += [f"rd.i64(0) + {array.text}.shape[{self.random.randrange(array.rank)}]", f"{flat}[c[3]]"]
        return self.random.choice(ways)

    def dtype(self) -> str:
        """A type of elements."""
        return f"rd.{self.random.choice(DTYPES)}"


def _iota(w: Writer, depth: int) -> tuple[str, int]:
    return f"rd.iota({w._size()}).astype({w.dtype()})", 1


def _replicate(w: Writer, depth: int) -> tuple[str, int]:
    rank = w.random.randrange(1, 4)
    return f"rd.replicate(({', '.join(w._size(1) for _ in range(rank))},), {w.dtype()}(1))", rank


def _tabulate(w: Writer, depth: int) -> tuple[str, int]:
    rank = w.random.randrange(1, 4)
    names = "ijk"[:rank]
    shape = ", ".join(w._size(1) for _ in range(rank))
    return f"rd.tabulate(({shape},), lambda {', '.join(names)}: ({' ^ '.join(names)}).astype({w.dtype()}))", rank


def _repeat(w: Writer, depth: int) -> tuple[str, int]:
    if w.random.random() < 0.5:
        return f"rd.repeat({w.dtype()}(1) * c.astype({w.dtype()}), c)", 1
    return f"rd.repeat({w.random.choice(('x', 'c'))}, {w._size()})", 1


def _empty_rows(w: Writer, depth: int) -> tuple[str, int]:
    return w.random.choice(
        (
            ("e + 1", 2),
            ("e.T * 2", 2),
            ("rd.sum(e, axis=1)", 1),
            ("rd.sum(e, axis=0)", 1),
            ("e @ e.T", 2),
            ("rd.concat([e] * 3)", 2),
            ("rd.scan(rd.add, 0, e, axis=1)", 2),
            ("rd.sort(e, axis=1)", 2),
            ("rd.replicate(3, 1) * rd.sum(e)", 1),
            ("rd.stencil(lambda p: p[0, -1] + p[1, 0], e, boundary='wrap')", 2),
            ("rd.map(lambda row: row * 2, e)", 2),
        )
    )


def _bincount(w: Writer, depth: int) -> tuple[str, int]:
    return f"rd.bincount(c, {w._size()})", 1


def _pad(w: Writer, depth: int) -> tuple[str, int]:
    width = w.random.choice((1, 3, (1 << 31) - 1, 1 << 32, 1 << 53, 1 << 60))
    return f"rd.pad({w.vector(depth - 1)}, ({width}, {w.random.choice((0, 1))}))", 1


def _slice(w: Writer, depth: int) -> tuple[str, int]:
    low, high = (w.random.choice(("", "1", w._size(1), f"c[{w.random.randrange(4)}]")) for _ in range(2))
    return f"{w.vector(depth - 1)}[{low}:{high}]", 1


def _reshape(w: Writer, depth: int) -> tuple[str, int]:
    a, b = w.random.choice(("s", "t")), w.random.choice(("s", "t", "x.shape[0]"))
    return f"rd.reshape(rd.iota({a} * {b}), ({b}, {a}))", 2


def _concat(w: Writer, depth: int) -> tuple[str, int]:
    a, b = (f"{w.vector(depth - 1)}.astype(rd.f32)" for _ in range(2))
    return f"rd.concat([{', '.join(w.random.choice((a, b)) for _ in range(w.random.choice((2, 3, 9, 17))))}])", 1


def _outer(w: Writer, depth: int) -> tuple[str, int]:
    a, b = w.vector(depth - 1), w.vector(depth - 1)
    return f"rd.tabulate(({a}.shape[0], {b}.shape[0]), lambda i, j: {a}[i].astype(rd.f32) * {b}[j].astype(rd.f32))", 2


def _stencil(w: Writer, depth: int) -> tuple[str, int]:
    far = w.random.choice((1, 5, 1 << 20))
    mode = w.random.choice(("'clamp'", "'wrap'", "'mirror'", "'valid'"))
    return f"rd.stencil(lambda p: p[-{far}] + p[{far}], {w.vector(depth - 1)}.astype(rd.f64), boundary={mode})", 1


def _filter(w: Writer, depth: int) -> tuple[str, int]:
    return f"rd.filter(lambda v: rd.abs(v) > 1, {w.vector(depth - 1)})", 1


def _scatter(w: Writer, depth: int) -> tuple[str, int]:
    return f"rd.scatter({w.vector(depth - 1)}.astype(rd.i64), c, c)", 1


def _double(w: Writer, depth: int) -> tuple[str, int]:
    body = w.random.choice(("rd.concat([v, v])", "v[1:]", "rd.pad(v, 1)"))
    times = w.random.choice((3, 31, 62, 70)) if "concat" in body else 3
    return f"rd.loop({times}, lambda i, v: {body}, {w.vector(depth - 1)})", 1


def _branch(w: Writer, depth: int) -> tuple[str, int]:
    a, b = (f"{w.vector(depth - 1)}.astype(rd.f64)" for _ in range(2))
    return f"rd.cond(c[0] > 3, lambda: {a} + 1, lambda: {b} * 2)", 1


_MAKERS = (_iota, _replicate, _tabulate, _repeat, _empty_rows, _bincount, _reshape)
_MOVES = (_pad, _slice, _concat, _outer, _stencil, _filter, _scatter, _double, _branch, _repeat)


def draw_program(number: int) -> str:
    """The source of a program."""
    return Writer(Random(number)).program()


def draw_arguments(number: int, call: int) -> list[Any]:
    """Arguments of one of its calls: most sizes are small in some calls, so that something is computed."""
    random = Random(f"{number} {call}")
    share = random.choice((0.0, 0.2, 0.5, 0.9))
    size = lambda: random.choice(EDGES) if random.random() < share else random.choice(SMALL)
    x = np.arange(4, dtype=np.float32)
    rows = min(size(), (1 << 63) - 1)
    shape = (rows, 0) if random.random() < 0.5 else (0, rows)
    try:
        e = np.empty(shape if share else (random.choice(SMALL), random.choice(SMALL)), np.float32)
        e[...] = 1
    except ValueError:  # NumPy has no such array either
        e = np.empty((0, 3), np.float32)
    c = np.array([min(size(), (1 << 63) - 1) for _ in range(4)], np.int64)
    return [x, e, c, size(), size()]


# The child


def _run(numbers: Iterable[int], calls: int) -> None:
    """Runs programs and writes a line of JSON when each call begins and when it has ended."""
    import raido as rd

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: the child ends with its parent
    for number in numbers:
        source, file = draw_program(number), f"<program {number}>"
        names: dict[str, Any] = {"rd": rd}
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        _say(program=number)
        exec(compile(source, file, "exec"), names)
        algorithm = rd.algorithm(names["program"])
        _outcome(algorithm.compile)  # which may take any memory
        for call in range(calls):
            _say(call=call)
            _say(done=_compare(algorithm, draw_arguments(number, call), ".shape" in source.splitlines()[-1]))


def _compare(algorithm: Any, arguments: list[Any], only_shape: bool) -> str:
    """What became of a call: "answer", the name of an error, or "WRONG" and why."""
    outcomes = []
    for run in (algorithm, algorithm.interpret):
        status = Path("/proc/self/status").read_text().splitlines()
        used = next(int(line.split()[1]) for line in status if "VmSize" in line) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        outcomes.append(_outcome(run, arguments))
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    (error, value), (expected_error, expected) = outcomes
    for one in (error, expected_error):
        if one.startswith("WRONG"):
            return one
    if error == expected_error == "answer":
        same = np.shape(value) == np.shape(expected) and np.array_equal(value, expected, equal_nan=True)
        return (
            "answer" if same else f"WRONG: {np.shape(value)} {value!r:.200}, not {np.shape(expected)} {expected!r:.200}"
        )
    if error == "answer" and expected_error != "MemoryError":
        return f"WRONG: {np.shape(value)} {value!r:.200}, not {expected_error}"
    if error == "ArrayTooLarge" and only_shape:
        return error  # the interpreter need not make an array to know its shape
    if expected_error == "answer" and error != "MemoryError":
        return f"WRONG: {error}, not {np.shape(expected)} {expected!r:.200}"
    return error


def _outcome(run: Any, arguments: Sequence[Any] = ()) -> tuple[str, Any]:
    import raido as rd

    try:
        return "answer", run(*arguments)
    except rd.CompileError as error:
        return f"WRONG: {error!r:.500}", None
    except (rd.RaidoError, MemoryError) as error:
        lines = str(error).splitlines()
        if not lines or len(lines) > 6:
            return f"WRONG: {error!r:.500}", None
        return _kind(error), None
    except Exception as error:
        return f"WRONG: {_kind(error)}: {error!s:.500}", None


def _kind(error: Exception) -> str:
    """The name of an error's class; arrays that are too large are told apart from other sizes that do not fit."""
    from raido.algo.errors import ArrayTooLarge

    return "ArrayTooLarge" if isinstance(error, ArrayTooLarge) else type(error).__name__


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


# The parent


def attack(numbers: Iterable[int], calls: int = CALLS) -> Iterator[tuple[int, int, str]]:
    """(program, call, outcome) of every call; one that ended the child is "DEAD" and the signal, and the child starts again after it."""
    rest = list(numbers)
    while rest:
        command = [sys.executable, __file__, "--child", json.dumps(rest), "--calls", str(calls)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None and child.stderr is not None
            program, call, open_ = rest[0], -1, True
            for line in child.stdout:
                told = json.loads(line)
                program, call = told.get("program", program), told.get("call", -1 if "program" in told else call)
                open_ = "done" not in told
                if not open_:
                    yield program, call, told["done"]
            errors = child.stderr.read()
            status = child.wait()
        if not status:
            return
        yield program, call, f"DEAD: status {status}\n{errors[-2000:]}"
        rest = rest[rest.index(program) + 1 :]


def describe(number: int, call: int) -> str:
    """A call as a person would repeat it."""
    shown = [
        f"{a.shape} {a.dtype}" if a.size > 8 or not a.size else repr(a)
        for a in map(np.asarray, draw_arguments(number, call))
    ]
    return f"program {number}, call {call}:\n{draw_program(number)}arguments: {', '.join(shown)}"


def main() -> None:
    """The long run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the first program's number")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _run(json.loads(options.child), options.calls)
        return
    seen: dict[str, int] = {}
    programs = -(-options.calls // CALLS)
    for number, call, outcome in attack(range(options.first, options.first + programs)):
        kind = outcome.split(":")[0]
        seen[kind] = seen.get(kind, 0) + 1
        if kind in ("WRONG", "DEAD"):
            print(f"{describe(number, call)}\n{outcome}\n", flush=True)
    print(
        f"{sum(seen.values())} calls of {programs} programs:",
        ", ".join(f"{n} {kind}" for kind, n in sorted(seen.items())),
    )


if __name__ == "__main__":
    main()
