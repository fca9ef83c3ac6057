"""Loop interchange of array loops and their rows: the loop over rows goes outside, and a row's iterations run while it is in the cache.

    for t in 0..k:                             produce loop_1/update_1:
      produce loop_1/update_1:        becomes    parallel y in 0..n:
        parallel y in 0..n:                        for t in 0..k:
          state[y, t + 1] = … state[y, t]            state[y, t + 1] = … state[y, t]

`rd.map(lambda row: rd.loop(…), rows)` reads so, and so does a loop of elementwise steps. It is done where the schedule says so
(`strategies/array_loops`), and is legal where all stages of an iteration run over the same rows, and whatever they change they access at
their own row alone; else it is refused. A loop that runs as long as any row does (`rd.while_loop` in a map, `rd.loop` of a count for each
row) ends for each row by itself (`uneven_rows`), unless its iterations are inside tiles of rows. The numbers of iterations and rows may be
read from memory that no iteration changes.

Rows in lanes stay in lanes. States that are swapped at the end of an iteration are exchanged, or copied, row by row, where a row of them is
a few numbers, but not in a loop that ends for each row by itself. Of rows inside rows (`rd.map` in a map) those beyond the order's depth
run through an iteration together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Node, Op, Var, fresh
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import accesses, binds, bound_within, buffers_read, touched, writes, written
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    Check,
    For,
    If,
    Let,
    Produce,
    Statement,
    Store,
    Swap,
    While,
)
from raido.schedule.nest.passes.row_order import RowOrder
from raido.schedule.nest.passes.rows import (
    Rows,
    is_equal,
    is_kept_in_rows,
    kept_in_caches,
    rows_of,
    run_over_the_same,
)
from raido.schedule.nest.passes.simplify import simplify
from raido.schedule.nest.passes.uneven_rows import End, iterations_of_one_row, own_end
from raido.schedule.nest.values import Buffer, Read, elements_of
from raido.schedule.nest.walk import expressions_of, statements_within, with_blocks, with_statements
from raido.schedule.refusal import Refusal

FEW = 16  # numbers of a row that are exchanged rather than their memory swapped


def rows_outside(body: Block, orders: Mapping[str, RowOrder]) -> Block:
    """Moves loops over rows outside the array loops with stated orders. Refuses where rows of a loop are not independent."""

    def interchanged(loop: For | While) -> list[Statement]:
        order = orders.get(loop.stage)
        return in_order(loop, order) if order is not None and order.loops else []

    return each_array_loop(body, interchanged)


def each_array_loop(block: Block, interchanged: Callable[[For | While], list[Statement]]) -> Block:
    """Replaces each host loop, inner ones first, by the statements that `interchanged` returns; an empty list keeps the loop."""
    return with_statements(block, [new for s in block.statements for new in _statement(s, interchanged)])


def _statement(s: Statement, interchanged: Callable[[For | While], list[Statement]]) -> list[Statement]:
    if not isinstance(s, (For, If, While)):
        return [s]
    new = with_blocks(s, lambda block: each_array_loop(block, interchanged), setups=False)
    return [new] if isinstance(s, If) else interchanged(new) or [new]


def in_order(loop: For | While, order: RowOrder) -> list[Statement]:
    """Returns the statements that replace an array loop. Refuses an order that its iterations do not allow."""
    iterations = iterations_of(loop)
    rows = None if iterations is None else by_rows(iterations, order.depth, uneven=not order.between)
    if rows is None or (order.between and isinstance(loop, While)):
        raise Refusal(f'iterations of "{loop.stage}" depend on other rows', 'strategy("whole")')
    if order.alone and not order.between:
        raise Refusal(
            f'rows of "{loop.stage}" run one by one without `alone`', 'reorder("t", "rowi"), or leave `alone` out'
        )
    outer, parallel = rows.first.loops[0], order.loops[0].kind == "parallel"
    if rows.in_lanes and parallel and not order.piece and order.depth == 1:
        row = order.loops[0].name
        raise Refusal(
            f'vector lanes compute rows of "{loop.stage}" together, and threads would split these rows',
            f'split("{row}", 256) first',
        )
    how = {"kind": order.loops[0].kind, "grain": order.loops[0].grain, "dynamic": order.loops[0].dynamic}
    how |= {"stage": loop.stage, "loop": order.loops[0].name}
    if order.between:
        inside: Statement = replace(
            loop, body=Block((rows.of_a_piece(rows.body.statements, piece := _piece(outer), order.piece),))
        )
        if order.alone:
            few = Op("le", bool_, (outer.high, ix.add(piece, order.alone)))  # type: ignore[arg-type]
            alone = replace(rows.of_a_piece(rows.iterations(loop).statements, piece, order.alone), kind="serial")
            inside = If(few, Block((alone,)), Block((inside,)))
        over: Statement = For(piece, outer.low, outer.high, order.piece, Block((inside,)), **how)
    elif order.piece:
        inside = rows.of_a_piece(rows.iterations(loop).statements, piece := _piece(outer), order.piece)
        over = For(piece, outer.low, outer.high, order.piece, Block((inside,)), **how)
    else:
        over = rows.one_by_one(rows.iterations(loop), how)
    return [*rows.before, Produce(rows.first.stage, Block((over,)))]


def _piece(row: For) -> Var:
    return fresh(f"{row.var.name}o")


@dataclass(frozen=True, slots=True)
class Iterations:
    """An array loop in parts: `setup` decides for each row whether it continues (of a `While`), then `iteration` runs, and states are
    swapped.

    `stages`: those of the setup, `of_setup` of them, and those of the iteration.
    """

    loop: For | While
    setup: tuple[Statement, ...]
    iteration: tuple[Statement, ...]
    swaps: tuple[Swap, ...]
    stages: tuple[Rows, ...]
    of_setup: int

    @property
    def depth(self) -> int:
        """The most loops that may select a row."""
        return min(len(rows.loops) for rows in self.stages)

    def at(self, depth: int) -> list[Rows]:
        """Returns the stages, with rows selected by `depth` of their loops."""
        return [replace(rows, loops=rows.loops[:depth]) for rows in self.stages]


@dataclass(frozen=True, slots=True)
class ByRows:
    """An array loop for one row: `before` runs for all rows, `setup` and `body` in each iteration.

    `end`: the condition for a row to end by itself. `in_lanes`: whether rows are lanes. `apart`: whether an iteration's data of
    neighbouring rows is contiguous, and successive iterations' data of one row far apart.
    """

    first: Rows
    before: tuple[Statement, ...]
    setup: Block
    body: Block
    end: End | None
    in_lanes: bool
    apart: bool

    def iterations(self, loop: For | While) -> Block:
        """Returns the loop over iterations for one row."""
        return iterations_of_one_row(loop, self.end, self.setup, self.body)

    def of_a_piece(self, body: Sequence[Statement], piece: Var, size: int) -> For:
        """Returns the loop over the rows of a tile."""
        row = self.first.loops[0]
        high = ix.minimum(row.high, ix.add(piece, size))  # type: ignore[arg-type]
        return replace(row, kind=row.kind if self.in_lanes else "serial", low=piece, high=high, body=Block(tuple(body)))

    def one_by_one(self, iterations: Block, how: dict[str, Any]) -> For:
        """Returns the loops over rows, around the iterations of each."""
        outermost, *others = self.first.loops
        inside = iterations
        for k, loop in enumerate(reversed(others)):
            kind = loop.kind if self.in_lanes and k == 0 else "serial"
            inside = Block((replace(loop, kind=kind, body=inside),))
        if not others and self.in_lanes:
            return replace(outermost, body=inside)
        return For(outermost.var, outermost.low, outermost.high, 1, inside, **how)


def iterations_of(loop: For | While) -> Iterations | None:
    """Returns an array loop in its parts; None unless it consists of stages that loop over rows, whose number no iteration changes."""
    body = loop.body.statements
    swaps = tuple(s for s in body if isinstance(s, Swap))
    iteration = body[: len(body) - len(swaps)]
    setup: tuple[Statement, ...] | None = ()
    if isinstance(loop, While):
        setup = None if swaps else _without_the_test(loop)
    elif buffers_read((loop.low, loop.high)) & written(loop.body):
        return None
    if setup is None or not all(isinstance(s, (Alloc, Check, Let, Produce)) for s in (*setup, *iteration)):
        return None
    chains = [rows_of(s) for s in (*setup, *iteration) if isinstance(s, Produce)]
    stages = [rows for rows in chains if rows is not None]
    if not stages or len(stages) < len(chains):
        return None
    of_setup = sum(isinstance(s, Produce) for s in setup)
    return Iterations(loop, setup, iteration, swaps, tuple(stages), of_setup)


def by_rows(iterations: Iterations, depth: int, uneven: bool = True) -> ByRows | None:
    """Returns an array loop by rows that `depth` loops of each stage select; None where rows are not independent.

    uneven: whether rows may end by themselves.
    """
    loop, swaps = iterations.loop, iterations.swaps
    if depth > iterations.depth:
        return None
    stages = iterations.at(depth)
    first = next((rows for rows in stages if rows.in_lanes), stages[0])
    if not all(run_over_the_same(rows, first) for rows in stages):
        return None
    setup = of_one_row(iterations.setup, stages[: iterations.of_setup], first)
    iteration = of_one_row(iterations.iteration, stages[iterations.of_setup :], first)
    own = {s.buffer for s in iterations.iteration if isinstance(s, Alloc)}
    end = own_end(loop, first.variables, iteration, own) if uneven else None
    if end is not None:
        setup, iteration = (
            list(simplify(setup, {}).statements),
            list(simplify(iteration, {end.goes_on: True}).statements),
        )
    elif isinstance(loop, While):
        return None
    dimensions = dimensions_of_rows([*setup, *iteration], stages, swaps)
    if dimensions is None or not all(
        dimensions[s.left] == dimensions[s.right] and _is_exchanged(s.left, dimensions[s.left], first) for s in swaps
    ):
        return None
    before = _before_all_iterations(iterations, first)
    if before is None:
        return None
    in_lanes = first.in_lanes and not _has_lanes([*setup, *iteration])
    exchanges = (each for s in swaps for each in exchange(s, dimensions[s.left], first.variables))
    rows = {rows.variables[-1] for rows in stages}
    apart = isinstance(loop, For) and _iterations_lie_apart(iteration, loop.var, rows)
    body = kept_in_caches(Block((*iteration, *exchanges)))
    return ByRows(first, tuple(before), Block(tuple(setup)), body, end, in_lanes, apart)


def _without_the_test(loop: While) -> tuple[Statement, ...] | None:
    """Returns the setup of a while loop over rows without the stage that combines the tests of all rows; None for other loops."""
    if loop.each is None or not isinstance(loop.condition, Read):
        return None
    scalar, setup = loop.condition.buffer, loop.setup.statements
    kept = tuple(s for s in setup if scalar not in {*written(s), *binds(s)})
    left_out = [s for s in setup if s not in kept and not isinstance(s, Alloc)]
    alone = all(written(s) - bound_within(s) == {scalar} for s in left_out)
    used = touched(*kept, *loop.body.statements)
    return kept if alone and scalar not in used and loop.each in written(*kept) else None


def of_one_row(statements: Sequence[Statement], stages: Sequence[Rows], first: Rows) -> list[Statement]:
    """Returns the statements of one row: the `Let`s given, and the bodies of the stages."""
    row: list[Statement] = [s for s in statements if isinstance(s, Let)]
    for rows in stages:
        names = zip(rows.variables, first.variables, strict=True)
        row += [*rows.before, *(Let(own, var) for own, var in names if own is not var), rows.body]
    return row


def _before_all_iterations(iterations: Iterations, rows: Rows) -> list[Statement] | None:
    """Returns allocations and checks of iterations, moved in front of the loop over rows; None where they depend on the iteration."""
    loop = iterations.loop
    statements = (*iterations.setup, *iterations.iteration)
    allocs = [s for s in statements if isinstance(s, Alloc)]
    checks = [s for s in statements if isinstance(s, Check)]
    named: set[Node] = {*(s.var for s in statements if isinstance(s, Let)), *rows.variables}
    used = [e for s in (*allocs, *checks) for e in expressions_of(s)] + [e for r in rows.loops for e in (r.low, r.high)]
    if isinstance(loop, For):
        named.add(loop.var)
    if not named.isdisjoint(topological(*used)):  # type: ignore[arg-type]
        return None
    if not checks:
        return [*allocs]
    if isinstance(loop, While) or any(buffers_read(expressions_of(s)) for s in checks):
        return None
    any_iteration = Op("lt", bool_, (loop.low, loop.high))  # type: ignore[arg-type]
    return [If(any_iteration, Block(tuple(checks))), *allocs]


def _iterations_lie_apart(iteration: Sequence[Statement], index: Var, rows: set[Var]) -> bool:
    """Whether an iteration's data of neighbouring rows is contiguous, and successive iterations' data of one row far apart."""
    for s in iteration:
        for each in statements_within(s):
            for *outer, last in (access.indices for access in accesses(each) if access.indices):
                if last in rows and any(index in topological(e) for e in outer):  # type: ignore[arg-type]
                    return True
    return False


def _has_lanes(statements: Iterable[Statement]) -> bool:
    return any(isinstance(each, For) and each.kind == "vector" for s in statements for each in statements_within(s))


def dimensions_of_rows(
    iteration: Sequence[Statement], stages: Sequence[Rows], swaps: Sequence[Swap]
) -> dict[Buffer, tuple[int, ...]] | None:
    """Maps each buffer that changes to the dimensions whose indices are always the row's; None where rows are not independent."""
    every = [inner for s in iteration for inner in statements_within(s)]
    if not all(map(is_kept_in_rows, every)):
        return None
    own = {s.buffer for s in every if isinstance(s, Alloc)}
    changed = {write.buffer for s in every for write in writes(s)} - own
    changed |= {buffer for s in swaps for buffer in (s.left, s.right)}
    found: dict[Buffer, tuple[int, ...]] = {}
    for buffer in changed:
        found_at = [a.indices or () for s in every for a in accesses(s) if a.buffer is buffer]
        dimensions: list[int] = []
        for level in zip(*(rows.variables for rows in stages), strict=True):
            always = (d for d in range(len(buffer.shape)) if all(indices[d] in level for indices in found_at))
            dimensions += [next(always, -1)]
        if -1 in dimensions or not found_at:
            return None
        found[buffer] = tuple(dimensions)
    return found


def _is_exchanged(buffer: Buffer, dimensions: tuple[int, ...], rows: Rows) -> bool:
    """Whether a row of a buffer is a few numbers, and the loops over rows cover all rows."""
    whole = (
        is_equal(loop.low, ix.as_index(0)) and is_equal(loop.high, buffer.shape[d])
        for loop, d in zip(rows.loops, dimensions, strict=True)
    )
    numbers = elements_of(buffer, dimensions)
    return numbers is not None and numbers <= FEW and not buffer.strides and all(whole)


def exchange(swap: Swap, dimensions: tuple[int, ...], row: tuple[Var, ...]) -> Iterator[Statement]:
    """Yields statements that exchange a row of two buffers, or only copy the right one's where the left one's contents are dead."""
    variables = dict(zip(dimensions, row, strict=True))
    ranges = [
        [variables[d]] if d in variables else [ix.as_index(k) for k in range(ix.constant_value(extent) or 0)]
        for d, extent in enumerate(swap.left.shape)
    ]
    for at in product(*ranges):
        kept = fresh("kept", swap.left.dtype)
        if swap.needed:
            yield Let(kept, Read(swap.left, at, None))
        yield Store(swap.left, at, Read(swap.right, at, None))
        if swap.needed:
            yield Store(swap.right, at, kept)
