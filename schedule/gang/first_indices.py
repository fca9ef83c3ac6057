"""Arg folds, `argmax` and `argmin`, whose steps come in the order of their indices: down the columns of an array, or in a loop per element.

    before   m[x], k[x] = lowest, 2⁶³ − 1                          index k[x] is i64
             for r in low..high: for x by vector:
               m[x], k[x] = (a[r, x], r) if a[r, x] > m[x] or a[r, x] == m[x] and r < k[x]

    after    m[x], k[x] = lowest, 0                                as narrow as elements, if high − low is small
             for r in low..high: for x by vector:
               m[x], k[x] = (a[r, x], r - low) if a[r, x] > m[x]
             reads of k[x] become: low + k[x], or 2⁶³ − 1 where no r is in low..high

Every index is greater than those before it, so of equal elements the first is held already; if all equal the initial value, the result is
the first index. Indices in 64-bit lanes would leave half as many lanes as the elements have, or fewer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i16, i32, i64, u8
from raido.algo.graph.expr import Expr, Node, Op, const, fresh
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.gang.arg_folds import arg_fold, picked
from raido.schedule.nest.effects import accesses, bound_within, buffers_read, is_scan
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, Nest, Statement, Store
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, NestExpr, Read, converted, new_serial
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within, with_blocks

NOWHERE = const(i64, (1 << 63) - 1)
INDEX_TYPES = (
    (8, u8, 1 << 8),
    (16, i16, 1 << 15),
    (32, i32, 1 << 31),
    (64, i64, 1 << 63),
)  # bits, dtype, values from 0


@dataclass(frozen=True)
class InOrder:
    """An arg fold whose indices grow: the fold, its element and index, the index of its first step, and the
    bounds of the loop over all steps.

    statement: the position, in the block that allocates the buffers, of the statement with the fold.
    """

    fold: Fold
    better: str
    value: tuple[Expr, ...]
    statement: int
    first: Expr
    low: Expr
    high: Expr


def keep_first_indices(nest: Nest) -> Nest:
    """The nest with arg folds that compare no indices where these come in order."""
    if not any(isinstance(s, Fold) and len(s.buffers) == 2 for s in statements_within(nest.body)):
        return nest
    return replace(nest, body=_inside(nest.body))


def _inside(s: Any) -> Any:
    """Rewrites such folds in a statement or block."""
    if not isinstance(s, Block):
        return with_blocks(s, _inside)
    block = Block(tuple(_inside(each) for each in s.statements))
    for indices in [a.buffer for a in block.statements if isinstance(a, Alloc) and a.buffer.dtype is i64]:
        found = _found(block, indices)
        if found is not None:
            block = _rewritten(block, indices, found)
    return block


def _found(block: Block, indices: Buffer) -> InOrder | None:
    """The fold into the index buffer `indices`, if it is the only one, is initialised before it and read only afterwards; else None."""
    own = [
        (k, path)
        for k, s in enumerate(block.statements)
        for path in _paths(s)
        if isinstance(path[-1], Fold) and indices in path[-1].buffers
    ]
    if len(own) != 1:
        return None
    ((k, (*loops, fold)),) = own
    allocated = {s.buffer for s in block.statements if isinstance(s, Alloc)}
    assert isinstance(fold, Fold)
    if is_scan(fold) or len(fold.buffers) != 2 or fold.buffers[1] is not indices or fold.buffers[0] not in allocated:
        return None
    value = arg_fold(fold)
    around = [s for s in loops if not (isinstance(s, For) and s.var in _variables(fold.indices))]
    if value is None or not around or not all(isinstance(s, For) and s.kind in ("serial", "unroll") for s in around):
        return None
    (better, (element, index)) = value
    if not _in_order(around, index) or not _starts(block, k, fold.buffers, (fold.neutral[0], NOWHERE)):
        return None
    outermost, innermost = around[0], around[-1]
    assert isinstance(outermost, For) and isinstance(innermost, For)
    low, high = ix.as_index(outermost.low), ix.as_index(outermost.high)
    first = ix.canonical(substitute(index, {innermost.var: low}))
    if _variables((first, low, high)) & bound_within(block.statements[k]):
        return None
    return InOrder(fold, better, (element, index), k, first, low, high)


def _paths(s: Statement, around: tuple[Statement, ...] = ()) -> list[tuple[Statement, ...]]:
    """The folds inside a statement, each preceded by its enclosing statements other than blocks."""
    if isinstance(s, Fold):
        return [(*around, s)]
    if isinstance(s, Block):
        return [path for each in s.statements for path in _paths(each, around)]
    return [path for block in blocks_of(s) for path in _paths(block, (*around, s))]


def _variables(expressions: Sequence[NestExpr]) -> set[Node]:
    return {v for e in expressions for v in free_variables(e)}


def _in_order(loops: Sequence[Any], index: Expr) -> bool:
    """Whether an index grows from each iteration of these loops to the next: each inner loop runs over one step of the loop around it."""
    terms = ix.linear(index)[1]
    if terms.get(loops[-1].var, 0) <= 0 or any(
        each.var in _variables(tuple(terms)) - {loops[-1].var} for each in loops
    ):
        return False
    if any(atom is not loops[-1].var and loops[-1].var in free_variables(atom) for atom in terms):
        return False
    for outer, inner in itertools.pairwise(loops):
        ends = ix.members_of(ix.as_index(inner.high))
        beyond = [ix.difference(end, ix.add(outer.var, outer.step)) for end in ends]
        if inner.low is not outer.var or not any(gap is not None and gap <= 0 for gap in beyond):
            return False
    return True


def _starts(block: Block, k: int, buffers: Sequence[Buffer], values: Sequence[Expr]) -> bool:
    """Whether buffers are set to these constants before statement `k`, read after it alone, and not otherwise accessed."""
    for number, outer in enumerate(block.statements):
        for s in statements_within(outer):
            touched = buffers_read(expressions_of(s))
            for buffer, value in zip(buffers, values, strict=True):
                if buffer in touched and number <= k:
                    return False
                if isinstance(s, Store) and s.buffer is buffer and (number >= k or s.value != value or s.predicate):
                    return False
                if not isinstance(s, Store | Fold) and any(access.buffer is buffer for access in accesses(s)):
                    return False
    return True


def _type_of(element: DType, found: InOrder) -> DType:
    """The dtype of indices relative to the first: as wide as elements if that holds them, else the next wider one that does."""
    lengths = [ix.difference(end, found.low) for end in ix.members_of(found.high)]
    count = min((n for n in lengths if n is not None), default=None)
    distance = ix.sub(found.value[1], found.first)
    factor = max(ix.linear(distance)[1].values(), default=1)
    most = None if count is None else max(1, count) * factor
    fits = [dtype for bits, dtype, holds in INDEX_TYPES if bits >= element.bits and most is not None and most <= holds]
    return fits[0] if fits else i64


def _rewritten(block: Block, indices: Buffer, found: InOrder) -> Block:
    """The block with indices relative to the first one."""
    fold = found.fold
    narrow = _type_of(fold.buffers[0].dtype, found)
    kept = Buffer(indices.name, narrow, indices.shape, indices.scope, new_serial(), (), 1, None)
    left, right = ((a, fresh(b.name, narrow)) for a, b in (fold.left, fold.right))
    element, index = found.value
    number = ix.canonical(ix.sub(index, found.first))
    brought = (element, converted(number, narrow))
    take = _ahead(fold.buffers[0].dtype, found.better, left[0], element)
    new = Fold(
        (fold.buffers[0], kept),
        fold.indices,
        tuple(Op("select", a.dtype, (take, b, a)) for a, b in zip(left, brought, strict=True)),
        left,
        right,
        picked(fold.buffers[0].dtype, found.better, left, right),
        (fold.neutral[0], const(narrow, 0)),
        fold.monoid,
    )
    is_entered = Op("lt", bool_, (found.low, found.high))

    def change(e: Any) -> Any:
        """The absolute index, where it is read."""
        if not isinstance(e, Read) or e.buffer is not indices:
            return e
        own = Read(kept, e.indices, e.predicate)
        wide = ix.add(found.first, converted(own, i64))
        return Op("select", i64, (is_entered, wide, NOWHERE))

    def statement(s: Any) -> Any:
        if isinstance(s, Alloc) and s.buffer is indices:
            return Alloc(kept)
        if isinstance(s, Store) and s.buffer is indices:
            return replace(s, buffer=kept, value=const(narrow, 0))
        if isinstance(s, Block):
            return Block(tuple(map(statement, s.statements)))
        return new if s is fold else with_blocks(s, statement)

    until, after = block.statements[: found.statement + 1], block.statements[found.statement + 1 :]
    read = (map_expressions(s, change, lambda buffer: buffer) for s in after)
    return Block((*map(statement, until), *read))


def _ahead(dtype: DType, better: str, held: Expr, new: Expr) -> Expr:
    """Whether a new element comes before the one held, given that later equals do not; the first NaN comes before all numbers."""
    if not dtype.is_float:
        return Op(better, bool_, (new, held))
    behind = Op("le" if better == "gt" else "ge", bool_, (new, held))
    number = Op("eq", bool_, (held, held))
    return Op("logical_and", bool_, (number, Op("logical_not", bool_, (behind,))))
