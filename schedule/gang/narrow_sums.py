"""Sums of narrow integers, accumulated in 16 or 32 bits for as many iterations as cannot overflow: more lanes, and fewer conversions.

    before   for rii in rio..rio + 8: fold sum[x] = sum[x] + i64(a[rii, x])
    after    few: u16 = 0; for rii in rio..rio + 8: fold few = few + u16(a[rii, x])
             fold sum[x] = sum[x] + i64(few)

No result changes: integer sums are exact in any grouping, and so are sums in f64 of integers of at most 16 bits, of which 2^37 add up to
2^53. Sums in f32 stay as they are, since they round from 2^24 on. Loops of more iterations are strip-mined into blocks. Where each lane has
a loop of its own, lanes are as many as narrow sums fill a register.
"""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import greatest
from raido.algo.graph.dtypes import f64
from raido.algo.graph.expr import Expr, Node, Op, const, fresh
from raido.schedule.gang.fold_lanes import free_variables_of
from raido.schedule.gang.narrow_integers import TYPES, Narrowing, type_of
from raido.schedule.gang.variability import Variability
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.effects import buffers_read, is_scan, written
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, Let, Nest, Statement, Store
from raido.schedule.nest.values import Read, register
from raido.schedule.nest.walk import map_block, statements_within, with_blocks

BYTES = 1 << 8  # elements of 8 bits, whose sum has 16 bits
BLOCK = 1 << 16  # elements of 16 bits, whose sum has 32 bits

Few = tuple[Alloc, Store, Fold, Fold]


def narrow_sums(nest: Nest, vector_bits: int) -> Nest:
    """Returns the nest with sums of narrow integers in vector loops accumulated in few bits."""

    def narrowed(loop: For) -> Statement:
        over_lanes = _in_blocks(loop, loop, (BLOCK,))  # whose lanes add to one sum
        return _in_lanes(loop, vector_bits) if over_lanes is None else over_lanes[0]

    return replace_vector_loops(nest, narrowed)


def _in_blocks(loop: For, lanes: For, blocks: tuple[int, ...]) -> tuple[Statement, int] | None:
    """Returns a loop with narrow sums, and the bits of the widest one; None if it has none.

    The loop is strip-mined if its sums may overflow otherwise. blocks: numbers of iterations to try, the smallest first.
    """
    low, high = ix.as_index(loop.low), ix.as_index(loop.high)
    most = greatest(ix.sub(high, low))
    for block in blocks:
        few = most is not None and most <= block
        if not few and lanes is not loop and Variability(lanes).varies(low, high):
            return None
        first = fresh("block")
        part = loop if few else replace(loop, low=first, high=ix.minimum(ix.add(first, block), high))
        made = _narrowed(part, lanes, most if few and most is not None else block)
        bits = 0 if made is None else max(s.buffer.dtype.bits for s in made.statements if isinstance(s, Alloc))
        if made is not None and (bits == 16 or block == blocks[-1]):
            return made if few else For(first, low, high, block, made, "serial", stage=loop.stage, loop=loop.loop), bits
    return None


def _in_lanes(loop: For, vector_bits: int) -> For:
    """A vector loop whose lanes have loops with sums of their own, with narrow ones; its lanes are as many as the widest narrow sum allows."""
    widest = 0

    def inside(block: Block) -> Block:
        return map_block(block, narrowed)

    def narrowed(s: Statement) -> Statement:
        nonlocal widest
        if not isinstance(s, For) or s.kind == "vector":
            return s
        made = _in_blocks(s, loop, (BYTES, BLOCK))
        other = with_blocks(s, inside, setups=False) if made is None else made[0]
        widest = max(widest, made[1] if made is not None else 64 if other is s else 0)
        return other

    body = inside(loop.body)
    return loop if body is loop.body else replace(loop, body=body, lanes=loop.lanes or vector_bits // widest)


def _narrowed(loop: For, lanes: For, most: int) -> Block | None:
    """Returns a narrow sum for each fold of a loop that consists of folds to loop-invariant elements; None for any other loop."""
    folds = [s for s in loop.body.statements if isinstance(s, Fold)]
    names: dict[Node, Expr] = {s.var: s.value for s in loop.body.statements if isinstance(s, Let)}  # type: ignore[misc]
    if loop.step != 1 or not folds or len(folds) + len(names) < len(loop.body.statements):
        return None
    if not written(loop.body).isdisjoint(buffers_read(names.values())):
        return None
    inside = {s.var for s in statements_within(lanes.body) if isinstance(s, (For, Let))}
    narrowing = Narrowing(names, {lanes.var, *inside})
    found: dict[Statement, Few] = {}
    for fold in folds:
        if not free_variables_of(*fold.indices).isdisjoint({loop.var, *names}):
            return None
        few = _few(fold, most, narrowing)
        if few is None:
            return None
        found[fold] = few
    body = Block(tuple(found[s][2] if s in found else s for s in loop.body.statements))
    begun = tuple(s for few in found.values() for s in few[:2])
    return Block((*begun, replace(loop, body=body), *(few[3] for few in found.values())))


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
    dtype = type_of([(low, high)], (t for bits, types in TYPES.items() if bits < buffer.dtype.bits for t in types))
    narrow = None if dtype is None else narrowing.narrow(value, dtype, dtype.bits)
    if dtype is None or narrow is None:
        return None
    few = register("few", dtype)
    own, right, zero = fresh("left", dtype), fresh("right", dtype), const(dtype, 0)
    add = [Op("add", dtype, (own, e)) for e in (narrow, right)]
    into = Fold((few,), (), (add[0],), (own,), (right,), (add[1],), (zero,), "add")
    whole = replace(fold, step=(Op("add", buffer.dtype, (left, Op("cast", buffer.dtype, (Read(few, (), None),)))),))
    return Alloc(few), Store(few, (), zero), into, whole
