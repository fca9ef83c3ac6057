"""The writer of a random program: parameters, statements, results, arguments. Its grammar draws the statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from random_expressions import FLOATS, INTEGERS, Dim, ExpressionWriter, Value, letter

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33)
MOST_ELEMENTS = 400  # of an array: the interpreters of nests take them one by one
WITHOUT_BF16 = range(1_000_000, 3_003_250)  # numbers of long runs from before there was bf16


class ProgramWriter(ExpressionWriter):
    """Writes one program. `scope` lists what an expression may use; every production returns a Value, or None if it does not fit."""

    decorator = "@rd.algorithm"

    def __init__(self, random: Random, seed: int) -> None:
        self.random = random
        self.seed = seed
        self.apart = None if seed in WITHOUT_BF16 else Random(f"bf16 {seed}")
        self.lines: list[str] = []
        self.scope: list[Value] = []
        self.parameters: list[Value] = []
        self.results: list[Value] = []
        self.may_fault = False
        self.fresh = 0
        self.annotations: list[str] = []

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
            self.parameters.append(Value("abc"[k], self.narrowed(dtype), chosen))
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

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        """What an array expression can be, with weights."""
        return [(self.pointwise, 1)]

    def pick(self, scope: Sequence[Value], ranks: Sequence[int] = (1, 2, 3), dtypes: str = "biuf") -> Value | None:
        """A variable of the scope, the later ones more often."""
        fitting = [v for v in scope if v.rank in ranks and letter(v.dtype) in dtypes and v.exact]
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

    def pointwise(self, scope: Sequence[Value], depth: int) -> Value:
        x = self.pick(scope) or self.pick(scope, (0,))
        assert x is not None
        value = self.expression(self.alike(x, scope), self.random.randint(1, 3))
        if x.dims and not value.dims:
            value = self.expression([x], 2)
        return value

    def several(self, scope: Sequence[Value]) -> tuple[str, list[Value]] | None:
        x = self.pick(scope)
        if x is None:
            return None
        (name,) = self.parameters_of(1)
        element = Value(name, x.dtype)
        bodies = [self.expression([element], 2) for _ in range(2)]
        source = f"rd.elementwise(lambda {name}: ({bodies[0].source}, {bodies[1].source}), {x.source})"
        return source, [Value("", b.dtype, x.dims) for b in bodies]
