"""Sums of products of narrow integers, taken two or four at a time by the instructions that multiply and add neighbours.

    before   for r in 0..k: fold sum[x] = sum[x] + i32(a[r]) * i32(b[r, x])
    after    for r in 0..k // 4 * 4 step 4: fold sum[x] = dot_quarters(sum[x], a[r] | … | a[r + 3] << 24, b[r, x] | … | b[r + 3, x] << 24)
             for r in k // 4 * 4..k: fold sum[x] = sum[x] + i32(a[r]) * i32(b[r, x])

Four products have a factor of u8 and one of i8, two have factors that fit i16. Along the lanes of a sum, integers of at most 16 bits are
summed so, too, as products with 1, and bytes and absolute differences of bytes, eight at a time, in a sum of 64 bits begun before the
outermost loop that only adds to it. Across the lanes of a sum, bits of bytes are counted in words as wide as the sum. Sums of integers are
exact in any grouping.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, i8, i16, i32, u8, u16, u64, unsigned, whole_range
from raido.algo.graph.expr import Expr, Node, Op, Var, const, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.gang.fold_lanes import free_variables_of
from raido.schedule.gang.narrow_integers import BITWISE, Narrowing
from raido.schedule.nest.effects import buffers_read, is_scan, written
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, Let, Nest, Statement, Store
from raido.schedule.nest.values import Buffer, Read, converted, register
from raido.schedule.nest.walk import map_block, statements_within, with_blocks

_LEAST = 128  # bits of the shortest register


@dataclass(frozen=True)
class Pair:
    """The operands of one iteration's product, or difference, of which `count` are taken together; one operand: its bits are counted."""

    count: int
    factors: tuple[Expr, ...]


def take_dots(nest: Nest, vector_bits: int) -> Nest:
    """Returns the nest with sums of products of narrow integers, by lanes, taken several at a time."""
    taken: set[Block] = set()

    def inside(block: Block, lanes: For | None) -> Block:
        return map_block(block, lambda s: statement(s, lanes))

    def statement(s: Statement, lanes: For | None) -> Statement:
        around = s if isinstance(s, For) and s.kind == "vector" else lanes
        made = with_blocks(s, lambda block: inside(block, around), setups=False)
        several = None
        if made is s and isinstance(s, For) and s.kind in ("serial", "vector") and s.step == 1:
            several = _taken(s, lanes, vector_bits)
        elif isinstance(made, For) and made.kind == "serial":
            several = _hoisted(made, taken)
        if several is not None:
            taken.add(several)
        return several or made

    body = inside(nest.body, None)
    return nest if body is nest.body else replace(nest, body=body)


def _taken(loop: For, lanes: For | None, vector_bits: int) -> Block | None:
    """Returns a loop that takes several iterations at a time, and one over the rest; None for any but one of folds by lanes."""
    every = [s for s in statements_within(loop.body) if not isinstance(s, Block)]
    folds = [s for s in every if isinstance(s, Fold)]
    loops = [s for s in (lanes, loop, *every) if isinstance(s, For)]
    by_lanes = [s for s in loops if s.kind == "vector"]
    if not folds or not by_lanes or not all(isinstance(s, (Let, Fold, For)) for s in every):
        return None
    in_lanes = {s for each in by_lanes for s in statements_within(each)}
    if not in_lanes.issuperset(folds):
        return None
    names: dict[Node, Expr] = {}
    for s in every:
        if isinstance(s, Let):
            names[s.var] = substitute(s.value, names)  # type: ignore[type-var]
    values = [*names.values(), *(e for f in folds for e in f.step)]
    if not written(loop.body).isdisjoint(buffers_read(values)):
        return None
    bound = {loop.var, *names}
    if free_variables_of(*(e for s in every if isinstance(s, For) for e in (s.low, s.high))) & bound:
        return None
    narrowing = Narrowing({}, {s.var for s in loops} | bound)
    pairs: dict[Statement, Pair] = {}
    for fold in folds:
        pair = (
            None if free_variables_of(*fold.indices) & bound else _pair(fold, names, narrowing, loop.kind == "vector")
        )
        if pair is None or not free_variables_of(*pair.factors) & {loop.var}:
            return None
        if not all(_is_of_narrow_reads(e, loop.var, loop.kind == "vector") for e in pair.factors):
            return None
        pairs[fold] = pair
    count = min(pair.count for pair in pairs.values())
    alike = len({(pair.count, len(pair.factors)) for pair in pairs.values()}) == 1
    if any(len(pair.factors) == 1 for pair in pairs.values()):
        if not alike:
            return None
    elif len(folds) > 1 and any(pair.count == 8 for pair in pairs.values()):  # differences are no products
        return None
    trips = ix.sub(loop.high, loop.low)  # type: ignore[arg-type]
    known, bits = ix.constant_value(trips), 64 if count == 8 else 32
    if known is not None and known < count:
        return None
    if loop.kind == "vector" and (loop.lanes or known is not None):
        most = min(vector_bits // bits, (loop.lanes or known or 0) // count)
        loop = replace(loop, lanes=1 << most.bit_length() >> 1)
        if loop.lanes * bits < _LEAST:
            return None
    return _split(loop, pairs, count, trips)


def _hoisted(loop: For, taken: Collection[Block]) -> Block | None:
    """Returns a loop that ends with a block of `_taken`, with one sum of 64 bits for all iterations, begun before the loop and added behind it.

    None for a block without such a sum, or with more of them, and for other loops. Integers are added modulo powers of two: the result is
    the same.
    """
    match loop.body.statements:
        case (*names, Block((Alloc() as begun, Store() as cleared, *loops, Fold() as fold)) as last) if last in taken:
            own = {loop.var, *(s.var for s in names if isinstance(s, Let))}
            alone = all(isinstance(s, Let) for s in names) and all(isinstance(s, For) for s in loops)
            if alone and not free_variables_of(*fold.indices) & own:
                return Block((begun, cleared, replace(loop, body=Block((*names, *loops))), fold))
    return None


def _is_of_narrow_reads(e: Expr, var: Var, along: bool) -> bool:
    """Whether an operand is computed in 16 bits from what it reads there; along lanes of `var`, from neighbours."""
    if var not in free_variables_of(e):
        return True
    if isinstance(e, Read):
        *outer, last = e.indices
        near = ix.difference(substitute(last, {var: ix.add(var, 1)}), last) == 1  # type: ignore[type-var, arg-type]
        return e.dtype.bits <= 16 and not (along and (var in free_variables_of(*outer) or not near))
    return isinstance(e, Op) and e.dtype.bits <= 16 and all(_is_of_narrow_reads(a, var, along) for a in e.args)


def _pair(fold: Fold, names: Mapping[Node, Expr], narrowing: Narrowing, along: bool) -> Pair | None:
    """Returns the operands of a fold's step; None where it is no sum of narrow integers. along: whether the loop's iterations are lanes."""
    (step, *others), dtype, left = fold.step, fold.buffers[0].dtype, fold.left[0]
    if fold.monoid != "add" or others or is_scan(fold) or not isinstance(step, Op) or step.name != "add":
        return None
    if left not in step.args or step.args[0] is step.args[1] or not dtype.is_integer:
        return None
    value: Expr = substitute(step.args[step.args[0] is left], names)
    if isinstance(value, Op) and value.name == "mul" and dtype is i32:
        for count, types in ((4, (u8, i8)), (4, (i8, u8)), (2, (i16, i16))):
            factors = [_as(e, t, narrowing) for e, t in zip(value.args, types, strict=True)]
            if None not in factors:
                return Pair(count, tuple(factors if types[0] is not i8 else factors[::-1]))  # type: ignore[arg-type]
    if not along:
        counted = value.args[0] if isinstance(value, Op) and value.name == "cast" else value
        bits = counted.args[0].dtype.bits if isinstance(counted, Op) and counted.name == "popcount" else 0
        whole = (bits, dtype.bits) in ((8, 32), (8, 64), (16, 32))
        return Pair(dtype.bits // bits, counted.args) if whole else None  # type: ignore[union-attr]
    terms = _difference(value)
    bytes_ = [_as(e, u8, narrowing) for e in (terms or (value, const(value.dtype, 0)))]
    if None not in bytes_:
        return Pair(8, tuple(bytes_))  # type: ignore[arg-type]
    if dtype is not i32:
        return None
    for count, one, t in ((4, const(u8, 1), i8), (2, const(i16, 1), i16)):
        if (term := _as(value, t, narrowing)) is not None:
            return Pair(count, (one, term))
    return None


def _difference(e: Expr) -> tuple[Expr, ...] | None:
    """Returns x and y of |x - y|, in any width that holds it; None for other expressions."""
    while isinstance(e, Op) and e.name == "cast" and e.args[0].dtype.is_integer:
        e = e.args[0]
    if not isinstance(e, Op) or e.name != "abs" or e.dtype.bits < 16:
        return None
    inside = e.args[0]
    return inside.args if isinstance(inside, Op) and inside.name == "sub" else None


def _as(e: Expr, dtype: DType, narrowing: Narrowing) -> Expr | None:
    """Returns an integer in that type; None where it may not fit, or cannot be computed in 16 bits."""
    bounds, (least, most) = narrowing.range_of(e), whole_range(dtype)
    if bounds is None or bounds[0] < least or most < bounds[1]:
        return None
    while isinstance(e, Op) and e.name == "cast" and e.dtype.bits > dtype.bits and not e.args[0].dtype.is_float:
        e = e.args[0]
    if e.dtype.bits <= dtype.bits:
        return converted(e, dtype)
    wide = i16 if dtype is i8 else u16 if dtype is u8 else dtype
    narrow = narrowing.narrow(e, wide, 16)
    return None if narrow is None else converted(narrow, dtype)


def _split(loop: For, pairs: Mapping[Statement, Pair], count: int, trips: Expr) -> Block:
    dtype = u64 if count == 8 else i32
    middle = ix.add(loop.low, ix.mul(ix.floordiv(ix.maximum(trips, 0), count), count))  # type: ignore[arg-type]
    packed: dict[Expr, Let] = {}
    sums: dict[Statement, Buffer] = {}

    def operand(e: Expr, signed: bool) -> Expr:
        narrow = {2: i16, 4: i8 if signed else u8, 8: u8}[count]
        if isinstance(e, Op) and e.name in BITWISE and e.dtype.bits == narrow.bits:
            return Op(e.name, dtype, tuple(operand(a, signed) for a in e.args))
        e = converted(e, narrow)
        if e not in packed:
            each = [substitute(e, {loop.var: ix.add(loop.var, k)}) for k in range(count)]
            packed[e] = Let(fresh("packed", dtype), _joined(each, dtype))
        return packed[e].var  # type: ignore[return-value]

    def statement(s: Statement) -> list[Statement]:
        if isinstance(s, Let):
            return []
        if isinstance(s, Fold):
            x, *others = (operand(e, k == 1) for k, e in enumerate(pairs[s].factors))
            if not others:
                total = s.left[0].dtype
                bits = converted(Op("popcount", dtype, (x,)), total)
                return [replace(s, step=(Op("add", total, (s.left[0], bits)),))]
            (y,) = others
            if count < 8:
                name = "dot_halves" if count == 2 else "dot_quarters"
                return [replace(s, step=(Op(name, dtype, (s.left[0], x, y)),))]
            sums[s] = register("few", u64)
            left, right, zero = fresh("left", u64), fresh("right", u64), const(u64, 0)
            step, both = (Op("add", u64, (left, e)) for e in (Op("byte_differences", u64, (x, y)), right))
            return [Fold((sums[s],), (), (step,), (left,), (right,), (both,), (zero,), "add")]
        if isinstance(s, Block):
            return [Block(tuple(made for inner in s.statements for made in statement(inner)))]
        assert isinstance(s, For)
        folds = statement(s.body)
        mine = [e for e, let in packed.items() if s.var in free_variables_of(let.value)]
        return [replace(s, body=Block((*(packed.pop(e) for e in mine), *folds)))]

    body = [made for s in loop.body.statements for made in statement(s)]
    several = replace(loop, high=middle, step=count, body=Block((*packed.values(), *body)))
    out: list[Statement] = [several]
    if not ix.is_multiple(trips, count):
        kind = "serial" if loop.kind == "vector" else loop.kind
        out.append(replace(loop, low=middle, kind=kind, lanes=0, interleave=1, copied=False))
    for fold, few in sums.items():
        assert isinstance(fold, Fold)
        out[:0] = [Alloc(few), Store(few, (), const(u64, 0))]
        total = Op("cast", fold.buffers[0].dtype, (Read(few, (), None),))
        out.append(replace(fold, step=(Op("add", total.dtype, (fold.left[0], total)),)))
    return Block(tuple(out))


def _joined(parts: list[Expr], dtype: DType) -> Expr:
    """Returns an integer whose halves, quarters or eighths are these integers, the first one lowest."""
    half = unsigned(parts[0].dtype.bits)
    whole = [converted(e, half) for e in parts]
    while len(whole) > 1:
        both = unsigned(2 * half.bits)
        low, high = ([Op("cast", both, (e,)) for e in whole[k::2]] for k in (0, 1))
        shifted = [Op("shl", both, (e, const(both, half.bits))) for e in high]
        whole, half = [Op("bit_or", both, pair) for pair in zip(low, shifted, strict=True)], both
    return converted(whole[0], dtype)
