"""Random programs drawn without regard to sizes: a statement stays if it traces.

Other grammars know the dimensions of all their values, so arrays of sizes that data decides are results there and nothing else. Here a
statement is proposed, traced and interpreted; raido's own refusal drops it, and any other exception is a counter-example. So arrays of
sizes that data decides, empty ones and those of rank 3 to 5 go through everything: arithmetic with others, stencils, scans, products,
functions of rows, loops that shrink their state.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import raido as rd

SIZES = (0, 1, 2, 2, 3, 3, 4, 5, 7, 9)
MOST_ELEMENTS = 300
TRIES = 30  # statements proposed for each that is wanted
DTYPES = ("i64", "i64", "i32", "f64", "f32", "f64", "u8", "i8", "bool_")


class Internal(AssertionError):
    """A program that ends in an exception that is not one of raido's own."""


@dataclass(frozen=True)
class Name:
    """A variable in scope: its rank, and whether it is boolean."""

    source: str
    rank: int
    boolean: bool = False


def small_input(dtype: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """Small whole numbers, so that sums of them are exact in every type and any order."""
    rng = np.random.default_rng(seed)
    if dtype == "bool_":
        return rng.random(tuple(shape)) < 0.5
    low = 0 if dtype[0] == "u" else -4
    name = {"i": "int", "u": "uint", "f": "float"}[dtype[0]] + dtype[1:]
    return np.asarray(rng.integers(low, 6, tuple(shape))).astype(name)


class OpenWriter:
    """Writes one program, a statement at a time."""

    may_fault = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"raido open {seed}")
        self.fresh = 0
        self.scope: list[Name] = []
        self.heads: list[str] = []
        self.given: list[str] = []
        self.lines: list[str] = []
        self.results: list[str] = []
        self.floats: list[bool] = []

    # Statements

    def write(self, statements: int) -> None:
        self.declare()
        for k in range(statements):
            self.random = Random(f"raido open {self.seed} {k}")
            for _ in range(TRIES):
                source, _ = self.expression(self.scope, 2)
                named = f'.named("stage_{k}")' if self.random.random() < 0.3 else ""
                made = self.tried([*self.lines, f"t{k} = ({source}){named}"], [f"t{k}"])
                if made is None or made[0].size > MOST_ELEMENTS or not _is_tame(made[0]):
                    continue
                self.lines.append(f"t{k} = ({source}){named}")
                self.scope.append(Name(f"t{k}", made[0].ndim, made[0].dtype == bool))
                break
        self.random = Random(f"raido open {self.seed} results")
        made_names = [name.source for name in self.scope if name.source[0] == "t"] or [self.scope[0].source]
        self.results = made_names[-1:] + [name for name in made_names[:-1] if self.random.random() < 0.4]
        found = self.tried(self.lines, self.results)
        assert found is not None
        self.floats = [value.dtype.kind == "f" for value in found]

    def declare(self) -> None:
        random = self.random
        sizes = {name: random.choice(SIZES) for name in ("n", "m", "k", "l")}
        while len(self.scope) < random.randint(2, 4):
            rank = random.choice((1, 1, 2, 2, 2, 3, 3, 4, 5))
            dims = [random.choice(("n", "n", "m", "k", "l", "3", "1")) for _ in range(rank)]
            actual = [sizes.get(d) if d in sizes else int(d) for d in dims]
            if np.prod([max(a or 0, 1) for a in actual]) > MOST_ELEMENTS:
                continue
            dtype, name = random.choice(DTYPES), "abcd"[len(self.scope)]
            shape = ", ".join(d if d.isdigit() else f'"{d}"' for d in dims)
            self.heads.append(f"{name}: rd.{dtype}[{shape}]")
            self.given.append(f"small_input({dtype!r}, {tuple(actual)}, {self.seed % 2**31 + len(self.scope)})")
            self.scope.append(Name(name, rank, dtype == "bool_"))

    def tried(self, lines: Sequence[str], results: Sequence[str]) -> list[np.ndarray] | None:
        """What the program gives with these lines and results; None where raido refuses it, or it fails by the language's rules."""
        source = self.text(lines, results)
        file = f"<open {self.seed}>"
        try:
            program, arguments = run_source(source, file)
            result = program.interpret(*arguments)
        except rd.RaidoError:
            return None
        except Exception as error:
            if innermost_file(error) == file:
                return None  # Python's own, of a tuple of sizes or a lambda's arguments
            raise Internal(f"seed {self.seed}: {type(error).__name__}: {error}\n{source}") from error
        return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]

    def text(self, lines: Sequence[str], results: Sequence[str]) -> str:
        body = "\n".join(f"    {line}" for line in [*lines, f"return {', '.join(results)}"])
        head = f"@rd.algorithm\ndef program({', '.join(self.heads)}):\n"
        return f"{head}{body}\n\n\narguments = [{', '.join(self.given)}]\n"

    def source(self) -> str:
        return self.text(self.lines, self.results)

    def exactness(self) -> tuple[bool, ...]:
        return tuple(not floating for floating in self.floats)

    # Expressions

    def new(self, letter: str = "v") -> str:
        self.fresh += 1
        return f"{letter}{self.fresh}"

    def pick(self, scope: Sequence[Name], least: int = 0, most: int = 5) -> Name:
        """A variable, the later ones more often."""
        fitting = [name for name in scope if least <= name.rank <= most] or list(scope)
        return self.random.choices(fitting, range(1, len(fitting) + 1))[0]

    def operand(self, scope: Sequence[Name], depth: int, least: int = 0) -> tuple[str, int]:
        """An array: a variable, or an expression."""
        if depth > 0 and self.random.random() < 0.5:
            return self.expression(scope, depth - 1)
        name = self.pick(scope, least)
        return (f"({name.source} + 0)" if name.boolean else name.source), name.rank

    def expression(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        """Source that may make an array, and the rank that it probably has."""
        forms: list[Callable[..., tuple[str, int]]] = [
            *(self.pointwise, self.pointwise, self.moved, self.moved, self.joined, self.decided, self.decided),
            *(self.folded, self.scanned, self.windowed, self.multiplied, self.gathered, self.written),
            *(
                self.mapped,
                self.mapped,
                self.looped,
                self.looped,
                self.branched,
                self.placed,
                self.tabled,
                self.grouped,
            ),
        ]
        return self.random.choice(forms)(scope, depth)

    def choose(self, *forms: str) -> str:
        return self.random.choice(forms)

    def pointwise(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), (y, s) = self.operand(scope, depth), self.operand(scope, depth)
        form = self.choose(
            f"({x} + {y})",
            f"({x} - 2 * {y})",
            f"rd.clip({x} * {y}, -99, 99)",
            f"rd.minimum({x}, {y})",
            f"rd.where({x} > {y}, {x}, {y})",
            f"({x} // 2 + {y} % 3)",
            f"rd.abs({x})",
            f"rd.clip({x}, -9, 9).astype(rd.{self.choose('i64', 'i32', 'f64', 'i8', 'f32')})",
            f"({x} / 2)",
            f"(({x} + 1) // ({y} % 3 + 4))",
        )
        return form, max(r, s)

    def moved(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        x, r = self.operand(scope, depth, 1)
        axis = self.random.randrange(max(r, 1))
        forms = [
            (f"{x}[::-1]", r),
            (f"{x}[1:]", r),
            (f"{x}[:-1]", r),
            (f"{x}[:2]", r),
            (f"{x}[0:0]", r),
            (f"{x}[..., 0]", r - 1),
            (f"{x}[0]", r - 1),
            (f"{x}[-1]", r - 1),
            (f"{x}[None]", r + 1),
            (f"{x}[:, None]", r + 1),
            (f"{x}[..., ::2]", r),
            (f"{x}.T", r),
            (f"{x}.reshape(-1)", 1),
            (f"{x}.reshape(-1, {x}.shape[0])", 2),
            (f"rd.flatten({x})", 1),
            (f"rd.roll({x}, {self.choose('1', '-2')}, axis={axis})", r),
            (f"rd.shift({x}, {self.choose('1', '-2', '9')}, fill=2, axis={axis})", r),
            (f"rd.pad({x}, ({self.choose('0', '1')}, 2), mode={self.choose(*MODES)})", r),
            (f"rd.repeat({x}, 2, axis={axis})", r),
            (f"rd.replicate({self.size(scope)}, {x})", r + 1),
        ]
        return self.random.choice(forms)

    def size(self, scope: Sequence[Name]) -> str:
        """A size: of some array, a literal, or one that data decide."""
        x = self.pick(scope, 1)
        return self.choose(
            f"{x.source}.shape[0]",
            f"{x.source}.shape[-1]",
            "2",
            f"(rd.sum({x.source} + 0) % 5).astype(rd.i64)",
            f"rd.minimum({x.source}.shape[0], 3)",
        )

    def joined(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), (y, s) = self.operand(scope, depth, 1), self.operand(scope, depth, 1)
        axis = self.random.randrange(max(r, 1))
        return self.random.choice(
            (
                (f"rd.concat([{x}, {y}], axis={axis})", r),
                (f"rd.concat([{x}, {x}[:1], {y}], axis=0)", r),
                (f"rd.stack([{x}, {y}], axis={axis})", max(r, s) + 1),
                (f"rd.concat([rd.flatten({x}), rd.flatten({y})])", 1),
                (f"rd.array([rd.sum({x}), rd.sum({y}), {self.scalar(scope)}])", 1),
            )
        )

    def scalar(self, scope: Sequence[Name]) -> str:
        x = self.pick(scope, 1)
        return self.choose("1", "2", f"rd.sum({x.source} + 0)", f"rd.max({x.source} + 0, initial=0)")

    def decided(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        """Arrays of sizes that data decide."""
        (x, r), v = self.operand(scope, depth, 1), self.new()
        test = f"{v} > 0" if r == 1 else f"rd.sum({v}) > 0"
        low, high = self.new("l"), self.new("h")
        return self.random.choice(
            (
                (f"{x}[{x} > 0]", 1),
                (f"rd.filter(lambda {v}: {test}, {x})", r),
                (f"rd.partition(lambda {v}: {test}, {x})[1]", r),
                (f"rd.unique({x})", 1),
                (f"rd.unique({x}, return_counts=True)[1]", 1),
                (f"rd.iota({self.size(scope)})", 1),
                (f"rd.repeat({x}, rd.abs(rd.iota({x}.shape[0])) % 3)", r),
                (f"(lambda {low}, {high}: {x}[{low}:{high}])(0, rd.minimum({x}.shape[0], {self.size(scope)}))", r),
                (f"rd.tabulate(({self.size(scope)}, 2), lambda {v}, {low}: {v} * 3 - {low})", 2),
            )
        )

    def folded(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        x, r = self.operand(scope, depth, 1)
        axis, p, q = self.random.randrange(max(r, 1)), self.new("p"), self.new("q")
        return self.random.choice(
            (
                (f"rd.sum({x}, axis={axis})", r - 1),
                (f"rd.sum({x}, axis={axis}, keepdims=True)", r),
                (f"rd.sum({x})", 0),
                (f"rd.max({x}, axis={axis}, initial=-9)", r - 1),
                (f"rd.any({x} > 1, axis={axis})", r - 1),
                (f"rd.reduce(rd.maximum, -9, {x}, axis={axis})", r - 1),
                (f"rd.reduce(lambda {p}, {q}: rd.where({q} == 0, {p}, {q}), 0, {x}, axis={axis})", r - 1),
                (f"rd.argmax(rd.concat([{x}, {x}[:1]]), axis={axis})", r - 1),
            )
        )

    def scanned(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        x, r = self.operand(scope, depth, 1)
        axis, p, q = self.random.randrange(max(r, 1)), self.new("p"), self.new("q")
        more = self.choose("", ", exclusive=True")
        return self.random.choice(
            (
                (f"rd.clip(rd.scan(rd.add, 0, {x}, axis={axis}{more}), -99, 99)", r),
                (f"rd.scan(rd.maximum, 1, {x}, axis={axis}{more})", r),
                (f"rd.scan(lambda {p}, {q}: rd.where({q} == 0, {p}, {q}), 0, {x}, axis={axis}{more})", r),
                (f"rd.sort({x}, axis={axis})", r),
                (f"rd.argsort({x}, axis={axis})", r),
            )
        )

    def windowed(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), p = self.operand(scope, depth, 1), self.new("p")
        offsets = [", ".join(str(self.random.randint(-2, 2)) for _ in range(max(r, 1))) for _ in range(2)]
        boundary = self.choose('"clamp"', '"wrap"', '"mirror"', '"symmetric"', '"valid"', "rd.constant(2)")
        stride = self.choose("", "", ", stride=2")
        body = self.choose(
            f"{p}[{offsets[0]}] + {p}[{offsets[1]}]", f"rd.maximum({p}[{offsets[0]}], {p}[{offsets[1]}])"
        )
        return f"rd.stencil(lambda {p}: {body}, {x}, boundary={boundary}{stride})", r

    def multiplied(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), (y, s) = self.operand(scope, depth, 1), self.operand(scope, depth, 1)
        form = self.choose(f"{x} @ {y}", f"{x} @ {x}.T", f"{x}.T @ {y}", f"rd.dot({x}, {y})")
        return f"rd.clip({form}, -99, 99)", max(r + s - 2, 0)

    def gathered(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), (y, s) = self.operand(scope, depth, 1), self.operand(scope, depth)
        index = f"rd.clip({y}, -9, 9).astype(rd.i64)"
        mode = self.choose('"clamp"', '"wrap"', "rd.constant(3)")
        inside = f"{x}[{index} % {x}.shape[0]]"
        return self.choose(f"rd.gather({x}, {index}, mode={mode})", inside, inside), r + s - 1

    def written(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), (y, _), z = self.operand(scope, depth, 1), self.operand(scope, depth, 1), self.pick(scope, 1)
        index = f"(rd.flatten({z.source} + 0) % 4).astype(rd.i64)"
        values = f"rd.flatten({z.source} + 0).astype({x}.dtype)"
        return self.random.choice(
            (
                (f"rd.scatter(rd.flatten({x}), {index}, {values})", 1),
                (
                    f"rd.reduce_by_index(rd.flatten({x}), {self.choose('rd.add, 0', 'rd.minimum, 99')}, {index}, {values})",
                    1,
                ),
                (f"{x}.at[0].set({self.scalar(scope)})", r),
                (f"{x}.at[1:].add({y})", r),
                (f"{x}.at[:1].set({x}[-1:])", r),
                (f"rd.bincount({index}, {self.size(scope)})", 1),
            )
        )

    def grouped(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        x, _ = self.operand(scope, depth, 1)
        form = self.choose("rd.segmented_reduce", "rd.segmented_scan")
        total = f"{x}.shape[0]"
        cuts = self.choose(f"rd.array([0, rd.minimum(2, {total}), {total}])", f"rd.minimum(rd.iota(4) * 2, {total})")
        return f"{form}({self.choose('rd.add', 'rd.maximum')}, 0, {x}, {cuts})", 1

    def tabled(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        i, j = self.new("i"), self.new("j")
        inner = [*scope, Name(i, 0), Name(j, 0)]
        body, r = self.operand(inner, depth)
        return f"rd.tabulate(({self.size(scope)}, {self.choose('2', '3')}), lambda {i}, {j}: {body} + {i} - {j})", 2 + r

    # Functions of elements and rows, loops, branches

    def mapped(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), v = self.operand(scope, depth, 1), self.new()
        inner = [*scope, Name(v, max(r - 1, 0)), Name(v, max(r - 1, 0))]
        body, s = self.expression(inner, depth - 1 if depth else 0) if depth >= 0 else (v, 0)
        if self.random.random() < 0.4:
            body, s = f"rd.sum({body})", 0
        if self.random.random() < 0.3:
            y, w = self.pick(scope, 1), self.new()
            return f"rd.map(lambda {v}, {w}: {body} + rd.sum({w} + 0), {x}, {y.source})", 1 + s
        return f"rd.map(lambda {v}: {body}, {x})", 1 + s

    def looped(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), s, i = self.operand(scope, depth, 0), self.new("s"), self.new("i")
        inner = [*scope, Name(s, r), Name(s, r), Name(s, r), Name(i, 0)]
        body, _ = self.expression(inner, depth - 1 if depth else 0)
        count = self.choose("0", "1", "3", f"rd.minimum({self.size(scope)}, 3)")
        half = self.choose(f"{s}[1:]", f"{s}[:-1]", f"{s}[1:][::-1]")
        return self.random.choice(
            (
                (f"rd.loop({count}, lambda {i}, {s}: {body}, {x})", r),
                (f"rd.loop({count}, lambda {i}, {s}: rd.clip({body}, -99, 99).astype({s}.dtype), {x})", r),
                (f"rd.loop({count}, lambda {i}, {s}: {s}.at[{i}:].set(0), {x})", r),
                (f"rd.loop(rd.minimum(3, {x}.shape[0]), lambda {i}, {s}: {s}.at[{i}].add({s}[0]), {x})", r),
                (f"rd.while_loop(lambda {s}: {s}.shape[0] > 1, lambda {s}: {half}, {x})", r),
                (f"rd.while_loop(lambda {s}: {s}.shape[0] > 2, lambda {s}: {s}[::2] + 1, {x})", r),
                (f"rd.while_loop(lambda {s}: {s}.shape[0] < 4, lambda {s}: rd.pad({s}, (0, 1)), {x}[:1])", r),
                (f"rd.loop({count}, lambda {i}, {s}: rd.filter(lambda {i}e: rd.sum({i}e) > 0, {s}), {x})", r),
            )
        )

    def branched(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        (x, r), (y, _) = self.operand(scope, depth), self.operand(scope, depth)
        test = self.choose(f"{self.scalar(scope)} > 1", f"rd.sum({x}) > 0")
        return self.choose(
            f"rd.cond({test}, lambda: {x}, lambda: {y})",
            f"rd.cond({test}, lambda: {x}, lambda: rd.abs({x} - 1))",
            f"rd.cond({test}, lambda: {x}[1:], lambda: {x})",
        ), r

    def placed(self, scope: Sequence[Name], depth: int) -> tuple[str, int]:
        """Functions of rows with loops of their own."""
        (x, r), v, s, i = self.operand(scope, depth, 2), self.new(), self.new("s"), self.new("i")
        inner = [Name(s, r - 1), Name(v, r - 1), Name(i, 0), *scope]
        body, _ = self.operand(inner, depth)
        last = self.choose("", "[0]", "[-1]", "[:1]")
        shrunk = f"rd.while_loop(lambda {s}: {s}.shape[0] > 1, lambda {s}: {s}[1:], {v})[0]"
        return self.random.choice(
            (
                (f"rd.map(lambda {v}: {shrunk}, {x})", r - 1),
                (f"rd.map(lambda {v}: rd.sum(rd.unique({v})), {x})", 1),
                (f"rd.map(lambda {v}: rd.sum({v}[{v} > 0] + 1), {x})", 1),
                (f"rd.map(lambda {v}: rd.loop(2, lambda {i}, {s}: {s} + {body}, {v}){last}, {x})", r),
                (f"rd.map(lambda {v}: rd.scan(rd.add, 0, {v})[::-1]{last}, {x})", r),
                (f"rd.map(lambda {v}: rd.sort({v}){last}, {x})", r),
                (f"rd.map(lambda {v}: rd.cond(rd.sum({v}) > 0, lambda: {v}, lambda: -{v}){last}, {x})", r),
                (f"rd.map(lambda {v}: rd.map(lambda {s}: rd.sum({s}) + rd.sum({body} + 0), {v}), {x})", 2),
                (f"rd.map(lambda {v}: rd.sum(rd.filter(lambda {s}: {s} > 1, rd.flatten({v}))), {x})", 1),
                (
                    f"rd.map(lambda {v}: rd.loop({v}.shape[0], lambda {i}, {s}: {s}.at[{i}].add({s}[0]), {v}){last}, {x})",
                    r,
                ),
            )
        )


MODES = ('"constant"', '"edge"', '"reflect"', '"symmetric"', '"wrap"')


def run_source(source: str, file: str) -> tuple[Any, list[Any]]:
    """The algorithm and the arguments that a program's source defines."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"rd": rd, "np": np, "small_input": small_input}
    exec(compile(source, file, "exec"), names)
    return names["program"], names["arguments"]


def innermost_file(error: Exception) -> str:
    """The file of the line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else trace.tb_frame.f_code.co_filename


def _is_tame(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fi" or bool(np.isfinite(value).all() and (np.abs(value.astype(float)) < 1e5).all())


def open_writer(seed: int) -> OpenWriter:
    """The writer for program number `seed`."""
    return OpenWriter(seed)
