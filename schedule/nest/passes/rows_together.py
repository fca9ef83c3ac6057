"""Loop fusion of successive changes of one array, over its rows, where rows are independent.

    produce loop_1/update_1:                    produce loop_1/update_2:
      parallel y in 0..n - k - 1:                 parallel y in 0..n - k - 1:
        m[k + 1 + y, k] = … / m[k, k]    becomes    m[k + 1 + y, k] = … / m[k, k]
    produce loop_1/update_2:                        for x in 0..n - k - 1 by vector:
      parallel y in 0..n - k - 1:                     m[k + 1 + y, k + 1 + x] = …
        for x in 0..n - k - 1 by vector:
          m[k + 1 + y, k + 1 + x] = …

Elimination by slices reads so: a row is then in the cache for its second change, and threads are started once. It applies to two successive
stages, in loops over the same rows, which change an existing array, if no two rows conflict: each row reads and changes elements of its
own, or elements provably disjoint from those that others change (Allen & Kennedy, loop fusion: no dependence is carried by the loop over
rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations_with_replacement

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, Interval, interval_of_all
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Node, Var
from raido.algo.graph.rewrite import substitute, topological
from raido.schedule.nest.effects import Access, binds_inside, bound_within, loads, writes, written
from raido.schedule.nest.nodes import Alloc, Block, Check, For, If, Let, Nest, Produce, Statement, While
from raido.schedule.nest.passes.rows import (
    Rows,
    is_decided_by_memory,
    is_kept_in_rows,
    kept_in_caches,
    rows_of,
    run_over_the_same,
)
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import blocks_of, statements_within, with_blocks, with_statements


def rows_together(nest: Nest) -> Nest:
    """Fuses the loops over rows of successive stages that change an array row by row."""
    body = _block(nest.body, Assumptions())
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block, assumptions: Assumptions) -> Block:
    statements: list[Statement] = []
    for s in block.statements:
        new = _inside(s, assumptions)
        joined = _joined(statements[-1], new, assumptions) if statements else None
        if joined is None:
            statements.append(new)
        else:
            statements[-1] = joined
    return with_statements(block, statements)


def _inside(s: Statement, assumptions: Assumptions) -> Statement:
    """Returns a host loop or branch with the stages inside it fused."""
    if isinstance(s, For) and not is_decided_by_memory(s):
        assumptions = assumptions.with_range(s.var, s.low, ix.sub(s.high, 1))  # type: ignore[arg-type]
    return (
        with_blocks(s, lambda block: _block(block, assumptions), setups=False) if isinstance(s, (For, If, While)) else s
    )


def _joined(first: Statement, second: Statement, assumptions: Assumptions) -> Produce | None:
    """Returns one stage for two, with as many fused loops over rows as is legal; None where none is."""
    if not isinstance(first, Produce) or not isinstance(second, Produce):
        return None
    one, other = rows_of(first), rows_of(second)
    changed = written(first) & written(second) if one is not None and other is not None else None
    if one is None or other is None or not changed or changed <= bound_within(first, second):
        return None
    for depth in range(min(len(one.loops), len(other.loops)), 0, -1):
        joined = _joined_at(
            replace(one, loops=one.loops[:depth]), replace(other, loops=other.loops[:depth]), assumptions
        )
        if joined is not None:
            return joined
    return None


def _joined_at(one: Rows, other: Rows, assumptions: Assumptions) -> Produce | None:
    """Returns one stage for two whose loops over rows are all fused; None where that is not legal."""
    if not all(_run_alike(*loops) for loops in zip(one.loops, other.loops, strict=True)):
        return None
    if not run_over_the_same(one, other) or _fail_differently(one, other):
        return None
    leader = one if _has_loops(one) and not _has_loops(other) else other
    follower = other if leader is one else one
    names: dict[Node, Node] = dict(zip(follower.variables, leader.variables, strict=True))
    renamed = map_expressions(follower.body, lambda e: names.get(e, e), lambda buffer: buffer)
    first, second = (renamed, other.body) if follower is one else (one.body, renamed)
    before = (*one.before, *other.before)
    if not all(is_kept_in_rows(s) for body in (first, second) for s in statements_within(body)):
        return None
    walk = _Walk(before, leader.loops)
    accesses = [walk.take(Block(before)), walk.take(first), walk.take(second)]
    if not walk.rows_lie_apart([*walk.bounds, *chain(*accesses)], assumptions) or not walk.go_alike(*accesses[1:]):
        return None
    body = Block((*kept_in_caches(first).statements, *second.statements))
    return Produce(leader.stage, Block((*before, _with_body(leader, body))))


def _run_alike(one: For, other: For) -> bool:
    """Whether two loops run their rows in the same way: in equal lanes or one by one."""
    in_lanes = [(loop.kind == "vector", loop.lanes, loop.interleave, loop.tail) for loop in (one, other)]
    return "unroll" not in (one.kind, other.kind) and (
        in_lanes[0] == in_lanes[1] or not (in_lanes[0][0] or in_lanes[1][0])
    )


def _fail_differently(one: Rows, other: Rows) -> bool:
    """Whether both stages record faults, of several kinds: fusion could then change which is recorded first."""
    kinds = [{s.kind for s in statements_within(rows.body) if isinstance(s, Check)} for rows in (one, other)]
    return all(kinds) and len(set.union(*kinds)) > 1


def _has_loops(rows: Rows) -> bool:
    return any(isinstance(s, For) for s in statements_within(rows.body))


def _with_body(rows: Rows, body: Block) -> For:
    """Returns the loops over rows with another body."""
    for loop in reversed(rows.loops):
        body = Block((replace(loop, body=body),))
    (loop,) = body.statements
    assert isinstance(loop, For)
    if rows.pieces is None:
        return loop
    (within,) = rows.pieces.body.statements
    assert isinstance(within, For)
    return replace(rows.pieces, body=Block((replace(loop, low=within.low, high=within.high),)))


@dataclass(frozen=True, slots=True)
class _Access:
    """An access of a row; data-dependent indices are None."""

    buffer: Buffer
    indices: tuple[NestExpr | None, ...]
    changes: bool


class _Walk:
    """The accesses of a row's statements, in terms of variables with known ranges.

    `moving`: the variables that are bound in the loops over rows or inside them, or whose values are not known.
    """

    def __init__(self, before: Sequence[Let], rows: Sequence[For]) -> None:
        self.rows = tuple(loop.var for loop in rows)
        self.names: dict[Node, Node] = {}
        self.ranges: dict[Var, Interval] = {}
        self.moving: set[Node] = set()
        self.own: set[Buffer] = set()
        self.bounds: list[_Access] = []
        for let in before:
            self._name(let)
        for loop in rows:
            self.bounds += self._reads(loop)
            self._bind(loop)

    def take(self, block: Block) -> list[_Access]:
        """Returns the accesses of a block, each once."""
        found: dict[_Access, None] = {}
        for s in block.statements:
            if isinstance(s, Alloc):
                self.own.add(s.buffer)
            found |= dict.fromkeys(self._access(write, True) for write in writes(s))
            found |= dict.fromkeys(self._reads(s))
            self.moving.update(binds_inside(s))
            if isinstance(s, Let):
                self._name(s)
            elif isinstance(s, For):
                self._bind(s)
            inner = (s,) if isinstance(s, Block) else blocks_of(s)
            for each in inner:
                found |= dict.fromkeys(self.take(each))
        return [access for access in found if access.buffer not in self.own]

    def rows_lie_apart(self, accesses: Sequence[_Access], assumptions: Assumptions) -> bool:
        """Whether no row changes an element that another row reads or changes."""
        pairs = combinations_with_replacement(dict.fromkeys(accesses), 2)
        return all(
            one.buffer is not other.buffer
            or not (one.changes or other.changes)
            or self._are_of_one_row(one, other)
            or self._are_apart(one, other, assumptions)
            for one, other in pairs
        )

    def go_alike(self, first: Sequence[_Access], second: Sequence[_Access]) -> bool:
        """Whether the two parts of a row change elements along the same dimensions of some array."""
        return any(
            one.buffer is other.buffer
            and one.changes
            and other.changes
            and self._dimensions(one) == self._dimensions(other)
            for one in first
            for other in second
        )

    def _dimensions(self, access: _Access) -> list[list[bool]]:
        """Returns, for each loop over rows, the dimensions along which an access depends on it."""
        return [[e is not None and row in ix.linear(e)[1] for e in access.indices] for row in self.rows]

    def _are_of_one_row(self, one: _Access, other: _Access) -> bool:
        """Whether two accesses meet only within one row."""
        pairs = list(zip(one.indices, other.indices, strict=True))
        return all(any(self._says(a, b, row) for a, b in pairs) for row in self.rows)

    def _says(self, a: NestExpr | None, b: NestExpr | None, row: Var) -> bool:
        """Whether an index common to two accesses determines the row."""
        if a is None or b is None or ix.difference(a, b) != 0:  # type: ignore[arg-type]
            return False
        terms = ix.linear(a)[1]  # type: ignore[arg-type]
        return row in terms and self.moving.isdisjoint(topological(*(atom for atom in terms if atom is not row)))

    def _are_apart(self, one: _Access, other: _Access, assumptions: Assumptions) -> bool:
        """Whether two accesses are disjoint in every row."""
        for a, b in zip(one.indices, other.indices, strict=True):
            left, right = self._bounds(a), self._bounds(b)
            if left and right and (assumptions.less(left[1], right[0]) or assumptions.less(right[1], left[0])):
                return True
        return False

    def _bounds(self, e: NestExpr | None) -> Interval | None:
        """Returns the interval of an index, in terms of values common to all rows; None without one."""
        found = None if e is None else interval_of_all(e, self.ranges)  # type: ignore[arg-type]
        return found if found is not None and self.moving.isdisjoint(topological(*found)) else None

    def _name(self, let: Let) -> None:
        """Records the value of an index variable; any other variable is treated as unknown."""
        value = self._index(let.value)
        if value is None or not isinstance(let.var, Var):
            self.moving.add(let.var)
        else:
            self.names[let.var] = value

    def _bind(self, loop: For) -> None:
        low, high = self._index(loop.low), self._index(loop.high)
        self.moving.add(loop.var)
        if low is not None and high is not None:
            self.ranges[loop.var] = (low, ix.sub(high, 1))  # type: ignore[assignment,arg-type]

    def _reads(self, s: Statement) -> list[_Access]:
        return [self._access(load, False) for load in loads(s)]

    def _access(self, access: Access, changes: bool) -> _Access:
        assert access.indices is not None
        return _Access(access.buffer, tuple(map(self._index, access.indices)), changes)

    def _index(self, e: NestExpr) -> NestExpr | None:
        """Returns an index with variables substituted; None where it depends on memory."""
        seen: NestExpr = substitute(e, self.names)
        nodes = topological(seen)
        plain = seen.dtype is i64 and not any(isinstance(node, Read) for node in nodes)
        return ix.canonical(seen) if plain else None  # type: ignore[arg-type]
