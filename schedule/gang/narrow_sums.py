"""Sums of narrow integers, accumulated in 16 or 32 bits for as many iterations as cannot overflow: more lanes, and fewer conversions.

    before   for rii in rio..rio + 8: fold sum[x] = sum[x] + i64(a[rii, x])
    after    few: u16 = 0; for rii in rio..rio + 8: fold few = few + u16(a[rii, x])
             fold sum[x] = sum[x] + i64(few)

No result changes: integer sums are exact in any grouping, and so are sums in f64 of integers of at most 16 bits, of which 2^37 add up to
2^53. Sums in f32 stay as they are, since they round from 2^24 on. A nest of loops known to be few enough iterations has one narrow sum for
all; other loops are strip-mined into blocks. Where each lane has a loop of its own, lanes are as many as narrow sums fill a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import greatest
from raido.algo.graph.dtypes import f64
from raido.algo.graph.expr import Expr, Node, Op, const, fresh
from raido.schedule.gang.fold_lanes import free_variables_of
from raido.schedule.gang.narrow_integers import TYPES, Narrowing, type_of
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.effects import buffers_read, is_scan, written
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, Let, Nest, Statement, Store
from raido.schedule.nest.values import Read, register
from raido.schedule.nest.walk import map_block, statements_within, with_blocks

BYTES = 1 << 8  # elements of 8 bits, whose sum has 16 bits
BLOCK = 1 << 16  # elements of 16 bits, whose sum has 32 bits

Few = tuple[Alloc, Store, Fold, Fold]


def narrow_sums(nest: Nest, vector_bits: int) -> Nest:
    """Returns the nest with sums of narrow integers in vector loops accumulated in few bits."""

    def inside(block: Block) -> Block:
        return map_block(block, statement)

    def statement(s: Statement) -> Statement:
        if isinstance(s, For):
            lanes = _levels(s)[-1]
            if lanes.kind == "vector" and (made := _in_blocks(s, lanes, (BLOCK,))) is not None:
                return made[0]
            if s is lanes and s.kind == "vector":
                return _in_lanes(s, vector_bits)
        return with_blocks(s, inside, setups=False)

    body = inside(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


def _levels(loop: For) -> list[For]:
    """Returns the loops of a perfect nest, outermost first, down to a vector loop; names may stand before each loop."""
    levels = [loop]
    while levels[-1].kind == "serial" and levels[-1].body.statements:
        *names, last = levels[-1].body.statements
        if not isinstance(last, For) or last.kind not in ("serial", "vector"):
            break
        if not all(isinstance(s, Let) for s in names):
            break
        levels.append(last)
    return levels


def _trips(levels: Sequence[For]) -> int | None:
    """Returns the most iterations of the body of a nest of loops; None where they are unknown."""
    counts = [greatest(ix.sub(ix.as_index(loop.high), ix.as_index(loop.low))) for loop in levels]
    return None if None in counts else prod(max(count or 0, 0) for count in counts)


def _in_blocks(loop: For, lanes: For, blocks: tuple[int, ...]) -> tuple[Statement, int] | None:
    """Returns a nest of loops with narrow sums, and the bits of the widest one; None if it has none.

    A single loop is strip-mined if its sums may overflow otherwise. lanes: the vector loop, around the nest or the last loop in it. blocks:
    numbers of iterations to try, the smallest first.
    """
    levels = _levels(loop)
    if not any(isinstance(s, Fold) for s in levels[-1].body.statements[-1:]):
        return None
    most = _trips(levels)
    for block in blocks:
        few = most is not None and most <= block
        if not few and (len(levels) > 1 or (lanes is not loop and Variability(lanes).varies(loop.low, loop.high))):
            return None
        first = fresh("block")
        part = loop if few else replace(loop, low=first, high=ix.minimum(ix.add(first, block), ix.as_index(loop.high)))
        made = _narrowed(part, lanes, most if few and most is not None else block)
        bits = 0 if made is None else max(s.buffer.dtype.bits for s in made.statements if isinstance(s, Alloc))
        if made is not None and (bits == 16 or (block == blocks[-1] and (len(levels) == 1 or lanes in levels))):
            if few:
                return made, bits
            return For(first, loop.low, loop.high, block, made, "serial", stage=loop.stage, loop=loop.loop), bits
    return None


def _in_lanes(loop: For, vector_bits: int) -> For:
    """A vector loop whose lanes have loops with sums of their own, with narrow ones; its lanes are as many as the widest narrow sum allows."""
    widest = 0

    def inside(block: Block) -> Block:
        return map_block(block, narrowed)

    def narrowed(s: Statement) -> Statement:
        nonlocal widest
        if not isinstance(s, For) or s.kind == "vector":
            return s if isinstance(s, For) else with_blocks(s, inside, setups=False)
        made = _in_blocks(s, loop, (BYTES, BLOCK))
        other = with_blocks(s, inside, setups=False) if made is None else made[0]
        widest = max(widest, made[1] if made is not None else 64 if other is s else 0)
        return other

    body = inside(loop.body)
    return loop if body is loop.body else replace(loop, body=body, lanes=loop.lanes or vector_bits // widest)


def _narrowed(loop: For, lanes: For, most: int) -> Block | None:
    """Returns a narrow sum for each fold of a nest of loops that consists of folds to loop-invariant elements; None for any other nest."""
    levels = _levels(loop)
    every = [s for level in levels for s in level.body.statements if s not in levels]
    folds = [s for s in every if isinstance(s, Fold)]
    names: dict[Node, Expr] = {s.var: s.value for s in every if isinstance(s, Let)}  # type: ignore[misc]
    if any(level.step != 1 for level in levels) or not folds or len(folds) + len(names) < len(every):
        return None
    if not written(loop.body).isdisjoint(buffers_read(names.values())):
        return None
    inside = {s.var for outer in (loop, lanes) for s in statements_within(outer.body) if isinstance(s, (For, Let))}
    narrowing = Narrowing(names, {loop.var, lanes.var, *inside})
    found: dict[Statement, Few] = {}
    for fold in folds:
        if not free_variables_of(*fold.indices).isdisjoint({*(level.var for level in levels), *names}):
            return None
        few = _few(fold, most, narrowing)
        if few is None:
            return None
        found[fold] = few
    made: For | None = None
    for level in reversed(levels):
        body = [s if made is None or not isinstance(s, For) else made for s in level.body.statements]
        made = replace(level, body=Block(tuple(found[s][2] if s in found else s for s in body)))
    begun = tuple(s for few in found.values() for s in few[:2])
    assert made is not None
    return Block((*begun, made, *(few[3] for few in found.values())))


def _few(fold: Fold, most: int, narrowing: Narrowing) -> Few | None:
    """Returns a narrow sum: its allocation, its start, the fold of values into it, and the fold of it into the wide sum.

    None if no type of 16 or 32 bits holds the sum of `most` values.
    """
    (step, *others), (buffer, *_), left = fold.step, fold.buffers, fold.left[0]
    if fold.monoid != "add" or others or is_scan(fold) or not isinstance(step, Op) or step.name != "add":
        return None
    if left not in step.args or step.args[0] is step.args[1]:
        return None
    value: Expr = step.args[step.args[0] is left]
    if buffer.dtype.is_float:
        if buffer.dtype is not f64 or not isinstance(value, Op) or value.name != "cast":
            return None
        value = value.args[0]
    bounds = narrowing.range_of(value)
    if bounds is None or (buffer.dtype.is_float and max(-bounds[0], bounds[1]) > BLOCK):
        return None
    low, high = most * min(bounds[0], 0), most * max(bounds[1], 0)
    dtype = type_of([(low, high)], (t for bits in (16, 32) if bits < buffer.dtype.bits for t in TYPES[bits]))
    narrow = None if dtype is None else narrowing.narrow(value, dtype, dtype.bits)
    if dtype is None or narrow is None:
        return None
    few = register("few", dtype)
    own, right, zero = fresh("left", dtype), fresh("right", dtype), const(dtype, 0)
    add = [Op("add", dtype, (own, e)) for e in (narrow, right)]
    into = Fold((few,), (), (add[0],), (own,), (right,), (add[1],), (zero,), "add")
    whole = replace(fold, step=(Op("add", buffer.dtype, (left, Op("cast", buffer.dtype, (Read(few, (), None),)))),))
    return Alloc(few), Store(few, (), zero), into, whole
