"""The writes of a gang: names for vectors, and stores into private memory of its lanes or into memory that all lanes share.

Private buffers that vary become one buffer of vectors for each gang; a store under the mask under which the buffer was allocated needs no
selection, because no lane that is off reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Var
from raido.schedule.gang.lanes import Mask, Vectors, both, choose, lane_mask
from raido.schedule.gang.promotion import Element, Promoted
from raido.schedule.gang.registers import NotRegisters
from raido.schedule.gang.values import GangValues, Motion, Partial
from raido.schedule.nest.effects import reads_memory
from raido.schedule.nest.nodes import Alloc, Let, Scatter, Statement, Store, VectorStore
from raido.schedule.nest.values import Buffer, NestExpr, Ramp, Read, Splat, VectorVar


@dataclass(eq=False)
class GangStores(GangValues):
    """Appends to `out`, the statements of the current block; `partials`: the partial results of reductions by lane."""

    partials: Mapping[Buffer, Partial]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.born: dict[Buffer, Mask] = {}
        self.promoted: dict[Element, Promoted] = {}
        self.serials = count(1)
        self.out: list[Statement] = []

    def _name(self, name: str, values: Vectors) -> Vectors:
        """Names vectors, one for each gang, in the current block."""
        named = []
        for g, value in enumerate(values):
            if isinstance(value, (VectorVar, Splat, Ramp)) and not reads_memory(value):
                named.append(value)
                continue
            named += self._each(name, (value,), g)
        return tuple(named)

    def _each(self, name: str, values: Iterable[NestExpr], gang: int) -> Iterator[NestExpr]:
        """Names vectors of one gang."""
        for value in values:
            var = VectorVar(self._gang_name(name, gang), value.dtype, self.lanes, next(self.serials))
            self.out.append(Let(var, value))
            yield var

    def _gang_name(self, name: str, gang: int) -> str:
        return name if self.gangs == 1 else f"{name}_{gang}"

    def _freeze(self, name: str, motion: Motion) -> Motion:
        """The motion with its reads of memory evaluated now, because memory may change before the motion is used."""
        first, *others = motion[0]
        if not any(reads_memory(e) for e in motion[0]):
            return motion
        frozen = [Var(name, i64, -next(self.serials))]
        self.out.append(Let(frozen[0], first))
        bases: list[Expr] = [frozen[0]]
        for other in others:
            gap = ix.difference(other, first)
            if gap is None:
                bases.append(Var(name, i64, -next(self.serials)))
                self.out.append(Let(bases[-1], other))  # type: ignore[arg-type]
            else:
                bases.append(ix.add(frozen[0], gap))
        return tuple(bases), motion[1]

    def _alloc(self, s: Alloc) -> None:
        b = s.buffer
        if b not in self.info.buffers:
            self.out.append(s)
            return
        self.born[b] = self.mask
        self.gang_buffers[b] = tuple(
            Buffer(self._gang_name(b.name, g), b.dtype, b.shape, b.scope, b.serial, b.strides, self.lanes, None)
            for g in range(self.gangs)
        )
        self.out += [Alloc(instance) for instance in self.gang_buffers[b]]

    def _store(self, s: Store) -> None:
        if s.buffer not in self.info.private:
            element_varies = self.info.varies(*s.indices)
            if not element_varies and not self.info.varies(s.value, s.predicate):
                self.out.append(s)
                return
            self._store_outside(s.buffer, s.indices, self.vector(s.value), self._on(s.predicate), s.stream)
        elif s.buffer in self.gang_buffers:
            self._store_private(s.buffer, s.indices, self.vector(s.value), s.predicate)
        else:
            self.out.append(s)

    def _store_private(
        self, buffer: Buffer, indices: Sequence[NestExpr], values: Vectors, predicate: NestExpr | None = None
    ) -> None:
        """Stores into private memory of the lanes; lanes that are off keep their value."""
        instances = self.gang_buffers[buffer]
        if self.info.varies(*indices):
            on, vectors = self._on(predicate), self._lane_indices(indices)
            for g, instance in enumerate(instances):
                self.out.append(Scatter(instance, tuple(v[g] for v in vectors), values[g], lane_mask(on, g)))
            return
        mask = None if self.mask is self.born[buffer] else self.mask
        on = mask if predicate is None else both(mask, self.vector(predicate))
        for g, instance in enumerate(instances):
            value = values[g]
            if on is not None and instance.scope == "register":
                value = choose(on[g], value, Read(instance, tuple(indices), None))
                self.out.append(Store(instance, tuple(indices), value))
            else:
                self.out.append(Store(instance, tuple(indices), value, lane_mask(on, g)))

    def _store_outside(
        self, buffer: Buffer, indices: Sequence[NestExpr], values: Vectors, on: Mask, stream: int | None = None
    ) -> None:
        """Stores into memory that all lanes share."""
        if self.info.varies(*indices):
            target = self._register_element(buffer, indices)
            if target is not None:
                span = self._span(buffer, target[1])
                if on is self.edge and self.registers.may_clobber_off_lanes(buffer, span):
                    on = None
                for g, element in enumerate(target[1]):
                    value = values[g] if on is None else choose(on[g], values[g], Read(target[0], element, None))
                    self.out.append(Store(target[0], element, value))
                return
        flat = self._flat_motion(buffer, indices)
        if flat is not None and flat.stride != 0:
            for g, start in enumerate(flat.starts):
                on_here = lane_mask(on, g)
                self.out.append(VectorStore(buffer, start, values[g], flat.stride, on_here, stream, flat.across))
            return
        if buffer.scope == "register" and buffer not in self.registers.memory:
            raise NotRegisters(buffer)
        vectors = self._lane_indices(indices)
        for g in range(self.gangs):
            self.out.append(Scatter(buffer, tuple(v[g] for v in vectors), values[g], lane_mask(on, g)))

    def _store_shared(self, buffer: Buffer, indices: Sequence[NestExpr], values: Vectors) -> None:
        self._store_outside(buffer, indices, values, self.mask)

    def _keep_in_memory(self, buffers: Sequence[Buffer]) -> None:
        for b in buffers:
            if b.scope == "register" and b not in self.registers.memory and b.shape:
                raise NotRegisters(b)
