"""The body of a vector loop, for gangs of lanes instead of one index.

`GangBody` translates statement by statement, control flow here, the rest in its base classes: steps of reductions (`GangFolds`),
names and stores (`GangStores`), values (`GangValues`). `gangs` gangs are interleaved: a varying value is a tuple with one vector for
each, a uniform one stays a scalar and is computed once. Lanes that are off (`mask`) read and write no memory, and keep their private
state. (Pharr & Mark, ispc, 2012.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Expr, Op, SizeVar, Var, const
from raido.algo.graph.rewrite import children, topological
from raido.schedule.gang.folds import GangFolds, replace_parts
from raido.schedule.gang.lanes import Mask, Vectors, any_lane, both, choose, lane_mask, negation
from raido.schedule.gang.liveness import InductionVariable, dead_after, find_induction_variables, split_condition
from raido.schedule.gang.transposes import RegisterBlock, find_register_blocks, shuffle_levels
from raido.schedule.nest.effects import reads_memory
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Check,
    Fold,
    For,
    If,
    Let,
    Prefetch,
    Produce,
    Statement,
    Store,
    While,
)
from raido.schedule.nest.values import Buffer, LaneFold, LaneShuffle, NestExpr, Read, Splat, VectorRead
from raido.schedule.nest.walk import expressions_of, statements_within

_CHEAP = 24  # operations of a divergent side that runs without a test


@dataclass(eq=False)
class GangBody(GangFolds):
    """The translation of a loop body for `gangs` gangs of `lanes` lanes that start at `base`; `high`: the end of lanes that are on."""

    high: Expr | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.high is not None:
            inside = self.vector(self.loop.var)
            self.mask = self._name("on", tuple(Op("lt", bool_, (r, Splat(self.high, self.lanes))) for r in inside))
            self.edge, self.on = self.mask, ix.sub(self.high, self.base)
        self._statements(self.loop.body.statements)
        self.block = Block(tuple(self.out))

    # --- blocks and names

    def _statements(self, statements: Sequence[Statement]) -> None:
        register_blocks = find_register_blocks(statements, self.loop, self.lanes) if self.mask is None else []
        for number, statement in enumerate(statements):
            self.memo.clear()
            for register_block in register_blocks:
                if register_block.first == number:
                    self._transpose(register_block)
            if isinstance(statement, While):
                self._while(statement, statements[:number], statements[number + 1 :])
            else:
                self._statement(statement)
        for register_block in register_blocks:
            for read in register_block.reads:
                self.transposed.pop(read, None)

    def _transpose(self, register_block: RegisterBlock) -> None:
        """Reads neighbouring columns of a register block as rows, and transposes these."""
        read = register_block.reads[0]
        motions = [self.motion(i) for i in read.indices]
        flat = self._flat_motion(read.buffer, read.indices)
        if None in motions or motions[-1][1] or (flat is not None and abs(flat.stride) < self.lanes):  # type: ignore[index]
            return
        gangs = []
        for g in range(self.gangs):
            indices = [tuple(ix.add(m[0][g], row * m[1]) for m in motions if m) for row in range(self.lanes)]
            now = [
                *self._each(
                    "row", (VectorRead(read.buffer, number, 1, self.lanes, None, False) for number in indices), g
                )
            ]
            for shuffles in shuffle_levels(self.lanes, read.dtype.bits):
                now = [*self._each("turned", (LaneShuffle(now[a], now[b], taken) for a, b, taken in shuffles), g)]
            gangs.append(now)
        self.transposed.update(zip(register_block.reads, zip(*gangs, strict=True), strict=True))

    def _nested(self, block: Block, mask: Mask) -> Block:
        outer, outer_mask = self.out, self.mask
        self.out, self.mask = [], mask
        self._statements(block.statements)
        made, self.out, self.mask = Block(tuple(self.out)), outer, outer_mask
        self.memo.clear()
        return made

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
            if isinstance(s.var, Var) and s.value.dtype is i64 and not reads_memory(s.value):
                self.meanings.add(s.var, s.value)

    # --- control

    def _for(self, s: For) -> None:
        kind = "unroll" if s.kind == "unroll" else "serial"
        if not self.info.varies(s.low, s.high):
            promoted = self._promote(s)
            body = self._nested(s.body, self.mask)
            self.out.append(For(s.var, s.low, s.high, s.step, body, kind, stage=s.stage, loop=s.loop))
            self._store_promoted(promoted)
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
        """Emits one side of a divergent branch: skipped when no lane takes it, unless running it is as cheap as the test."""
        body = self._nested(block, mask)
        self.out.append(body if self._is_cheap(block) else If(any_lane(mask), body))

    def _is_cheap(self, block: Block) -> bool:
        """Whether a side may run with no lane on: it uses private memory alone, and has at most `_CHEAP` operations."""
        work = 0
        for s in statements_within(block):
            if isinstance(s, Block):
                continue
            if not isinstance(s, (Let, Store)) or (isinstance(s, Store) and s.buffer not in self.gang_buffers):
                return False
            stack, seen = list(expressions_of(s)), set()
            while stack:
                e = stack.pop()
                if e in seen or isinstance(e, (Const, Var, SizeVar, Buffer)):
                    continue
                seen.add(e)
                work += 1
                if isinstance(e, Read) and (e.buffer not in self.gang_buffers or self.info.varies(*e.indices)):
                    return False
                stack.extend(children(e))  # type: ignore[arg-type]
        return work <= _CHEAP

    def _while(self, s: While, earlier: Sequence[Statement], later: Sequence[Statement]) -> None:
        """Emits a loop; `earlier` and `later` are the other statements of its block."""
        if not self.info.varies(s.condition):
            setup = self._nested(s.setup, self.mask)
            self.out.append(While(setup, s.condition, self._nested(s.body, self.mask)))
            return
        lost, induction_variables = (
            dead_after(earlier, later, self.info),
            find_induction_variables(s, earlier, self.info),
        )
        each, common = split_condition(s.condition, induction_variables, self.info)
        outer, outer_mask = self.out, self.mask
        running = self._carry_mask() if lost else ()
        test, increments = self._count(induction_variables, common)
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
        self.out.append(While(setup, condition, Block((*body.statements, *increments))))

    def _carry_mask(self) -> tuple[Buffer, ...]:
        """Allocates a register for each gang with the mask of the lanes that run, initially those on here."""
        serial = -next(self.serials)
        running = tuple(
            Buffer(self._gang_name("running", g), bool_, (), "register", serial, (), self.lanes, None)
            for g in range(self.gangs)
        )
        everywhere = Splat(const(bool_, True), self.lanes)
        for g, buffer in enumerate(running):
            self.out += [Alloc(buffer), Store(buffer, (), lane_mask(self.mask, g) or everywhere)]
        return running

    def _count(
        self, induction_variables: Sequence[InductionVariable], parts: Sequence[NestExpr]
    ) -> tuple[list[NestExpr], list[Statement]]:
        """Emits scalar copies of the uniform induction variables that these parts of a condition compare; returns the parts in terms of the
        copies, and the statements that increment them."""
        tests, increments = list(parts), []
        for induction_variable in induction_variables:
            if not any(name in topological(part) for part in parts for name in induction_variable.names):
                continue
            dtype = induction_variable.buffer.dtype
            copy = Buffer(induction_variable.buffer.name, dtype, (), "register", -next(self.serials), (), 1, None)
            read: Read = Read(copy, (), None)
            self.out += [Alloc(copy), Store(copy, (), induction_variable.start)]
            increments.append(Store(copy, (), Op("add", dtype, (read, induction_variable.increment))))
            tests = [replace_parts(part, dict.fromkeys(induction_variable.names, read)) for part in tests]
        return tests, increments

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
            self.out += [Prefetch(s.buffer, start) for start in flat.starts]
