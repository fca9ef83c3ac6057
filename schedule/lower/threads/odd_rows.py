"""Vectorised copies of rows that do not begin at multiples of the vector length: neighbouring threads take neighbouring elements there.

    for v in thread..N step T:                              if k % L == 0: the loop as it is
      r = ro + L*(v % W);  y = …                            else:
      for x in r..min(k, r + L) by vector:        becomes     for e in thread..L*N step T:
        a_copy[y, x] = a[y, x]                                  v = e // L;  r = …;  y = …;  x = r + e % L
                                                                if x < min(k, r + L): a_copy[y, x] = a[y, x]

A vectorised copy moves such rows one element at a time, each thread its own vectors: neighbouring threads would read elements a vector
apart. Both loops copy the same elements with all T threads of a block, as threads 0 … T − 1 begin at their numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar, Var, fresh
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import bound_within
from raido.schedule.nest.nodes import Block, For, If, Let, Statement, Store
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import with_blocks


def deal_out_odd_rows(block: Block) -> Block:
    """Returns the statements with vectorised copies distributed by elements where rows are no multiples of the vector length."""
    return _block(block, ())


def _block(block: Block, threads: Sequence[For]) -> Block:
    """Rewrites a block; `threads`: the perfectly nested loops over threads around it, outermost first."""
    alone = threads if len(block.statements) == 1 else ()
    return Block(tuple(_statement(s, alone) for s in block.statements))


def _statement(s: Statement, threads: Sequence[For]) -> Statement:
    if isinstance(s, For) and s.kind == "serial" and _begins_at_number(s, threads):
        vector = _vector_of(s.body)
        length = None if vector is None else _row_length(vector)
        if vector is not None and length is not None:
            return _by_rows(s, vector, length)
    around = (*threads, s) if isinstance(s, For) and s.level.startswith("thread") else ()
    return with_blocks(s, lambda block: _block(block, around))


def _begins_at_number(loop: For, threads: Sequence[For]) -> bool:
    """Whether each thread begins a loop at its number, with the number of threads as step."""
    if not threads or loop.low is not threads[-1].var or threads[-1].step != 1:
        return False
    first = threads[0]
    if ix.constant_value(first.low) != 0 or ix.constant_value(first.high) != loop.step:
        return False
    pairs = itertools.pairwise(threads)
    return all(b.low is a.var and ix.difference(b.high, a.var) == a.step for a, b in pairs)


def _vector_of(block: Block) -> For | None:
    """The vectorised copy to shared memory that a block consists of, apart from names and tests around it; None for other blocks."""
    *names, last = block.statements or (None,)
    if not all(isinstance(s, Let) for s in names):
        return None
    if isinstance(last, If) and last.orelse is None:
        return _vector_of(last.then)
    if not isinstance(last, For) or last.kind != "vector" or last.step != 1:
        return None
    (*others, s) = last.body.statements
    copies = isinstance(s, Store) and s.buffer.scope == "shared" and isinstance(s.value, Read) and s.predicate is None
    return last if copies and not others and _lanes(last) > 1 else None


def _lanes(loop: For) -> int:
    """The greatest trip count of a vectorised loop; 0 where it is no constant."""
    counts = (ix.difference(end, loop.low) for end in ix.members_of(ix.canonical(loop.high)))
    return min((n for n in counts if n is not None), default=0)


def _row_length(vector: For) -> Expr | None:
    """The length of the rows that are copied, if it is made of sizes and not provably a multiple of the vector length; else None."""
    (s,) = vector.body.statements
    assert isinstance(s, Store) and isinstance(s.value, Read)
    read = s.value
    if read.buffer.scope in ("shared", "stack", "register") or read.buffer.strides or len(read.buffer.shape) < 2:
        return None
    length = ix.canonical(read.buffer.shape[-1])
    known = all(isinstance(node, (Const, Op, SizeVar)) for node in topological(length))
    rows = ix.linear(ix.canonical(read.indices[-1]))[1].get(vector.var) == 1
    return length if known and rows and ix.constant_value(ix.mod(length, _lanes(vector))) != 0 else None


def _by_rows(loop: For, vector: For, length: Expr) -> Statement:
    """The loop over vectors where rows are multiples of the vector length, and a loop over elements where they are not, behind
    a test unless that is known."""
    lanes, element = _lanes(vector), fresh("element")
    own = [v for v in bound_within(loop.body) if isinstance(v, Var)]
    renamed: dict[Node, Node] = {v: fresh(v.name, v.dtype) for v in (loop.var, *own)}

    def single(block: Block) -> Block:
        """The block with one iteration of the vectorised loop."""
        return Block(tuple(made for s in block.statements for made in one(s)))

    def one(s: Statement) -> Sequence[Statement]:
        if s is not vector:
            return (with_blocks(s, single),)
        position = Let(vector.var, ix.add(vector.low, ix.mod(element, lanes)))
        ends = [e for e in ix.members_of(vector.high) if ix.difference(e, vector.low) is None]
        body: Statement = vector.body
        for end in ends:
            body = If(Op("lt", bool_, (vector.var, end)), Block((body,)))
        return (position, body)

    begin = Let(loop.var, ix.floordiv(element, lanes))
    code: Any = Block((begin, *single(loop.body).statements))
    code = map_expressions(code, lambda e: e, lambda b: b, renamed)
    by_element = replace(loop, var=element, high=ix.mul(loop.high, lanes), body=code)
    even = ix.constant_value(ix.mod(length, lanes))
    if even is not None:
        return by_element
    whole = Op("eq", bool_, (ix.mod(length, lanes), ix.as_index(0)))
    return If(whole, Block((loop,)), Block((by_element,)))
