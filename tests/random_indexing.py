"""Expressions that no other grammar draws: broadcasting, NumPy's indexing, joins and reductions along any axes, the remaining
functions, searches that end early, and loops, branches and inlined algorithms whose bodies are any array expression.

Kept apart so that the programs of the other generators stay the same for each seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from random_expressions import FLOATS, Value, letter
from random_more_forms import FullWriter
from random_writer import MOST_ELEMENTS

OF_ONE = (
    *(
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctanh",
        "cbrt",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp2",
        "expm1",
    ),
    *(
        "log",
        "log10",
        "log2",
        "sinh",
        "tan",
        "reciprocal",
        "rsqrt",
        "square",
        "deg2rad",
        "rad2deg",
        "round",
        "positive",
    ),
)
OF_TWO = ("arctan2", "hypot", "logaddexp", "fmod", "power", "floor_divide", "remainder")
OF_INTEGERS = ("bitwise_count", "square", "sign", "positive", "invert")
KEYS = (
    "::-2",
    "1:-1",
    "-3:",
    ":2",
    "::3",
    "None",
    "...",
    "..., None",
    "..., ::-1",
    ":, 1:",
    ":, ::-2",
    "..., 0",
    "0, ...",
)
KEYS_OF_ROWS = ("1:, :-1", ":, None", "::2, -1", "-1, ::2", ":, 0", "None, ..., 1:")


class IndexingWriter(FullWriter):
    """Every grammar before, and these forms."""

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        more: list[tuple[Callable[..., Any], int]] = [
            *((self.crossed, 4), (self.indexed, 5), (self.picked, 3), (self.totalled, 4), (self.arranged, 4)),
            *((self.applied, 4), (self.raised, 2), (self.searched, 2), (self.windowed, 2), (self.binned_deeply, 2)),
            *((self.branched, 3 if depth < 2 else 0), (self.looped, 3 if depth < 2 else 0)),
            *((self.inlined, 2 if depth < 2 else 0), (self.mapped_to_several, 2 if depth < 2 else 0)),
        ]
        return super().productions(depth) + more

    # Shapes

    def crossed(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Two arrays of different shapes, broadcast: all pairs, or each row or column with a vector."""
        x, y = self.number(scope, (1, 2)), self.number(scope, (1,))
        if x is None or y is None:
            return None
        if x.rank == 1:
            left, right, dims = (
                f"{x.source}[:, None]",
                self.random.choice((y.source, f"{y.source}[None]")),
                x.dims + y.dims,
            )
        elif x.dims[1] == y.dims[0]:
            left, right, dims = x.source, y.source, x.dims
        elif x.dims[0] == y.dims[0]:
            left, right, dims = x.source, f"{y.source}[:, None]", x.dims
        else:
            return None
        a, b, dtype = self.unify(Value(left, x.dtype, dims), Value(right, y.dtype, dims))
        form = self.random.choice(
            ("({} + {})", "({} - {})", "({} * {})", "rd.minimum({}, {})", "({} < {})", "({} == {})")
        )
        return Value(form.format(a.source, b.source), "bool_" if "<" in form or "==" in form else dtype, dims)

    def indexed(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A basic index of NumPy's."""
        x = self.pick(scope)
        if x is None:
            return None
        key = self.random.choice(KEYS if x.rank == 1 else (*KEYS, *KEYS_OF_ROWS))
        try:
            shape = eval(f"array[{key}]", {"array": np.empty([d.actual for d in x.dims])}).shape
        except IndexError:
            return None
        return None if len(shape) > 3 else Value(f"{x.source}[{key}]", x.dtype, tuple(map(self.unknown, shape)))

    def picked(self, scope: Sequence[Value], depth: int) -> Value | None:
        """An array indexed by several arrays, or by one behind a slice."""
        x, index = self.pick(scope, (2, 3)), self.pick(scope, (1,), "iu")
        if x is None or index is None or x.elements == 0:
            return None
        y, z = (f"({self.places(index, d.actual)})" for d in x.dims[:2])
        rest, (i,) = x.dims[2:], index.dims
        forms = (
            (f"{y}, {z}", (i, *rest)),
            (f"{y}[:, None], {z}", (i, i, *rest)),
            (f":, {z}", (x.dims[0], i, *rest)),
            (f"{y}, 0", (i, *rest)),
            (f"{y}, 1:", (i, self.unknown(x.dims[1].actual - 1), *rest)),
        )
        key, dims = self.random.choice(forms)
        if len(dims) > 3:
            return None
        if self.random.random() < 0.3 and dims == (i, *rest):
            mode = self.random.choice(('"clamp"', '"wrap"', "rd.constant(3)"))
            if x.dtype != "bool_":
                return Value(f"rd.gather({x.source}, ({y} - 2, {z} + 1), mode={mode})", x.dtype, dims)
        return Value(f"{x.source}[{key}]", x.dtype, dims)

    def totalled(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A reduction along several axes, with a start of its own, a type of its own, or its dimensions kept."""
        x = self.number(scope)
        if x is None:
            return None
        axes = tuple(sorted(self.random.sample(range(x.rank), self.random.randint(1, x.rank))))
        axis = axes[0] - x.rank if len(axes) == 1 else axes
        name = self.random.choice(("sum", "prod", "min", "max"))
        options = f", initial={self.random.choice((0, 1, 5))}" if name in ("min", "max") else ""
        dtype = x.dtype
        if name in ("sum", "prod"):
            dtype = dtype if letter(dtype) == "f" else "u64" if letter(dtype) == "u" else "i64"
            x = self.whole(x)
            if name == "prod" and letter(dtype) == "f":
                x = Value(f"rd.sign({x.source})", x.dtype, x.dims)
            if self.random.random() < 0.3:
                dtype = self.random.choice(("f64", "i64") if letter(dtype) == "f" else ("i32", "u64", "i8", "f64"))
                options += f", dtype=rd.{dtype}"
                if dtype == "f64":
                    x = Value(f"({x.source} & 3)", x.dtype, x.dims) if letter(x.dtype) != "f" else x
            if name == "sum" and self.random.random() < 0.3:
                options += ", initial=3"
        elif letter(dtype) == "f":
            x = Value(f"({x.source} + 0.0)", x.dtype, x.dims)
        dims = tuple(d for k, d in enumerate(x.dims) if k not in axes)
        if self.random.random() < 0.25:
            dims = tuple(self.unknown(1) if k in axes else d for k, d in enumerate(x.dims))
            options += ", keepdims=True"
        exact = not (name == "prod" and dtype == "f64" and letter(x.dtype) != "f")  # 3 ** 40 has no double of its own
        return (
            Value(f"rd.{name}({x.source}, axis={axis}{options})", dtype, dims, exact) if exact or depth == 0 else None
        )

    def arranged(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Joins and moves along other axes than the first."""
        x = self.pick(scope)
        if x is None:
            return None
        mates = [v for v in scope if v.exact and v.dims == x.dims and v.dtype == x.dtype]
        y = self.random.choice(mates or [x])
        axis = self.random.randrange(x.rank)
        order = self.random.sample(range(x.rank), x.rank)
        longer = self.unknown(2 * x.dims[axis].actual)
        before, after = self.random.randint(0, 2), self.random.randint(0, 2)
        padded = tuple(d if k != axis else self.unknown(d.actual + before + after) for k, d in enumerate(x.dims))
        widths = ", ".join(f"({before}, {after})" if k == axis else "(0, 0)" for k in range(x.rank))
        forms = [
            (f"rd.concat([{x.source}, {y.source}], axis={axis})", (*x.dims[:axis], longer, *x.dims[axis + 1 :])),
            (f"rd.stack([{x.source}, {y.source}], axis=-1)", (*x.dims, self.unknown(2))),
            (f"rd.transpose({x.source}, {tuple(order)})", tuple(x.dims[k] for k in order)),
            (f"rd.roll({x.source}, {self.random.randint(-2, 3)}, axis={axis})", x.dims),
            (f"rd.expand_dims({x.source}, {axis})", (*x.dims[:axis], self.unknown(1), *x.dims[axis:])),
            (f"rd.broadcast_to({x.source}, (2, *{x.source}.shape))", (self.unknown(2), *x.dims)),
            (f"rd.reshape({x.source}, (-1,))", (self.unknown(x.elements),)),
            *([(f"rd.pad({x.source}, ({widths},), mode='edge')", padded)] if x.elements else []),
            *([(f"rd.swapaxes({x.source}, 0, -1)", (x.dims[-1], *x.dims[1:-1], x.dims[0]))] if x.rank > 1 else []),
        ]
        source, dims = self.random.choice(forms)
        return None if len(dims) > 3 else Value(source, x.dtype, dims)

    # Functions

    def applied(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A function that expressions do not draw."""
        x = self.number(scope)
        if x is None:
            return None
        if letter(x.dtype) != "f" and self.random.random() < 0.5:
            name = self.random.choice(OF_INTEGERS)
            return Value(f"rd.{name}({x.source})", "u8" if name == "bitwise_count" else x.dtype, x.dims)
        x = self.cast(x, self.random.choice(FLOATS[1:])) if letter(x.dtype) != "f" else x
        if self.random.random() < 0.6:
            return Value(f"rd.{self.random.choice(OF_ONE)}({x.source})", x.dtype, x.dims)
        y = self.cast(self.expression(self.alike(x, scope), 1), x.dtype)
        return Value(f"rd.{self.random.choice(OF_TWO)}({x.source}, {y.source})", x.dtype, x.dims)

    def raised(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Integers to the power of integers, sometimes of negative ones; shifts by any count."""
        x = self.pick(scope, (1, 2, 3), "iu")
        if x is None:
            return None
        mates = [v for v in scope if v.exact and v.dims == x.dims and letter(v.dtype) in "iu"]
        y = self.cast(self.random.choice(mates or [x]), x.dtype)
        if depth == 0 and not self.may_fault and self.random.random() < 0.2:
            self.may_fault = True
            return Value(f"({x.source} ** {y.source})", x.dtype, x.dims)
        form = self.random.choice(("({} ** ({} & 7))", "({} << ({} & 127))", "({} >> ({} & 127))"))
        return Value(form.format(x.source, y.source), x.dtype, x.dims)

    # Control

    def searched(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Where each element stands first in another array: a loop that ends when it is found."""
        x, table = self.pick(scope, (1, 2), "iu"), self.pick(scope, (1,), "iu")
        if x is None or table is None or table.elements == 0:
            return None
        v, k = self.parameters_of(2)
        wanted = self.cast(Value(v, x.dtype), table.dtype).source
        last = table.elements - 1
        found = f"{table.source}[rd.minimum({k}, {last})] == {wanted}"
        test = self.random.choice(
            (f"rd.logical_and({k} <= {last}, rd.logical_not({found}))", f"({k} < {last}) & ~({found})")
        )
        search = f"rd.while_loop(lambda {k}: {test}, lambda {k}: {k} + 1, rd.i64(0))"
        return Value(f"rd.elementwise(lambda {v}: {search}, {x.source})", "i64", x.dims)

    def windowed(self, scope: Sequence[Value], depth: int) -> Value | None:
        """For each element the sum of a slice that it bounds; sometimes out of range."""
        x, cuts = self.number(scope, (1,)), self.pick(scope, (1,), "iu")
        if x is None or cuts is None:
            return None
        n, slack = x.elements, 0
        if depth == 0 and not self.may_fault and self.random.random() < 0.2:
            self.may_fault, slack = True, 1
        v, s = self.parameters_of(2)
        low = self.places(Value(v, cuts.dtype), n, 1)
        cut = self.random.choice(
            (f"{low}:", f"{low}:rd.minimum({low} + {3 + slack}, {n + slack})", f":{low} + {slack}")
        )
        total = self.total(Value(s, x.dtype))
        source = f"rd.map(lambda {v}: (lambda {s}: {total.source})({x.source}[{cut}]), {cuts.source})"
        return Value(source, total.dtype, cuts.dims)

    def of_the_same(self, x: Value, scope: Sequence[Value], depth: int, uses: str) -> Value | None:
        """Any array expression over the scope of the dims and the type of `x` that uses a name."""
        for _ in range(8):
            body = self.production(scope, depth + 1)
            alike = [d.actual for d in body.dims] == [d.actual for d in x.dims]
            if alike and body.exact and not body.kept and re.search(rf"\b{uses}\b", body.source):
                return self.cast(body, x.dtype)
        return None

    def shaped(self, body: Value, x: Value) -> str:
        """The body; with the shape of `x` said where tracing cannot see that it is the same."""
        return body.source if body.dims == x.dims else f"rd.reshape({body.source}, {x.source}.shape)"

    def looped(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A loop over a whole array whose body is any array expression."""
        x = self.number(scope)
        if x is None or x.elements > MOST_ELEMENTS // 2:
            return None
        t, s = self.parameters_of(2)
        state = Value(s, x.dtype, x.dims)
        inner = [v for v in scope if v.dims == x.dims or v.rank < 2]
        body = self.of_the_same(x, [*inner, state, state], depth, s)
        if body is None:
            return None
        if self.random.random() < 0.7:
            form = f"rd.loop({self.random.randint(0, 3)}, lambda {t}, {s}: {self.shaped(body, state)}, {x.source})"
            return Value(form, x.dtype, x.dims)
        step = re.sub(rf"\b{s}\b", f"{t}[0]", self.shaped(body, state))
        test = f"({t}[1] < {self.random.randint(0, 3)}) & (rd.sum({t}[0] != {self.literal(x.dtype)}) > 0)"
        return Value(
            f"rd.while_loop(lambda {t}: {test}, lambda {t}: ({step}, {t}[1] + 1), ({x.source}, rd.i32(0)))[0]",
            x.dtype,
            x.dims,
        )

    def branched(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A branch between any two array expressions, decided by an element or by a sum."""
        x = self.number(scope)
        if x is None or x.elements == 0:
            return None
        (name,) = re.findall(r"\w+", x.source)[-1:]
        one = self.of_the_same(x, [v for v in scope if v.exact] + [x, x], depth, name)
        if one is None or self.may_fault:
            return None
        element = f"{x.source}[{', '.join(['0'] * x.rank)}]"
        test = self.random.choice(
            (f"{element} > {self.literal(x.dtype)}", f"rd.sum({x.source} > {self.literal(x.dtype)}) > 2")
        )
        sides = [self.shaped(one, x), x.source]
        self.random.shuffle(sides)
        return Value(f"rd.cond({test}, lambda: {sides[0]}, lambda: {sides[1]})", x.dtype, x.dims)

    def inlined(self, scope: Sequence[Value], depth: int) -> Value | None:
        """An algorithm called in an algorithm."""
        x = self.pick(scope)
        if x is None:
            return None
        (v,) = self.parameters_of(1)
        inside = Value(v, x.dtype, x.dims)
        body = self.production([inside, inside], depth + 1)
        if not body.exact or body.kept or not re.search(rf"\b{v}\b", body.source):
            return None
        return Value(f"rd.algorithm(lambda {v}: {body.source})({x.source})", body.dtype, body.dims)

    def mapped_to_several(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A map whose function returns a scalar and an array; one of them is used."""
        chosen = self.elements(scope)
        if chosen is None or not any(v.rank for v in chosen[1]):
            return None
        arrays, inner = chosen
        (row,) = [v for v in inner if v.rank][:1]
        body = self.production([v for v in scope if v.rank == 0] + inner, depth + 1)
        if not body.exact or body.kept or body.elements * arrays[0].dims[0].actual > MOST_ELEMENTS:
            return None
        total = self.total(self.cast(row, "i32") if row.dtype == "bool_" else row)
        which = self.random.choice((0, 1))
        names = ", ".join(v.source for v in inner)
        source = (
            f"rd.map(lambda {names}: ({total.source}, {body.source}), {', '.join(v.source for v in arrays)})[{which}]"
        )
        made = (total, body)[which]
        return Value(source, made.dtype, (arrays[0].dims[0], *made.dims))

    def binned_deeply(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A fold into bins of three dimensions."""
        chosen = self.index_and_values(scope)
        if chosen is None or chosen[1].dtype == "bool_":
            return None
        index, values = chosen
        values = self.whole(values)
        places = [self.places(index, n, 1) for n in (2, 3, 2)]
        start = f"rd.full((2, 3, 2), rd.{values.dtype}(1))"
        source = f"rd.reduce_by_index({start}, rd.add, 0, ({', '.join(places)}), {values.source})"
        return Value(source, values.dtype, tuple(map(self.unknown, (2, 3, 2))))
