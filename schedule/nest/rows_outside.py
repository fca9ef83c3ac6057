"""Array loops whose iterations keep to rows: the loop over rows goes outside, and a row's iterations run while it is in the cache.

    for t in 0..k:                             produce loop_1/update_1:
      produce loop_1/update_1:        becomes    parallel y in 0..n:
        parallel y in 0..n:                        for t in 0..k:
          state[y, t + 1] = … state[y, t]            state[y, t + 1] = … state[y, t]

This is how `rd.map(lambda row: rd.loop(…), rows)` reads, and a loop of elementwise steps. It holds where all stages of an iteration run over
the same rows, and whatever they change they read and write at their own row alone. A loop that goes on as long as any row does
(`rd.while_loop` in a map, `rd.loop` of a count for each row) ends for each row by itself (`uneven_rows`). How many iterations and rows there
are may be read from memory that no iteration changes.

Rows that lanes make stay in lanes. States that are swapped at the end of an iteration are exchanged, or copied, row by row, where a row of
them is a few numbers; in a loop that ends for each row by itself they are not. Rows in lanes make their iterations as many at a time as the
first-level cache holds with 128 bytes of each; rows that lie side by side, whose iterations lie apart, with 32 bytes of each.
Of rows inside rows (`rd.map` in a map) the inner ones go through an iteration together where the cache holds all that they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from operator import is_

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Node, Op, Var, fresh
from raido.algo.graph.rewrite import topological
from raido.schedule.machine import UNKNOWN_GRAIN, Machine
from raido.schedule.nest.effects import accesses, binds, bound_within, buffers_read, touched, writes, written
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    Check,
    For,
    If,
    Let,
    Nest,
    Produce,
    Statement,
    Store,
    Swap,
    While,
)
from raido.schedule.nest.rows import (
    Rows,
    is_equal,
    is_kept_in_rows,
    kept_in_caches,
    rows_of,
    run_over_the_same,
)
from raido.schedule.nest.settle import settle
from raido.schedule.nest.uneven_rows import iterations_of_one_row, own_end
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import expressions_of, statements_within

FEW = 16  # numbers of a row that are exchanged rather than their memory swapped


def rows_outside(nest: Nest, machine: Machine) -> Nest:
    """The nest with loops over rows outside array loops, where iterations keep to rows."""
    body = _block(nest.body, machine)
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block, machine: Machine) -> Block:
    statements = [new for s in block.statements for new in _statement(s, machine)]
    same = len(statements) == len(block.statements) and all(map(is_, statements, block.statements))
    return block if same else Block(tuple(statements))


def _statement(s: Statement, machine: Machine) -> list[Statement]:
    if isinstance(s, (For, While)):
        body = _block(s.body, machine)
        loop = s if body is s.body else replace(s, body=body)
        return _turned(loop, machine) or [loop]
    if isinstance(s, If):
        then, orelse = _block(s.then, machine), None if s.orelse is None else _block(s.orelse, machine)
        return [s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)]
    return [s]


@dataclass(frozen=True, slots=True)
class _ArrayLoop:
    """An array loop: `setup` decides for each row whether it goes on (of a `While`), then `iteration` runs, and states are swapped."""

    loop: For | While
    setup: tuple[Statement, ...]
    iteration: tuple[Statement, ...]
    swaps: tuple[Swap, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of the setup, then those of the iteration."""
        return (*self.setup, *self.iteration)


def _turned(loop: For | While, machine: Machine) -> list[Statement]:
    """The replacement of an array loop whose iterations keep to rows; nothing for any other."""
    iterations = _parts_of(loop)
    if iterations is None or not all(isinstance(s, (Alloc, Check, Let, Produce)) for s in iterations.statements):
        return []
    chains = [rows_of(s) for s in iterations.statements if isinstance(s, Produce)]
    stages = [rows for rows in chains if rows is not None]
    if not stages or len(stages) < len(chains):
        return []
    at = lambda depth: [replace(rows, loops=rows.loops[:depth]) for rows in stages]
    for depth in range(min(len(rows.loops) for rows in stages), 0, -1):
        turned = _turned_at(iterations, at(depth), machine)
        if turned and depth > 1 and _go_together(iterations, at(depth), at(depth - 1), machine):
            turned = _turned_at(iterations, at(depth - 1), machine) or turned
        if turned:
            return turned
    return []


def _go_together(iterations: _ArrayLoop, stages: Sequence[Rows], outer: Sequence[Rows], machine: Machine) -> bool:
    """Whether the rows of the innermost loop had better go through each iteration together, one after the other.

    A row's iterations wait for each other; other rows do not, and share what an iteration reads for all of them. Everything that they
    change has to stay in half of the first-level cache: the other half is left to what they read.
    """
    if not isinstance(iterations.loop, For) or any(rows.in_lanes for rows in stages):
        return False
    row = _of_one_row(iterations.iteration, outer, outer[0])
    places = _places_of_rows(row, outer, iterations.swaps)
    if places is None:
        return False
    numbers = {buffer: _numbers_of_a_row(buffer, at) for buffer, at in places.items()}
    return None not in numbers.values() and machine.l1 >= 2 * sum(
        buffer.dtype.itemsize * (count or 0) for buffer, count in numbers.items()
    )


def _numbers_of_a_row(buffer: Buffer, places: tuple[int, ...]) -> int | None:
    """How many numbers a row of a buffer is, if that is known; `places`: the dimensions that say which row."""
    extents = [ix.constant_value(extent) for d, extent in enumerate(buffer.shape) if d not in places]
    return None if None in extents else prod(extents)  # type: ignore[arg-type]


def _parts_of(loop: For | While) -> _ArrayLoop | None:
    """An array loop in its parts, if rows may go through it one after the other: no iteration changes how many there are."""
    body = loop.body.statements
    swaps = tuple(s for s in body if isinstance(s, Swap))
    iteration = body[: len(body) - len(swaps)]
    if isinstance(loop, For):
        return (
            None if buffers_read((loop.low, loop.high)) & written(loop.body) else _ArrayLoop(loop, (), iteration, swaps)
        )
    setup = None if swaps else _without_the_test(loop)
    return None if setup is None else _ArrayLoop(loop, setup, iteration, ())


def _without_the_test(loop: While) -> tuple[Statement, ...] | None:
    """The setup of a loop that goes on as long as any row does, without the stage that looks at the tests of all rows."""
    if loop.each is None or not isinstance(loop.condition, Read):
        return None
    scalar, setup = loop.condition.buffer, loop.setup.statements
    kept = tuple(s for s in setup if scalar not in {*written(s), *binds(s)})
    left_out = [s for s in setup if s not in kept and not isinstance(s, Alloc)]
    alone = all(written(s) - bound_within(s) == {scalar} for s in left_out)
    used = touched(*kept, *loop.body.statements)
    return kept if alone and scalar not in used and loop.each in written(*kept) else None


def _turned_at(
    iterations: _ArrayLoop, stages: Sequence[Rows], machine: Machine, uneven: bool = True
) -> list[Statement]:
    """The replacement, with rows that so many loops of each stage run over; uneven: where rows end by themselves, they do."""
    loop, swaps = iterations.loop, iterations.swaps
    first = next((rows for rows in stages if rows.in_lanes), stages[0])
    if not all(run_over_the_same(rows, first) for rows in stages):
        return []
    of_setup = sum(isinstance(s, Produce) for s in iterations.setup)
    setup = _of_one_row(iterations.setup, stages[:of_setup], first)
    iteration = _of_one_row(iterations.iteration, stages[of_setup:], first)
    own = {s.buffer for s in iterations.iteration if isinstance(s, Alloc)}
    end = own_end(loop, first.variables, iteration, own) if uneven else None
    if end is not None:
        setup, iteration = list(settle(setup, {}).statements), list(settle(iteration, {end.goes_on: True}).statements)
    elif isinstance(loop, While):
        return []
    places = _places_of_rows([*setup, *iteration], stages, swaps)
    if places is None or not all(
        places[s.left] == places[s.right] and _is_exchanged(s.left, places[s.left], first) for s in swaps
    ):
        return []
    before = _before_all_iterations(iterations, first)
    if before is None:
        return []
    in_lanes = first.in_lanes and not _has_lanes([*setup, *iteration])
    exchanges = (each for s in swaps for each in _exchange(s, places[s.left], first.variables))
    body = kept_in_caches(Block((*iteration, *exchanges)))
    if isinstance(loop, For) and _iterations_lie_apart(iteration, loop.var, {rows.variables[-1] for rows in stages}):
        if end is not None:
            return _turned_at(iterations, stages, machine, uneven=False)
        if len(first.loops) > 1 or not in_lanes:
            return []
        over_rows = _over_pieces(first, replace(loop, body=body), _in_l1(machine, 32))
    else:
        row = iterations_of_one_row(loop, end, Block(tuple(setup)), body)
        over_rows = _over_rows(first, row, _in_l1(machine, 128) if in_lanes else 0, end is not None)
    return [*before, Produce(first.stage, Block((over_rows,)))]


def _of_one_row(statements: Sequence[Statement], stages: Sequence[Rows], first: Rows) -> list[Statement]:
    """The statements of one row: those given, and those of the stages among them."""
    row: list[Statement] = [s for s in statements if isinstance(s, Let)]
    for rows in stages:
        names = zip(rows.variables, first.variables, strict=True)
        row += [*rows.before, *(Let(own, var) for own, var in names if own is not var), rows.body]
    return row


def _before_all_iterations(iterations: _ArrayLoop, rows: Rows) -> list[Statement] | None:
    """Memory and checks of iterations, which move in front of the loop over rows; None where they depend on the iteration, or rows do."""
    loop = iterations.loop
    allocs = [s for s in iterations.statements if isinstance(s, Alloc)]
    checks = [s for s in iterations.statements if isinstance(s, Check)]
    named: set[Node] = {*(s.var for s in iterations.statements if isinstance(s, Let)), *rows.variables}
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
    """Whether what some rows need next lies side by side in memory, and what the next iteration needs of them far behind."""
    for s in iteration:
        for each in statements_within(s):
            for *outer, last in (access.indices for access in accesses(each) if access.indices):
                if last in rows and any(index in topological(e) for e in outer):  # type: ignore[arg-type]
                    return True
    return False


def _in_l1(machine: Machine, each: int) -> int:
    """Things of so many bytes that the first-level cache holds, a power of two."""
    return 1 << (max(1, machine.l1 // each).bit_length() - 1)


def _over_pieces(rows: Rows, iterations: For, size: int) -> For:
    """The loop over pieces of `size` rows side by side, whose iterations follow one another in all rows of a piece."""
    (row,) = rows.loops
    piece = fresh(f"{row.var.name}o")
    inside = replace(row, low=piece, high=ix.minimum(row.high, ix.add(piece, size)), body=iterations.body)  # type: ignore[arg-type]
    body = Block((replace(iterations, body=Block((inside,))),))
    return For(piece, row.low, row.high, size, body, kind="parallel", stage=rows.stage, loop=piece.name)


def _over_rows(rows: Rows, iterations: Block, size: int, uneven: bool) -> For:
    """The loops over rows, around the iterations of each; `size`: rows in lanes at a time, 0 where rows are made one by one.

    uneven: whether some rows go through more iterations than others.
    """
    how = {"kind": "parallel", "grain": UNKNOWN_GRAIN, "dynamic": uneven, "stage": rows.stage}
    *outer, row = rows.loops
    inside: Statement = replace(row, kind="serial", body=iterations)
    if size:
        inside = replace(row, body=iterations)
        if not outer:
            chunk = fresh(f"{row.var.name}o")
            piece = replace(inside, low=chunk, high=ix.minimum(row.high, ix.add(chunk, size)))  # type: ignore[arg-type]
            return For(chunk, row.low, row.high, size, Block((piece,)), **how, loop=chunk.name)  # type: ignore[arg-type]
    for loop in reversed(outer[1:]):
        inside = replace(loop, kind="serial", body=Block((inside,)))
    outermost = rows.loops[0]
    body = Block((inside,)) if outer else iterations
    return For(outermost.var, outermost.low, outermost.high, 1, body, **how, loop=outermost.var.name)  # type: ignore[arg-type]


def _has_lanes(statements: Iterable[Statement]) -> bool:
    return any(isinstance(each, For) and each.kind == "vector" for s in statements for each in statements_within(s))


def _places_of_rows(
    iteration: Sequence[Statement], stages: Sequence[Rows], swaps: Sequence[Swap]
) -> dict[Buffer, tuple[int, ...]] | None:
    """For each buffer that changes, the dimensions whose indices are always the row's; None where iterations do not keep to rows."""
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


def _is_exchanged(buffer: Buffer, places: tuple[int, ...], rows: Rows) -> bool:
    """Whether a row of a buffer is a few numbers, and the loops over rows have all of them."""
    whole = (
        is_equal(loop.low, ix.as_index(0)) and is_equal(loop.high, buffer.shape[d])
        for loop, d in zip(rows.loops, places, strict=True)
    )
    numbers = _numbers_of_a_row(buffer, places)
    return numbers is not None and numbers <= FEW and not buffer.strides and all(whole)


def _exchange(swap: Swap, places: tuple[int, ...], row: tuple[Var, ...]) -> Iterator[Statement]:
    """A row of each of two buffers in place of the other's, or of one alone where the other's is not needed."""
    variables = dict(zip(places, row, strict=True))
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
