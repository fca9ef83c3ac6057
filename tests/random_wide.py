"""Further operations for random programs: strides, padding, reshaping, means, and faults.

Kept apart so that the programs of the basic generator stay the same for each seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from random_expressions import NARROW, Value, letter
from random_plain import PlainWriter


class WideWriter(PlainWriter):
    """The plain grammar and more."""

    def productions(self, depth: int) -> list[tuple[Callable[..., Any], int]]:
        more: list[tuple[Callable[..., Any], int]] = [
            (self.strided, 3),
            (self.padded, 2),
            (self.reshaped, 2),
            (self.wandering, 2 if depth == 0 else 0),
            (self.divided, 2 if depth == 0 else 0),
            (self.averaged, 1),
            (self.several_sums, 1),
        ]
        return super().productions(depth) + more

    def strided(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A stencil at every second or third position."""
        x = self.number(scope)
        if x is None:
            return None
        (window,) = self.parameters_of(1)
        step = self.random.choice((2, 2, 3))
        offsets = [", ".join(str(self.random.randint(-2, 2)) for _ in range(x.rank)) for _ in range(3)]
        body = self.expression([Value(f"{window}[{o}]", x.dtype) for o in offsets], 2)
        boundary = self.boundary(x.dtype)
        dims = tuple(self.unknown(-(-d.actual // step)) for d in x.dims)
        source = f"rd.stencil(lambda {window}: {body.source}, {x.source}, boundary={boundary}, stride={step})"
        return Value(source, body.dtype, dims) if f"{window}[" in body.source else None

    def padded(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.number(scope)
        if x is None:
            return None
        before, after = self.random.randint(0, 3), self.random.randint(0, 3)
        mode = self.random.choice(("constant", "edge", "reflect", "symmetric", "wrap")) if x.elements else "constant"
        dims = tuple(self.unknown(d.actual + before + after) for d in x.dims)
        return Value(f'rd.pad({x.source}, ({before}, {after}), mode="{mode}")', x.dtype, dims)

    def reshaped(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Rows become columns of another length, or a matrix a vector and back."""
        x = self.pick(scope, (1, 2))
        if x is None:
            return None
        if x.rank == 2:
            source = f"rd.reshape({x.source}, ({x.source}.shape[1], {x.source}.shape[0]))"
            return Value(source, x.dtype, (x.dims[1], x.dims[0]))
        pairs = f"rd.reshape(rd.stack([{x.source}, {x.source}]), ({x.source}.shape[0], 2))"
        return Value(pairs, x.dtype, (x.dims[0], self.unknown(2)))

    def wandering(self, scope: Sequence[Value], depth: int) -> Value | None:
        """A gather whose indices are sometimes out of range."""
        x, index = self.pick(scope), self.pick(scope, (1, 2), "i")
        if x is None or index is None or self.may_fault:
            return None
        self.may_fault = True
        width = x.dims[0].actual + self.random.choice((0, 0, 1))
        wide = self.cast(index, "i64")
        return Value(f"{x.source}[{wide.source} % {max(width, 1)}]", x.dtype, index.dims + x.dims[1:])

    def divided(self, scope: Sequence[Value], depth: int) -> Value | None:
        """An integer division that is sometimes by zero, or is guarded by a branch."""
        x = self.pick(scope, (1, 2, 3), "iu")
        if x is None or self.may_fault:
            return None
        (v,) = self.parameters_of(1)
        operator = self.random.choice(("//", "%"))
        if self.random.random() < 0.6:
            guarded = f"rd.cond({v} == 0, lambda: {v}, lambda: ({v} + 3) {operator} {v})"
            return Value(f"rd.elementwise(lambda {v}: {guarded}, {x.source})", x.dtype, x.dims)
        self.may_fault = True
        return Value(f"rd.elementwise(lambda {v}: {v} {operator} ({v} - 5), {x.source})", x.dtype, x.dims)

    def averaged(self, scope: Sequence[Value], depth: int) -> Value | None:
        x = self.pick(scope, (1, 2))
        if x is None or x.dtype in (*NARROW, "bool_") or x.elements == 0:
            return None
        x = self.whole(x)
        exact = self.cast(Value(f"({x.source} & 15)", x.dtype, x.dims), "i64") if letter(x.dtype) != "f" else x
        dtype = x.dtype if letter(x.dtype) == "f" else "f64"
        return Value(f"rd.mean({exact.source}, axis=0)", dtype, x.dims[1:])

    def several_sums(self, scope: Sequence[Value], depth: int) -> Value | None:
        """Reductions side by side over the same rows, joined."""
        x = self.pick(scope, (2, 3), "iu")
        if x is None or x.dims[-1].actual == 0:
            return None
        row = self.parameters_of(1)[0]
        body = f"rd.sum({row}) - rd.max({row}).astype(rd.{'u64' if letter(x.dtype) == 'u' else 'i64'})"
        if x.elements == 0:
            return None
        return Value(
            f"rd.map(lambda {row}: {body}, {x.source})", "u64" if letter(x.dtype) == "u" else "i64", x.dims[:1]
        )


def wide_writer(seed: int) -> WideWriter:
    """The writer for program number `seed`."""
    return WideWriter(Random(f"raido wide {seed}"), seed)
