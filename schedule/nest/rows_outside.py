"""Array loops whose rounds keep to rows: the loop over rows goes outside, and a row's rounds run while it is in the cache.

    for t in 0..k:                             produce loop_1/update_1:
      produce loop_1/update_1:        becomes    parallel y in 0..n:
        parallel y in 0..n:                        for t in 0..k:
          state[y, t + 1] = … state[y, t]            state[y, t + 1] = … state[y, t]

This is how `rd.map(lambda row: rd.loop(…), rows)` reads, and a loop of elementwise steps. It holds where all stages of a round run over
the same rows, and whatever they change they read and write at their own row alone. Rows that lanes make stay in lanes. States that are
swapped at the end of a round are exchanged, or copied, row by row, where a row of them is a few numbers. Rows in lanes make their
rounds as many at a time as the first-level cache holds with 128 bytes of each; rows that lie side by side, whose rounds lie apart, with
32 bytes of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from operator import is_

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Node, Var, fresh
from raido.algo.graph.rewrite import topological
from raido.schedule.machine import UNKNOWN_GRAIN, Machine
from raido.schedule.nest.effects import accesses, writes
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
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
    is_decided_by_memory,
    is_equal,
    is_kept_in_rows,
    kept_in_caches,
    rows_of,
    run_over_the_same,
)
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import expressions_of, statements_within

FEW = 16  # numbers of a row that are exchanged rather than their memory swapped


def rows_outside(nest: Nest, machine: Machine) -> Nest:
    """The nest with loops over rows outside array loops, where rounds keep to rows."""
    body = _block(nest.body, machine)
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block, machine: Machine) -> Block:
    statements = [new for s in block.statements for new in _statement(s, machine)]
    same = len(statements) == len(block.statements) and all(map(is_, statements, block.statements))
    return block if same else Block(tuple(statements))


def _statement(s: Statement, machine: Machine) -> list[Statement]:
    if isinstance(s, For):
        body = _block(s.body, machine)
        loop = s if body is s.body else replace(s, body=body)
        return _turned(loop, machine) or [loop]
    if isinstance(s, If):
        then, orelse = _block(s.then, machine), None if s.orelse is None else _block(s.orelse, machine)
        return [s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)]
    if isinstance(s, While):
        body = _block(s.body, machine)
        return [s if body is s.body else replace(s, body=body)]
    return [s]


def _turned(loop: For, machine: Machine) -> list[Statement]:
    """The replacement of an array loop whose iterations keep to rows; nothing for any other."""
    statements = loop.body.statements
    swaps = tuple(s for s in statements if isinstance(s, Swap))
    rest = statements[: len(statements) - len(swaps)]
    chains = [rows_of(s) for s in rest if isinstance(s, Produce)]
    stages = [rows for rows in chains if rows is not None]
    if not stages or len(stages) < len(chains) or any(isinstance(s, Swap) for s in rest):
        return []
    if not all(isinstance(s, (Alloc, Let, Produce)) for s in rest) or is_decided_by_memory(loop):
        return []
    for depth in range(min(len(rows.loops) for rows in stages), 0, -1):
        at_depth = [replace(rows, loops=rows.loops[:depth]) for rows in stages]
        turned = _turned_at(loop, rest, swaps, at_depth, machine)
        if turned:
            return turned
    return []


def _turned_at(
    loop: For, rest: Sequence[Statement], swaps: Sequence[Swap], stages: Sequence[Rows], machine: Machine
) -> list[Statement]:
    """The same, for rows that so many loops of each stage run over."""
    allocs = [s for s in rest if isinstance(s, Alloc)]
    first = next((rows for rows in stages if rows.in_lanes), stages[0])
    round_: list[Statement] = [s for s in rest if isinstance(s, Let)]
    for rows in stages:
        names = zip(rows.variables, first.variables, strict=True)
        round_ += [*rows.before, *(Let(own, var) for own, var in names if own is not var), rows.body]
    if not all(run_over_the_same(rows, first) for rows in stages):
        return []
    places = _places_of_rows(round_, stages, swaps)
    if places is None or not all(
        places[s.left] == places[s.right] and _is_exchanged(s.left, places[s.left], first) for s in swaps
    ):
        return []
    named: set[Node] = {loop.var, *(s.var for s in round_ if isinstance(s, Let)), *first.variables}
    outside = [e for s in allocs for e in expressions_of(s)] + [
        e for each in first.loops for e in (each.low, each.high)
    ]
    if not named.isdisjoint(topological(*outside)):  # type: ignore[arg-type]
        return []
    exchanges = (each for s in swaps for each in _exchange(s, places[s.left], first.variables))
    rounds = replace(loop, body=kept_in_caches(Block((*round_, *exchanges))))
    in_lanes = first.in_lanes and not _has_lanes(round_)
    if _rounds_lie_apart(round_, loop.var, {rows.variables[-1] for rows in stages}):
        if len(first.loops) > 1 or not in_lanes:
            return []
        over_rows = _over_pieces(first, rounds, _in_l1(machine, 32))
    else:
        over_rows = _over_rows(first, rounds, _in_l1(machine, 128) if in_lanes else 0)
    return [*allocs, Produce(first.stage, Block((over_rows,)))]


def _rounds_lie_apart(round_: Sequence[Statement], index: Var, rows: set[Var]) -> bool:
    """Whether what some rows need next lies side by side in memory, and what the next round needs of them far behind."""
    for s in round_:
        for each in statements_within(s):
            for *outer, last in (access.indices for access in accesses(each) if access.indices):
                if last in rows and any(index in topological(e) for e in outer):  # type: ignore[arg-type]
                    return True
    return False


def _in_l1(machine: Machine, each: int) -> int:
    """Things of so many bytes that the first-level cache holds, a power of two."""
    return 1 << (max(1, machine.l1 // each).bit_length() - 1)


def _over_pieces(rows: Rows, rounds: For, size: int) -> For:
    """The loop over pieces of `size` rows side by side, whose rounds follow one another in all rows of a piece."""
    (row,) = rows.loops
    piece = fresh(f"{row.var.name}o")
    inside = replace(row, low=piece, high=ix.minimum(row.high, ix.add(piece, size)), body=rounds.body)  # type: ignore[arg-type]
    body = Block((replace(rounds, body=Block((inside,))),))
    return For(piece, row.low, row.high, size, body, kind="parallel", stage=rows.stage, loop=piece.name)


def _over_rows(rows: Rows, rounds: For, size: int) -> For:
    """The loops over rows, around the rounds of each; `size`: rows in lanes at a time, 0 where rows are made one by one."""
    how = {"kind": "parallel", "grain": UNKNOWN_GRAIN, "stage": rows.stage}
    *outer, row = rows.loops
    inside: Statement = replace(row, kind="serial", body=Block((rounds,)))
    if size:
        inside = replace(row, body=Block((rounds,)))
        if not outer:
            chunk = fresh(f"{row.var.name}o")
            piece = replace(inside, low=chunk, high=ix.minimum(row.high, ix.add(chunk, size)))  # type: ignore[arg-type]
            return For(chunk, row.low, row.high, size, Block((piece,)), **how, loop=chunk.name)  # type: ignore[arg-type]
    for loop in reversed(outer[1:]):
        inside = replace(loop, kind="serial", body=Block((inside,)))
    outermost = rows.loops[0]
    body = Block((inside,)) if outer else Block((rounds,))
    return For(outermost.var, outermost.low, outermost.high, 1, body, **how, loop=outermost.var.name)  # type: ignore[arg-type]


def _has_lanes(statements: Iterable[Statement]) -> bool:
    return any(isinstance(each, For) and each.kind == "vector" for s in statements for each in statements_within(s))


def _places_of_rows(
    round_: Sequence[Statement], stages: Sequence[Rows], swaps: Sequence[Swap]
) -> dict[Buffer, tuple[int, ...]] | None:
    """For each buffer that changes, the dimensions whose indices are always the row's; None where rounds do not keep to rows."""
    every = [inner for s in round_ for inner in statements_within(s)]
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
    extents = [ix.constant_value(extent) for d, extent in enumerate(buffer.shape) if d not in places]
    few = None not in extents and prod(extents) <= FEW  # type: ignore[arg-type]
    return few and not buffer.strides and all(whole)


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
