"""Narrowing of initial contents: what a loop overwrites before it is read is neither copied nor filled.

    out = copy a                                                     copy: out[0] = a[0]
    for t in 0..n - 1:                                    becomes    for t in 0..n - 1:
      out[t + 1] = out[t + 1] + out[t] * b[t + 1]                      out[t + 1] = a[t + 1] + out[t] * b[t + 1]

The loop stores, in every iteration and under no condition, at a counter plus a constant along one dimension, and along the others in a range.
It reads what earlier iterations have stored, elements outside of the range, and elements that no iteration has stored yet, which it finds in
the source instead. A constant number of rows, or columns, must be all that is left of the contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Const, Expr, Node, Op, fresh
from raido.algo.graph.rewrite import free_variables, topological
from raido.schedule.nest.effects import written
from raido.schedule.nest.nodes import Block, Copy, For, If, Nest, Produce, Statement, Store, View
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.uses import is_statement, parts
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import expressions_of, statements_within, with_blocks, with_statements

_MOST_LEFT = 64  # rows: a loop of one thread copies as few before other threads have begun

Box = tuple[tuple[Expr, Expr], ...]
"""The first index along each dimension, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Overwriting:
    """A store, in its block, that is executed for every index of a box; for each dimension the loop that counts through it, and that over
    its chunks, if there is one; and all these loops, outermost first."""

    store: Store
    block: Block
    box: Box
    counters: tuple[tuple[For, For | None], ...]
    around: tuple[For, ...]


def leave_out_overwritten(nest: Nest) -> Nest:
    """Narrows copies and fills of arrays to the elements that are read before a loop overwrites them."""
    seen = {buffer for s in statements_within(nest.body) if isinstance(s, View) for buffer in (s.buffer, s.source)}
    return replace(nest, body=_block(nest.body, Assumptions(), seen))


def _block(block: Block, known: Assumptions, seen: Set[Buffer]) -> Block:
    """Narrows the contents of arrays in a block; not those of arrays in `seen`, which have several names."""
    statements: list[Statement] = [_inside(s, known, seen) for s in block.statements]
    given: list[tuple[Buffer, Buffer | Const] | None] = []
    constant: dict[Buffer, Const] = {}  # arrays that are filled with a constant, and not changed yet
    for s in statements:
        contents = _contents(s, known)
        for buffer in written(s) if constant else ():
            constant.pop(buffer, None)
        if contents is not None:
            buffer, source = contents
            source = constant.get(source, source) if isinstance(source, Buffer) else source
            contents = buffer, source
            constant |= {buffer: source} if isinstance(source, Const) else {}
        given.append(contents)
    for k in reversed(range(len(statements))):
        contents = given[k]
        if contents is None or not seen.isdisjoint(contents):
            continue
        buffer, source = contents
        later = next((j for j in range(k + 1, len(statements)) if _mentions(statements[j], buffer)), None)
        if later is None or source in written(*statements[k + 1 : later + 1]):
            continue
        narrowed = _narrowed(buffer, source, statements[later], known)
        if narrowed is not None:
            left, statements[later] = narrowed
            statements[k : k + 1] = left
    return with_statements(block, statements)


def _inside(s: Any, known: Assumptions, seen: Set[Buffer]) -> Any:
    inner = known.with_range(s.var, s.low, ix.sub(s.high, 1)) if isinstance(s, For) else known  # type: ignore[arg-type]
    return with_blocks(s, lambda block: _block(block, inner, seen))


def _contents(s: Statement, known: Assumptions) -> tuple[Buffer, Buffer | Const] | None:
    """The array that a statement gives all its contents, and the array or constant of which they are copies."""
    if isinstance(s, Copy):
        return s.destination, s.source
    inside = [each for each in statements_within(s) if not isinstance(each, (Block, For, If, Produce))]
    if not isinstance(s, Produce) or not all(isinstance(each, Store) for each in inside):
        return None
    alike = {(each.buffer, _source(each)) for each in inside}  # type: ignore[union-attr]
    ((buffer, source),) = alike if len(alike) == 1 else ((None, None),)
    if buffer is None or source is None or (isinstance(source, Buffer) and source.shape != buffer.shape):
        return None
    whole = tuple((ix.as_index(0), n) for n in buffer.shape)
    found = _overwriting(s, (), buffer, known)
    return (buffer, source) if found and all(each.box == whole for each in found) else None


def _source(s: Store) -> Buffer | Const | None:
    """The array of which a store copies the element at the same index, or the constant that it stores."""
    value = s.value
    if isinstance(value, Read) and value.indices == s.indices and value.predicate is None:
        return value.buffer if value.buffer is not s.buffer else None
    return value if isinstance(value, Const) else None


def _mentions(s: Any, buffer: Buffer) -> bool:
    return any(
        part is buffer
        or (isinstance(part, Node) and any(isinstance(e, Read) and e.buffer is buffer for e in topological(part)))
        or (is_statement(part) and _mentions(part, buffer))
        for part in parts(s)
    )


def _narrowed(
    buffer: Buffer, source: Buffer | Const, loop: Statement, known: Assumptions
) -> tuple[list[Statement], Statement] | None:
    """The statements that give an array what a loop leaves of its contents, and the loop; None where it may need more of them."""
    found = _overwriting(loop, (), buffer, known)
    if not found or any(each.box != found[0].box for each in found):
        return None
    box = found[0].box
    ends = [
        (_length(ix.as_index(0), low, known), _length(high, n, known))
        for (low, high), n in zip(box, buffer.shape, strict=True)
    ]
    if any(left is None or not 0 <= left <= _MOST_LEFT for pair in ends for left in pair):
        return None
    stores = [each.store for each in found]
    answers: dict[Read, bool] = {}
    for s, around, block in _leaves(loop, (), None):
        if isinstance(s, Store) and s.buffer is buffer and s not in stores:
            return None
        if not isinstance(s, Store) and any(part is buffer for part in parts(s)):
            return None
        for e in topological(*expressions_of(s)):
            if isinstance(e, Read) and e.buffer is buffer:
                before = _is_as_it_was(e, s, around, block, found, known)
                if before is None or answers.setdefault(e, before) is not before:
                    return None
    reads: dict[Node, Node] = {}
    for e in (e for e, before in answers.items() if before):
        if not isinstance(source, Buffer) and e.predicate is not None:
            return None
        reads[e] = Read(source, e.indices, e.predicate) if isinstance(source, Buffer) else source
    left = list(_rest(buffer, source, box, ends))
    return left, map_expressions(loop, lambda e: e, lambda b: b, reads) if reads else loop


def _length(low: Expr, high: Expr, known: Assumptions) -> int | None:
    """The length of a range; None where it is no constant."""
    return 0 if known.less_equal(high, low) else ix.difference(high, low)


def _leaves(
    s: Any, around: tuple[For, ...], block: Block | None
) -> Iterator[tuple[Any, tuple[For, ...], Block | None]]:
    """Yields the statements inside a statement, itself included, with the loops around each and its block."""
    yield s, around, block
    if isinstance(s, Block):
        for each in s.statements:
            yield from _leaves(each, around, s)
        return
    inner = (*around, s) if isinstance(s, For) else around
    for part in parts(s):
        if isinstance(part, Block):
            yield from _leaves(part, inner, None)


def _overwriting(s: Any, around: tuple[For, ...], buffer: Buffer, known: Assumptions) -> list[Overwriting]:
    """The stores that overwrite one box of an array, one on each path through a statement; none where it may not."""
    if isinstance(s, Block):
        for each in s.statements:
            if isinstance(each, Store) and each.buffer is buffer:
                store = _of_store(each, s, around, known)
                return [] if store is None else [store]
            if found := _overwriting(each, around, buffer, known):
                return found
    elif isinstance(s, For):
        return _overwriting(s.body, (*around, s), buffer, known)
    elif isinstance(s, Produce):
        return _overwriting(s.body, around, buffer, known)
    elif isinstance(s, If) and s.orelse is not None:
        test = s.condition
        inside, outside = known, known
        if isinstance(test, Op) and test.name == "le" and test.args[0].dtype is i64:
            left = ix.sub(test.args[1], test.args[0])
            inside, outside = known.with_known(left), known.with_known(ix.sub(-1, left))
        then = _overwriting(s.then, around, buffer, inside)
        orelse = _overwriting(s.orelse, around, buffer, outside)
        return [*then, *orelse] if then and orelse else []
    return []


def _of_store(s: Store, block: Block, around: tuple[For, ...], known: Assumptions) -> Overwriting | None:
    if s.predicate is not None or s.asynchronous:
        return None
    counters = {loop.var: loop for loop in around}
    pairs: list[tuple[For, For | None]] = []
    box: list[tuple[Expr, Expr]] = []
    for e in s.indices:
        own = [var for var in free_variables(e) if var in counters]
        loop = counters[own[0]] if len(own) == 1 else None
        if loop is None or loop.step != 1:
            return None
        low, high = loop.low, loop.high
        outer = counters.get(low)  # type: ignore[call-overload]
        pairs.append((loop, outer))
        if outer is not None:
            following, ends = ix.add(low, outer.step), tuple(ix.members_of(high))  # type: ignore[arg-type]
            least = (*ix.members_of(outer.high), following)  # type: ignore[arg-type]
            whole = all(any(known.less_equal(m, end) for m in least) for end in ends)
            if not whole or not any(known.less_equal(end, following) for end in ends):
                return None
            low, high = outer.low, outer.high
        ahead = ix.sub(e, loop.var)  # type: ignore[arg-type]
        back = ix.add(e, loop.var)  # type: ignore[arg-type]
        if loop.var not in free_variables(ahead):
            bounds = ix.add(low, ahead), ix.add(high, ahead)  # type: ignore[arg-type]
        elif loop.var not in free_variables(back):
            bounds = ix.add(ix.sub(back, high), 1), ix.add(ix.sub(back, low), 1)  # type: ignore[arg-type]
        else:
            return None
        if any(not counters.keys().isdisjoint(free_variables(bound)) for bound in bounds):
            return None
        box.append(bounds)
    used = [loop for pair in pairs for loop in pair if loop is not None]
    if not used or len(used) != len(around) or {loop.var for loop in used} != counters.keys():
        return None
    return Overwriting(s, block, tuple(box), tuple(pairs), around)


def _is_as_it_was(
    e: Read, s: Statement, around: Sequence[For], block: Block | None, found: Sequence[Overwriting], known: Assumptions
) -> bool | None:
    """Whether a read finds the contents that a loop overwrites; False where it finds what an iteration has stored, or what none stores; None
    where that is not known."""
    for loop in around:
        known = known.with_range(loop.var, loop.low, ix.sub(loop.high, 1))  # type: ignore[arg-type]
    box = found[0].box
    for i, (low, high) in zip(e.indices, box, strict=True):
        if known.less(i, low) or known.less_equal(high, i):  # type: ignore[arg-type]
            return False
    own = max(found, key=lambda each: sum(loop in around for loop in each.around))
    order = sorted(range(len(box)), key=lambda d: own.around.index(own.counters[d][1] or own.counters[d][0]))
    for d in order:
        loop, chunks = own.counters[d]
        ahead = ix.difference(e.indices[d], own.store.indices[d])  # type: ignore[arg-type]
        if loop not in around or ahead is None:
            return None
        if ahead:
            later = ahead > 0 if _counts_up(own.store.indices[d], loop) else ahead < 0
            return later if loop.kind == "serial" and chunks is None else None
    if block is None or block is not own.block:
        return None
    return block.statements.index(s) <= block.statements.index(own.store)


def _counts_up(e: Any, loop: For) -> bool:
    return loop.var not in free_variables(ix.sub(e, loop.var))  # type: ignore[arg-type]


def _rest(
    buffer: Buffer, source: Buffer | Const, box: Box, ends: Sequence[tuple[int | None, int | None]]
) -> Iterator[Statement]:
    """Yields copies of the elements outside a box, dimension by dimension."""
    for d, (before, after) in enumerate(ends):
        low, high = box[d]
        sides = [(ix.as_index(0), ix.minimum(low, buffer.shape[d]))] if before else []
        sides += [(ix.maximum(low, high), buffer.shape[d])] if after else []
        for side in sides:
            ranges = (*box[:d], side, *((ix.as_index(0), n) for n in buffer.shape[d + 1 :]))
            indices = tuple(fresh(f"d{k}") for k in range(len(box)))
            value = Read(source, indices, None) if isinstance(source, Buffer) else source
            statement: Statement = Store(buffer, indices, value)
            for k, (first, last) in reversed(tuple(enumerate(ranges))):
                kind = "vector" if k == len(box) - 1 and k != d else "serial"
                statement = For(indices[k], first, last, 1, Block((statement,)), kind, tail="default")
            yield Produce("copy", Block((statement,)))
