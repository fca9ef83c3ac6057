"""Random programs through the public front end, for the law that every way to run a program gives the same bits.

`random_program(seed, statements)` is a function of its arguments alone; fewer statements give a prefix of the same program, so a
failure is narrowed by lowering `statements`. A program is Python source (`.source` rebuilds it, inputs included; tracebacks
show its lines). Programs terminate and are exact under any grouping of their reductions, because float sums are taken of small
whole numbers, except results whose flag in `.exact` is false. They fault only where `.may_fault` says so.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal, TypeAlias

import numpy as np
from random_expressions import FLOATS, INTEGERS, Dim, ExpressionWriter, Value, numpy_name

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33)
MOST_ELEMENTS = 400  # of an array: the interpreters of nests take them one by one
Grammar: TypeAlias = Literal["plain", "wide", "forms", "full", "whole"]
BOUNDARIES = ("clamp", "wrap", "mirror", "symmetric", "constant")


@dataclass
class RandomProgram:
    """A program and arguments for it."""

    seed: int
    statements: int
    source: str
    algorithm: Any
    arguments: list[Any]
    exact: tuple[bool, ...]
    may_fault: bool = False
    names: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return f"random_program({self.seed}, {self.statements}):\n{self.source}"


def make_input(dtype: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """An array with ordinary values and a few extremes."""
    rng = np.random.default_rng(seed)
    shape = tuple(shape)
    if dtype == "bool_":
        return rng.random(shape) < 0.5
    name = numpy_name(dtype)
    if dtype[0] == "f":
        values = np.asarray(np.round(rng.normal(0, 4, shape), 2)).astype(name)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(name).max, np.finfo(name).tiny], name)
    else:
        info = np.iinfo(name)
        values = np.asarray(rng.integers(max(info.min, -20), 20, shape)).astype(name)
        special = np.array([info.min, info.max, 0, 1, info.max // 2], name)
    odd = rng.random(shape) < 0.04
    return np.asarray(np.where(odd, rng.choice(special, shape), values))


def random_program(seed: int, statements: int = 4, grammar: Grammar = "plain") -> RandomProgram:
    """Program number `seed` of a grammar, with that many statements.

    "wide" adds what is in `random_wide` to the plain grammar, "forms" what is in `random_forms`, "full" both and `random_more_forms`,
    "whole" to that `random_indexing` and, of parameters and results, `random_signatures`.
    """
    import raido as rd

    if grammar == "wide":
        from random_wide import wide_writer as writer_of
    elif grammar == "forms":
        from random_forms import form_writer as writer_of
    elif grammar == "full":
        from random_more_forms import full_writer as writer_of
    elif grammar == "whole":
        from random_signatures import whole_writer as writer_of
    else:
        writer_of = plain_writer
    writer: Writer = writer_of(seed)
    writer.write(statements)
    source = writer.source()
    file = f"<random_program({seed}, {statements}, {grammar})>"
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    names: dict[str, Any] = {"rd": rd, "np": np, "make_input": make_input}
    exec(compile(source, file, "exec"), names)
    return RandomProgram(
        seed, statements, source, names["program"], names["arguments"], writer.exactness(), writer.may_fault
    )


class Writer(ExpressionWriter):
    """Writes one program. `scope` lists what an expression may use; every production returns a Value, or None if it does not fit."""

    decorator = "@rd.algorithm"

    def __init__(self, random: Random, seed: int) -> None:
        self.random = random
        self.seed = seed
        self.lines: list[str] = []
        self.scope: list[Value] = []
        self.parameters: list[Value] = []
        self.results: list[Value] = []
        self.may_fault = False
        self.fresh = 0
        self.annotations: list[str] = []

    # The program as a whole

    def write(self, statements: int) -> None:
        random = self.random
        small = random.random() < 0.3
        pool = SIZES[:6] if small else SIZES
        sizes = {name: random.choice(pool[1:] if random.random() < 0.85 else pool) for name in ("n", "m", "k")}
        dims = [Dim(name, size) for name, size in sizes.items()] + [Dim("3", 3)]
        for k in range(random.randint(1, 3)):
            rank = random.choice((1, 1, 2, 2, 2, 3))
            chosen = tuple(random.choice(dims) for _ in range(rank))
            if k and random.random() < 0.5:
                chosen = self.parameters[0].dims
            while np.prod([d.actual for d in chosen]) > MOST_ELEMENTS:
                chosen = chosen[1:]
            dtype = random.choice((*FLOATS[1:], *FLOATS[1:], *FLOATS, *INTEGERS, "i32", "i64", "bool_"))
            self.parameters.append(Value("abc"[k], dtype, chosen))
        for value in self.parameters:
            shape = ", ".join(d.token if d.token.isdigit() else f'"{d.token}"' for d in value.dims)
            self.annotations.append(f"{value.source}: rd.{value.dtype}[{shape}]")
        if random.random() < 0.3:
            self.parameters.append(Value("s", random.choice(("i32", "f32", "i64"))))
            self.annotations.append(f"s: rd.{self.parameters[-1].dtype}")
        self.scope = list(self.parameters)
        self.declare(sizes)
        made: list[Value] = []
        faulting: list[Value] = []
        for k in range(statements):
            self.random = Random(f"raido {self.seed} {k}")
            before = self.may_fault
            made += (new := self.statement(k))
            faulting += new if self.may_fault and not before else []
        self.random = Random(f"raido {self.seed} results")
        kept = [v for v in made[:-1] if not v.exact or v.kept or self.random.random() < 0.3 or v in faulting]
        self.results = made[-1:] + kept  # what may fault is a result, so that every element of it is needed

    def declare(self, sizes: Mapping[str, int]) -> None:
        """Declares more parameters than arrays and scalars, in terms of the sizes; the plain grammar has none."""

    def source(self) -> str:
        body = "\n".join(f"    {line}" for line in [*self.lines, f"return {self.returned()}"])
        head = f"{self.decorator}\ndef program({', '.join(self.annotations)}):\n"
        return f"{head}{body}\n\n\narguments = [{', '.join(self.arguments())}]\n"

    def returned(self) -> str:
        """What follows `return`: all results."""
        return ", ".join(v.source for v in self.results)

    def exactness(self) -> tuple[bool, ...]:
        """Of each array that is returned, whether its bits do not depend on grouping."""
        return tuple(value.exact for value in self.results)

    def arguments(self) -> list[str]:
        """An expression for each argument."""
        return [
            f"make_input({v.dtype!r}, {tuple(d.actual for d in v.dims)}, {self.seed % 2**31 + k})"
            for k, v in enumerate(self.parameters)
        ]

    def statement(self, k: int) -> list[Value]:
        """One assignment; what it makes joins the scope, unless its bits depend on grouping: then it is a result and no more."""
        if self.random.random() < 0.08:
            several = self.several(self.scope)
            if several is not None:
                names = [f"t{k}_{i}" for i in range(len(several[1]))]
                self.lines.append(f"{', '.join(names)} = {several[0]}")
                made = [Value(name, v.dtype, v.dims) for name, v in zip(names, several[1], strict=True)]
                self.scope += made
                return made
        value = self.production(self.scope)
        if value.kept:
            self.lines.append(f"t{k} = {value.source}")
            return [replace(value, source=f"t{k}")]
        named = f'.named("stage_{k}")' if value.rank and self.random.random() < 0.4 else ""
        source = f"({value.source}){named}" if named else value.source
        self.lines.append(f"t{k} = {source}")
        made = Value(f"t{k}", value.dtype, value.dims, value.exact)
        if value.exact:
            self.scope.append(made)
        return [made]

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        """What an array expression can be, with weights."""
        return [
            (self.pointwise, 5),
            (self.mapped, 4 if depth < 2 else 0),
            (self.tabulated, 2),
            (self.reduced, 4),
            (self.custom_reduced, 2),
            (self.stencilled, 5),
            (self.gathered, 2),
            (self.moved, 4),
            (self.scalar_control, 3),
            (self.array_control, 2 if depth == 0 else 0),
            (self.matmul, 1),
            *([(self.inexact_sum, 1)] if depth == 0 else []),
        ]

    def production(self, scope: Sequence[Value], depth: int = 0) -> Value:
        """Some array expression over the scope."""
        choices = self.productions(depth)
        names, weights = zip(*choices, strict=True)
        for _ in range(20):
            (produce,) = self.random.choices(names, weights)
            value = produce(scope, depth)
            if value is not None and value.elements <= 2 * MOST_ELEMENTS:
                return value
        return self.pointwise(scope, depth)

    # Choosing operands

    def pick(self, scope: Sequence[Value], ranks: Sequence[int] = (1, 2, 3), dtypes: str = "biuf") -> Value | None:
        """A variable of the scope, the later ones more often."""
        fitting = [v for v in scope if v.rank in ranks and v.dtype[0] in dtypes and v.exact]
        if not fitting:
            return None
        weights = [1 + 2 * i for i in range(len(fitting))]
        return self.random.choices(fitting, weights)[0]

    def number(self, scope: Sequence[Value], ranks: Sequence[int] = (1, 2, 3)) -> Value | None:
        """As `pick`, never boolean."""
        value = self.pick(scope, ranks)
        return self.cast(value, "i32") if value is not None and value.dtype == "bool_" else value

    def alike(self, x: Value, scope: Sequence[Value]) -> list[Value]:
        """What broadcasts with `x` without growing it: arrays of its dims, and scalars."""
        return [x, x, *(v for v in scope if v.exact and v.dims in (x.dims, ()))]

    def parameters_of(self, count: int) -> list[str]:
        self.fresh += count
        return [f"v{self.fresh - i}" for i in range(count)]

    # Productions

    def pointwise(self, scope: Sequence[Value], depth: int) -> Value:
        x = self.pick(scope) or self.pick(scope, (0,))
        assert x is not None
        value = self.expression(self.alike(x, scope), self.random.randint(1, 3))
        if x.dims and not value.dims:
            value = self.expression([x], 2)
        return value

    def elements(self, scope: Sequence[Value]) -> tuple[list[Value], list[Value]] | None:
        """One to three arrays of a common first dimension, and their elements as parameters of a function."""
        x = self.pick(scope)
        if x is None:
            return None
        mates = [v for v in scope if v.rank and v.exact and v.dims[0] == x.dims[0]]
        arrays = [x, *self.random.sample(mates, min(len(mates), self.random.choice((0, 0, 1, 2))))]
        names = self.parameters_of(len(arrays))
        return arrays, [Value(name, v.dtype, v.dims[1:]) for name, v in zip(names, arrays, strict=True)]

    def mapped(self, scope: Sequence[Value], depth: int) -> Value | None:
        chosen = self.elements(scope)
        if chosen is None:
            return None
        arrays, inner = chosen
        outer = [v for v in scope if v.rank == 0] + ([v for v in scope if v.rank] if self.random.random() < 0.2 else [])
        rows = [v for v in inner if v.rank]
        if rows:
            body = self.production([*outer, *inner], depth + 1)
            if body.elements * arrays[0].dims[0].actual > 2 * MOST_ELEMENTS or not body.exact:
                return None
        else:
            body = self.expression([*inner, *inner, *(v for v in outer if not v.rank)], 3)
        source = (
            f"rd.map(lambda {', '.join(v.source for v in inner)}: {body.source}, {', '.join(v.source for v in arrays)})"
        )
        return Value(source, body.dtype, (arrays[0].dims[0], *body.dims))

    def several(self, scope: Sequence[Value]) -> tuple[str, list[Value]] | None:
        x = self.pick(scope)
        if x is None:
            return None
        (name,) = self.parameters_of(1)
        element = Value(name, x.dtype)
        bodies = [self.expression([element], 2) for _ in range(2)]
        source = f"rd.elementwise(lambda {name}: ({bodies[0].source}, {bodies[1].source}), {x.source})"
        return source, [Value("", b.dtype, x.dims) for b in bodies]

    def tabulated(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope, (1, 2, 3))
        if x is None:
            return None
        names = self.parameters_of(x.rank)
        terms = [Value(f"rd.{self.random.choice(('i64', 'i32', 'f32'))}({n})", "") for n in names]
        terms = [Value(v.source, v.source[3:6]) for v in terms]
        order = list(range(x.rank))
        terms.append(Value(f"{x.source}[{', '.join(names)}]", x.dtype))
        for other in scope:
            if other.rank and all(d.actual for d in other.dims) and self.random.random() < 0.4:
                places = [f"({self.random.choice(names)} + {k}) % {other.source}.shape[{k}]" for k in range(other.rank)]
                terms.append(Value(f"{other.source}[{', '.join(places)}]", other.dtype))
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        shape = [f"{x.source}.shape[{k}]" for k in order]
        body = self.expression(terms, 3)
        source = f"rd.tabulate(({', '.join(shape)},), lambda {', '.join(names[k] for k in order)}: {body.source})"
        return Value(source, body.dtype, tuple(x.dims[k] for k in order))

    def whole(self, x: Value) -> Value:
        """Small whole numbers of the same type, so that sums are exact however they are grouped."""
        if x.dtype[0] != "f":
            return x
        bound = "1.0" if x.dtype == "f16" else "4.0"
        return Value(f"rd.rint(rd.clip({x.source}, -{bound}, {bound}))", x.dtype, x.dims)

    def reduced(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope)
        if x is None:
            return None
        axis = self.random.choice([None, *range(x.rank)])
        dims = () if axis is None else x.dims[:axis] + x.dims[axis + 1 :]
        empty = x.elements == 0
        name = self.random.choice(("sum", "sum", "min", "max", "argmin", "argmax", "any", "all"))
        if name in ("min", "max", "argmin", "argmax") and empty:
            return None
        if name in ("min", "max") and x.dtype[0] == "f":
            x = Value(f"({x.source} + 0.0)", x.dtype, x.dims)
        if name == "sum":
            x = self.whole(x)
        dtype = {"argmin": "i64", "argmax": "i64", "any": "bool_", "all": "bool_"}.get(name, x.dtype)
        if name == "sum" and dtype[0] != "f":
            dtype = "u64" if dtype[0] == "u" else "i64"
        argument = "" if axis is None else f", axis={axis}"
        if axis is not None and self.random.random() < 0.15 and name in ("sum", "max"):
            dims = (*x.dims[:axis], Dim("1", 1), *x.dims[axis + 1 :])
            argument += ", keepdims=True"
        return Value(f"rd.{name}({x.source}{argument})", dtype, dims)

    def custom_reduced(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope, (1, 2), "iu")
        if x is None:
            return None
        axis = self.random.randrange(x.rank)
        dims = x.dims[:axis]
        if axis < x.rank - 1:
            operator, neutral = self.random.choice((("rd.maximum", 0), ("rd.add", 0), ("lambda p, q: p * q", 1)))
            dims += x.dims[axis + 1 :]
            if operator == "rd.maximum" and x.dtype[0] == "i":
                operator = "rd.bitwise_xor"
            return Value(f"rd.reduce({operator}, {neutral}, {x.source}, axis={axis})", x.dtype, dims)
        pair = "lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])"
        if self.random.random() < 0.3:
            return Value(f"rd.reduce({pair}, (1, 0), {x.source}, {x.source}, axis={axis})[1]", x.dtype, dims)
        operators = (
            ("rd.add", 0),
            ("rd.multiply", 1),
            ("rd.bitwise_xor", 0),
            ("rd.bitwise_or", 0),
            ("lambda p, q: p + q + p * q", 0),
            ("lambda p, q: rd.where(q == 0, p, q)", 0),
        )
        operator, neutral = self.random.choice(operators)
        return Value(f"rd.reduce({operator}, {neutral}, {x.source}, axis={axis})", x.dtype, dims)

    def inexact_sum(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A float sum or dot product of ordinary values: only a result, since its bits depend on grouping."""
        x = self.pick(scope, (1, 2), "f")
        if x is None or x.dtype == "f16":
            return None
        bounded = f"rd.where(rd.isfinite({x.source}), rd.clip({x.source}, -10.0, 10.0), 1.0)"
        body = self.random.choice((bounded, f"{bounded} * {bounded}"))
        return Value(f"rd.sum({body}, axis=0)", x.dtype, x.dims[1:], exact=False)

    def matmul(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.number(scope, (2,))
        others = [v for v in scope if x and v.rank == 2 and v.dims[0] == x.dims[1] and v.dtype != "bool_"]
        if x is None or not others:
            return None
        y = self.cast(self.random.choice(others), x.dtype)
        x, y = self.whole(x), self.whole(y)
        return Value(f"({x.source} @ {y.source})", x.dtype, (x.dims[0], y.dims[1]))

    def boundary(self, dtype: str) -> str:
        name = self.random.choice(BOUNDARIES)
        if name != "constant":
            return f'"{name}"'
        return f"rd.constant({'1.5' if dtype[0] == 'f' else '7'})"

    def stencilled(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.number(scope)
        if x is None:
            return None
        random = self.random
        same = [v for v in scope if v.dims == x.dims and v.dtype != "bool_" and v.exact]
        others = random.sample(same, min(len(same), random.choice((0, 0, 1))))
        windows = self.parameters_of(1 + len(others))
        reach = random.choice((1, 1, 1, 2, 4))
        valid = random.random() < 0.15 and all(d.actual > 2 * reach for d in x.dims)
        terms: list[Value] = []
        for window, array in zip(windows, [x, *others], strict=True):
            for _ in range(random.randint(1, 4)):
                offset = ", ".join(str(random.choice((0, 0, random.randint(-reach, reach)))) for _ in range(x.rank))
                terms.append(Value(f"{window}[{offset}]", array.dtype))
        if valid:
            corners = [", ".join([str(sign * reach)] * x.rank) for sign in (-1, 1)]
            terms += [Value(f"{windows[0]}[{corner}]", x.dtype) for corner in corners]
        body = terms[0]
        for term in terms[1:]:
            left, right, dtype = self.unify(body, term)
            operators = ("+", "+", "-", "*") if dtype[0] != "f" else ("+", "+", "-", "* 0.5 +")
            body = Value(f"({left.source} {random.choice(operators)} {right.source})", dtype)
        if random.random() < 0.4:
            body = self.expression([body, *terms], 2)
        inputs = ", ".join(v.source for v in [x, *others])
        extra = ""
        invariants = [v for v in scope if v.dims == x.dims and v.exact] if not valid else []
        if invariants and random.random() < 0.15:
            (name,) = self.parameters_of(1)
            invariant = random.choice(invariants)
            windows.append(name)
            body = self.expression([body, Value(name, invariant.dtype)], 2)
            extra = f", invariant=({invariant.source},)"
        boundary = '"valid"' if valid else self.boundary(x.dtype if not others else "i")
        if not valid and x.rank > 1 and random.random() < 0.3:
            boundary = f"({', '.join(self.boundary('i') for _ in range(x.rank))})"
        if any(v.dtype[0] != "f" for v in [x, *others]):
            boundary = boundary.replace("1.5", "7")
        dims = tuple(Dim(f"{d.token}-{2 * reach}", d.actual - 2 * reach) for d in x.dims) if valid else x.dims
        source = f"rd.stencil(lambda {', '.join(windows)}: {body.source}, {inputs}, boundary={boundary}{extra})"
        if valid and not all(window in body.source for window in [windows[0] + "["]):
            return None
        if valid and not all(f"{windows[0]}[{corner}]" in body.source for corner in corners):
            return None
        return Value(source, body.dtype, dims)

    def gathered(self, scope: Sequence[Value], depth: int) -> Value | None:
        x, index = self.pick(scope), self.pick(scope, (1, 2), "iu")
        if x is None or index is None or x.dims[0].actual == 0 or x.elements == 0:
            return None
        if index.dtype == "u64":
            index = self.cast(index, "i64")
        wide = self.cast(index, "i64")
        dims = index.dims + x.dims[1:]
        choice = self.random.random()
        if choice < 0.4:
            return Value(f"{x.source}[{wide.source} % {x.dims[0].actual}]", x.dtype, dims)
        if choice < 0.5 and depth == 0 and not self.may_fault:
            self.may_fault = True
            return Value(f"{x.source}[{wide.source} & 3]", x.dtype, dims)
        mode = self.random.choice(("clamp", "wrap", "mirror", "symmetric"))
        return Value(f'rd.gather({x.source}, {wide.source}, mode="{mode}")', x.dtype, dims)

    def unknown(self, actual: int) -> Dim:
        """A dimension that nothing else is known to share."""
        self.fresh += 1
        return Dim(f"?{self.fresh}", actual)

    def moved(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope)
        if x is None:
            return None
        first, n, rest = x.dims[0], x.dims[0].actual, x.dims[1:]
        zero = "False" if x.dtype == "bool_" else "0"
        moves: list[Callable[[], Value]] = [
            lambda: Value(f"{x.source}.T", x.dtype, x.dims[::-1]),
            lambda: Value(f"rd.roll({x.source}, {self.random.randint(-3, 3)}, axis=0)", x.dtype, x.dims),
            lambda: Value(f"rd.shift({x.source}, {self.random.choice((-2, -1, 1, 2))}, fill={zero})", x.dtype, x.dims),
            lambda: Value(f"{x.source}[::-1]", x.dtype, x.dims),
            lambda: Value(f"rd.flatten({x.source})", x.dtype, (self.unknown(x.elements) if rest else first,)),
            lambda: Value(f"rd.concat([{x.source}, {x.source}])", x.dtype, (self.unknown(2 * n), *rest)),
            lambda: Value(f"rd.stack([{x.source}, {x.source}])", x.dtype, (Dim("2", 2), *x.dims)),
            lambda: Value(f"rd.replicate(3, {x.source})", x.dtype, (Dim("3", 3), *x.dims)),
            lambda: Value(f"{x.source}[1:]", x.dtype, (self.unknown(max(n - 1, 0)), *rest)),
            lambda: Value(f"{x.source}[::2]", x.dtype, (self.unknown((n + 1) // 2), *rest)),
        ]
        if n:
            moves.append(lambda: Value(f"{x.source}[{self.random.choice((0, -1))}]", x.dtype, rest))
        value = self.random.choice(moves)()
        return None if value.rank > 3 else value

    def scalar_control(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Loops and branches that differ from element to element."""
        x = self.number(scope)
        if x is None:
            return None
        v, k, s = self.parameters_of(3)
        element = Value(v, x.dtype)
        choice = self.random.random()
        if choice < 0.4:
            state = Value(s, x.dtype)
            body = self.cast(self.expression([state, state, element, Value(f"rd.i32({k})", "i32")], 2), x.dtype)
            count = str(self.random.randint(0, 5)) if self.random.random() < 0.5 else f"rd.i64({v}) & 7"
            form = f"rd.loop({count}, lambda {k}, {s}: {body.source}, {v})"
            dtype = x.dtype
        elif choice < 0.7:
            state = Value(f"{s}[0]", x.dtype)
            body = self.cast(self.expression([state, state, element], 2), x.dtype)
            limit = self.random.randint(1, 9)
            condition = f"rd.logical_and({s}[1] < {limit}, {s}[0] < {self.literal(x.dtype)})"
            form = f"rd.while_loop(lambda {s}: {condition}, lambda {s}: ({body.source}, {s}[1] + 1), ({v}, rd.i32(0)))"
            form, dtype = f"{form}[{self.random.choice((0, 1))}]", x.dtype
            if form.endswith("[1]"):
                dtype = "i32"
        else:
            test = self.comparison(element, [element], 2)
            then = self.cast(self.expression([element], 2), x.dtype)
            other = self.expression([element], 2)
            other = self.cast(other, x.dtype)
            form, dtype = f"rd.cond({test.source}, lambda: {then.source}, lambda: {other.source})", x.dtype
        return Value(f"rd.elementwise(lambda {v}: {form}, {x.source})", dtype, x.dims)

    def array_control(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Loops and branches over whole arrays."""
        x = self.number(scope)
        if x is None or x.source not in [v.source for v in scope]:
            return None
        t, s = self.parameters_of(2)
        state = Value(s, x.dtype, x.dims)
        inner = [v for v in scope if v.dims == x.dims]
        for _ in range(10):
            body = self.random.choice((self.stencilled, self.pointwise, self.mapped, self.moved))(
                [state, state, *inner], 1
            )
            if body is not None and body.dims == x.dims and re.search(rf"\b{s}\b", body.source):
                break
        else:
            return None
        body = self.cast(body, x.dtype)
        choice = self.random.random()
        if choice < 0.6:
            count = self.random.choice(("0", "1", "3", "4"))
            return Value(f"rd.loop({count}, lambda {t}, {s}: {body.source}, {x.source})", x.dtype, x.dims)
        if choice < 0.8:
            body = Value(re.sub(rf"\b{s}\b", f"{s}[0]", body.source), body.dtype)
            form = f"lambda {s}: {s}[1] < {self.random.randint(0, 4)}, lambda {s}: ({body.source}, {s}[1] + 1)"
            return Value(f"rd.while_loop({form}, ({x.source}, rd.i32(0)))[0]", x.dtype, x.dims)
        test = f"rd.sum({x.source} > {self.literal(x.dtype)}) > {self.random.randint(0, 3)}"
        body = re.sub(rf"\b{s}\b", x.source, body.source)
        return Value(f"rd.cond({test}, lambda: {body}, lambda: {x.source})", x.dtype, x.dims)


def plain_writer(seed: int) -> Writer:
    """The writer for program number `seed`."""
    return Writer(Random(f"raido {seed}"), seed)


def programs(most: int = 5) -> Any:
    """A Hypothesis strategy; it shrinks to fewer statements."""
    from hypothesis import strategies

    return strategies.builds(random_program, strategies.integers(0, 2**32 - 1), strategies.integers(1, most))


def same_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Equal in type, shape and every bit, any NaN being equal to any NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if expected.dtype.kind != "f":
        return bool((actual == expected).all())
    both_nan = np.isnan(actual) & np.isnan(expected)
    return bool((both_nan | ((actual == expected) & (np.signbit(actual) == np.signbit(expected)))).all())


def leaves_of(result: Any) -> list[Any]:
    """The arrays of a result in order, complex ones as pairs, which is what interpreters of graphs and nests give."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves_of(part)]
    array = np.asarray(result)
    return [np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else result]


def disagreement(program: RandomProgram, actual: Any, expected: Any) -> str | None:
    """How two runs of a program differ, or None; results whose bits depend on grouping may differ by rounding."""
    pairs = zip(leaves_of(actual), leaves_of(expected), program.exact, strict=True)
    for k, (one, other, exact) in enumerate(pairs):
        fits = same_bits(one, other) if exact else np.allclose(one, other, rtol=1e-4, atol=0.05, equal_nan=True)
        if not fits:
            return f"result {k} of {program!r}\nis\n{one!r}\nnot\n{other!r}"
    return None
