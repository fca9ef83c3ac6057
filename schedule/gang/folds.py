"""Steps of reductions, scans and filters for a gang: each lane has partial results of its own, or lanes run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Op, Var, const
from raido.algo.graph.rewrite import free_variables, rebuild
from raido.schedule.gang.lanes import Vectors, choose, lane_mask, shared_parts
from raido.schedule.gang.promotion import Element, Promoted, sums_to_promote
from raido.schedule.gang.scan_lanes import ScanLanes
from raido.schedule.gang.stores import GangStores
from raido.schedule.nest.effects import is_scan
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Fold,
    For,
    If,
    Let,
    Statement,
    Store,
    VectorStore,
)
from raido.schedule.nest.values import Buffer, Extract, LaneCompress, LaneCount, NestExpr, Ramp, Read, Splat

_Store: TypeAlias = Callable[[Buffer, Sequence[NestExpr], Vectors], None]


class GangFolds(GangStores):
    """Translates `Fold`, `AtomicUpdate` and `Append`."""

    def _fold(self, s: Fold) -> None:
        if all(b in self.info.private for b in s.buffers):
            if any(b in self.gang_buffers for b in s.buffers):
                self._fold_into(s, self._store_private)
            else:
                self.out.append(s)
        elif not self.info.varies(*s.indices):
            if is_scan(s):
                self._scan_lanes(s)
            elif all(b in self.partials for b in s.buffers):
                self._fold_partials(s)
            else:
                self._fold_each_lane(s)
        elif (s.buffers, s.indices) in self.promoted:
            self._fold_promoted(s, self.promoted[s.buffers, s.indices])
        elif is_scan(s) or self._flat_motion(s.buffers[0], s.indices) is not None:
            self._fold_into(s, self._store_shared)
        else:
            self._fold_each_lane(s)

    def _updated(self, s: Fold, held: list[Vectors]) -> list[Vectors]:
        """The new values of a fold's buffers, given the values that they hold."""
        for left, value in zip(s.left, held, strict=True):
            self.vectors[left] = value
        self.vectors.update({v: self._name("value", self.vector(e)) for v, e in zip(s.right, s.values, strict=False)})
        self.memo.clear()
        for part in shared_parts(s.step):
            if self.info.varies(part):
                self.memo[part] = self._name("part", self.vector(part))
        updated = [self.vector(step) for step in s.step]
        return updated if len(updated) == 1 and not is_scan(s) else [self._name("step", step) for step in updated]

    def _fold_into(self, s: Fold, store: _Store) -> None:
        held = [self._read(Read(b, s.indices, None)) for b in s.buffers]
        held = [self._name("held", values) for values in held] if is_scan(s) else held
        updated = self._updated(s, held)
        for buffer, values in zip(s.buffers, updated, strict=True):
            store(buffer, s.indices, values)
        self.vectors.update((*zip(s.before, held, strict=False), *zip(s.after, updated, strict=False)))

    def _fold_partials(self, s: Fold) -> None:
        """Folds each lane's value into its own partial result."""
        accesses = []
        for b in s.buffers:
            partial = self.partials[b]
            accesses.append((partial.buffers[: self.gangs], s.indices if partial.indexed else ()))
        held = [tuple(Read(b, indices, None) for b in buffers) for buffers, indices in accesses]
        for (buffers, indices), old, new in zip(accesses, held, self._updated(s, held), strict=True):
            for g, buffer in enumerate(buffers):
                value = new[g] if self.mask is None else choose(self.mask[g], new[g], old[g])
                self.out.append(Store(buffer, indices, value))

    def _promote(self, loop: For) -> dict[Element, Promoted]:
        """Loads, before a loop, the sums under a mask that all its iterations add to."""
        made: dict[Element, Promoted] = {}
        for fold in sums_to_promote(loop) if self.mask is not None else ():
            kept = [b for b in fold.buffers if b.scope == "register" and b not in self.registers.memory]
            mine = any(b in self.info.private or b in self.partials for b in fold.buffers)
            if kept or mine or (fold.buffers, fold.indices) in self.promoted or not self.info.varies(*fold.indices):
                continue
            flat = [self._flat_motion(b, fold.indices) for b in fold.buffers]
            if any(motion is None or motion.stride != 1 for motion in flat):
                continue
            registers = []
            for b in fold.buffers:
                values = self._read(Read(b, fold.indices, None))
                serial = -next(self.serials)
                names = [self._gang_name(b.name, g) for g in range(self.gangs)]
                held = tuple(Buffer(name, b.dtype, (), "register", serial, (), self.lanes, None) for name in names)
                for register, value in zip(held, values, strict=True):
                    self.out += [Alloc(register), Store(register, (), value)]
                registers.append(held)
            made[fold.buffers, fold.indices] = Promoted(tuple(registers), self.mask)
        self.promoted.update(made)
        return made

    def _store_promoted(self, promoted: Mapping[Element, Promoted]) -> None:
        """Stores promoted sums behind the loop."""
        for (buffers, indices), made in promoted.items():
            del self.promoted[buffers, indices]
            for buffer, registers in zip(buffers, made.registers, strict=True):
                self._store_outside(buffer, indices, tuple(Read(r, (), None) for r in registers), made.mask)

    def _fold_promoted(self, s: Fold, promoted: Promoted) -> None:
        """Emits a step of a fold whose sums are in registers; lanes that were off before the loop may hold anything."""
        held: list[Vectors] = [tuple(Read(r, (), None) for r in registers) for registers in promoted.registers]
        held = [self._name("held", values) for values in held] if is_scan(s) else held
        updated = self._updated(s, held)
        for registers, old, new in zip(promoted.registers, held, updated, strict=True):
            for g, register in enumerate(registers):
                on = None if self.mask is promoted.mask else lane_mask(self.mask, g)
                self.out.append(Store(register, (), new[g] if on is None else choose(on, new[g], old[g])))
        self.vectors.update((*zip(s.before, held, strict=False), *zip(s.after, updated, strict=False)))

    def _fold_each_lane(self, s: Fold) -> None:
        """Folds one lane after the other into shared memory, for data-dependent indices."""
        self._keep_in_memory(s.buffers)
        for on, memo in self._each_lane((*s.step, *s.indices), set(s.left)):
            updated = tuple(replace_parts(e, memo) for e in s.step)
            indices = tuple(replace_parts(e, memo) for e in s.indices)
            self._in_lane(on, Fold(s.buffers, indices, updated, s.left, s.right, s.combine, s.neutral, s.monoid))

    def _atomic(self, s: AtomicUpdate) -> None:
        """Updates one lane after the other, even where only some operands vary, because lanes may update the same element."""
        self._keep_in_memory((s.buffer,))
        for on, memo in self._each_lane((*s.indices, s.value, s.combine), {s.left, s.right}):
            value, combine = (replace_parts(e, memo) for e in (s.value, s.combine))
            indices = tuple(replace_parts(e, memo) for e in s.indices)
            self._in_lane(on, AtomicUpdate(s.buffer, indices, value, s.left, s.right, combine, s.monoid))

    def _append(self, s: Append) -> None:
        """Compresses the kept lanes to the front of a vector, which is stored up to the last of them, or whole, gang after gang."""
        if s.position in self.info.private:
            raise TypeError("lanes cannot each have a place of their own in one array")
        on = self._name("on", self._on(s.predicate) or self.vector(s.predicate))
        values = [self._name("value", self.vector(value)) for value in s.values]
        for g, mask in enumerate(on):
            count, position = (Var(name, i64, -next(self.serials)) for name in ("count", "place"))
            self.out += [Let(count, LaneCount(mask)), Let(position, Read(s.position, (), None))]
            front = None
            if not s.spare or self.mask is not None:
                front = Op("lt", bool_, (Ramp(const(i64, 0), 1, self.lanes), Splat(count, self.lanes)))
            for buffer, value in zip(s.buffers, values, strict=True):
                (moved,) = self._name("moved", (LaneCompress(value[g], mask),))
                self.out.append(VectorStore(buffer, (position,), moved, 1, front))
            self.out.append(Store(s.position, (), Op("add", i64, (position, count))))

    def _scan_lanes(self, s: Fold) -> None:
        """Scans lanes in order, gang after gang, with the values of the buffers on the left."""
        if self.mask is not None:
            raise TypeError("a scan over lanes under a mask")
        values = [self._name("value", self.vector(e)) for e in s.values]
        scan = ScanLanes(s, self.lanes, self.serials, self.out)
        results = scan.gangs([tuple(value[g] for value in values) for g in range(self.gangs)])
        self.vectors.update(zip((*s.before, *s.after), zip(*results, strict=True), strict=True))

    def _each_lane(
        self, roots: Sequence[NestExpr], bound: set[Var]
    ) -> Iterator[tuple[NestExpr | None, dict[NestExpr, NestExpr]]]:
        """For every lane of every gang: the condition that it is on (None: always), and the values of the
        expressions' varying parts in it."""
        parts: dict[NestExpr, Vectors] = {}
        for root in roots:
            self._name_parts(root, bound, parts)
        for g in range(self.gangs):
            for lane in range(self.lanes):
                on = None if self.mask is None else Extract(self.mask[g], lane)
                yield on, {part: Extract(vectors[g], lane) for part, vectors in parts.items()}

    def _in_lane(self, on: NestExpr | None, s: Statement) -> None:
        """Appends a statement for one lane, behind the test that it is on."""
        self.out.append(s if on is None else If(on, Block((s,))))

    def _name_parts(self, root: NestExpr, bound: set[Var], parts: dict[NestExpr, Vectors]) -> None:
        """Names the largest varying parts of `root` that do not mention `bound`."""
        stack = [root]
        while stack:
            e = stack.pop()
            if e in parts or e in bound or not self.info.varies(e):
                continue
            if free_variables(e).isdisjoint(bound):
                parts[e] = self._name("part", self.vector(e))
            elif isinstance(e, Op):
                stack.extend(e.args)


def replace_parts(e: NestExpr, memo: Mapping[NestExpr, NestExpr]) -> NestExpr:
    """The expression with some of its subexpressions replaced."""
    if e in memo:
        return memo[e]
    return rebuild(e, lambda child: child if isinstance(child, Buffer) else replace_parts(child, memo))
