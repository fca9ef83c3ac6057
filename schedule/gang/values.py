"""Values inside a gang: expressions of one index as vectors over lanes.

A varying value is a tuple with one vector for each of the interleaved gangs; a uniform one is splat where a vector needs it. An index is
described by its *motion*: its value in the first lane, and the constant stride from lane to lane. Accesses are classified by it: constant
stride in memory → `VectorRead` (1: a plain vector), stride 0 → scalar, no constant stride → `Gather`. Outer register arrays become arrays
of vectors where every access is aligned to whole gangs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, Var, const
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.gang.lanes import Mask, Vectors, both, choose, lane_mask, negation
from raido.schedule.gang.quotients import Meanings, is_multiple_throughout
from raido.schedule.gang.registers import NotRegisters, Registers, Span
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.nodes import For
from raido.schedule.nest.values import (
    Buffer,
    Gather,
    LaneFold,
    LaneShuffle,
    NestExpr,
    Ramp,
    Read,
    Splat,
    VectorRead,
    flat_offset,
    strides_of,
)
from raido.schedule.stages.boundary_rules import clamped_index

Motion = tuple[tuple[Expr, ...], int]


class FlatMotion(NamedTuple):
    """An access to memory: for each gang the indices of its first lane, and the stride from lane to lane in elements.

    across: axes are regrouped, so lanes may go on from one row into the next.
    """

    starts: list[tuple[Expr, ...]]
    stride: int
    across: bool


@dataclass(frozen=True)
class Partial:
    """The partial results of a fold into an outer buffer: one buffer of vectors for each gang. indexed: whether they have the outer
    buffer's indices, or none."""

    buffers: tuple[Buffer, ...]
    indexed: bool


@dataclass(eq=False)
class GangValues:
    """The lanes of `gangs` gangs that start at `base`, and the values known in them.

    steps: the variables of the loops around as their initial values and multiples of their steps.
    """

    loop: For
    info: Variability
    lanes: int
    gangs: int
    base: Expr
    registers: Registers
    steps: Mapping[Var, Expr]

    def __post_init__(self) -> None:
        step = self.loop.step
        bases = tuple(ix.add(self.base, g * self.lanes * step) for g in range(self.gangs))
        self.motions: dict[NestExpr, Motion | None] = {self.loop.var: (bases, step)}
        self.vectors: dict[Var, Vectors] = {}
        self.meanings = Meanings()
        self.gang_buffers: dict[Buffer, tuple[Buffer, ...]] = {}
        self.mask: Mask = None
        self.edge: Mask = None  # the lanes below the end of the loop
        self.on: Expr | None = None  # how many they are
        self.memo: dict[NestExpr, Vectors] = {}
        self.transposed: dict[Read, Vectors] = {}
        self._elements: dict[tuple[Buffer, tuple[NestExpr, ...]], tuple[Buffer, list[tuple[Expr, ...]]]] = {}

    # --- how an index moves with the lane

    def motion(self, e: NestExpr) -> Motion | None:
        """The value in lane 0 of each gang, and the constant stride from lane to lane; None where there is no constant stride."""
        if not self.info.varies(e):
            return (e,) * self.gangs, 0
        if e in self.motions:
            return self.motions[e]
        answer: Motion | None = None
        if isinstance(e, Op) and e.dtype is i64 and e.name in ("add", "sub", "mul", "neg"):
            parts = [self.motion(a) for a in e.args]
            if all(part is not None for part in parts):
                answer = _move(e.name, *parts)  # type: ignore[arg-type]
        self.motions[e] = answer
        return answer

    def _flat_motion(self, buffer: Buffer, indices: Sequence[NestExpr]) -> FlatMotion | None:
        """The motion in memory of an access with these indices; None where there is no constant stride."""
        motions = [self.motion(i) for i in indices]
        if None in motions:
            return self._regrouped_motion(buffer, indices)
        total = 0
        for motion, stride in zip(motions, strides_of(buffer), strict=True):
            if motion is not None and motion[1]:
                if (step := ix.constant_value(stride)) is None:
                    return None
                total += motion[1] * step
        starts = [tuple(m[0][g] for m in motions if m is not None) for g in range(self.gangs)]
        return FlatMotion(starts, total, False)

    def _regrouped_motion(self, buffer: Buffer, indices: Sequence[NestExpr]) -> FlatMotion | None:
        """The motion in memory of an access whose indices have quotients and remainders that cancel there; None
        where it has no constant stride."""
        offset = flat_offset(buffer, [self.meanings.replace(i, {}) for i in indices])  # type: ignore[misc]
        if (
            offset is not None and (motion := self.motion(offset)) is not None
        ):  # one loop over whole rows, of any length
            return FlatMotion([(*(ix.as_index(0) for _ in indices[1:]), at) for at in motion[0]], motion[1], True)
        strides = [ix.constant_value(stride) for stride in strides_of(buffer)]
        moving = {d: stride for d, stride in enumerate(strides) if self.info.varies(indices[d])}
        known = [stride for stride in moving.values() if stride is not None]
        if len(known) < len(moving):
            return None
        constant, terms = self.meanings.address([indices[d] for d in moving], known)
        motions = {atom: self.motion(atom) for atom in terms}
        if None in motions.values():
            return None
        total = sum(motion[1] * terms[atom] for atom, motion in motions.items() if motion is not None)
        (finest, unit) = min(zip(moving, known, strict=True), key=lambda each: abs(each[1]))
        whole = all(each % unit == 0 for each in (constant, *terms.values()))
        starts = []
        for g in range(self.gangs):
            first: dict[NestExpr, NestExpr] = {e: motion[0][g] for e, motion in self.motions.items() if motion}
            start: list[NestExpr] = [self.meanings.replace(i, first) for i in indices]
            if whole:  # all of it along one dimension: nothing is divided
                start = [ix.as_index(0) if d in moving else i for d, i in enumerate(start)]
                start[finest] = ix.as_index(constant // unit)
                for atom, motion in motions.items():
                    assert motion is not None
                    start[finest] = ix.add(start[finest], ix.mul(motion[0][g], terms[atom] // unit))  # type: ignore[arg-type]
            starts.append(tuple(start))
        return FlatMotion(starts, total, True)  # type: ignore[arg-type]

    # --- expressions

    def vector(self, root: NestExpr) -> Vectors:
        """The expression in all lanes, one vector for each gang."""
        memo, stack = self.memo, [root]
        while stack:
            e = stack[-1]
            if e in memo:
                stack.pop()
                continue
            rest = [o for o in self._operands(e) if o not in memo]
            if rest:
                stack.extend(rest)
            else:
                memo[e] = self._vector(e)
        return memo[root]

    def _operands(self, e: NestExpr) -> tuple[NestExpr, ...]:
        if not self.info.varies(e) or not isinstance(e, (Op, Read)):
            return ()
        if isinstance(e, Op):
            return () if self.motion(e) is not None and e.dtype is i64 else e.args
        operands = () if e.predicate is None else (e.predicate,)
        return operands + tuple(i for i in e.indices if self.motion(i) is None)

    def _vector(self, e: NestExpr) -> Vectors:
        if not self.info.varies(e):
            return (Splat(e, self.lanes),) * self.gangs
        if isinstance(e, Var) and e in self.vectors:
            return self.vectors[e]
        motion = self.motion(e) if e.dtype is i64 else None
        if motion is not None:
            bases, stride = motion
            return tuple(Ramp(e, stride, self.lanes) if stride else Splat(e, self.lanes) for e in bases)
        if isinstance(e, Op):
            args = [self.memo[a] for a in e.args]
            return tuple(Op(e.name, e.dtype, tuple(a[g] for a in args)) for g in range(self.gangs))
        if isinstance(e, Read):
            return self._read(e)
        raise TypeError(f"no vector of {e!r}")

    def _on(self, predicate: NestExpr | None) -> Mask:
        """The mask under which an access with that predicate runs."""
        return self.mask if predicate is None else both(self.mask, self.vector(predicate))

    def _lane_indices(self, indices: Sequence[NestExpr]) -> list[Vectors]:
        return [self.vector(i) for i in indices]

    def _read(self, e: Read) -> Vectors:
        if e in self.transposed:
            return self.transposed[e]
        buffer = e.buffer
        uniform = not self.info.varies(*e.indices)
        if buffer in self.gang_buffers and uniform:
            mask: Mask = None if e.predicate is None else self.vector(e.predicate)
            return tuple(Read(b, e.indices, lane_mask(mask, g)) for g, b in enumerate(self.gang_buffers[buffer]))
        on = self._on(e.predicate)
        if uniform:  # only the predicate varies
            assert on is not None
            zero = Splat(const(buffer.dtype, 0), self.lanes)
            return tuple(choose(m, self._if_any(m, buffer, e.indices), zero) for m in on)
        target = self._register_element(buffer, e.indices)
        if target is not None:
            self.registers.look(buffer, self._span(buffer, target[1]))
            return tuple(Read(target[0], element, None) for element in target[1])
        if buffer not in self.gang_buffers:
            flat = self._flat_motion(buffer, e.indices)
            if flat is not None:
                starts, stride, across = flat
                return tuple(
                    VectorRead(buffer, start, stride, self.lanes, lane_mask(on, g), across)
                    for g, start in enumerate(starts)
                )
            spread = self._spread_in_groups(e, on)
            if spread is not None:
                return spread
            clamped = self._clamped(buffer, e.indices, on)
            if clamped is not None:
                return clamped
        buffers = self.gang_buffers.get(buffer, (buffer,) * self.gangs)
        vectors = self._lane_indices(e.indices)
        return tuple(Gather(b, tuple(v[g] for v in vectors), lane_mask(on, g)) for g, b in enumerate(buffers))

    def _spread_in_groups(self, e: Read, on: Mask) -> Vectors | None:
        """A read of one element of each few neighbours in memory, shared by as many lanes, as a shuffled vector: a[f //
        4, 3]. None for other reads."""
        if len(e.indices) < 2 or e.buffer.strides or self.info.varies(*e.indices[:-2], e.indices[-1]):
            return None
        extent, element = ix.constant_value(e.buffer.shape[-1]), ix.constant_value(e.indices[-1])  # type: ignore[arg-type]
        if extent is None or element is None or not 0 <= element < extent:
            return None
        motion = self._motion_in_groups(e.indices[-2], extent)
        if motion is None or not self._shared_in_groups(e.predicate, extent):
            return None
        order = bytes(lane - lane % extent + element for lane in range(self.lanes))
        out = []
        for g, start in enumerate(motion[0]):
            row = (*e.indices[:-2], ix.as_index(0), start)
            read = VectorRead(e.buffer, row, 1, self.lanes, lane_mask(on, g), True)
            out.append(LaneShuffle(read, read, order))
        return tuple(out)

    def _motion_in_groups(self, e: NestExpr, count: int) -> Motion | None:
        """The motion of f for an index f // count that `count` neighbouring lanes share; None unless every gang begins,
        and the loop ends, at a multiple."""
        along = None if self.lanes % count or self.loop.step > 1 else self.meanings.divided(e, count)
        motion = None if along is None else self.motion(along)
        if along is None or motion is None or motion[1] != 1:
            return None
        ends = (ix.sub(along, self.loop.var), ix.as_index(self.loop.low), ix.as_index(self.loop.high))  # type: ignore[arg-type]
        whole = all(is_multiple_throughout(substitute(end, self.steps), count) for end in ends)
        return motion if whole else None

    def _shared_in_groups(self, e: NestExpr | None, count: int) -> bool:
        """Whether a condition is provably the same in each group of `count` neighbouring lanes."""
        if e is None or not self.info.varies(e):
            return True
        if e.dtype is i64 and self._motion_in_groups(e, count) is not None:
            return True
        return isinstance(e, Op) and all(self._shared_in_groups(a, count) for a in e.args)

    def _clamped(self, buffer: Buffer, indices: Sequence[NestExpr], on: Mask) -> Vectors | None:
        """A read of consecutive elements clamped at the ends, as a vector and two elements instead of a gather; None for other reads."""
        (d, *others) = [d for d, index in enumerate(indices) if self.info.varies(index)]
        clamped = clamped_index(indices[d], buffer.shape[d])
        if others or clamped is None:
            return None
        inner, extent = clamped
        at = lambda index: (*indices[:d], index, *indices[d + 1 :])
        flat = self._flat_motion(buffer, at(inner))
        if flat is None or flat.stride != 1 or flat.across or self.info.varies(extent):
            return None
        zero, last = const(i64, 0), ix.sub(extent, 1)
        vectors = self.vector(inner)
        before, below = (
            tuple(Op("lt", bool_, (index, Splat(end, self.lanes))) for index in vectors) for end in (zero, extent)
        )
        inside, behind = both(on, both(negation(before), below)), negation(below)
        value = [
            VectorRead(buffer, start, 1, self.lanes, lane_mask(inside, g), False) for g, start in enumerate(flat.starts)
        ]
        for beyond, end in ((behind, last), (before, zero)):
            ends = [self._if_any(mask, buffer, at(end)) for mask in both(on, beyond) or ()]
            value = [choose(*each) for each in zip(beyond, ends, value, strict=True)]
        return tuple(value)

    def _if_any(self, mask: NestExpr, buffer: Buffer, indices: tuple[NestExpr, ...]) -> NestExpr:
        """An element splat to all lanes, read if any lane is on."""
        return Splat(Read(buffer, indices, LaneFold("logical_or", mask)), self.lanes)

    def _register_element(
        self, buffer: Buffer, indices: Sequence[NestExpr]
    ) -> tuple[Buffer, list[tuple[Expr, ...]]] | None:
        """The vector buffer and, for each gang, the index at which an outer register buffer holds these lanes as one
        vector; None for other buffers."""
        outside = buffer.scope == "register" and buffer not in self.info.private
        if not outside or buffer in self.registers.memory:
            return None
        access = buffer, tuple(indices)
        if access not in self._elements:
            self._elements[access] = self._element_in_registers(*access)
        return self._elements[access]

    def _element_in_registers(
        self, buffer: Buffer, indices: tuple[NestExpr, ...]
    ) -> tuple[Buffer, list[tuple[Expr, ...]]]:
        motions = [self.motion(i) for i in indices]
        moving = [d for d, m in enumerate(motions) if m is None or m[1]]
        if len(moving) != 1 or motions[moving[0]] is None or motions[moving[0]][1] != 1:  # type: ignore[index]
            raise NotRegisters(buffer)
        (dimension,) = moving
        made = self.registers.vectors(buffer, dimension, self.lanes)
        coordinates = []
        for g in range(self.gangs):
            index = [m[0][g] for m in motions if m is not None]
            start = index[dimension]
            if isinstance(self.base, Var) and self.base in free_variables(start):
                raise NotRegisters(buffer)
            if not ix.is_multiple(start, self.lanes):
                raise NotRegisters(buffer)
            index[dimension] = ix.floordiv(start, self.lanes)
            coordinates.append(tuple(index))
        return made, coordinates

    def _span(self, buffer: Buffer, indices: Sequence[tuple[Expr, ...]]) -> Span:
        """The lanes of a register buffer that the loop covers, if it ends among them; else None."""
        return None if self.on is None else (self.on, indices[0][self.registers.split[buffer][0]])


def _move(name: str, a: Motion, b: Motion | None = None) -> Motion | None:
    if name == "neg":
        return tuple(ix.mul(e, -1) for e in a[0]), -a[1]
    assert b is not None
    if name == "mul":
        for x, y in ((a, b), (b, a)):
            factors = {ix.constant_value(e) for e in y[0]}
            if y[1] == 0 and len(factors) == 1 and None not in factors:
                (factor,) = factors
                return tuple(ix.mul(e, factor) for e in x[0]), x[1] * factor  # type: ignore[arg-type, operator]
        return None
    combine = ix.add if name == "add" else ix.sub
    stride = a[1] + b[1] if name == "add" else a[1] - b[1]
    return tuple(combine(x, y) for x, y in zip(a[0], b[0], strict=True)), stride
