"""A parallel loop as the code of one thread: one iteration, or a strided loop over iterations where these need memory of their own."""

from __future__ import annotations

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.kernels.host_plan import Number
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.make_kernel import IndexVariables
from raido.schedule.kernels.numbers import at_most, divided_up
from raido.schedule.kernels.thread_code import thread_code
from raido.schedule.nest.nodes import Block, For, If, Let


def folded(count: Number, limits: Limits) -> tuple[Number, Number, Number]:
    """The grid of a launch of `count` threads, along a second axis as well where one is too short."""
    blocks = divided_up(count, limits.threads)
    return (at_most(limits.blocks[0], blocks), divided_up(blocks, limits.blocks[0]), 1)


def number_of_thread(index_variables: IndexVariables, limits: Limits) -> Expr:
    """The number of a thread in a launch whose grid is `folded`."""
    block = ix.add(ix.mul(index_variables.blocks[1], limits.blocks[0]), index_variables.blocks[0])
    return ix.add(ix.mul(block, limits.threads), index_variables.threads[0])


def one_iteration(loop: For, index_variables: IndexVariables, limits: Limits) -> Block:
    """The iteration of a thread, behind the test that it exists."""
    number = Let(loop.var, ix.add(loop.low, ix.mul(number_of_thread(index_variables, limits), loop.step)))
    return Block((number, If(Op("lt", bool_, (loop.var, loop.high)), thread_code(loop.body))))


def strided_loop(
    loop: For, index_variables: IndexVariables, limits: Limits, slot: Var, slots: Expr, trips: Expr
) -> Block:
    """The iterations number `slot`, `slot + slots`, … of `trips`, for a thread whose number is `slot`."""
    turn = fresh("turn")
    number = Let(loop.var, ix.add(loop.low, ix.mul(ix.add(slot, ix.mul(turn, slots)), loop.step)))
    turns = Op("floordiv", slots.dtype, (ix.sub(ix.add(ix.sub(trips, slot), slots), 1), slots))
    body = For(turn, ix.as_index(0), turns, 1, Block((number, thread_code(loop.body))))
    guard = If(Op("lt", bool_, (slot, slots)), Block((body,)))
    return Block((Let(slot, number_of_thread(index_variables, limits)), guard))
