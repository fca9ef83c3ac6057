"""Loops over blocks as places of blocks: the outermost ones become the axes of a launch, one each.

Such a loop is alone, except for names and tests of sizes, in the one around it, and its bounds are known before the launch.
Loops over blocks further inside are serial. The inner half of a split gets a constant trip count, with tests that skip the
iterations beyond its end. Where blocks need scratch in device memory, a limited number of them is launched, and each runs every
so many-th of the blocks of a full launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import greatest
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import goes_in_order
from raido.schedule.nest.nodes import Block, Carry, For, If, Let, Ordered, Statement, Ticket
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import statements_within

AXES = {"block.x": 0, "block.y": 1, "block.z": 2}


@dataclass(frozen=True, slots=True)
class Chain:
    """Perfectly nested loops over blocks, outermost first, with the names and tests between them, and the body of the last."""

    around: tuple[For | Let | If, ...]
    body: Block

    @property
    def loops(self) -> list[For]:
        """The loops of the chain, outermost first."""
        return [s for s in self.around if isinstance(s, For)]


def carry_of(loop: For) -> Carry | None:
    """The `Carry` between the blocks of a loop; None if there is none, or the loop runs in order for another reason."""
    if not loop.level.startswith("block"):
        return None
    found = _turn_of(loop.body)
    within = [s for s in statements_within(loop) if isinstance(s, (Carry, Ordered))]
    return found[0] if found and len(found) == len(within) else None


def _turn_of(block: Block) -> list[Carry]:
    """The `Carry` statements through which each run of a block passes exactly once: one of its own or of its threads, or one on each side
    of a test; [] where there are more, or one on one side alone."""
    turns: list[list[Carry]] = []
    for s in block.statements:
        if isinstance(s, Carry):
            turns.append([s])
        elif isinstance(s, Block):
            turns.append(_turn_of(s))
        elif isinstance(s, For) and s.level.startswith("thread"):
            turns.append(_turn_of(s.body))
        elif isinstance(s, If) and s.orelse is not None:
            sides = [_turn_of(s.then), _turn_of(s.orelse)]
            turns.append([*sides[0], *sides[1]] if all(sides) else [])
    turns = [turn for turn in turns if turn]
    return turns[0] if len(turns) == 1 else []


def block_chain(loop: For) -> Chain:
    """The loops that become axes of the launch of a loop over blocks."""
    around: list[For | Let | If] = [loop]
    body, inside, axes = loop.body, {loop.var}, {loop.level}
    while True:
        names, rest = _leading_names(body)
        tests: list[If] = []
        inner = rest[0] if len(rest) == 1 else None
        while isinstance(inner, If) and inner.orelse is None and len(inner.then.statements) == 1:
            tests.append(inner)
            inner = inner.then.statements[0]
        fits = isinstance(inner, For) and inner.level.startswith("block") and inner.level not in axes
        fits = fits and isinstance(inner, For) and not goes_in_order(inner)
        if not fits or any(isinstance(node, Read) for test in tests for node in topological(test.condition)):
            return Chain(tuple(around), body)
        assert isinstance(inner, For)
        inside |= {s.var for s in names}  # type: ignore[arg-type]
        if not inside.isdisjoint(topological(inner.low, inner.high)):
            if (counted := _counted(inner)) is None:
                return Chain(tuple(around), body)
            inner = counted
        around += [*names, *tests, inner]
        axes.add(inner.level)
        inside.add(inner.var)
        body = inner.body


def _counted(loop: For) -> For | None:
    """A loop whose bounds depend on outer loops as one with a constant trip count, its last iterations behind a test, as for the inner half
    of a split; None where the trip count has no constant bound."""
    trips = greatest(ix.canonical(ix.sub(loop.high, loop.low)))
    if trips is None:
        return None
    number = fresh(loop.var.name)
    first = Let(loop.var, ix.add(loop.low, ix.mul(number, loop.step)))
    ends = [e for e in ix.members_of(loop.high) if (ix.difference(e, loop.low) or 0) < trips]
    holds = [Op("lt", bool_, (loop.var, e)) for e in ends]
    body = loop.body
    for test in holds:
        body = Block((If(test, body),))
    made = Block((first, *body.statements))
    return replace(loop, var=number, low=ix.as_index(0), high=ix.as_index(-(-trips // loop.step)), step=1, body=made)


def _leading_names(body: Block) -> tuple[list[Let], Sequence[Statement]]:
    names: list[Let] = []
    for s in body.statements:
        if not isinstance(s, Let):
            break
        names.append(s)
    return names, body.statements[len(names) :]


def placed(chain: Chain, numbers: Sequence[Expr]) -> Block:
    """The body of a chain, at iteration `numbers` of its loops."""
    body, k = chain.body, len(numbers)
    for s in reversed(chain.around):
        if isinstance(s, For):
            k -= 1
            body = Block((Let(s.var, ix.add(s.low, ix.mul(numbers[k], s.step))), *body.statements))
        elif isinstance(s, Let):
            body = Block((s, *body.statements))
        else:
            body = Block((If(s.condition, body),))
    return body


def in_turn(
    chain: Chain, slot: Expr, slots: Expr, trips: Sequence[Expr], ticket: Callable[[Var], Ticket] | None = None
) -> Block:
    """The blocks number `slot`, `slot + slots`, … of all iterations of a chain, the last loop fastest; or as many that draw a ticket."""
    turn, number = fresh("turn"), fresh("number")
    total: Expr = reduce(ix.mul, trips)
    numbers: list[Expr] = []
    rest: Expr = number
    for each in reversed(trips[1:]):
        numbers.insert(0, Op("mod", number.dtype, (rest, each)))
        rest = Op("floordiv", number.dtype, (rest, each))
    numbers.insert(0, rest)
    body = placed(chain, numbers)
    turns = Op("floordiv", slots.dtype, (ix.sub(ix.add(ix.sub(total, slot), slots), 1), slots))
    first = Let(number, ix.add(slot, ix.mul(turn, slots))) if ticket is None else ticket(number)
    return Block((For(turn, ix.as_index(0), turns, 1, Block((first, *body.statements))),))
