"""The basic grammar: maps, reductions, stencils, gathers, moves, products of matrices, loops and branches over arrays and scalars."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from random_expressions import NARROW, Dim, Value, letter
from random_writer import MOST_ELEMENTS, ProgramWriter

BOUNDARIES = ("clamp", "wrap", "mirror", "symmetric", "constant")


class PlainWriter(ProgramWriter):
    """Writes a program of the plain grammar."""

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
        if letter(x.dtype) != "f":
            return x
        few = x.dtype == "f16" or x.elements <= 128  # bf16 holds whole numbers up to 256
        bound = "4.0" if x.dtype not in NARROW else "1.0" if few else "0.4"
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
        if name in ("min", "max") and letter(x.dtype) == "f":
            x = Value(f"({x.source} + 0.0)", x.dtype, x.dims)
        if name == "sum":
            x = self.whole(x)
        dtype = {"argmin": "i64", "argmax": "i64", "any": "bool_", "all": "bool_"}.get(name, x.dtype)
        if name == "sum" and letter(dtype) != "f":
            dtype = "u64" if letter(dtype) == "u" else "i64"
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
            if operator == "rd.maximum" and letter(x.dtype) == "i":
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
        if x is None or x.dtype in NARROW:
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
        return f"rd.constant({'1.5' if letter(dtype) == 'f' else '7'})"

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
            operators = ("+", "+", "-", "*") if letter(left.dtype) != "f" else ("+", "+", "-", "* 0.5 +")
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
        if any(letter(v.dtype) != "f" for v in [x, *others]):
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


def plain_writer(seed: int) -> PlainWriter:
    """The writer for program number `seed`."""
    return PlainWriter(Random(f"raido {seed}"), seed)
