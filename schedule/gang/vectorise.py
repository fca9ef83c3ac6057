"""The vectoriser: scalar Nest → gang Nest, for registers of `vector_bits`, by whole-function vectorisation of loop
bodies (Karrenberg & Hack, 2011).

Every loop of kind "vector" becomes a loop over groups of `lanes × interleave` indices, then its tail:

  mask    the remaining indices, gang by gang, under `x < high`; gangs with loops of their own as one group or a half of it, because
          interleaved gangs take little more time than one
  shift   the last gang moved back to end at `high`; where there are fewer indices than lanes, masked. Legal only where running an
          index twice is harmless: no folds, and no read of memory that the loop writes
  scalar  the remaining indices, one at a time
  exact   no indices remain
  default shift where it is harmless and gangs have no loops of their own, else mask; scalar instead of masks where those are slow

A scan along the loop always has a scalar tail. Constant trip counts are split exactly, without a test; a loop of one group becomes
straight-line code. `GangBody` translates bodies, `fold_lanes` places partial results, `Registers` records accumulators that became vectors
(optimistically; a buffer that turns out to be used otherwise goes to memory, and the translation starts again), `near_uses` sinks the
operands of a register tile to their uses.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from raido.algo.collector import seldom_collected
from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, greatest
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Node, Op, Var
from raido.algo.graph.rewrite import topological
from raido.schedule.gang.body import GangBody
from raido.schedule.gang.chosen_reads import read_where_chosen
from raido.schedule.gang.dots import take_dots
from raido.schedule.gang.first_extremes import find_extremes_first
from raido.schedule.gang.first_indices import keep_first_indices
from raido.schedule.gang.fold_lanes import combine_partials, find_reductions, make_partials
from raido.schedule.gang.lanes import choose_lanes
from raido.schedule.gang.large_streams import part_large_streams
from raido.schedule.gang.late_stores import store_late
from raido.schedule.gang.narrow_buffers import narrow_buffers
from raido.schedule.gang.narrow_integers import narrow_integers
from raido.schedule.gang.narrow_sums import narrow_sums
from raido.schedule.gang.near_uses import name_near_uses
from raido.schedule.gang.registers import LanesSeen, NotRegisters, Registers
from raido.schedule.gang.values import Partial
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.collect import collected_in_order
from raido.schedule.nest.effects import buffers_read, is_scan, touched, updates, writes, written
from raido.schedule.nest.fold_constants import fold_constants
from raido.schedule.nest.nodes import (
    Block,
    Check,
    Collect,
    Fold,
    For,
    If,
    Let,
    Nest,
    Statement,
    Store,
    While,
)
from raido.schedule.nest.replace_buffers import map_expressions, replace_allocations, replace_buffers
from raido.schedule.nest.values import Buffer, Extract, Read
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within, with_blocks, with_statements

_STRAIGHT = 8
_LARGE_BODY = 60


@seldom_collected
def form_gangs(nest: Nest, vector_bits: int = 256) -> Nest:
    """Returns the nest with every vector loop turned into code for gangs of lanes."""
    nest = read_where_chosen(fold_constants(nest))
    nest = narrow_buffers(find_extremes_first(keep_first_indices(nest)))
    nest = take_dots(narrow_sums(nest, vector_bits), vector_bits)
    nest = part_large_streams(narrow_integers(nest))
    memory: set[Buffer] = set()
    keep: set[Buffer] = set()
    while True:
        former = _Former(vector_bits, Registers(memory, keep))
        try:
            body = former.block(nest.body)
            body = _extract_scalars(body, former.registers)
            former.registers.check()
        except LanesSeen as seen:
            keep = keep | {seen.buffer}
            continue
        except NotRegisters as refused:
            memory = memory | {refused.buffer}
            continue
        body = replace_buffers(body, {b: _in_memory(b) for b in memory})
        return replace(nest, body=store_late(name_near_uses(body), vector_bits))


def _in_memory(buffer: Buffer) -> Buffer:
    """The buffer with scope "stack" or "heap" instead of "register"."""
    small = all(ix.constant_value(extent) is not None for extent in buffer.shape)
    scope = "stack" if small else "heap"
    return Buffer(buffer.name, buffer.dtype, buffer.shape, scope, buffer.serial, (), buffer.lanes, None)


class _Former:
    def __init__(self, vector_bits: int, registers: Registers) -> None:
        self.vector_bits = vector_bits
        self.registers = registers
        self.serials = count(1)
        self.partials: dict[Buffer, Partial] = {}
        self.described: dict[int, tuple[Variability, int, int]] = {}
        self.around: list[For] = []
        self._folding: dict[Statement, bool] = {}

    def describe(self, loop: For) -> tuple[Variability, int, int]:
        """The variability of a vector loop, its number of lanes, and its interleave."""
        known = self.described.get(id(loop))
        if known is None:
            info = Variability(loop)
            known = self.described[id(loop)] = info, choose_lanes(loop, info, self.vector_bits), loop.interleave
        return known

    def has_vector_folds(self, s: Statement) -> bool:
        """Whether a statement contains a vector loop with folds."""
        known = self._folding.get(s)
        if known is None:
            known = isinstance(s, For) and s.kind == "vector" and any(isinstance(f, Fold) for f in statements_within(s))
            inside = s.statements if isinstance(s, Block) else blocks_of(s)
            known = self._folding[s] = known or any(map(self.has_vector_folds, inside))
        return known

    def block(self, block: Block) -> Block:
        """Translates a block outside of vector loops."""
        return Block(tuple(made for s in block.statements for made in self.statement(s)))

    def statement(self, s: Statement) -> list[Statement]:
        """Translates a statement outside of vector loops, with the partial results of its reductions around it."""
        self.registers.bind(s)
        if isinstance(s, Collect):
            return [self.block(collected_in_order(s))]
        if isinstance(s, If) and s.orelse is None:  # partial results are made where there is something to fold
            return self._inside(s)
        reductions = find_reductions(s, self.describe, set(self.partials)) if self.has_vector_folds(s) else []
        if not reductions:
            return self._inside(s)
        before: list[Statement] = []
        after: list[Statement] = []
        outer = dict(self.partials)
        for r in reductions:
            start, partials = make_partials(r)
            before += start
            self.partials.update(partials)
            after += combine_partials(r, partials, self.serials)
        inside = self._inside(s)
        self.partials = outer
        return [Block((*before, *inside, *after))]

    def _inside(self, s: Statement) -> list[Statement]:
        if isinstance(s, Block):
            return [self.block(s)]
        if not isinstance(s, For):
            return [with_blocks(s, self.block)]
        if s.kind == "vector":
            return self._vector_loop(s)
        self.around.append(s)
        body = self.block(s.body)
        self.around.pop()
        return [replace(s, body=body)]

    # --- one vector loop

    def _vector_loop(self, loop: For) -> list[Statement]:
        info, lanes, gangs = self.describe(loop)
        if lanes == 1:
            return [_scalar_loop(loop, ix.as_index(loop.low), info)]
        low, high = ix.as_index(loop.low), ix.as_index(loop.high)
        count = ix.ceildiv(ix.sub(high, low), loop.step)
        constant, group = ix.constant_value(count), lanes * gangs
        whole = ix.is_multiple(count, group)
        if loop.tail == "exact" and not whole:
            remainder = ix.mod(ix.maximum(count, 0), group)
            holds = Op("eq", bool_, (remainder, ix.as_index(0)))
            check = Check(holds, "exact", -1, (count, ix.as_index(group)))
            return [check, self._groups(loop, low, ix.sub(high, (group - 1) * loop.step), gangs)]
        if constant is not None:
            return self._constant_count(loop, low, high, constant)
        along = None if whole else _register_along(loop, info, self.registers.memory)
        if along is not None:
            most = greatest(ix.sub(high, low))
            if most is None or most > _STRAIGHT * lanes or loop.step > 1 or loop.tail == "scalar":
                raise NotRegisters(along)
            return [self._body(loop, -(-most // lanes), low, high)]
        main = self._groups(loop, low, ix.sub(high, (group - 1) * loop.step), gangs)
        if whole:
            return [main]
        tail = self._tail(loop, info)
        if tail.startswith("shift"):
            return [self._shifted(loop, low, high, tail, main)]
        done = Var(f"{loop.var.name}_rest", i64, loop.var.serial)
        groups = ix.floordiv(count, group) if self._is_ordered(low, high) else ix.maximum(ix.floordiv(count, group), 0)
        end = ix.add(low, ix.mul(ix.mul(groups, group), loop.step))
        return [Block((main, Let(done, end), self._rest(loop, done, high, tail, gangs > 1)))]

    def _is_ordered(self, low: Expr, high: Expr) -> bool:
        """Whether a loop provably does not end before it begins; the last parts of an axis that is split twice may."""
        assumptions = Assumptions()
        for loop in self.around:
            assumptions = assumptions.with_range(loop.var, loop.low, ix.sub(loop.high, 1))
        return assumptions.less_equal(low, high)

    def _tail(self, loop: For, info: Variability) -> str:
        """The kind of the tail: "mask", "scalar", or "shift:mask" and "shift:scalar", whose second word is the
        tail of fewer indices than lanes.

        Masked access to narrow types is slow where masks are not registers of their own: below vectors of 512 bits.
        """
        cheap = self.vector_bits >= 512 or _narrowest(loop, info) >= 4
        if _scans(loop, info):
            return "scalar"
        if loop.tail in ("mask", "scalar"):
            return loop.tail
        few = "mask" if cheap else "scalar"
        if few == "mask" and loop.tail == "default" and _has_inner_loop(loop) and self.describe(loop)[2] > 1:
            return "mask"  # a group under masks is one group, whatever remains
        return f"shift:{few}" if loop.step == 1 and _may_repeat(loop, info) else few

    def _shifted(self, loop: For, low: Expr, high: Expr, tail: str, main: Statement) -> Statement:
        """Emits whole groups, the last one moved back: a large body has the same code for all of them, a small one separate
        code for the last, which is faster."""
        _, lanes, gangs = self.describe(loop)
        large = sum(len(topological(*expressions_of(s))) for s in statements_within(loop.body)) > _LARGE_BODY
        width = lanes * gangs if large else lanes
        turn, var = Var(f"{loop.var.name}_turn", i64, loop.var.serial), _bound(loop)
        body = self._body(loop, gangs if large else 1, var, None)
        last = ix.sub(high, width)
        start = Let(var, ix.minimum(turn, last))
        if large:
            whole = Block((For(turn, low, high, width, Block((start, body)), "serial", **_carried_over(loop)),))
        else:
            group = lanes * gangs
            done = Var(f"{loop.var.name}_rest", i64, loop.var.serial)
            end = ix.add(low, ix.mul(ix.floordiv(ix.sub(high, low), group), group))
            if gangs == 1:
                rest: Statement = If(Op("lt", bool_, (done, high)), Block((Let(var, last), body)))
            else:  # fewer turns than a group has gangs, or as many
                rest = For(
                    turn,
                    done,
                    high,
                    width,
                    Block((start, body)),
                    "serial",
                    stage=loop.stage,
                    loop=loop.loop,
                    copied=False,
                )
            whole = Block((main, Let(done, end), rest))
        few = Op("lt", bool_, (ix.sub(high, low), ix.as_index(width)))
        return If(few, Block((self._rest(loop, low, high, tail.split(":")[1], width > lanes),)), whole)

    def _rest(self, loop: For, low: Expr, high: Expr, tail: str, several: bool) -> Statement:
        """Emits the indices that fill no group, gang by gang under a mask, or one by one; gangs with loops of
        their own are interleaved here, too."""
        if tail == "scalar":
            return _scalar_loop(loop, low, self.describe(loop)[0])
        _, lanes, gangs = self.describe(loop)
        if not several:
            return If(Op("lt", bool_, (low, high)), self._body(loop, 1, low, high))
        if _has_inner_loop(loop):
            return self._halved_rest(loop, low, high, gangs, least=1 if loop.copied else gangs)
        masked = self._body(loop, 1, _bound(loop), high)
        return For(_bound(loop), low, high, lanes * loop.step, masked, "serial", **_carried_over(loop))

    def _halved_rest(self, loop: For, low: Expr, high: Expr, gangs: int, least: int) -> Statement:
        """Emits at most `gangs` gangs under masks: all of them where more than half are needed, else half of them, recursively."""
        if gangs == least:
            return If(Op("lt", bool_, (low, high)), self._body(loop, gangs, low, high))
        half = gangs // 2
        many = Op("gt", bool_, (ix.sub(high, low), ix.as_index(half * self.describe(loop)[1] * loop.step)))
        return If(many, self._body(loop, gangs, low, high), Block((self._halved_rest(loop, low, high, half, least),)))

    def _constant_count(self, loop: For, low: Expr, high: Expr, count: int) -> list[Statement]:
        """Emits whole groups, whole gangs, and the rest, without tests."""
        info, lanes, gangs = self.describe(loop)
        group = lanes * gangs
        groups, rest = divmod(max(count, 0), group)
        out: list[Statement] = []
        start = low
        if groups and (groups == 1 or (groups <= _STRAIGHT and _uses_registers(loop, info))):
            for _ in range(groups):
                out.append(self._body(loop, gangs, start, None))
                start = ix.add(start, group * loop.step)
        elif groups:
            start = ix.add(low, groups * group * loop.step)
            out.append(self._groups(loop, low, start, gangs))
        whole, few = divmod(rest, lanes)
        if whole:
            out.append(self._body(loop, whole, start, None))
            start = ix.add(start, whole * lanes * loop.step)
        if few:
            tail = self._tail(loop, info)
            if tail.startswith("shift") and count >= lanes and not _uses_registers(loop, info):
                out.append(self._body(loop, 1, ix.sub(high, lanes), None))
            elif tail.endswith("scalar"):
                out.append(_scalar_loop(loop, start, info))
            else:
                out.append(self._body(loop, 1, start, high))
        return out

    def _groups(self, loop: For, low: Expr, high: Expr, gangs: int) -> Statement:
        """Emits the loop over whole groups."""
        _, lanes, _ = self.describe(loop)
        var = _bound(loop)
        body = self._body(loop, gangs, var, None)
        return For(var, low, high, lanes * gangs * loop.step, body, "serial", **_carried_over(loop))

    def _body(self, loop: For, gangs: int, base: Expr, high: Expr | None) -> Block:
        info, lanes, _ = self.describe(loop)
        steps = {s.var: ix.add(s.low, ix.mul(s.var, s.step)) for s in self.around if s.step > 1}
        return GangBody(loop, info, lanes, gangs, base, self.registers, steps, self.partials, high).block


def _bound(loop: For) -> Var:
    """The variable of the first index of each group."""
    return Var(loop.var.name, i64, -loop.var.serial)


def _carried_over(loop: For) -> dict[str, Any]:
    return {"stage": loop.stage, "loop": loop.loop, "copied": loop.copied}


def _scalar_loop(loop: For, low: Expr, info: Variability) -> For:
    """The remaining indices, one at a time; unrolled if the body uses arrays in registers."""
    body = _serial(loop.body)
    assert isinstance(body, Block)
    kind = "unroll" if _uses_registers(loop, info) else "serial"
    return For(loop.var, low, loop.high, loop.step, body, kind, stage=loop.stage, loop=loop.loop)


def _serial(s: Statement) -> Statement:
    """The statement with its vector loops made serial."""
    s = with_blocks(s, lambda block: with_statements(block, map(_serial, block.statements)))
    if not isinstance(s, For):
        return s
    return For(
        s.var, s.low, s.high, s.step, s.body, "unroll" if s.kind == "unroll" else "serial", stage=s.stage, loop=s.loop
    )


def _may_repeat(loop: For, info: Variability) -> bool:
    """Whether running an index twice is harmless: no folds into outer buffers, no streamed stores, and no read of
    memory that the loop writes."""
    read: set[Buffer] = set()
    for s in statements_within(loop.body):
        if not all(u.buffer in info.private for u in updates(s)):
            return False
        if isinstance(s, Store) and s.stream is not None:
            return False  # the emitter aligns these rows: it wants one loop from the start to the end
        read |= buffers_read(expressions_of(s))
    return (written(loop.body) & read) <= info.private


def _scans(loop: For, info: Variability) -> bool:
    """Whether the loop runs over a scanned axis: the indices behind the last whole gang then run one by one."""
    return any(
        is_scan(s) and not info.varies(*s.indices) and info.private.isdisjoint(s.buffers)
        for s in statements_within(loop.body)
    )


def _has_inner_loop(loop: For) -> bool:
    """Whether each lane has a loop of its own, whose iterations depend on one another: a group of gangs then
    takes little more time than one."""
    return any(
        isinstance(s, While) or (isinstance(s, For) and s.kind == "serial") for s in statements_within(loop.body)
    )


def _narrowest(loop: For, info: Variability) -> int:
    """The size in bytes of the narrowest dtype that lanes read or write in shared memory, at most 8."""
    widths = [8]
    for s in statements_within(loop.body):
        if isinstance(s, Store) and s.buffer not in info.private:
            widths.append(s.buffer.dtype.itemsize)
        reads = [e for e in topological(*expressions_of(s)) if isinstance(e, Read) and e.buffer not in info.private]
        widths += [e.buffer.dtype.itemsize for e in reads if info.varies(*e.indices)]
    return min(widths)


def _uses_registers(loop: For, info: Variability) -> bool:
    """Whether the body uses outer arrays in registers, whose indices must become constants."""
    return any(b.scope == "register" and b.shape and b not in info.private for b in touched(loop.body))


def _register_along(loop: For, info: Variability, memory: set[Buffer]) -> Buffer | None:
    """An outer array in registers (not in `memory`) whose elements are the loop's lanes; None if there is none."""
    for s in statements_within(loop.body):
        reads = [e for e in topological(*expressions_of(s)) if isinstance(e, Read)]
        for access in (*writes(s), *reads):
            b = access.buffer
            outside = b.scope == "register" and b not in info.private and b not in memory
            if outside and access.indices and info.varies(*access.indices):
                return b
    return None


def _extract_scalars(body: Block, registers: Registers) -> Block:
    """Allocates the vectors that stand for register buffers, and extracts single elements where scalar code reads them."""
    if not registers.split:
        return body
    every = list(statements_within(body))
    for s in every:
        for write in writes(s):
            if write.buffer in registers.split:
                raise NotRegisters(write.buffer)
    swapped = {b: made for b, (_, made) in registers.split.items()}
    nodes = topological(*(e for s in every for e in expressions_of(s)))
    if not any(isinstance(e, Read) and e.buffer in registers.split for e in nodes):
        return replace_allocations(body, swapped)

    def change(e: Node) -> Node:
        if not isinstance(e, Read) or e.buffer not in registers.split:
            return e
        dimension, made = registers.split[e.buffer]
        registers.look(e.buffer, None)
        index = list(e.indices)
        constant = ix.constant_value(ix.canonical(index[dimension]))
        if constant is None or e.predicate is not None:
            raise NotRegisters(e.buffer)
        index[dimension] = ix.as_index(constant // made.lanes)
        return Extract(Read(made, tuple(index), None), constant % made.lanes)

    return map_expressions(body, change, lambda b: swapped.get(b, b))
