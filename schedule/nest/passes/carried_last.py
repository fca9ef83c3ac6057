"""Minima and maxima of several operands, with the operand that the iteration before has stored combined last.

    for j in 0..m:                                          for j in 0..m:
      d[j + 1] = max(max(e[j], d[j]), c[j])      becomes      d[j + 1] = max(max(e[j], c[j]), d[j])

An iteration waits for the one before by d[j] alone. Every operation behind it adds its latency to each iteration (the recurrence's cycle;
Rau, Iterative modulo scheduling, 1994), while the others overlap with earlier iterations. Extremes are the same in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Node, Op
from raido.algo.graph.primitives import EXTREMES
from raido.algo.graph.rewrite import substitute, topological, transform
from raido.schedule.nest.effects import buffers_read
from raido.schedule.nest.nodes import Block, For, Let, Nest, Statement, Store, While
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import expressions_of, map_block, map_statements, statements_within, with_blocks

MOST = 16  # operands: recurrences have few


def combine_carried_last(nest: Nest) -> Nest:
    """Reorders the extremes in all innermost serial loops."""
    return replace(nest, body=_block(nest.body))


def _block(block: Block) -> Block:
    return map_block(block, _statement)


def _statement(s: Any) -> Any:
    s = with_blocks(s, _block)
    if not isinstance(s, For) or s.kind != "serial":
        return s
    inside = list(statements_within(s.body))
    if any(isinstance(e, For | While) for e in inside):
        return s
    stored = {each.buffer for each in inside if isinstance(each, Store)}
    if stored.isdisjoint(buffers_read(e for each in inside for e in expressions_of(each))):
        return s
    if not any(len(_operands(n)) > 2 for e in inside for n in topological(*expressions_of(e))):
        return s
    waiting: set[Node] = set(_carried(s, inside))
    for each in inside:
        if isinstance(each, Let) and not waiting.isdisjoint(topological(each.value)):
            waiting.add(each.var)

    def waits(e: Node) -> bool:
        return not waiting.isdisjoint(topological(e))

    def change(node: Any) -> Any:
        operands = sorted(_operands(node), key=waits)
        return reduce(lambda a, b: Op(node.name, node.dtype, (a, b)), operands) if len(operands) > 2 else node

    def changed(each: Statement) -> tuple[Statement]:
        return (replace(each, value=transform(each.value, change)) if isinstance(each, Let | Store) else each,)

    return replace(s, body=map_statements(s.body, changed)) if waiting else s


def _operands(node: Any) -> list[Any]:
    """Returns the operands of an extreme, those of extremes of the same kind among them in their place; none of other nodes, and of more than
    `MOST` operands, since extremes that share extremes could have any number.
    """
    found: list[Any] = []
    todo: list[Any] = [node] if isinstance(node, Op) and node.name in EXTREMES else []
    while todo and len(found) + len(todo) <= MOST:
        e = todo.pop()
        if isinstance(e, Op) and e.name == node.name:
            todo += reversed(e.args)
        else:
            found.append(e)
    return [] if todo else found


def _carried(loop: For, inside: Sequence[Statement]) -> Iterator[Read]:
    """Yields the reads of elements that the iteration before has stored, of which the values stored in their turn are made."""
    named: dict[Node, Any] = {s.var: s.value for s in inside if isinstance(s, Let)}
    before = {loop.var: ix.sub(loop.var, loop.step)}
    for store in (s for s in inside if isinstance(s, Store)):
        stored = [substitute(i, before) for i in store.indices]
        reads = (node for node in _behind(store.value, named) if isinstance(node, Read))
        for read in (read for read in reads if read.buffer is store.buffer):
            if all(ix.difference(a, b) == 0 for a, b in zip(read.indices, stored, strict=True)):
                yield read


def _behind(value: Node, named: Mapping[Node, Any]) -> Iterator[Node]:
    """Yields the nodes of an expression, and of those that its names stand for."""
    found: set[Node] = set()
    todo = [value]
    while todo:
        for node in topological(todo.pop()):
            if node not in found:
                found.add(node)
                yield node
                todo += [named[node]] if node in named else []
