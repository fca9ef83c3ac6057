"""Loops over the threads of a block before they become places of threads: the extent of the block, and loops with a single iteration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Interval, greatest
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Node, Op, Var, fresh
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.thread_code import thread_code
from raido.schedule.nest.effects import reads_memory
from raido.schedule.nest.nodes import (
    Block,
    Collect,
    For,
    If,
    Let,
    Statement,
    While,
)
from raido.schedule.nest.values import NestExpr
from raido.schedule.nest.walk import blocks_of, statements_within, with_blocks

AXES = {"thread.x": 0, "thread.y": 1, "thread.z": 2}


@dataclass(slots=True)
class Scope:
    """The axes of threads that loops have bound, the definitions of names, the ranges of loops, and whether all
    threads are here (along other axes).

    most: the number of threads that take part in the loops that have bound axes. counted: variables of loops in terms of their iteration
    numbers. common: variables of loops that all threads run together.
    """

    bound: frozenset[int]
    known: dict[Node, Expr]
    ranges: dict[Var, Interval]
    uniform: bool = True
    most: dict[int, int] = field(default_factory=dict)
    counted: dict[Node, Expr] = field(default_factory=dict)
    common: frozenset[Var] = frozenset()

    def inner(self, **changes: Any) -> Scope:
        """A scope inside, with these fields changed."""
        fields = {"bound": self.bound, "known": dict(self.known), "ranges": self.ranges, "uniform": self.uniform}
        return Scope(**{**fields, "most": self.most, "counted": self.counted, "common": self.common, **changes})

    def learn(self, s: Statement) -> None:
        """Records the definition of an index that a statement names."""
        if isinstance(s, Let) and isinstance(s.var, Var) and s.var.dtype is i64:
            value = substitute(s.value, self.known)
            if not reads_memory(value):
                self.known[s.var] = value

    def enter(self, loop: For) -> Scope:
        """The scope in a serial loop."""
        low, last = substitute(loop.low, self.known), ix.sub(substitute(loop.high, self.known), 1)
        ranges = {**self.ranges, loop.var: (low, last)}
        if loop.step == 1:
            return self.inner(ranges=ranges)
        times = fresh("times")
        ranges[times] = (ix.as_index(0), ix.floordiv(ix.sub(last, low), loop.step))
        return self.inner(ranges=ranges, counted={**self.counted, loop.var: ix.add(low, ix.mul(times, loop.step))})

    def meaning(self, index: NestExpr) -> Expr:
        """An index in terms of places of threads, sizes, and opaque terms."""
        return ix.canonical(substitute(index, self.known))

    def times(self, index: Expr) -> Expr:
        """An index, as by `meaning`, in terms of the iteration numbers of loops."""
        for _ in self.counted:
            if self.counted.keys().isdisjoint(free_variables(index)):
                break
            index = ix.canonical(substitute(index, self.counted))
        return index


def block_extent(body: Block, limits: Limits) -> tuple[int, int, int]:
    """The number of threads that a block needs along each axis: the greatest trip count of its loops there, within the limits of a block;
    whole subgroups along x where threads exchange values."""
    extent = [1, 1, 1]
    _measure(body, {}, {}, extent, limits)
    if limits.exchange and any(isinstance(s, Collect) for s in statements_within(body)):
        extent[0] = -(-extent[0] // limits.exchange) * limits.exchange
    while prod(extent) > limits.most_threads:
        largest_axis = extent.index(max(extent))
        extent[largest_axis] = (extent[largest_axis] + 1) // 2
    return (extent[0], extent[1], extent[2])


def _measure(
    s: Statement, known: dict[Node, Expr], ranges: dict[Var, Interval], extent: list[int], limits: Limits
) -> None:
    scope = Scope(frozenset(), known, ranges)
    scope.learn(s)
    if isinstance(s, For) and s.kind == "parallel":
        axis = AXES[s.level]
        trips = ix.sub(substitute(s.high, known), substitute(s.low, known))
        most = greatest(ix.canonical(trips))
        needed = s.threads or (limits.threads if most is None else -(-most // s.step))
        extent[axis] = max(extent[axis], min(needed, limits.along[axis]))
    for block in (s,) if isinstance(s, Block) else blocks_of(s):
        inner = dict(known)
        for each in block.statements:
            _measure(each, inner, ranges, extent, limits)


def without_single(block: Block, scope: Scope) -> Block:
    """The block with loops over threads of at most one iteration replaced by that iteration, behind the test that there is one."""

    def change(s: Any) -> Any:
        if isinstance(s, Block):
            return without_single(s, scope.inner())
        if isinstance(s, For):
            body = without_single(s.body, scope.inner())
            trips = greatest(ix.canonical(substitute(ix.sub(s.high, s.low), scope.known)))
            if s.kind != "parallel" or trips is None or trips > s.step:
                return replace(s, body=body)
            return If(Op("lt", bool_, (s.low, s.high)), Block((Let(s.var, s.low), *body.statements)))
        if isinstance(s, If):
            orelse = None if s.orelse is None else without_single(s.orelse, scope.inner())
            return If(s.condition, without_single(s.then, scope.inner()), orelse)
        if isinstance(s, While):
            return replace(s, setup=without_single(s.setup, scope), body=without_single(s.body, scope.inner()))
        scope.learn(s)
        return s

    return Block(tuple(map(change, block.statements)))


def made_serial(block: Block, loop: For) -> Block:
    """The block with loops over threads inside `loop` made serial."""

    def change(s: Any) -> Any:
        if s is loop:
            return replace(s, body=thread_code(s.body))
        return with_blocks(s, lambda inner: made_serial(inner, loop))

    return Block(tuple(map(change, block.statements)))


def has_shared_loop(s: Statement) -> bool:
    """Whether a statement is or contains a loop over threads, or a collection of their parts."""
    inside = statements_within(s)
    return any(isinstance(each, Collect) or (isinstance(each, For) and each.kind == "parallel") for each in inside)
