"""Loop-carried states of a row in registers: scalar replacement in loops over rows.

    for y in 0..n:                                   for y in 0..n:
      for t in 0..k:                                   level: f64 register;  level = s[y]
        s[y] = f(s[y], x[y, t])           becomes      for t in 0..k: level = f(level, x[y, t]);  out[y, t] = level
        out[y, t] = s[y]                               s[y] = level

`rows_outside` leaves such loops of `rd.map(lambda row: rd.loop(…), rows)`; rows in lanes have registers with lanes. The numbers of a buffer
are kept in registers if every access in the loop over rows is at the row's own index, or at that and constants, and each number is read
first, or always stored first, in every row; numbers stored first in an inner loop are kept if they are dead after the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

from raido.algo.graph.expr import Const, Expr, Node, Op, Var
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import accesses, bound_within, touched, viewed, writes, written
from raido.schedule.nest.nodes import Alloc, Block, Copy, For, Let, Nest, Statement, Store, Swap, View, While
from raido.schedule.nest.passes.rows import is_equal
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, NestExpr, Read, new_serial, replaced
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within, with_blocks, with_statements

_MOST = 16  # numbers of a row in registers, at most: with lanes, half of the registers of AVX-512

Indices = tuple[NestExpr, ...]
Number = tuple[Buffer, Indices]


def row_registers(nest: Nest) -> Nest:
    """Keeps the numbers of rows in registers while their iterations run."""
    body = _block(nest.body, _Kept(nest), ())
    return nest if body is nest.body else replace(nest, body=_without_unused(body, touched(body)))


class _Kept:
    """The caller's memory, the memory with two names, and the number of statements that access each buffer; the last two are computed when
    first needed.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.given: Set[Buffer] = {*nest.inputs, *nest.outputs}
        self._barred: dict[Statement, bool] = {}

    def is_barred(self, s: Statement) -> bool:
        """Whether rows keep nothing in registers while a statement runs: it swaps memory, or has parallel or vector loops."""
        known = self._barred.get(s)
        if known is None:
            known = isinstance(s, (Swap, Copy, View)) or (isinstance(s, For) and s.kind in ("parallel", "vector"))
            known = known or any(map(self.is_barred, s.statements if isinstance(s, Block) else blocks_of(s)))
            self._barred[s] = known
        return known

    @cached_property
    def viewed(self) -> Set[Buffer]:
        """The memory with two names."""
        return viewed(self.nest.body)

    @cached_property
    def counts(self) -> Counter[Buffer]:
        """The number of statements that access each buffer."""
        return Counter(buffer for s in statements_within(self.nest.body) for buffer in _own(s))


def _without_unused(block: Block, used: Set[Buffer]) -> Block:
    """Returns a block of the host level without allocations that are no longer accessed."""
    kept = [s for s in block.statements if not isinstance(s, Alloc) or s.buffer in used]
    inside = lambda b: _without_unused(b, used)
    return Block(tuple(with_blocks(s, inside, setups=False) if isinstance(s, For | While) else s for s in kept))


def _own(s: Statement) -> set[Buffer]:
    """Returns the buffers that a statement itself accesses."""
    return {access.buffer for access in accesses(s)}


def _block(block: Block, kept: _Kept, around: tuple[For, ...]) -> Block:
    """Returns a block inside these loops, with rows' numbers in registers."""
    return with_statements(block, [_statement(s, kept, around) for s in block.statements])


def _statement(s: Statement, kept: _Kept, around: tuple[For, ...]) -> Statement:
    if isinstance(s, For):
        around = (*around, s)
        s = _with_registers(s, kept, around)
    return with_blocks(s, lambda block: _block(block, kept, around), setups=False)


def _with_registers(loop: For, kept: _Kept, around: Sequence[For]) -> For:
    """Returns a loop over rows with its rows' numbers in registers; the same loop where there are none. around: it, and the loops
    outside.
    """
    if loop.kind == "unroll" or not any(isinstance(s, (For, While)) for s in loop.body.statements):
        return loop
    if kept.is_barred(loop.body):
        return loop
    every = list(statements_within(loop.body))
    names: dict[Node, Node] = {}
    for s in every:
        if isinstance(s, Let) and isinstance(s.value, Var):
            names[s.var] = names.get(s.value, s.value)
    registers: dict[Number, Buffer] = {}
    before: list[Statement] = []
    after: list[Statement] = []
    for buffer, indices in _elements_read(loop, around, every, names, kept).items():
        dead = buffer not in kept.given and sum(buffer in _own(s) for s in every) == kept.counts[buffer]
        numbers = [(buffer, index) for index in indices]
        firsts = [_first(number, loop.body, names) for number in numbers]
        alone = all(_is_in_one_loop(number, loop.body, names) for number in numbers)
        if None in firsts or ("stored in a loop" in firsts and not (dead and alone)):
            continue
        if len(registers) + len(numbers) > _MOST:
            break
        for number, first in zip(numbers, firsts, strict=True):
            held = replaced(buffer, shape=(), strides=(), scope="register", serial=new_serial())
            registers[number] = held
            before.append(Alloc(held))
            if first == "read":
                before.append(Store(held, (), Read(*number, None)))
            if not dead or first == "read":
                after.append(Store(*number, Read(held, (), None)))
    if not registers:
        return loop
    body = [_moved(s, registers, names) for s in loop.body.statements]
    return replace(loop, body=Block((*before, *body, *after)))


def _elements_read(
    loop: For, around: Sequence[For], every: Sequence[Statement], names: Mapping[Node, Node], kept: _Kept
) -> dict[Buffer, list[Indices]]:
    """Maps the buffers that the rows of a loop change, by plain stores at the row's own index alone, to these indices."""
    inside = bound_within(loop.body) - names.keys()
    in_turn = written(*(s for s in loop.body.statements if isinstance(s, (For, While))))
    made = {s.buffer for s in every if isinstance(s, Alloc)}
    memory = {buffer for buffer in in_turn - made if buffer.scope in ("heap", "parameter")}
    stores = [s for s in every if isinstance(s, Store) and s.buffer in memory]
    if not any(_is_of_row(_number(s, names)[1], s.buffer, around) for s in stores):
        return {}
    found: dict[Buffer, list[Indices]] = {}
    lost: set[Buffer] = set()
    stored: set[Buffer] = set()
    for s in every:
        for write in writes(s):
            if isinstance(s, Store) and s.stream is None:
                stored.add(s.buffer)
                _note(found, _number(s, names))
            else:
                lost.add(write.buffer)
        for e in topological(*expressions_of(s)):
            if isinstance(e, Read):
                _note(found, _number(e, names))
    return {
        buffer: indices
        for buffer, indices in found.items()
        if buffer in stored & memory - lost - kept.viewed
        and all(_is_of_row(index, buffer, around) and inside.isdisjoint(topological(*index)) for index in indices)
        and all(_are_apart(*pair) for pair in combinations(indices, 2))
    }


def _is_of_row(index: Indices, buffer: Buffer, around: Sequence[For]) -> bool:
    """Whether an index selects a row of the innermost loop, and is inside a buffer."""
    inside = all(_is_inside(index, extent, around) for index, extent in zip(index, buffer.shape, strict=True))
    return bool(index) and around[-1].var in index and inside


def _are_apart(index: Indices, other: Indices) -> bool:
    """Whether two indices of a buffer differ by constants."""
    pairs = zip(index, other, strict=True)
    return any(isinstance(a, Const) and isinstance(b, Const) and a.value != b.value for a, b in pairs)


def _number(access: Read | Store, names: Mapping[Node, Node]) -> Number:
    """Returns the buffer and index of an access, with copies of variables resolved."""
    return access.buffer, tuple(names.get(index, index) for index in access.indices)  # type: ignore[misc]


def _note(found: dict[Buffer, list[Indices]], number: Number) -> None:
    buffer, index = number
    indices = found.setdefault(buffer, [])
    if index not in indices:
        indices.append(index)


def _is_inside(index: NestExpr, extent: Expr, around: Sequence[For]) -> bool:
    """Whether an index is in range of an extent in every iteration of the loops around, whatever the loops inside do."""
    loop = next((each for each in around if each.var is index), None)
    if loop is None:
        return isinstance(index, Const) and isinstance(extent, Const) and 0 <= index.value < extent.value
    high = loop.high
    ends = [high, *(high.args if isinstance(high, Op) and high.name == "minimum" else ())]
    return any(is_equal(end, extent) for end in ends)  # type: ignore[arg-type]


def _first(number: Number, block: Block, names: Mapping[Node, Node], looped: bool = False) -> str | None:
    """Returns the first access in a block: "read", "stored", or "stored in a loop"; None where it depends on a condition."""
    for s in block.statements:
        if isinstance(s, While) and _reaches(s.setup, number, names):
            return _first(number, s.setup, names, looped)
        reads = (e for e in topological(*expressions_of(s)) if isinstance(e, Read) and _number(e, names) == number)
        if any(e.predicate is None for e in reads):
            return "read"
        if isinstance(s, Store) and _number(s, names) == number:
            return None if s.predicate is not None else "stored in a loop" if looped else "stored"
        if _reaches(s, number, names):
            if isinstance(s, (For, While)):
                return _first(number, s.body, names, True)
            return _first(number, s, names, looped) if isinstance(s, Block) else None
    return None


def _reaches(s: Statement, number: Number, names: Mapping[Node, Node]) -> bool:
    """Whether a statement reads or stores a number."""
    if number[0] not in touched(s):
        return False
    every = list(statements_within(s))
    accesses = [e for each in every for e in topological(*expressions_of(each)) if isinstance(e, Read)]
    stores = [each for each in every if isinstance(each, Store)]
    return any(_number(each, names) == number for each in (*accesses, *stores))


def _is_in_one_loop(number: Number, block: Block, names: Mapping[Node, Node]) -> bool:
    """Whether all accesses are in one of the statements of a block."""
    return sum(_reaches(s, number, names) for s in block.statements) == 1


def _moved(s: Statement, registers: Mapping[Number, Buffer], names: Mapping[Node, Node]) -> Statement:
    """Returns a statement that reads and stores registers instead of a row's numbers."""

    def read(e: Node) -> Node:
        held = registers.get(_number(e, names)) if isinstance(e, Read) else None
        return Read(held, (), e.predicate) if held is not None else e  # type: ignore[attr-defined]

    def stores(s: Statement) -> Any:
        if isinstance(s, Store) and (held := registers.get(_number(s, names))) is not None:
            return replace(s, buffer=held, indices=())
        if isinstance(s, Block):
            return Block(tuple(map(stores, s.statements)))
        return with_blocks(s, stores)

    return map_expressions(stores(s), read, lambda b: b)
