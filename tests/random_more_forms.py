"""Further forms for random programs: indices of several dimensions, tuples, records, rows as elements, sizes that data decides.

Kept apart so that the programs of the other generators stay the same for each seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from random_expressions import NARROW, Value, letter, numpy_name
from random_forms import FormWriter
from random_wide import WideWriter


class FullWriter(FormWriter, WideWriter):
    """Every grammar there is."""

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        more = [
            *(self.placed, self.placed_rows, self.permuted, self.binned_pairs, self.written, self.recurring),
            *(self.scanned_tuples, self.scanned_rows, self.segmented_pairs, self.products, self.recorded, self.rotated),
            *(self.masked, self.filtered_rows, self.viewed),
        ]
        kept = [(self.decided, 8), (self.decided_and_reduced, 4)] if depth == 0 else [(self.decided_and_reduced, 1)]
        return super().productions(depth) + [(production, 2) for production in more] + kept

    def total(self, x: Value) -> Value:
        """The sum of an array, its type, and a value that no grouping shows."""
        dtype = x.dtype if letter(x.dtype) == "f" else "u64" if letter(x.dtype) == "u" else "i64"
        return Value(f"rd.sum({self.whole(x).source})", dtype)

    # Updates

    def placed(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A scatter or a fold into the elements of a matrix."""
        chosen, x = self.index_and_values(scope), self.pick(scope, (2,))
        if chosen is None or x is None or x.dtype == "bool_":
            return None
        index, values = chosen
        y, z = (f"({self.places(index, d.actual, 2)} - 1)" for d in x.dims)
        z = f"(({z} * 3) % {x.dims[1].actual + 1})"
        new = self.cast(values, x.dtype)
        if self.random.random() < 0.5:
            return Value(f"rd.scatter({x.source}, ({y}, {z}), {new.source})", x.dtype, x.dims)
        x, operator, neutral = self.operand(x)
        if operator.startswith("lambda") or operator == "rd.maximum":
            x, operator, neutral = self.whole(x), "rd.add", 0
        new = self.whole(new)
        return Value(
            f"rd.reduce_by_index({x.source}, {operator}, {neutral}, ({y}, {z}), {new.source})", x.dtype, x.dims
        )

    def placed_rows(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Whole rows scattered, or folded into rows."""
        rows, index = self.pick(scope, (2,)), self.pick(scope, (1,), "iu")
        if rows is None or index is None or index.elements == 0 or rows.dtype == "bool_":
            return None
        n = rows.dims[0].actual
        row_of = f"rd.tabulate(({rows.source}.shape[0],), lambda i: {index.source}[i % {index.elements}])"
        places = f"({self.places(Value(row_of, index.dtype), n, 2)} - 1)"
        if self.random.random() < 0.5:
            return Value(f"rd.scatter({rows.source}, {places}, {rows.source}[::-1])", rows.dtype, rows.dims)
        rows = self.whole(rows)
        return Value(f"rd.reduce_by_index({rows.source}, rd.add, 0, {places}, {rows.source})", rows.dtype, rows.dims)

    def permuted(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A scatter to places that are all different."""
        key = self.pick(scope, (1,))
        fitting = [v for v in scope if key and v.exact and v.dims == key.dims]
        if key is None or not fitting:
            return None
        x = self.random.choice(fitting)
        places = f"rd.argsort({key.source})"
        if self.random.random() < 0.3:
            return Value(f"{x.source}[{places}]", x.dtype, x.dims)
        return Value(f"rd.scatter({x.source}, {places}, {x.source}, unique_indices=True)", x.dtype, x.dims)

    def binned_pairs(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A fold of pairs into bins: the least value, and the last place where it stands."""
        chosen = self.index_and_values(scope)
        if chosen is None or letter(chosen[1].dtype) not in "iu":
            return None
        index, values = chosen
        bins = self.random.choice((1, 4, 9))
        p, q, r = self.parameters_of(3)
        least = f"({p}[0] < {q}[0]) | (({p}[0] == {q}[0]) & ({p}[1] >= {q}[1]))"
        nearer = f"lambda {p}, {q}: (lambda {r}: tuple(rd.where({r}, *each) for each in zip({p}, {q})))({least})"
        start = f"(rd.full({bins}, rd.{values.dtype}(100)), rd.full({bins}, rd.i64(-1)))"
        where = f"rd.iota({index.source}.shape[0], rd.i64)"
        most = f"np.iinfo(np.{numpy_name(values.dtype)}).max"
        folded = f"rd.reduce_by_index({start}, {nearer}, ({most}, -1), {self.places(index, bins, 1)}, {values.source}, {where})"
        which = self.random.choice((0, 1))
        return Value(f"{folded}[{which}]", ("i64" if which else values.dtype), (self.unknown(bins),))

    def written(self, scope: Sequence[Value], depth: int) -> Value | None:
        """An array with some of its elements changed, by position or by slice."""
        x = self.number(scope)
        if x is None or x.dims[0].actual == 0 or x.elements == 0:
            return None
        where = self.random.choice(("0", "-1", "1:", "::2", ":-1", "1:3", "::-1"))
        if x.rank > 1:
            where += self.random.choice(("", ", 0", ", ::2", ", :1"))
        method = self.random.choice(("set", "add", "multiply", "min", "max"))
        if letter(x.dtype) == "f" and method in ("min", "max"):
            method = "set"
        return Value(f"{x.source}.at[{where}].{method}({self.literal(x.dtype)})", x.dtype, x.dims)

    def recurring(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A loop that writes one element after another, from those before."""
        x = self.number(scope, (1,))
        if x is None or x.elements == 0 or letter(x.dtype) == "f":
            return None
        t, s = self.parameters_of(2)
        before = f"{s}[rd.maximum({t} - {self.random.choice((1, 2))}, 0)]"
        n = f"{x.source}.shape[0]"
        place = self.random.choice((t, f"{n} - 1 - {t}", f"({t} * 3) % {n}"))
        body = self.cast(self.expression([Value(before, x.dtype), Value(f"{x.source}[{t}]", x.dtype)], 2), x.dtype)
        return Value(f"rd.loop({n}, lambda {t}, {s}: {s}.at[{place}].set({body.source}), {x.source})", x.dtype, x.dims)

    # Scans and folds of tuples, rows and records

    def scanned_tuples(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A running sum and a running maximum of two arrays, of types of their own; a start that is not neutral."""
        x = self.pick(scope, (1, 2), "iu")
        mates = [v for v in scope if x and v.exact and v.dims == x.dims and letter(v.dtype) in "iu"]
        if x is None:
            return None
        y = self.random.choice(mates or [x])
        p, q = self.parameters_of(2)
        form = self.random.choice(("rd.scan", "rd.reduce"))
        operator = f"lambda {p}, {q}: ({p}[0] + {q}[0], rd.maximum({p}[1], {q}[1]))"
        which, axis = self.random.choice((0, 1)), x.rank - 1
        more = ", exclusive=True" if form == "rd.scan" and self.random.random() < 0.3 else ""
        source = f"{form}({operator}, (5, 3), {x.source}, {y.source}, axis={axis}{more})[{which}]"
        return Value(source, (x, y)[which].dtype, x.dims if form == "rd.scan" else x.dims[:-1])

    def scanned_rows(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Rows as elements."""
        x = self.pick(scope, (2, 3), "iu")
        if x is None:
            return None
        p, q = self.parameters_of(2)
        form = self.random.choice(("rd.scan", "rd.reduce"))
        operator = self.random.choice(("rd.add", "rd.maximum", f"lambda {p}, {q}: {p} | {q}", "rd.bitwise_xor"))
        neutral = {"rd.maximum": f"np.iinfo(np.{numpy_name(x.dtype)}).min"}.get(operator, 0)
        dims = x.dims if form == "rd.scan" else x.dims[1:]
        return Value(f"{form}({operator}, {neutral}, {x.source}, axis=0)", x.dtype, dims)

    def segmented_pairs(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Affine functions composed, segment by segment."""
        x, cuts = self.pick(scope, (1,), "iu"), self.pick(scope, (1,), "iu")
        if x is None or cuts is None or cuts.elements < 1:
            return None
        offsets = f"rd.scan(rd.maximum, 0, {self.places(cuts, x.elements, 1)})"
        form, dims = "segmented_scan", x.dims
        if self.random.random() < 0.5:
            form, dims = "segmented_reduce", (self.unknown(cuts.elements - 1),)
        pair = "lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])"
        which = self.random.choice((0, 1))
        source = f"rd.{form}({pair}, (1, 0), ({x.source}, {x.source}), {offsets})[{which}]"
        return Value(source, x.dtype, dims)

    def products(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Products of small matrices, running or in all."""
        x = self.pick(scope, (1,), "iu")
        if x is None or x.dtype == "u64":
            return None
        (v,) = self.parameters_of(1)
        wide = self.cast(Value(v, x.dtype), "i64").source
        matrices = (
            f"rd.map(lambda {v}: rd.reshape(rd.array([{wide}, rd.i64(1), rd.i64(1), rd.i64(0)]), (2, 2)), {x.source})"
        )
        form = self.random.choice(("scan", "reduce"))
        source = f"rd.{form}(lambda p, q: p @ q, np.eye(2, dtype=np.int64), {matrices})"
        if form == "scan":
            return Value(f"{source}[:, 0, {self.random.choice((0, 1))}]", "i64", x.dims)
        return Value(f"{source}[0]", "i64", (self.unknown(2),))

    def recorded(self, scope: Sequence[Value], depth: int) -> Value | None:
        """An array of records, mapped over or scanned."""
        x = self.pick(scope, (1,), "iu")
        if x is None:
            return None
        v, p, q = self.parameters_of(3)
        bodies = [self.cast(self.expression([Value(v, x.dtype)], 2), x.dtype).source for _ in range(2)]
        records = f"rd.map(lambda {v}: R(x={bodies[0]}, y={bodies[1]}), {x.source})"
        field = self.random.choice(("x", "y"))
        joined = f"R(x={p}.x + {q}.x, y=rd.minimum({p}.y, {q}.y))"
        uses = (
            f"{records}.{field}",
            f"rd.scan(lambda {p}, {q}: {joined}, R(x=0, y=100), {records}).{field}",
            f"rd.map(lambda {p}: {p}.replace(x={p}.y).{field}, {records})",
        )
        record = f"rd.record(x=rd.{x.dtype}, y=rd.{x.dtype})"
        return Value(f"(lambda R: {self.random.choice(uses)})({record})", x.dtype, x.dims)

    def rotated(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Complex numbers, of which a part is left."""
        x = self.pick(scope, (1, 2, 3), "f")
        if x is None or x.dtype in NARROW:
            return None
        v, z = self.parameters_of(2)
        name = "complex64" if x.dtype == "f32" else "complex128"
        form = self.random.choice(
            (f"{z} * {z} + 1j", f"{z} * rd.conj({z}) - {z}", f"({z} + 2) * 1j", f"{z} * {z} * {z}")
        )
        part = self.random.choice(("real", "imag"))
        source = f"rd.elementwise(lambda {v}: (lambda {z}: ({form}).{part})(rd.{name}({v}, {v} * 0.5)), {x.source})"
        return Value(source, x.dtype, x.dims)

    def viewed(self, scope: Sequence[Value], depth: int) -> Value | None:
        """The same bits as numbers of another type."""
        x = self.pick(scope, (1, 2, 3), "iu")
        if x is None:
            return None
        other = ("u" if letter(x.dtype) == "i" else "i") + x.dtype[1:]
        return Value(f"{x.source}.view(rd.{other})", other, x.dims)

    # Sizes that data decide

    def masked(self, scope: Sequence[Value], depth: int) -> Value | None:
        """How many, or how much, of what a mask leaves."""
        x = self.pick(scope, (1,))
        if x is None:
            return None
        test = self.comparison(x, [x], 1) if x.dtype != "bool_" else x
        return self.total(Value(f"{x.source}[{test.source}]", x.dtype, x.dims)) if x.dtype != "bool_" else None

    def filtered_rows(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Rows that are kept, summed; or arrays filtered side by side."""
        x = self.pick(scope, (2,), "iu")
        if x is None:
            return None
        (row,) = self.parameters_of(1)
        test = f"rd.sum({row}) > {self.literal(x.dtype)}"
        if x.dims[1].actual and self.random.random() < 0.5:
            test = f"{row}[0] > {row}[{self.random.choice((0, -1))}]"
        dtype = "u64" if letter(x.dtype) == "u" else "i64"
        return Value(f"rd.sum(rd.filter(lambda {row}: {test}, {x.source}), axis=0)", dtype, x.dims[1:])

    def origin(self, scope: Sequence[Value]) -> Value | None:
        """An array whose size data decide, made from one of the scope; its dims are not true."""
        x = self.pick(scope, (1,))
        if x is None or x.dtype == "bool_":
            return None
        name, test = self.condition(x)
        index = self.pick(scope, (1,), "iu")
        choices = [f"rd.filter(lambda {name}: {test}, {x.source})", f"rd.unique({x.source})"]
        choices.append(f"rd.partition(lambda {name}: {test}, {x.source})[{self.random.choice((0, 1))}]")
        if index is not None and index.dims == x.dims:
            choices.append(f"rd.repeat({x.source}, {self.places(index, 4)})")
            both = f"rd.filter(lambda {name}, other: {test} | (other > 1), {x.source}, {index.source})"
            choices.append(f"{both}[0]")
        if index is not None and index.elements:
            bounds = [self.places(Value(f"{index.source}[{k}]", index.dtype), x.dims[0].actual, 1) for k in (0, -1)]
            choices.append(f"{x.source}[{bounds[0]}:{bounds[1]}]")
        return Value(self.random.choice(choices), x.dtype, x.dims)

    def grown(self, r: Value) -> Value:
        """Something done to an array of a size that data decide."""
        name, a = self.parameters_of(2)
        whole = letter(r.dtype) != "f"
        element = self.cast(self.expression([Value(a, r.dtype)], 2), r.dtype).source
        forms = [
            f"rd.map(lambda {a}: {element}, {name})",
            f"rd.sort({name})",
            f"{name}[::-1]",
            f"{name}[1:]",
            f"rd.concat([{name}, {name}])",
            f"{name}[rd.argsort({name})]",
            f"rd.roll({name}, 2)",
            f"rd.unique({name})",
            f"rd.stencil(lambda {a}: {a}[-1] + {a}[2], {name}, boundary={self.boundary(r.dtype)})",
            f"rd.filter(lambda {a}: {self.comparison(Value(a, r.dtype), [Value(a, r.dtype)], 1).source}, {name})",
        ]
        if whole:
            forms += [f"rd.scan(rd.add, 0, {name})", f"rd.scan(rd.maximum, 0, {name}, exclusive=True)"] * 2
            places = self.places(Value(name, r.dtype), 6, 1)
            forms.append(f"rd.scatter({name}, {places}, {name})")
            forms.append(f"rd.reduce_by_index({name}, rd.add, 0, {places}, {name})")
        return Value(f"(lambda {name}: {self.random.choice(forms)})({r.source})", r.dtype, r.dims)

    def decided(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Such an array, as a result."""
        r = self.origin(scope)
        for _ in range(self.random.randint(0, 3) if r else 0):
            r = self.grown(r)  # type: ignore[arg-type]
        return None if r is None else Value(r.source, r.dtype, kept=True)

    def decided_and_reduced(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Such an array, summed or counted into bins."""
        r = self.origin(scope)
        for _ in range(self.random.randint(1, 2) if r else 0):
            r = self.grown(r)  # type: ignore[arg-type]
        if r is None:
            return None
        if letter(r.dtype) != "f" and self.random.random() < 0.4:
            return Value(f"rd.bincount({self.places(r, 5)}, 5)", "i64", (self.unknown(5),))
        return self.total(r)


def full_writer(seed: int) -> FullWriter:
    """The writer for program number `seed`."""
    return FullWriter(Random(f"raido full {seed}"), seed)
