"""Arg folds in lanes, `argmax` and `argmin`, as two folds of one value each: the extreme of a block, then where it stands first.

    before   for r in low..high by vector: (m, k) = pick((m, k), (a[r], r))
    after    for block in low..high step B:
               best = max over r in block..min(block + B, high), by vector, of a[r]
               if (best, block) may be picked against (m, k):
                 found = min over the same r, by vector, of r - block where a[r] is best
                 (m, k) = pick((m, k), (a[block + found], block + found))

An index in each lane takes as many lanes of 64 bits as there are elements, and a step of the pair several operations; an extreme alone
is one or few operations on lanes as narrow as the elements. Few blocks have a new extreme: of n blocks in random order about log n. Where
each one has, as in increasing data, it is read a second time, from the cache. What is picked does not change, nor do its bits: the element
is read again where it was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i16, i32, i64
from raido.algo.graph.expr import Const, Expr, Op, const, fresh
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.effects import is_scan
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, If, Let, Nest, Statement, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read, new_serial

BLOCK = 4096  # elements: 64 registers of bytes, beside which combining lanes is little; they fit a first-level cache, places 16 bits
FEWEST = 64  # elements of a row of known length: of fewer, most of the work is combining lanes
NOWHERE = (1 << 15) - 1
PLACES = {16: i16, 32: i32, 64: i64}  # as wide as elements, whose comparisons then choose places as they are
EXTREMES = {"gt": "maximum", "lt": "minimum"}


def find_extremes_first(nest: Nest) -> Nest:
    """The nest with every arg fold over lanes in two steps."""
    return replace_vector_loops(nest, lambda loop: _in_blocks(loop, better) if (better := _matched(loop)) else loop)


def _matched(loop: For) -> str:
    """The comparison by which a loop in lanes picks the first extreme, "gt" or "lt"; "" for all other loops."""
    *names, fold = loop.body.statements or (None,)
    if loop.kind != "vector" or loop.step != 1 or not isinstance(fold, Fold) or is_scan(fold) or len(fold.buffers) != 2:
        return ""
    count = ix.constant_value(ix.sub(ix.as_index(loop.high), ix.as_index(loop.low)))
    if not all(isinstance(s, Let) for s in names) or (count is not None and count < FEWEST):
        return ""
    if any(loop.var in free_variables(i) for i in fold.indices) or fold.buffers[1].dtype is not i64:
        return ""
    for better in EXTREMES:
        pick = _pick(fold.buffers[0].dtype, better, fold.left, fold.right)
        if fold.combine == pick and _is_lowest(fold.neutral, better):
            value = _value(fold)
            place = None if value is None else ix.linear(value[1])[1].get(loop.var, 0)
            if place is not None and place > 0 and fold.step == _with(fold, pick, value):
                return better
    return ""


def _pick(dtype: DType, better: str, left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operator of `argmax` or `argmin`, as `rd.argmax` writes it."""
    take = _take(dtype, better, left, right)
    return tuple(Op("select", a.dtype, (take, b, a)) for a, b in zip(left, right, strict=True))


def _take(dtype: DType, better: str, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    (x, i), (y, j) = left, right
    test = lambda name, *args: Op(name, bool_, args)
    ahead = test(better, y, x)
    if dtype.is_float:
        ahead = test("select", test("isnan", x), const(bool_, False), test("logical_or", ahead, test("isnan", y)))
    return test("logical_or", ahead, test("logical_and", _same(dtype, x, y), test("lt", j, i)))


def _same(dtype: DType, x: Expr, y: Expr) -> Expr:
    same = Op("eq", bool_, (y, x))
    if not dtype.is_float:
        return same
    both = Op("logical_and", bool_, (Op("isnan", bool_, (x,)), Op("isnan", bool_, (y,))))
    return Op("logical_or", bool_, (same, both))


def _is_lowest(neutral: Sequence[NestExpr], better: str) -> bool:
    """Whether an extreme may begin with the neutral element of the pick."""
    first = neutral[0]
    if not isinstance(first, Const) or first.dtype is bool_:
        return False
    if first.dtype.is_float:
        return first.value == (float("-inf") if better == "gt" else float("inf"))
    signed, bits = first.dtype.kind == "i", first.dtype.bits
    lowest, highest = (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return first.value == (lowest if better == "gt" else highest)


def _value(fold: Fold) -> tuple[Expr, ...] | None:
    """What a step brings: the element and its index."""
    if not all(
        isinstance(s, Op) and s.name == "select" and s.args[2] is v for s, v in zip(fold.step, fold.left, strict=True)
    ):
        return None
    return tuple(s.args[1] for s in fold.step)  # type: ignore[union-attr]


def _with(fold: Fold, pick: Sequence[Expr], value: Sequence[Expr] | None) -> tuple[Expr, ...]:
    values = dict(zip(fold.right, value or (), strict=False))
    return tuple(substitute(e, values) for e in pick)


def _in_blocks(loop: For, better: str) -> Statement:
    low, high = ix.as_index(loop.low), ix.as_index(loop.high)
    count = ix.constant_value(ix.sub(high, low))
    if count is not None and count <= BLOCK:
        return Block(_one_block(loop, better, low, high))
    first = fresh("block")
    body = Block(_one_block(loop, better, first, ix.minimum(ix.add(first, BLOCK), high)))
    return For(first, low, high, BLOCK, body, "serial", stage=loop.stage, loop=loop.loop)


def _one_block(loop: For, better: str, first: Expr, end: Expr) -> tuple[Statement, ...]:
    """The fold over one block, which has an element: a loop of none begins no block, and one of a known number has some."""
    fold = loop.body.statements[-1]
    assert isinstance(fold, Fold)
    value, dtype, which = _value(fold), fold.buffers[0].dtype, EXTREMES[better]
    assert value is not None
    narrow = PLACES[max(16, dtype.bits)]
    nowhere = const(narrow, NOWHERE)
    best, found = (
        Buffer(n, t, (), "register", new_serial(), (), 1, None) for n, t in (("best", dtype), ("found", narrow))
    )
    held = tuple(Read(b, fold.indices, None) for b in fold.buffers)
    extreme = Read(best, (), None)
    begin = substitute(value[1], {loop.var: first})
    where = ix.sub(loop.var, first) if narrow is i64 else Op("cast", narrow, (ix.sub(loop.var, first),))

    def find(is_best: Expr) -> For:
        place = Op("select", narrow, (is_best, where, nowhere))
        return _fold_of(loop, first, end, found, place, nowhere, "minimum")

    search: Statement = find(Op("eq", bool_, (value[0], extreme)))
    if dtype.is_float:  # asked once: a condition of all lanes is no mask to begin with
        lost = find(Op("isnan", bool_, (value[0],)))
        search = If(Op("isnan", bool_, (extreme,)), Block((lost,)), Block((search,)))
    at = fresh("at")
    again = replace(loop, var=loop.var, low=at, high=ix.add(at, 1), kind="serial", lanes=0, interleave=1)
    return (
        Alloc(best),
        Store(best, (), fold.neutral[0]),
        _fold_of(loop, first, end, best, value[0], fold.neutral[0], which),
        If(
            _take(dtype, better, held, (extreme, begin)),
            Block(
                (
                    Alloc(found),
                    Store(found, (), nowhere),
                    search,
                    Let(at, ix.add(first, Read(found, (), None) if narrow is i64 else _wide(Read(found, (), None)))),
                    again,
                )
            ),
        ),
    )


def _wide(place: NestExpr) -> Op:
    return Op("cast", i64, (place,))


def _fold_of(loop: For, first: Expr, end: Expr, buffer: Buffer, value: NestExpr, neutral: NestExpr, which: str) -> For:
    """The loop in lanes that folds a value of each iteration into one register."""
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
