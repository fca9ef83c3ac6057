"""Forms whose elements depend on one another, for random programs: scans, updates, segments, sorts, filters, sizes that data decides.

Results with sizes of their own are reduced, counted or joined at once,
so that programs know the shapes of all their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from random_expressions import NARROW, Value, letter
from random_plain import PlainWriter

OPERATORS = (
    ("rd.add", 0),
    ("rd.multiply", 1),
    ("rd.bitwise_xor", 0),
    ("lambda p, q: p + q + p * q", 0),
    ("lambda p, q: rd.where(q == 0, p, q)", 0),
)


class FormWriter(PlainWriter):
    """The plain grammar and these forms."""

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        forms = [
            *(self.scanned, self.scanned_pairs, self.updated, self.scattered, self.counted, self.binned),
            *(self.segmented, self.sorted, self.ordered, self.filtered, self.parted),
            *(self.sliced, self.repeated, self.counted_up, self.shrunk),
        ]
        return super().productions(depth) + [(production, 3) for production in forms]

    def operand(self, x: Value) -> tuple[Value, str, Any]:
        """An array, an operator on its elements whose grouping does not show, and its neutral element."""
        if x.dtype == "bool_":
            return (x, *self.random.choice((("rd.logical_or", False), ("rd.logical_and", True))))
        if letter(x.dtype) != "f":
            return (x, *self.random.choice(OPERATORS))
        if self.random.random() < 0.4:
            return Value(f"({x.source} + 0.0)", x.dtype, x.dims), "rd.maximum", "-np.inf"
        return self.whole(x), "rd.add", 0

    def places(self, x: Value, limit: int, slack: int = 0) -> str:
        """Indices 0 … limit − 1 + slack made of an integer array."""
        wide = self.cast(self.cast(x, "i32") if x.dtype == "u64" else x, "i64")
        return f"({wide.source} % {max(limit + slack, 1)})"

    def scanned(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope)
        if x is None:
            return None
        x, operator, neutral = self.operand(x)
        axis = self.random.randrange(x.rank)
        exclusive = ", exclusive=True" if self.random.random() < 0.4 else ""
        if axis < x.rank - 1 and operator.startswith("lambda"):
            operator, neutral = "rd.bitwise_or", 0
        return Value(f"rd.scan({operator}, {neutral}, {x.source}, axis={axis}{exclusive})", x.dtype, x.dims)

    def scanned_pairs(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Affine functions composed: an operator that does not commute."""
        x = self.pick(scope, (1, 2), "iu")
        if x is None:
            return None
        pair = "lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])"
        source = f"rd.scan({pair}, (1, 0), {x.source}, {x.source}, axis={x.rank - 1})"
        return Value(f"{source}[{self.random.choice((0, 1))}]", x.dtype, x.dims)

    def index_and_values(self, scope: Sequence[Value]) -> tuple[Value, Value] | None:
        """An integer array, and an array of its size."""
        index = self.pick(scope, (1,), "iu")
        fitting = [v for v in scope if index and v.exact and v.dims == index.dims]
        return (index, self.random.choice(fitting)) if index and fitting else None

    def updated(self, scope: Sequence[Value], depth: int) -> Value | None:
        chosen, x = self.index_and_values(scope), self.pick(scope, (1,))
        if chosen is None or x is None or x.elements == 0:
            return None
        index, values = chosen
        slack = 0
        if depth == 0 and not self.may_fault and self.random.random() < 0.2:
            self.may_fault, slack = True, 1
        new = self.cast(values, x.dtype)
        method = self.random.choice(("set", "set", "add", "max"))
        if x.dtype == "bool_" or letter(x.dtype) == "f":
            method = "set"
        return Value(f"{x.source}.at[{self.places(index, x.elements, slack)}].{method}({new.source})", x.dtype, x.dims)

    def scattered(self, scope: Sequence[Value], depth: int) -> Value | None:
        chosen, x = self.index_and_values(scope), self.pick(scope, (1,))
        if chosen is None or x is None:
            return None
        index, values = chosen
        places = f"({self.places(index, x.elements, 3)} - 1)"
        return Value(f"rd.scatter({x.source}, {places}, {self.cast(values, x.dtype).source})", x.dtype, x.dims)

    def counted(self, scope: Sequence[Value], depth: int) -> Value | None:
        index = self.pick(scope, (1, 2), "iu")
        if index is None:
            return None
        bins = self.random.choice((1, 3, 8))
        return Value(f"rd.bincount({self.places(index, bins, 1)}, {bins})", "i64", (self.unknown(bins),))

    def binned(self, scope: Sequence[Value], depth: int) -> Value | None:
        chosen, x = self.index_and_values(scope), self.pick(scope, (1, 2))
        if chosen is None or x is None or letter(x.dtype) == "b":
            return None
        index, values = chosen
        x, operator, neutral = self.operand(x)
        if operator.startswith("lambda p, q: rd.where"):
            operator, neutral = "rd.bitwise_or", 0  # commutes, unlike the choice of the last
        new = self.cast(values, x.dtype)
        new = Value(f"({new.source} + 0.0)", x.dtype) if "inf" in str(neutral) else self.whole(new)
        rows = f"{new.source}[:, None]" if x.rank == 2 else new.source
        if x.rank == 2:
            operator = operator if not operator.startswith("lambda") else "rd.add"
            neutral = neutral if operator != "rd.add" else 0
        places = self.places(index, x.dims[0].actual, 2)
        return Value(f"rd.reduce_by_index({x.source}, {operator}, {neutral}, {places}, {rows})", x.dtype, x.dims)

    def segmented(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Segments cut where the sorted remainders of an integer array say."""
        x, cuts = self.pick(scope, (1, 2)), self.pick(scope, (1,), "iu")
        if x is None or cuts is None or cuts.elements < 1:
            return None
        n = x.dims[0].actual
        offsets = f"rd.scan(rd.maximum, 0, {self.places(cuts, n, 1)})"
        x, operator, neutral = self.operand(x)
        if x.rank == 2 and operator.startswith("lambda"):
            operator, neutral = "rd.bitwise_xor", 0
        if self.random.random() < 0.5:
            return Value(f"rd.segmented_scan({operator}, {neutral}, {x.source}, {offsets})", x.dtype, x.dims)
        dims = (self.unknown(cuts.elements - 1), *x.dims[1:])
        return Value(f"rd.segmented_reduce({operator}, {neutral}, {x.source}, {offsets})", x.dtype, dims)

    def sorted(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope)
        return None if x is None else Value(f"rd.sort({x.source}, {self.random.randrange(x.rank)})", x.dtype, x.dims)

    def ordered(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope, (1, 2))
        return None if x is None else Value(f"rd.argsort({x.source}, {self.random.randrange(x.rank)})", "i64", x.dims)

    def condition(self, x: Value) -> tuple[str, str]:
        """A name for an element, and a test of it."""
        (name,) = self.parameters_of(1)
        element = Value(name, x.dtype)
        test = element if x.dtype == "bool_" else self.comparison(element, [element], 2)
        return name, test.source

    def filtered(self, scope: Sequence[Value], depth: int) -> Value | None:
        """What is kept, counted, summed or sorted into bins."""
        x = self.pick(scope, (1,))
        if x is None:
            return None
        name, test = self.condition(x)
        kept = f"rd.filter(lambda {name}: {test}, {x.source})"
        choice = self.random.random()
        if choice < 0.4:
            return Value(f"rd.i64({kept}.shape[0])", "i64")
        if choice < 0.7 or letter(x.dtype) not in "iu":
            whole = self.whole(Value(kept, x.dtype, x.dims))
            dtype = x.dtype if letter(x.dtype) == "f" else "u64" if letter(x.dtype) == "u" else "i64"
            return Value(f"rd.sum({whole.source})", dtype)
        return Value(f"rd.bincount({self.places(Value(kept, x.dtype, x.dims), 5)}, 5)", "i64", (self.unknown(5),))

    def parted(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope, (1,))
        if x is None:
            return None
        name, test = self.condition(x)
        source = f"rd.concat(rd.partition(lambda {name}: {test}, {x.source}))"
        return Value(source, x.dtype, x.dims)

    def sliced(self, scope: Sequence[Value], depth: int) -> Value | None:
        """The sum of a slice whose bounds are elements."""
        x, cuts = self.pick(scope, (1,)), self.pick(scope, (1,), "iu")
        if x is None or cuts is None or cuts.elements < 2 or x.dtype == "bool_":
            return None
        n = x.dims[0].actual
        bounds = [self.places(Value(f"{cuts.source}[{k}]", cuts.dtype), n, 1) for k in (0, 1)]
        x = self.whole(x)
        dtype = x.dtype if letter(x.dtype) == "f" else "u64" if letter(x.dtype) == "u" else "i64"
        return Value(f"rd.sum({x.source}[{bounds[0]}:{bounds[1]}])", dtype)

    def repeated(self, scope: Sequence[Value], depth: int) -> Value | None:
        chosen = self.index_and_values(scope)
        if chosen is None or chosen[1].dtype == "bool_":
            return None
        counts, x = self.places(chosen[0], 4), self.whole(chosen[1])
        weighted = f"(lambda r: rd.sum(r * (rd.iota(r.shape[0]) % 3).astype(rd.{x.dtype})))"
        dtype = x.dtype if letter(x.dtype) == "f" else "u64" if letter(x.dtype) == "u" else "i64"
        return None if x.dtype in NARROW else Value(f"{weighted}(rd.repeat({x.source}, {counts}))", dtype)

    def counted_up(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope, (1,), "iu")
        if x is None:
            return None
        (name,) = self.parameters_of(1)
        iterations = self.places(Value(name, x.dtype), 6)
        return Value(f"rd.map(lambda {name}: rd.sum(rd.iota({iterations})), {x.source})", "i64", x.dims)

    def shrunk(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A loop that halves an array."""
        x = self.pick(scope, (1,), "iu")
        if x is None or depth:
            return None
        t, s = self.parameters_of(2)
        body = self.random.choice(
            (f"{s}[::2] + rd.{x.dtype}({t})", f"rd.filter(lambda e: e != rd.{x.dtype}({t}), {s})")
        )
        loop = f"rd.loop({self.random.randint(0, 3)}, lambda {t}, {s}: {body}, {x.source})"
        return Value(f"rd.sum({loop})", "u64" if letter(x.dtype) == "u" else "i64")


def form_writer(seed: int) -> FormWriter:
    """The writer for program number `seed`."""
    return FormWriter(Random(f"raido forms {seed}"), seed)
