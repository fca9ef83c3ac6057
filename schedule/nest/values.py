"""Expressions of a nest: memory, and values of one lane or several.

Expressions are the graph's `Const, SizeVar, Var, Op` and, here, `Read`; the gang nest adds `Ramp, Splat, VectorRead, Gather, LaneFold,
Extract, LaneShift, LaneShuffle, LaneCompress, LaneCount`. A `Var` with more than one lane is a `VectorVar`. `lanes_of` gives the lanes of
any expression; all arguments of an `Op` have the same number (a `Splat` is explicit). Booleans with lanes are masks. Lane-private buffers
are read by `Read`, and by `Gather` at an index of each lane's own, in its own column. `VectorRead` advances in memory from the element at
`indices`. Reads are always in bounds: reads that may not be have a predicate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count, product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, i64
from raido.algo.graph.expr import Const, Expr, Op, Parameter
from raido.algo.graph.node import Node, Opaque, node


@node
class Buffer(Node):
    """Memory for an array. Row-major over `shape`, innermost last, unless `strides` (in elements) says otherwise.

    scope: "parameter" (given by the caller), "result" (an output without memory at first: it gets a heap buffer's, by `Swap`, and leaves it
    to the caller), "constant" (`data` holds the contents), "heap" (one for the kernel or task), "shared" (constant size, one for the
    threads of a block), "stack" (small, constant size), "register" (all indices constant once unrolled; rank 0 is a mutable scalar). In the
    gang nest a lane-private buffer has `lanes` > 1: each element is a vector.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    scope: str
    serial: int
    strides: tuple[Expr, ...]
    lanes: int
    data: object


def contents(buffer: Buffer) -> np.ndarray:
    """Returns the contents of a constant buffer."""
    data: Any = buffer.data
    return np.asarray(getattr(data, "array", data))


_serials = count(1)


def new_serial() -> int:
    """Returns a serial number that no other buffer has."""
    return next(_serials)


def register(name: str, dtype: DType) -> Buffer:
    """Returns a new register for a scalar."""
    return Buffer(name, dtype, (), "register", new_serial(), (), 1, None)


def replaced(buffer: Buffer, **fields: Any) -> Buffer:
    """Returns a buffer with some fields replaced."""
    names = ("name", "dtype", "shape", "scope", "serial", "strides", "lanes", "data")
    return Buffer(*(fields.get(name, getattr(buffer, name)) for name in names))


@node
class Read(Opaque):
    """The element of a buffer at scalar indices; where `predicate` (None: true) is false memory is not accessed and the value is 0."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    predicate: NestExpr | None

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@node
class VectorVar(Opaque):
    """A variable with lanes."""

    name: str
    dtype: DType
    lanes: int
    serial: int


@node
class Ramp(Opaque):
    """The i64 lanes base, base + stride, …."""

    base: NestExpr
    stride: int
    lanes: int

    @property
    def dtype(self) -> DType:
        return i64


@node
class Splat(Opaque):
    """A scalar in every lane."""

    value: NestExpr
    lanes: int

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@node
class VectorRead(Opaque):
    """Lane k reads at the scalar `indices`, the last one advanced by k·stride; lanes off in `mask` (None: all on) access no memory, and are
    0.

    `across`: the lanes may continue from one row into the next, in memory.
    """

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    stride: int
    lanes: int
    mask: NestExpr | None
    across: bool = False

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@node
class Gather(Opaque):
    """Lane k reads at lane k of `indices` (each with lanes); lanes off in `mask` access no memory, and are 0."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    mask: NestExpr | None

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@node
class LaneFold(Opaque):
    """A scalar: all lanes combined by a primitive ("add", "minimum", "logical_or", …), in the fixed tree that halves the lanes: lane 0 with
    n/2, …
    """

    name: str
    value: NestExpr

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@node
class Extract(Opaque):
    """One lane of a vector, as a scalar."""

    value: NestExpr
    lane: int

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@node
class LaneShift(Opaque):
    """Lane k is lane k − distance of `value`; the first lanes are `fill`."""

    value: NestExpr
    distance: int
    fill: Const

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@node
class LaneShuffle(Opaque):
    """Lane k is lane places[k] of `first` followed by `second`: a byte for each of as many lanes as each has."""

    first: NestExpr
    second: NestExpr
    order: bytes

    @property
    def dtype(self) -> DType:
        return self.first.dtype


@node
class LaneCompress(Opaque):
    """The lanes of `value` that are on in `mask`, packed to the front, in order; the other lanes are 0."""

    value: NestExpr
    mask: NestExpr

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@node
class LaneCount(Opaque):
    """The number of lanes that are on."""

    mask: NestExpr

    @property
    def dtype(self) -> DType:
        return i64


NestExpr: TypeAlias = (
    Expr
    | Read
    | VectorVar
    | Ramp
    | Splat
    | VectorRead
    | Gather
    | LaneFold
    | Extract
    | LaneShift
    | LaneShuffle
    | LaneCompress
    | LaneCount
)


def strides_of(buffer: Buffer) -> tuple[Expr, ...]:
    """The elements from one index of each dimension to the next: the buffer's own, or those of row-major order."""
    strides: list[Expr] = [ix.as_index(1)]
    for extent in reversed(buffer.shape[1:]):
        strides.append(ix.mul(strides[-1], extent))
    return buffer.strides or tuple(reversed(strides[: len(buffer.shape)]))


def flat_offset(buffer: Buffer, indices: Sequence[Expr]) -> Expr | None:
    """The offset, in elements, of indices into which a fused loop's index was divided: that index itself in place of the quotient and the
    remainder by the length of a row. None where no index is so divided, and of buffers whose elements are not in row-major order."""
    if buffer.strides or not indices:
        return None
    total, joined = indices[0], False
    for length, within in zip(buffer.shape[1:], indices[1:], strict=True):
        _, terms = ix.linear(total)
        whole = within.args[0] if isinstance(within, Op) and within.name == "mod" and within.args[1] is length else None
        quotient = None if whole is None else Op("floordiv", whole.dtype, (whole, length))
        if whole is not None and quotient is not None and terms.get(quotient) == 1:
            total, within, joined = ix.sub(total, quotient), whole, True
        total = ix.add(ix.mul(total, length), within)
    return ix.canonical(total) if joined else None


def elements_of(buffer: Buffer, rows: Collection[int] = ()) -> int | None:
    """Returns the number of elements of a buffer, of those of a row that the dimensions `rows` select; None where it is not known."""
    extents = [ix.constant_value(extent) for d, extent in enumerate(buffer.shape) if d not in rows]
    return None if None in extents else prod(extents)  # type: ignore[arg-type]


def indices_of(buffer: Buffer) -> Iterator[tuple[Expr, ...]]:
    """Yields all indices of a buffer of constant shape."""
    return product(*([ix.as_index(k) for k in range(ix.constant_value(extent) or 0)] for extent in buffer.shape))


def converted(e: NestExpr, dtype: DType) -> Any:
    """Returns a value cast to a dtype; the same value where it has that dtype."""
    return e if e.dtype is dtype else Op("cast", dtype, (e,))  # type: ignore[arg-type]


def lanes_of(e: NestExpr) -> int:
    """Returns the number of lanes of a value; 1 for scalars."""
    above: list[NestExpr] = []
    lanes = getattr(e, "_lanes", None)
    while lanes is None:
        above.append(e)
        below = _with_as_many_lanes(e)
        if below is None:
            lanes = e.lanes if isinstance(e, (VectorVar, Ramp, Splat, VectorRead)) else 1
            lanes = e.buffer.lanes if isinstance(e, Read) else lanes
        else:
            e = below
            lanes = getattr(e, "_lanes", None)
    for each in above:
        object.__setattr__(each, "_lanes", lanes)
    return lanes


def _with_as_many_lanes(e: NestExpr) -> NestExpr | None:
    """Returns an operand with as many lanes as the value; None where the value itself states them."""
    if isinstance(e, Gather):
        return e.indices[0]
    if isinstance(e, (LaneShift, LaneCompress)):
        return e.value
    if isinstance(e, LaneShuffle):
        return e.first
    return e.args[0] if isinstance(e, Op) and e.args else None


def buffer_for(parameter: Parameter) -> Buffer:
    """Returns the buffer of an input array."""
    return Buffer(parameter.name, parameter.dtype, parameter.shape, "parameter", parameter.serial, (), 1, None)
