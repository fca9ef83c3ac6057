"""Random scalar expressions: source text over given terms, with its dtype.

The same text is an elementwise expression when the terms are arrays. Divisors cannot be zero, and no operation shows the
sign or the payload of a NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "f32", "f64")
NARROW = ("f16", "bf16")


@dataclass(frozen=True)
class Dim:
    """One dimension: equal tokens are sizes that the front end can see to be equal; `actual` is the size in this run."""

    token: str
    actual: int


@dataclass(frozen=True)
class Value:
    """An expression of the source: an array, or with no dims a scalar. Bits do not depend on grouping if `exact`.

    `kept`: an array whose size data decide; it is a result and no more, and its dims are not said.
    """

    source: str
    dtype: str
    dims: tuple[Dim, ...] = ()
    exact: bool = True
    kept: bool = False

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def elements(self) -> int:
        return int(np.prod([d.actual for d in self.dims], dtype=np.int64))


def letter(dtype: str) -> str:
    """The kind of a dtype: "b", "i", "u" or "f"."""
    return "f" if dtype == "bf16" else dtype[0]


def numpy_name(dtype: str) -> str:
    if dtype in ("bf16", "bool_"):
        return {"bf16": "bfloat16", "bool_": "bool"}[dtype]
    return {"i": "int", "u": "uint", "f": "float"}[dtype[0]] + dtype[1:]


class ExpressionWriter:
    """Writes expressions with the choices of `random`."""

    random: Random
    apart: Random | None = None

    def narrowed(self, dtype: str) -> str:
        """bf16 for every other f16: drawn apart, so that the rest of a program is what it was before there was bf16."""
        return "bf16" if dtype == "f16" and self.apart is not None and self.apart.random() < 0.5 else dtype

    def cast(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        source = f"({x.source}).astype(rd.{dtype})" if x.rank else f"rd.{dtype}({x.source})"
        return Value(source, dtype, x.dims)

    def literal(self, dtype: str) -> str:
        if letter(dtype) == "f":
            return str(self.random.choice((0.5, 1.5, 2.0, 3.0, -1.0, 0.1, 2)))
        return str(self.random.choice((1, 2, 3, 5, 7, 10, 100)))

    def unify(self, x: Value, y: Value) -> tuple[Value, Value, str]:
        """Two operands that one operation takes, and its type: NumPy's promotion, or a cast."""
        if x.dtype == y.dtype:
            return x, y, x.dtype
        kinds = letter(x.dtype) + letter(y.dtype)
        mixed = "b" in kinds or ("u64" in (x.dtype, y.dtype) and "i" in kinds)
        if mixed or self.random.random() < 0.5:
            return x, self.cast(y, x.dtype), x.dtype
        if "bf16" in (x.dtype, y.dtype):
            other = y.dtype if x.dtype == "bf16" else x.dtype
            return x, y, {"f16": "f32", "f32": "f32", "f64": "f64"}.get(other, "bf16")
        promoted = np.promote_types(numpy_name(x.dtype), numpy_name(y.dtype))
        return x, y, promoted.kind + str(promoted.itemsize * 8)

    def expression(self, terms: Sequence[Value], depth: int) -> Value:
        """A random expression over terms that broadcast together (equal dims, or scalars)."""
        if depth <= 0 or self.random.random() < 0.1:
            return self.random.choice(list(terms))
        x = self.expression(terms, depth - 1)
        if x.dtype == "bool_":
            return self.boolean_operation(x, terms, depth)
        if self.random.random() < 0.12:
            return self.cast(x, self.narrowed(self.random.choice((*FLOATS[1:], *INTEGERS, *FLOATS))))
        if self.random.random() < 0.15:
            return self.comparison(x, terms, depth)
        if letter(x.dtype) == "f":
            return self.float_operation(x, terms, depth)
        return self.integer_operation(x, terms, depth)

    def join(self, x: Value, y: Value) -> tuple[Dim, ...]:
        return x.dims or y.dims

    def boolean_operation(self, x: Value, terms: Sequence[Value], depth: int) -> Value:
        y, z = self.expression(terms, depth - 1), self.expression(terms, depth - 1)
        if y.dtype == "bool_":
            form = self.random.choice(("rd.logical_and({}, {})", "({} | {})", "({} ^ {})", "rd.logical_or({}, {})"))
            return Value(form.format(x.source, y.source), "bool_", self.join(x, y))
        if self.random.random() < 0.3:
            return self.cast(Value(f"rd.logical_not({x.source})", "bool_", x.dims), "i32")
        y, z, dtype = self.unify(y, z)
        return Value(f"rd.where({x.source}, {y.source}, {z.source})", dtype, x.dims or self.join(y, z))

    def comparison(self, x: Value, terms: Sequence[Value], depth: int) -> Value:
        operator = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        if self.random.random() < 0.5:
            return Value(f"({x.source} {operator} {self.literal(x.dtype)})", "bool_", x.dims)
        y = self.cast(self.expression(terms, depth - 1), x.dtype)
        return Value(f"({x.source} {operator} {y.source})", "bool_", self.join(x, y))

    def integer_operation(self, x: Value, terms: Sequence[Value], depth: int) -> Value:
        choice, literal = self.random.random(), self.literal(x.dtype)
        if choice < 0.3:
            form = self.random.choice(
                ("({} + {})", "({} - {})", "({} * {})", "({} // {})", "({} % {})", "({} & {})", "rd.minimum({}, {})")
            )
            return Value(form.format(x.source, literal), x.dtype, x.dims)
        if choice < 0.45:
            bits = int(x.dtype[1:])
            count = self.random.choice((1, 3, bits - 1, bits))
            form = self.random.choice(
                (f"({{}} << {count})", f"({{}} >> {count})", "(-{})", "rd.abs({})", "(~{})", "({} ** 2)")
            )
            return Value(form.format(x.source), x.dtype, x.dims)
        if choice < 0.55:
            return Value(f"({x.source} / {literal})", "f64", x.dims)
        y = self.expression(terms, depth - 1)
        y = self.cast(y, x.dtype) if letter(y.dtype) == "b" else y
        if letter(y.dtype) == "f" and self.random.random() < 0.5:
            y = self.cast(y, x.dtype)
        x, y, dtype = self.unify(x, y)
        forms = ["({} + {})", "({} - {})", "({} * {})", "rd.minimum({}, {})", "rd.maximum({}, {})"]
        if letter(dtype) != "f":
            forms += ["({} ^ {})", "({} | {})", "({} // (({} & 7) + 1))", "({} % (({} & 3) + 1))"]
        return Value(self.random.choice(forms).format(x.source, y.source), dtype, self.join(x, y))

    def float_operation(self, x: Value, terms: Sequence[Value], depth: int) -> Value:
        choice, literal = self.random.random(), self.literal(x.dtype)
        if choice < 0.25:
            form = self.random.choice(
                ("({} * {})", "({} + {})", "({} - {})", "({} / {})", "rd.maximum({}, {})", "({} // {})", "({} % {})")
            )
            return Value(form.format(x.source, literal), x.dtype, x.dims)
        if choice < 0.45:
            name = self.random.choice(
                ("abs", "floor", "ceil", "trunc", "rint", "sqrt", "negative", "sign", "exp", "sin", "log1p", "tanh")
            )
            return Value(f"rd.{name}({x.source})", x.dtype, x.dims)
        if choice < 0.5:
            return Value(f"rd.clip({x.source}, -3.0, 2.5)", x.dtype, x.dims)
        y = self.expression(terms, depth - 1)
        if choice < 0.65:
            y, z = self.cast(y, x.dtype), self.cast(self.expression(terms, depth - 1), x.dtype)
            form = self.random.choice(("({} * {} + {})", "({} * {} - {})", "rd.fma({}, {}, {})", "({2} - {0} * {1})"))
            return Value(
                form.format(x.source, y.source, z.source), x.dtype, self.join(x, Value("", "", self.join(y, z)))
            )
        x, y, dtype = self.unify(x, self.cast(y, x.dtype) if y.dtype == "bool_" else y)
        form = self.random.choice(
            ("({} + {})", "({} - {})", "({} * {})", "({} / {})", "rd.minimum({}, {})", "rd.maximum({}, {})")
        )
        return Value(form.format(x.source, y.source), dtype, self.join(x, y))
