"""Vectorised arg folds, `argmax` and `argmin`, as two folds of one value each: the extreme of a block, then the first index where it
stands.

    before   for r in low..high by vector: (m, k) = pick((m, k), (a[r], r))

    after    for block in low..high step B:
               best = max over r in block..min(block + B, high), by vector, of a[r]
               if (best, block) may be picked against (m, k):
                 found = min over the same r, by vector, of r - block where a[r] is best
                 (m, k) = pick((m, k), (a[block + found], block + found))

An index in each lane takes 64-bit lanes for every element, and a step of the pair several operations; an extreme alone is one
or few operations on lanes as narrow as the elements. Few blocks have a new extreme: of n blocks in random order about log n.
Where each one has, as in increasing data, it is read a second time, from the cache. The result is the same to the bit: the
element is read again where it was found.
"""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i16, i32, i64
from raido.algo.graph.expr import Expr, Op, const, fresh
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.gang.arg_folds import EXTREMES, arg_fold, is_taken
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.effects import is_scan
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, If, Let, Nest, Statement, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read, converted, register

BLOCK = 4096  # elements: 64 registers of bytes, so combining lanes is amortised; they fit a first-level cache, indices 16 bits
FEWEST = 64  # elements of a row of constant length: below, most of the work is combining lanes
NOWHERE = (1 << 15) - 1  # the greatest i16, beyond every index in a block
INDEX_TYPES = {16: i16, 32: i32, 64: i64}  # as wide as elements, so that masks of comparisons need no conversion


def find_extremes_first(nest: Nest) -> Nest:
    """The nest with every vectorised arg fold in two steps."""
    return replace_vector_loops(nest, lambda loop: _in_blocks(loop, better) if (better := _matched(loop)) else loop)


def _matched(loop: For) -> str:
    """The comparison by which a vector loop picks the first extreme, "gt" or "lt"; "" for all other loops."""
    *names, fold = loop.body.statements or (None,)
    if loop.kind != "vector" or loop.step != 1 or not isinstance(fold, Fold) or is_scan(fold) or len(fold.buffers) != 2:
        return ""
    count = ix.difference(ix.as_index(loop.high), ix.as_index(loop.low))
    if not all(isinstance(s, Let) for s in names) or (count is not None and count < FEWEST):
        return ""
    found = arg_fold(fold)
    if found is None or any(loop.var in free_variables(i) for i in fold.indices):
        return ""
    better, (_, index) = found
    return better if ix.linear(index)[1].get(loop.var, 0) > 0 else ""


def _in_blocks(loop: For, better: str) -> Statement:
    low, high = ix.as_index(loop.low), ix.as_index(loop.high)
    count = ix.difference(high, low)
    if count is not None and count <= BLOCK:
        return Block(_one_block(loop, better, low, high))
    first = fresh("block")
    body = Block(_one_block(loop, better, first, ix.minimum(ix.add(first, BLOCK), high)))
    return For(first, low, high, BLOCK, body, "serial", stage=loop.stage, loop=loop.loop)


def _one_block(loop: For, better: str, first: Expr, end: Expr) -> tuple[Statement, ...]:
    """The fold over one block, which is not empty: a loop without iterations begins no block."""
    fold = loop.body.statements[-1]
    assert isinstance(fold, Fold)
    found_fold = arg_fold(fold)
    assert found_fold is not None
    (_, value), dtype, which = found_fold, fold.buffers[0].dtype, EXTREMES[better]
    narrow = INDEX_TYPES[max(16, dtype.bits)]
    nowhere = const(narrow, NOWHERE)
    best, found = (register(n, t) for n, t in (("best", dtype), ("found", narrow)))
    held = tuple(Read(b, fold.indices, None) for b in fold.buffers)
    extreme = Read(best, (), None)
    begin = substitute(value[1], {loop.var: first})
    where = converted(ix.sub(loop.var, first), narrow)

    def find(is_best: Expr) -> For:
        index = Op("select", narrow, (is_best, where, nowhere))
        return _fold_of(loop, first, end, found, index, nowhere, "minimum")

    search: Statement = find(Op("eq", bool_, (value[0], extreme)))
    if dtype.is_float:  # tested once, outside the loop
        lost = find(Op("isnan", bool_, (value[0],)))
        search = If(Op("isnan", bool_, (extreme,)), Block((lost,)), Block((search,)))
    at = fresh("at")
    again = replace(loop, var=loop.var, low=at, high=ix.add(at, 1), kind="serial", lanes=0, interleave=1)
    return (
        Alloc(best),
        Store(best, (), fold.neutral[0]),
        _fold_of(loop, first, end, best, value[0], fold.neutral[0], which),
        If(
            is_taken(dtype, better, held, (extreme, begin)),
            Block(
                (
                    Alloc(found),
                    Store(found, (), nowhere),
                    search,
                    Let(at, ix.add(first, converted(Read(found, (), None), i64))),
                    again,
                )
            ),
        ),
    )


def _fold_of(loop: For, first: Expr, end: Expr, buffer: Buffer, value: NestExpr, neutral: NestExpr, which: str) -> For:
    """The vector loop that folds a value of each iteration into one register."""
    var, left, right = fresh(loop.var.name), fresh("left", buffer.dtype), fresh("right", buffer.dtype)
    names: dict[Expr, Expr] = {loop.var: var}
    statements: list[Statement] = []
    for s in loop.body.statements[:-1]:
        assert isinstance(s, Let)
        own = fresh(s.var.name, s.var.dtype)
        statements.append(Let(own, substitute(s.value, names)))
        names[s.var] = own
    step, combine = (Op(which, buffer.dtype, (left, e)) for e in (substitute(value, names), right))
    statements.append(Fold((buffer,), (), (step,), (left,), (right,), (combine,), (neutral,), which))
    return replace(loop, var=var, low=first, high=end, body=Block(tuple(statements)))
