"""Array loops whose rounds keep to rows: the loop over rows goes outside, and a row's rounds run while it is in the cache.

    for t in 0..k:                             produce loop_1/update_1:
      produce loop_1/update_1:        becomes    parallel y in 0..n:
        parallel y in 0..n:                        for t in 0..k:
          state[y, t + 1] = … state[y, t]            state[y, t + 1] = … state[y, t]

This is how `rd.map(lambda row: rd.loop(…), rows)` reads. It holds where all stages of a round run over the same rows, and whatever they
change they read and write at their own row alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Node, Var
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import Alloc, Block, Check, Fold, For, If, Let, Nest, Produce, Statement, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import expressions_of, statements_within

GRAIN = 4  # rows for a thread at least: each has all rounds of a loop
_KEPT = (Alloc, Block, Check, Fold, For, If, Let, Store, While)


def rows_outside(nest: Nest) -> Nest:
    """The nest with loops over rows outside array loops, where rounds keep to rows."""
    body = _block(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block) -> Block:
    statements = [new for s in block.statements for new in _statement(s)]
    same = len(statements) == len(block.statements) and all(map(_is, statements, block.statements))
    return block if same else Block(tuple(statements))


def _is(a: object, b: object) -> bool:
    return a is b


def _statement(s: Statement) -> list[Statement]:
    if isinstance(s, For):
        body = _block(s.body)
        loop = s if body is s.body else replace(s, body=body)
        return _turned(loop) or [loop]
    if isinstance(s, If):
        then, orelse = _block(s.then), None if s.orelse is None else _block(s.orelse)
        return [s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)]
    if isinstance(s, While):
        body = _block(s.body)
        return [s if body is s.body else replace(s, body=body)]
    return [s]


@dataclass(frozen=True)
class _Rows:
    """What a stage does for one row: `before` names values for all rows."""

    var: Var
    low: NestExpr
    high: NestExpr
    before: tuple[Let, ...]
    body: Block


def _turned(loop: For) -> list[Statement]:
    """What stands for an array loop whose rounds keep to rows; nothing for any other."""
    allocs: list[Statement] = []
    round_: list[Statement] = []
    stages: list[str] = []
    rows: list[_Rows] = []
    for s in loop.body.statements:
        if isinstance(s, Alloc):
            allocs.append(s)
        elif isinstance(s, Let):
            round_.append(s)
        else:
            found = _rows_of(s) if isinstance(s, Produce) else None
            if found is None:
                return []
            assert isinstance(s, Produce)
            rows.append(found)
            stages.append(s.stage)
            round_ += (
                [*found.before, Let(found.var, rows[0].var), found.body]
                if len(rows) > 1
                else [*found.before, found.body]
            )
    if not rows or not _run_over_the_same(rows) or not _keep_to_rows(round_, rows):
        return []
    named: set[Node] = {loop.var, *(s.var for s in round_ if isinstance(s, Let))}
    sizes = [e for s in allocs for e in expressions_of(s)]
    if not named.isdisjoint(topological(*sizes, rows[0].low, rows[0].high)):  # type: ignore[arg-type]
        return []
    rounds = replace(loop, body=Block(tuple(round_)))
    how = {"kind": "parallel", "grain": GRAIN, "stage": stages[0], "loop": rows[0].var.name}
    over_rows = For(rows[0].var, rows[0].low, rows[0].high, 1, Block((rounds,)), **how)  # type: ignore[arg-type]
    return [*allocs, Produce(stages[0], Block((over_rows,)))]


def _rows_of(stage: Produce) -> _Rows | None:
    """A stage as a loop over rows, if it is one: of single rows, or of pieces with a serial loop over the rows of each."""
    *lets, loop = stage.body.statements or (None,)
    before = tuple(s for s in lets if isinstance(s, Let))
    if not isinstance(loop, For) or loop.kind != "parallel" or len(before) < len(lets):
        return None
    if loop.step == 1:
        return _Rows(loop.var, loop.low, loop.high, before, loop.body)
    (inner, *others) = loop.body.statements
    if others or not isinstance(inner, For) or inner.kind != "serial" or inner.step != 1 or inner.low is not loop.var:
        return None
    end = ix.minimum(loop.high, ix.add(loop.var, loop.step))  # type: ignore[arg-type]
    if ix.constant_value(ix.sub(inner.high, end)) != 0:  # type: ignore[arg-type]
        return None
    return _Rows(inner.var, loop.low, loop.high, before, inner.body)


def _run_over_the_same(rows: list[_Rows]) -> bool:
    first = rows[0]
    differences = [ix.sub(a, b) for r in rows[1:] for a, b in ((r.low, first.low), (r.high, first.high))]  # type: ignore[arg-type]
    return all(ix.constant_value(difference) == 0 for difference in differences)


def _keep_to_rows(round_: list[Statement], rows: list[_Rows]) -> bool:
    """Whether the rounds of one row see nothing of what those of others change."""
    every = [inner for s in round_ for inner in statements_within(s)]
    if not all(isinstance(s, _KEPT) and not (isinstance(s, For) and s.kind == "parallel") for s in every):
        return False
    own = {s.buffer for s in every if isinstance(s, Alloc)}
    changed = {buffer for s in every for buffer in _changed(s)} - own
    places: dict[Buffer, set[int]] = {}
    row: set[Expr] = {r.var for r in rows}
    for s in every:
        for buffer, indices in _accesses(s):
            if buffer in changed:
                here = {d for d, e in enumerate(indices) if e in row}
                places[buffer] = places.get(buffer, here) & here
    return all(places.get(buffer) for buffer in changed)


def _changed(s: Statement) -> tuple[Buffer, ...]:
    return s.buffers if isinstance(s, Fold) else (s.buffer,) if isinstance(s, Store) else ()


def _accesses(s: Statement) -> Iterator[tuple[Buffer, tuple[NestExpr, ...]]]:
    """What a statement itself reads and writes."""
    for buffer in _changed(s):
        assert isinstance(s, (Store, Fold))
        yield buffer, s.indices
    for node in topological(*expressions_of(s)):
        if isinstance(node, Read):
            yield node.buffer, node.indices
