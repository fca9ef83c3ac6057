"""Parameters and results of every kind for random programs: sizes as arguments, sizes that are formulas, records, complex numbers,
tuples; and programs without contraction (`contract=False`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from random_expressions import Dim, Value, letter
from random_indexing import IndexingWriter


class WholeWriter(IndexingWriter):
    """The whole language."""

    def __init__(self, random: Random, seed: int) -> None:
        super().__init__(random, seed)
        self.more: list[str] = []  # arguments after those for arrays and scalars
        self.sizes: list[Dim] = []  # what expressions may use as sizes
        self.also: list[Value] = []  # results beside those of statements

    def declare(self, sizes: Mapping[str, int]) -> None:
        """Some of: no contraction, a size of its own or of an array, a formula, a record, a complex array, a tuple."""
        random = self.random
        if random.random() < 0.2:
            self.decorator = "@rd.algorithm(contract=False)"
        if random.random() < 0.4:
            self.declare_size(sizes)
        if random.random() < 0.2:
            self.declare_record(self.some_dim())
        if random.random() < 0.15:
            self.declare_complex(self.some_dim())
        if random.random() < 0.15:
            self.declare_tuple(self.some_dim())

    def some_dim(self) -> Dim:
        """A size that the parameters so far decide."""
        return self.random.choice([d for v in self.parameters for d in v.dims] or [Dim("4", 4)])

    def text(self, dim: Dim) -> str:
        return dim.token if dim.token.isdigit() else f'"{dim.token}"'

    def array(self, dtype: str, dim: Dim) -> str:
        """The argument for one more array."""
        return f"make_input({dtype!r}, ({dim.actual},), {self.seed % 2**31 + 100 + len(self.more)})"

    def declare_size(self, sizes: Mapping[str, int]) -> None:
        name = self.random.choice((*sizes, "q", "q"))
        actual = sizes.get(name, self.random.choice((0, 1, 2, 5, 8, 9, 17)))
        self.annotations.append(f"{name}: rd.size")
        self.more.append(str(actual))
        self.sizes.append(Dim(name, actual))
        self.scope.append(Value(f"rd.i64({name})", "i64"))
        if self.random.random() < 0.5:
            self.declare_formula(self.sizes[-1])

    def declare_formula(self, dim: Dim) -> None:
        """An array whose size is made of one that is given."""
        form, actual = self.random.choice((("{} + 1", dim.actual + 1), ("2 * {}", 2 * dim.actual), ("{}", dim.actual)))
        formula, dtype = Dim(form.format(dim.token), actual), self.random.choice(("i32", "f32", "u8", "i64"))
        self.annotations.append(f"e: rd.{dtype}[{self.text(formula)}]")
        self.more.append(self.array(dtype, formula))
        self.scope.append(Value("e", dtype, (formula,)))

    def declare_record(self, dim: Dim) -> None:
        """An array of records, of which every combinator takes the fields; it is a result too, some of the time."""
        kinds = [self.random.choice(("f32", "i32", "i64", "u8", "f64", "bool_")) for _ in "xy"]
        fields = ", ".join(f"{name}=rd.{kind}" for name, kind in zip("xy", kinds, strict=True))
        self.annotations.append(f"r: rd.record({fields})[{self.text(dim)}]")
        arrays = (f"{name!r}: {self.array(kind, dim)}" for name, kind in zip("xy", kinds, strict=True))
        self.more.append(f"{{{', '.join(arrays)}}}")
        both = [Value(f"r.{name}", kind, (dim,)) for name, kind in zip("xy", kinds, strict=True)]
        self.scope += both
        if self.random.random() < 0.4:
            turned = self.random.choice(
                (
                    "r",
                    "r[::-1]",
                    "rd.map(lambda e: e.replace(x=e.x), r)",
                    "rd.filter(lambda e: e.x > 1, r)",
                    "rd.roll(r, 1)",
                    "rd.concat([r, r])",
                )
            )
            self.also.append(Value(turned, "record", (dim,)))

    def declare_complex(self, dim: Dim) -> None:
        """A complex array, whose parts the scope has; it is a result too, some of the time."""
        dtype = self.random.choice(("f32", "f64"))
        name = f"complex{2 * int(dtype[1:])}"
        self.annotations.append(f"z: rd.{name}[{self.text(dim)}]")
        parts = f"np.round({self.array('f32', dim)})", f"{self.array('f32', dim)}"
        self.more.append(f"np.array([complex(*e) for e in zip({', '.join(parts)})], np.{name})")
        self.scope += [Value(f"z.{part}", dtype, (dim,)) for part in ("real", "imag")]
        if self.random.random() < 0.6:
            form = self.random.choice(
                (
                    "z * (2 - 1j) + z",
                    "rd.conj(z) * z",
                    "z[::-1]",
                    "z * z - 1",
                    "rd.abs(z)",
                    "rd.roll(z, 2)",
                    "rd.stack([z, z], axis=1)",
                    "rd.concat([z[1:], z])",
                )
            )
            self.also.append(Value(form, "complex", (dim,)))

    def declare_tuple(self, dim: Dim) -> None:
        """A tuple of two arrays."""
        kinds = [self.random.choice(("f32", "i32", "u16", "i64", "f64", "i8")) for _ in range(2)]
        self.annotations.append(f"p: ({', '.join(f'rd.{kind}[{self.text(dim)}]' for kind in kinds)})")
        self.more.append(f"({', '.join(self.array(kind, dim) for kind in kinds)})")
        self.scope += [Value(f"p[{k}]", kind, (dim,)) for k, kind in enumerate(kinds)]

    def arguments(self) -> list[str]:
        return super().arguments() + self.more

    def returned(self) -> str:
        """Results in a structure, some of the time."""
        sources = [v.source for v in self.results]
        random = Random(f"raido {self.seed} structure")
        if len(sources) > 1 and random.random() < 0.4:
            cut = random.randrange(1, len(sources))
            sources = [f"({', '.join(sources[:cut])},)", *sources[cut:]]
        return ", ".join([*sources, *(v.source for v in self.also)])

    def exactness(self) -> tuple[bool, ...]:
        return (*super().exactness(), *(True for v in self.also for _ in range(1 + (v.dtype == "record"))))

    # What sizes are used for

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        return [*super().productions(depth), (self.sized, 6 if self.sizes else 0)]

    def sized(self, scope: Sequence[Value], depth: int) -> Value | None:
        """An array of a size that is an argument."""
        size, x = self.random.choice(self.sizes), self.pick(scope, (1, 2))
        if x is None:
            return None
        q, n, (i,) = size.token, x.dims[0].actual, self.parameters_of(1)
        kept, rest = min(size.actual, n), x.dims[1:]
        forms = [
            (f"rd.iota({q}, rd.i32)", "i32", (size,)),
            (f"rd.tabulate(({q} + 1,), lambda {i}: {i} * {i} - {q})", "i64", (self.unknown(size.actual + 1),)),
            (f"rd.replicate({q}, {x.source})", x.dtype, (size, *x.dims)),
            (f"{x.source}[:{q}]", x.dtype, (self.unknown(kept), *rest)),
            (f"{x.source}[{q}:]", x.dtype, (self.unknown(n - kept), *rest)),
            (
                f"rd.full(({q}, 2), {self.cast(Value('rd.i64(3)', 'i64'), x.dtype).source})",
                x.dtype,
                (size, self.unknown(2)),
            ),
        ]
        if n:
            forms.append((f"rd.tabulate(({q},), lambda {i}: {i} % {x.source}.shape[0])", "i64", (size,)))
        if x.rank == 1 and letter(x.dtype) in "iu":
            forms.append((f"rd.bincount({self.places(x, size.actual, 1)}, {q})", "i64", (size,)))
            forms.append((f"rd.loop({q}, lambda {i}, s: s + rd.{x.dtype}({i}), {x.source})", x.dtype, x.dims))
        source, dtype, dims = self.random.choice(forms)
        return None if len(dims) > 3 else Value(source, dtype, dims)


def whole_writer(seed: int) -> WholeWriter:
    """The writer for program number `seed`."""
    return WholeWriter(Random(f"raido whole {seed}"), seed)
