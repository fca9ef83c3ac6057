"""The body of a vector loop, for gangs of lanes instead of one index.

`GangBody` translates statement by statement. `gangs` gangs run side by side: a varying value is a tuple with one vector for each, a
uniform one stays the scalar it was and is computed once. Lanes that are off (`mask`) read and write no memory, and keep their private
state. Private buffers that vary become one buffer of vectors for each gang; a store under the mask that the buffer was allocated
under needs no selection, since no lane that is off will look. (Pharr & Mark, ispc, 2012.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Expr, Op, SizeVar, Var, const
from raido.algo.graph.rewrite import children, free_variables, rebuild, topological
from raido.schedule.gang.lanes import Mask, Vectors, any_lane, both, choose, lane_mask, negation, shared_parts
from raido.schedule.gang.leaving import Counter, find_counters, forgotten, split_condition
from raido.schedule.gang.scan_lanes import ScanLanes
from raido.schedule.gang.transposes import Square, find_squares, rounds_of
from raido.schedule.gang.values import GangValues, Motion, NotRegisters, Partial, Registers
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Buffer,
    Check,
    Extract,
    Fold,
    For,
    If,
    LaneCompress,
    LaneCount,
    LaneFold,
    LaneShuffle,
    Let,
    NestExpr,
    Prefetch,
    Prefix,
    Produce,
    Ramp,
    Read,
    Scatter,
    Splat,
    Statement,
    Store,
    VectorRead,
    VectorStore,
    VectorVar,
    While,
)
from raido.schedule.nest.walk import expressions_of, statements_within

_CHEAP = 24


class GangBody(GangValues):
    """One translation of a loop body: for `gangs` gangs of `lanes` lanes that start at `base`."""

    def __init__(
        self,
        loop: For,
        info: Variability,
        lanes: int,
        gangs: int,
        base: Expr,
        high: Expr | None,
        partials: Mapping[Buffer, Partial],
        registers: Registers,
    ) -> None:
        super().__init__(loop, info, lanes, gangs, base, registers)
        self.loop, self.partials = loop, partials
        self.born: dict[Buffer, Mask] = {}
        self.serials = count(1)
        self.out: list[Statement] = []
        if high is not None:
            inside = self.vector(loop.var)
            self.mask = self._name("on", tuple(Op("lt", bool_, (r, Splat(high, lanes))) for r in inside))
        self._statements(loop.body.statements)
        self.block = Block(tuple(self.out))

    # --- blocks and names

    def _statements(self, statements: Sequence[Statement]) -> None:
        squares = find_squares(statements, self.loop, self.lanes) if self.mask is None else []
        for place, statement in enumerate(statements):
            self.memo.clear()
            for square in squares:
                if square.first == place:
                    self._turn(square)
            if isinstance(statement, While):
                self._while(statement, statements[:place], statements[place + 1 :])
            else:
                self._statement(statement)
        for square in squares:
            for read in square.reads:
                self.turned.pop(read, None)

    def _turn(self, square: Square) -> None:
        """Reads of neighbouring columns: rows are read, and turned."""
        read = square.reads[0]
        motions = [self.motion(i) for i in read.indices]
        flat = self._flat_motion(read.buffer, read.indices)
        if None in motions or motions[-1][1] or (flat is not None and abs(flat[1]) < self.lanes):  # type: ignore[index]
            return
        gangs = []
        for g in range(self.gangs):
            places = [tuple(ix.add(m[0][g], row * m[1]) for m in motions if m) for row in range(self.lanes)]
            now = [*self._each("row", (VectorRead(read.buffer, place, 1, self.lanes, None) for place in places), g)]
            for shuffles in rounds_of(self.lanes, read.dtype.bits):
                now = [*self._each("turned", (LaneShuffle(now[a], now[b], taken) for a, b, taken in shuffles), g)]
            gangs.append(now)
        self.turned.update(zip(square.reads, zip(*gangs, strict=True), strict=True))

    def _each(self, name: str, values: Iterable[NestExpr], gang: int) -> Iterator[NestExpr]:
        """Names vectors of one gang."""
        for value in values:
            var = VectorVar(self._gang_name(name, gang), value.dtype, self.lanes, next(self.serials))
            self.out.append(Let(var, value))
            yield var

    def _nested(self, block: Block, mask: Mask) -> Block:
        outer, outer_mask = self.out, self.mask
        self.out, self.mask = [], mask
        self._statements(block.statements)
        made, self.out, self.mask = Block(tuple(self.out)), outer, outer_mask
        self.memo.clear()
        return made

    def _name(self, name: str, values: Vectors) -> Vectors:
        """Names vectors in the present block."""
        named = []
        for g, value in enumerate(values):
            if isinstance(value, (VectorVar, Splat, Ramp)) and not _reads(value):
                named.append(value)
                continue
            var = VectorVar(self._gang_name(name, g), value.dtype, self.lanes, next(self.serials))
            self.out.append(Let(var, value))
            named.append(var)
        return tuple(named)

    def _gang_name(self, name: str, gang: int) -> str:
        return name if self.gangs == 1 else f"{name}_{gang}"

    def _freeze(self, name: str, motion: Motion) -> Motion:
        """The motion with what it reads from memory read now, since memory may change before the motion is used."""
        first, *others = motion[0]
        if not any(_reads(e) for e in motion[0]):
            return motion
        frozen = [Var(name, i64, -next(self.serials))]
        self.out.append(Let(frozen[0], first))
        bases: list[Expr] = [frozen[0]]
        for other in others:
            gap = ix.constant_value(ix.sub(other, first))
            if gap is None:
                bases.append(Var(name, i64, -next(self.serials)))
                self.out.append(Let(bases[-1], other))  # type: ignore[arg-type]
            else:
                bases.append(ix.add(frozen[0], gap))
        return tuple(bases), motion[1]

    # --- statements

    def _statement(self, s: Statement) -> None:
        if isinstance(s, Let):
            self._let(s)
        elif isinstance(s, Alloc):
            self._alloc(s)
        elif isinstance(s, Store):
            self._store(s)
        elif isinstance(s, Fold):
            self._fold(s)
        elif isinstance(s, Prefix):
            self._prefix(s)
        elif isinstance(s, AtomicUpdate):
            self._atomic(s)
        elif isinstance(s, Append):
            self._append(s)
        elif isinstance(s, For):
            self._for(s)
        elif isinstance(s, If):
            self._if(s)
        elif isinstance(s, Check):
            self._check(s)
        elif isinstance(s, Prefetch):
            self._prefetch(s)
        elif isinstance(s, Produce):
            self.out.append(Produce(s.stage, self._nested(s.body, self.mask)))
        elif isinstance(s, Block):
            self.out.append(self._nested(s, self.mask))
        else:
            raise TypeError(f"{type(s).__name__} cannot stand inside a vector loop")

    def _let(self, s: Let) -> None:
        if not self.info.varies(s.value):
            self.out.append(s)
            return
        motion = self.motion(s.value) if s.value.dtype is i64 else None
        if motion is not None:
            self.motions[s.var] = self._freeze(s.var.name, motion)
        else:
            self.vectors[s.var] = self._name(s.var.name, self.vector(s.value))  # type: ignore[index]

    def _alloc(self, s: Alloc) -> None:
        b = s.buffer
        if b not in self.info.buffers:
            self.out.append(s)
            return
        self.born[b] = self.mask
        self.copies[b] = tuple(
            Buffer(self._gang_name(b.name, g), b.dtype, b.shape, b.scope, b.serial, b.strides, self.lanes, None)
            for g in range(self.gangs)
        )
        self.out += [Alloc(copy) for copy in self.copies[b]]

    def _store(self, s: Store) -> None:
        if s.buffer not in self.info.private:
            place_varies = self.info.varies(*s.indices)
            if not place_varies and not self.info.varies(s.value, s.predicate):
                self.out.append(s)
                return
            self._store_outside(s.buffer, s.indices, self.vector(s.value), self._on(s.predicate), s.stream)
        elif s.buffer in self.copies:
            self._store_private(s.buffer, s.indices, self.vector(s.value), s.predicate)
        else:
            self.out.append(s)

    def _store_private(
        self, buffer: Buffer, indices: Sequence[NestExpr], values: Vectors, predicate: NestExpr | None = None
    ) -> None:
        """Stores into the lanes' own memory; lanes that are off keep what they have."""
        copies = self.copies[buffer]
        if self.info.varies(*indices):
            on, vectors = self._on(predicate), self._lane_indices(indices)
            for g, copy in enumerate(copies):
                self.out.append(Scatter(copy, tuple(v[g] for v in vectors), values[g], lane_mask(on, g)))
            return
        mask = None if self.mask is self.born[buffer] else self.mask
        on = mask if predicate is None else both(mask, self.vector(predicate))
        for g, copy in enumerate(copies):
            value = values[g]
            if on is not None and copy.scope == "register":
                value = choose(on[g], value, Read(copy, tuple(indices), None))
                self.out.append(Store(copy, tuple(indices), value))
            else:
                self.out.append(Store(copy, tuple(indices), value, lane_mask(on, g)))

    def _store_outside(
        self, buffer: Buffer, indices: Sequence[NestExpr], values: Vectors, on: Mask, stream: int | None = None
    ) -> None:
        """Stores into memory that all lanes share."""
        if self.info.varies(*indices):
            target = self._register_place(buffer, indices)
            if target is not None:
                for g, place in enumerate(target[1]):
                    value = values[g] if on is None else choose(on[g], values[g], Read(target[0], place, None))
                    self.out.append(Store(target[0], place, value))
                return
        flat = self._flat_motion(buffer, indices)
        if flat is not None and flat[1] != 0:
            for g, start in enumerate(flat[0]):
                self.out.append(VectorStore(buffer, start, values[g], flat[1], lane_mask(on, g), stream))
            return
        if buffer.scope == "register" and buffer not in self.registers.memory:
            raise NotRegisters(buffer)
        vectors = self._lane_indices(indices)
        for g in range(self.gangs):
            self.out.append(Scatter(buffer, tuple(v[g] for v in vectors), values[g], lane_mask(on, g)))

    # --- reduction steps

    def _fold(self, s: Fold) -> None:
        if all(b in self.info.private for b in s.buffers):
            if not any(b in self.copies for b in s.buffers):
                self.out.append(s)
                return
            self._fold_into(s, [self._read(Read(b, s.indices, None)) for b in s.buffers], self._store_private)
            return
        if not self.info.varies(*s.indices):
            if all(b in self.partials for b in s.buffers):
                self._fold_partials(s)
            else:
                self._fold_each_lane(s)
            return
        reads = [Read(b, s.indices, None) for b in s.buffers]
        if self._flat_motion(s.buffers[0], s.indices) is None:
            self._fold_each_lane(s)
        else:
            self._fold_into(s, [self._read(read) for read in reads], self._store_shared)

    def _store_shared(self, buffer: Buffer, indices: Sequence[NestExpr], values: Vectors) -> None:
        self._store_outside(buffer, indices, values, self.mask)

    def _steps(self, s: Fold, held: list[Vectors]) -> list[Vectors]:
        """The new values, given what the buffers hold."""
        for left, value in zip(s.left, held, strict=True):
            self.vectors[left] = value
        self.memo.clear()
        for part in shared_parts(s.step):
            if self.info.varies(part):
                self.memo[part] = self._name("part", self.vector(part))
        steps = [self.vector(step) for step in s.step]
        return steps if len(steps) == 1 else [self._name("step", step) for step in steps]

    def _fold_into(self, s: Fold, held: list[Vectors], store: object) -> None:
        for buffer, values in zip(s.buffers, self._steps(s, held), strict=True):
            store(buffer, s.indices, values)  # type: ignore[operator]

    def _fold_partials(self, s: Fold) -> None:
        """Each lane folds into its own partial result."""
        places = []
        for b in s.buffers:
            partial = self.partials[b]
            places.append((partial.buffers[: self.gangs], s.indices if partial.indexed else ()))
        held = [tuple(Read(b, indices, None) for b in buffers) for buffers, indices in places]
        for (buffers, indices), old, new in zip(places, held, self._steps(s, held), strict=True):
            for g, buffer in enumerate(buffers):
                value = new[g] if self.mask is None else choose(self.mask[g], new[g], old[g])
                self.out.append(Store(buffer, indices, value))

    def _fold_each_lane(self, s: Fold) -> None:
        """One lane after the other folds into shared memory: for places that only the data knows."""
        self._keep_in_memory(s.buffers)
        for on, memo in self._each_lane((*s.step, *s.indices), set(s.left)):
            steps = tuple(_replace(e, memo) for e in s.step)
            indices = tuple(_replace(e, memo) for e in s.indices)
            self._in_lane(on, Fold(s.buffers, indices, steps, s.left, s.right, s.combine, s.neutral, s.monoid))

    def _atomic(self, s: AtomicUpdate) -> None:
        """One lane after the other, whatever varies: lanes may meet in one element."""
        self._keep_in_memory((s.buffer,))
        for on, memo in self._each_lane((*s.indices, s.value, s.combine), {s.left, s.right}):
            value, combine = (_replace(e, memo) for e in (s.value, s.combine))
            indices = tuple(_replace(e, memo) for e in s.indices)
            self._in_lane(on, AtomicUpdate(s.buffer, indices, value, s.left, s.right, combine, s.monoid))

    def _keep_in_memory(self, buffers: Sequence[Buffer]) -> None:
        for b in buffers:
            if b.scope == "register" and b not in self.registers.memory and b.shape:
                raise NotRegisters(b)

    def _each_lane(
        self, roots: Sequence[NestExpr], bound: set[Var]
    ) -> Iterator[tuple[NestExpr | None, dict[NestExpr, NestExpr]]]:
        """For every lane of every gang: whether it is on, and what the varying parts of the expressions are in it."""
        parts: dict[NestExpr, Vectors] = {}
        for root in roots:
            self._name_parts(root, bound, parts)
        for g in range(self.gangs):
            for lane in range(self.lanes):
                on = None if self.mask is None else Extract(self.mask[g], lane)
                yield on, {part: Extract(vectors[g], lane) for part, vectors in parts.items()}

    def _in_lane(self, on: NestExpr | None, s: Statement) -> None:
        """A statement for one lane, if it is on."""
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

    # --- elements that are kept

    def _append(self, s: Append) -> None:
        """The lanes that are kept move to the front of a vector, which is stored as far as they reach; gang after gang."""
        if s.position in self.info.private:
            raise TypeError("lanes cannot each have a place of their own in one array")
        on = self._name("on", self._on(s.predicate) or self.vector(s.predicate))
        values = [self._name("value", self.vector(value)) for value in s.values]
        for g, mask in enumerate(on):
            count, place = (Var(name, i64, -next(self.serials)) for name in ("count", "place"))
            self.out += [Let(count, LaneCount(mask)), Let(place, Read(s.position, (), None))]
            front = Op("lt", bool_, (Ramp(const(i64, 0), 1, self.lanes), Splat(count, self.lanes)))
            for buffer, value in zip(s.buffers, values, strict=True):
                (moved,) = self._name("moved", (LaneCompress(value[g], mask),))
                self.out.append(VectorStore(buffer, (place,), moved, 1, front))
            self.out.append(Store(s.position, (), Op("add", i64, (place, count))))

    # --- steps of scans

    def _prefix(self, s: Prefix) -> None:
        private = all(b in self.info.private for b in s.buffers)
        if private and not any(b in self.copies for b in s.buffers):
            self.out.append(s)
            return
        if not private and not self.info.varies(*s.indices):
            self._scan_lanes(s)
            return
        held = [self._name("held", self._read(Read(b, s.indices, None))) for b in s.buffers]
        self.vectors.update(zip(s.left, held, strict=True))
        self.vectors.update({v: self._name("value", self.vector(e)) for v, e in zip(s.right, s.values, strict=True)})
        self.memo.clear()
        after = [self._name(v.name, self.vector(e)) for v, e in zip(s.results, s.combine, strict=True)]
        for buffer, values in zip(s.buffers, after, strict=True):
            if private:
                self._store_private(buffer, s.indices, values)
            else:
                self._store_shared(buffer, s.indices, values)
        self.vectors.update(zip(s.results, held if s.exclusive else after, strict=True))

    def _scan_lanes(self, s: Prefix) -> None:
        """Lanes are scanned in order, gang after gang; what the buffers hold comes in on the left."""
        if self.mask is not None:
            raise TypeError("a scan over lanes under a mask")
        values = [self._name("value", self.vector(e)) for e in s.values]
        scan = ScanLanes(s, self.lanes, self.serials, self.out)
        results = scan.gangs([tuple(value[g] for value in values) for g in range(self.gangs)])
        self.vectors.update({var: tuple(r[k] for r in results) for k, var in enumerate(s.results)})

    # --- control

    def _for(self, s: For) -> None:
        kind = "unroll" if s.kind == "unroll" else "serial"
        if not self.info.varies(s.low, s.high):
            body = self._nested(s.body, self.mask)
            self.out.append(For(s.var, s.low, s.high, s.step, body, kind, stage=s.stage, loop=s.loop))
            return
        low, high = self.vector(s.low), self.vector(s.high)
        span = tuple(Op("sub", i64, pair) for pair in zip(high, low, strict=True))
        if self.mask is not None:
            zero = Splat(const(i64, 0), self.lanes)
            span = tuple(choose(m, e, zero) for m, e in zip(self.mask, span, strict=True))
        span = self._name(f"{s.var.name}_count", span)
        longest = span[0]
        for other in span[1:]:
            longest = Op("maximum", i64, (longest, other))
        most = Var(f"{s.var.name}_most", i64, -next(self.serials))
        self.out.append(Let(most, LaneFold("maximum", longest)))
        turn = Var(f"{s.var.name}_turn", i64, -next(self.serials))
        motion = self.motion(s.low)
        if motion is not None:
            motion = self._freeze(f"{s.var.name}_low", motion)
        start = self._name(f"{s.var.name}_low", low) if motion is None else low
        outer, outer_mask = self.out, self.mask
        self.out = []
        running = tuple(Op("lt", bool_, (Splat(turn, self.lanes), e)) for e in span)
        self.mask = self._name("on", both(outer_mask, running) or running)
        if motion is not None and not self.info.varies(s.low):
            self.out.append(Let(s.var, ix.add(motion[0][0], turn)))
        elif motion is not None:
            self.motions[s.var] = (tuple(ix.add(b, turn) for b in motion[0]), motion[1])
        else:
            moved = tuple(Op("add", i64, (e, Splat(turn, self.lanes))) for e in start)
            self.vectors[s.var] = self._name(s.var.name, moved)
        self._statements(s.body.statements)
        body, self.out, self.mask = Block(tuple(self.out)), outer, outer_mask
        self.out.append(For(turn, const(i64, 0), most, s.step, body, "serial", stage=s.stage, loop=s.loop))

    def _if(self, s: If) -> None:
        if not self.info.varies(s.condition):
            then = self._nested(s.then, self.mask)
            orelse = self._nested(s.orelse, self.mask) if s.orelse is not None else None
            self.out.append(If(s.condition, then, orelse))
            return
        condition = self.vector(s.condition)
        yes = self._name("on", both(self.mask, condition) or condition)
        no: Vectors | None = None
        if s.orelse is not None and s.orelse.statements:
            no = self._name("off", both(self.mask, negation(condition)) or negation(condition))
        self._side(s.then, yes)
        if no is not None and s.orelse is not None:
            self._side(s.orelse, no)

    def _side(self, block: Block, mask: Vectors) -> None:
        """One side of a divergent branch: skipped when no lane takes it, unless running it is as cheap as asking."""
        body = self._nested(block, mask)
        self.out.append(body if self._is_cheap(block) else If(any_lane(mask), body))

    def _is_cheap(self, block: Block) -> bool:
        """Whether a side may run with no lane on: only private memory, and little work."""
        work = 0
        for s in statements_within(block):
            if isinstance(s, Block):
                continue
            if not isinstance(s, (Let, Store)) or (isinstance(s, Store) and s.buffer not in self.copies):
                return False
            stack, seen = list(expressions_of(s)), set()
            while stack:
                e = stack.pop()
                if e in seen or isinstance(e, (Const, Var, SizeVar, Buffer)):
                    continue
                seen.add(e)
                work += 1
                if isinstance(e, Read) and (e.buffer not in self.copies or self.info.varies(*e.indices)):
                    return False
                stack.extend(children(e))  # type: ignore[arg-type]
        return work <= _CHEAP

    def _while(self, s: While, earlier: Sequence[Statement], later: Sequence[Statement]) -> None:
        """A loop between other statements of its block."""
        if not self.info.varies(s.condition):
            setup = self._nested(s.setup, self.mask)
            self.out.append(While(setup, s.condition, self._nested(s.body, self.mask)))
            return
        lost, counters = forgotten(earlier, later, self.info), find_counters(s, earlier, self.info)
        each, common = split_condition(s.condition, counters, self.info)
        outer, outer_mask = self.out, self.mask
        running = self._carry_mask() if lost else ()
        test, steps = self._count(counters, common)
        self.out = []
        if running:
            self.mask = self._name("running", tuple(Read(buffer, (), None) for buffer in running))
        self._statements(s.setup.statements)
        self.memo.clear()
        on = self.mask
        for part in each:
            on = both(on, self.vector(part))
        on = self._name("on", on or (Splat(const(bool_, True), self.lanes),) * self.gangs)
        self.out += [Store(buffer, (), lanes) for buffer, lanes in zip(running, on, strict=False)]
        setup, self.out, self.mask = Block(tuple(self.out)), outer, outer_mask
        born = dict(self.born)
        self.born.update(dict.fromkeys(lost, on))
        body = self._nested(s.body, on)
        self.born = born
        condition = any_lane(on)
        for part in test:
            condition = Op("logical_and", bool_, (part, condition))
        self.out.append(While(setup, condition, Block((*body.statements, *steps))))

    def _carry_mask(self) -> tuple[Buffer, ...]:
        """Memory for the lanes that run, a buffer for each gang: those on here."""
        serial = -next(self.serials)
        running = tuple(
            Buffer(self._gang_name("running", g), bool_, (), "register", serial, (), self.lanes, None)
            for g in range(self.gangs)
        )
        everywhere = Splat(const(bool_, True), self.lanes)
        for g, buffer in enumerate(running):
            self.out += [Alloc(buffer), Store(buffer, (), lane_mask(self.mask, g) or everywhere)]
        return running

    def _count(self, counters: Sequence[Counter], parts: Sequence[NestExpr]) -> tuple[list[NestExpr], list[Statement]]:
        """Scalar copies of the counters that these parts of a condition compare: the parts in their terms, and their steps."""
        tests, steps = list(parts), []
        for counter in counters:
            if not any(name in topological(part) for part in parts for name in counter.names):
                continue
            dtype = counter.buffer.dtype
            copy = Buffer(counter.buffer.name, dtype, (), "register", -next(self.serials), (), 1, None)
            read: Read = Read(copy, (), None)
            self.out += [Alloc(copy), Store(copy, (), counter.start)]
            steps.append(Store(copy, (), Op("add", dtype, (read, counter.step))))
            tests = [_replace(part, dict.fromkeys(counter.names, read)) for part in tests]
        return tests, steps

    def _check(self, s: Check) -> None:
        if not self.info.varies(s.holds, s.predicate, *s.values):
            self.out.append(s)
            return
        on, holds = self._on(s.predicate), self.vector(s.holds)
        values = [self.vector(v) if self.info.varies(v) else (v,) * self.gangs for v in s.values]
        for g in range(self.gangs):
            self.out.append(Check(holds[g], s.kind, s.site, tuple(v[g] for v in values), lane_mask(on, g)))

    def _prefetch(self, s: Prefetch) -> None:
        flat = self._flat_motion(s.buffer, s.indices)
        if flat is not None:
            self.out += [Prefetch(s.buffer, start) for start in flat[0]]


def _reads(e: NestExpr) -> bool:
    """Whether a value depends on memory."""
    return any(isinstance(node, Read) for node in topological(e))


def _replace(e: NestExpr, memo: Mapping[NestExpr, NestExpr]) -> NestExpr:
    """The expression with some of its parts replaced."""
    if e in memo:
        return memo[e]
    return rebuild(e, lambda child: child if isinstance(child, Buffer) else _replace(child, memo))
