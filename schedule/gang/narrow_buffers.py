"""Arrays of integers of 32 and 64 bits of the program's own, kept in 8 or 16 where no stored integer has more: fewer bytes to move, and
operands of the instructions that multiply narrow integers.

    before   wide: i32[m, k] heap; wide[y, x] = i32(a[y, x]); … wide[y, r] * b[r, x]
    after    wide: u8[m, k] heap; wide[y, x] = a[y, x]; … i32(wide[y, r]) * b[r, x]

Arrays keep their type where lanes reach elements that are not neighbours, since these are moved one by one whatever their width.
"""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, i8, i16, u8, u16
from raido.algo.graph.expr import Expr, Node, Op
from raido.algo.graph.rewrite import substitute
from raido.schedule.gang.narrow_integers import type_of
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.effects import Access, accesses, loads
from raido.schedule.nest.integer_ranges import IntegerRanges, is_wider
from raido.schedule.nest.nodes import Alloc, Block, For, Let, Nest, Statement, Store
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, Read, replaced
from raido.schedule.nest.walk import map_statements, statements_within


def narrow_buffers(nest: Nest) -> Nest:
    """The nest with its own arrays of integers as narrow as what is stored in them."""
    while made := _types(nest.body):
        nest = _with_types(nest, made)
    return nest


def _with_types(nest: Nest, made: dict[Buffer, DType]) -> Nest:
    """Returns the nest with some arrays of other types, cast where they are read and stored."""
    swapped = {b: replaced(b, dtype=t) for b, t in made.items()}
    wide = {narrow: b.dtype for b, narrow in swapped.items()}
    body = map_expressions(nest.body, lambda e: _changed(e, swapped, wide), lambda b: swapped.get(b, b))
    return replace(nest, body=map_statements(body, lambda s: [_stored(s, wide)]))


def _changed(e: Node, swapped: dict[Buffer, Buffer], wide: dict[Buffer, DType]) -> Node:
    if isinstance(e, Buffer):
        return swapped.get(e, e)
    return Op("cast", wide[e.buffer], (e,)) if isinstance(e, Read) and e.buffer in wide else e  # type: ignore[arg-type]


def _stored(s: Statement, wide: dict[Buffer, DType]) -> Statement:
    if not isinstance(s, Store) or s.buffer not in wide:
        return s
    value, dtype = s.value, s.buffer.dtype
    if isinstance(value, Op) and value.name == "cast" and value.args[0].dtype is dtype:
        return replace(s, value=value.args[0])
    return replace(s, value=Op("cast", dtype, (value,)))


def _types(body: Block) -> dict[Buffer, DType]:
    """The arrays that can be narrower, with the types that hold what is stored in them."""
    every = list(statements_within(body))
    found = {s.buffer: i8 for s in every if isinstance(s, Alloc) and _may_be_narrow(s.buffer)}
    if not found:
        return {}
    names: dict[Node, Expr] = {}
    for s in every:
        if isinstance(s, Let):
            names[s.var] = s.value if names.setdefault(s.var, s.value) is s.value else s.var  # type: ignore
    ranges = IntegerRanges({var: value for var, value in names.items() if var is not value})
    stored: dict[Buffer, tuple[int, int]] = {}
    for s in every:
        if isinstance(s, Store):
            low, high = ranges.range_of(s.value) or (-(1 << 63), 1 << 63)  # type: ignore[arg-type]
            before = stored.get(s.buffer, (low, high))
            stored[s.buffer] = min(low, before[0]), max(high, before[1])
        else:
            others = accesses(s)
            for access in others[: len(others) - len(loads(s))]:
                found.pop(access.buffer, None)
    for s in every:
        if isinstance(s, For) and s.kind == "vector" and found:
            info = Variability(s)
            for inner in statements_within(s.body):
                for access in accesses(inner):
                    if access.buffer in found and not _is_consecutive(access, s, info):
                        found.pop(access.buffer)
    types = {b: (t for t in (u8, i8, u16, i16) if t.bits < b.dtype.bits) for b in found}
    return {b: t for b in found if b in stored and (t := type_of([stored[b]], types[b])) is not None}


def _may_be_narrow(buffer: Buffer) -> bool:
    return buffer.scope in ("heap", "stack") and is_wider(buffer, 16) and buffer.lanes == 1  # type: ignore[arg-type]


def _is_consecutive(access: Access, loop: For, info: Variability) -> bool:
    """Whether lanes reach one element, or neighbouring ones."""
    if not info.varies(*access.indices):  # type: ignore[misc]
        return True
    *outer, last = access.indices  # type: ignore[misc]
    moved = ix.difference(substitute(last, {loop.var: ix.add(loop.var, loop.step)}), last)
    return not info.varies(*outer) and moved in (1, -1)
