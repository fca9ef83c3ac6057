"""The order in which rows go through the iterations of an array loop, where a schedule leaves it open: what is in the cache stays there.

Where every iteration keeps to rows (`rows_outside`), the loop over rows goes outside, for threads. Rows in lanes make their iterations as
many at a time as the first-level cache holds with 128 bytes of each; rows that lie side by side, whose iterations lie apart, with 32 bytes
of each, and the iterations inside, unless there are `ALONE` rows at most, as of two channels of a signal: these go one by one. Of rows inside
rows (`rd.map` in a map) the inner ones go through an iteration together where the cache holds all that they change.
"""

from __future__ import annotations

from collections.abc import Mapping

from raido.schedule.machine import UNKNOWN_GRAIN, Machine
from raido.schedule.nest.nodes import Block, For, Statement, While
from raido.schedule.nest.row_order import RowOrder, in_threads, row_axes
from raido.schedule.nest.rows_outside import (
    Iterations,
    by_rows,
    each_array_loop,
    in_order,
    iterations_of,
    numbers_of_a_row,
    of_one_row,
    places_of_rows,
)

PIECES = ("rowo", "rowi")
SIDE_BY_SIDE = 32  # bytes of a row that an iteration needs, where neighbours lie side by side …
IN_LANES = 128  # … and where lanes make rows that each keep what they have
ALONE = 4  # rows: what lanes store under a mask, loads wait for as long as for as many operations


def choose_row_orders(
    body: Block, machine: Machine, stated: Mapping[str, RowOrder], depths: Mapping[str, int]
) -> dict[str, RowOrder]:
    """The orders of the array loops among some statements of which none is stated, by name; those whose rows stay inside are left out.

    depths: how many loops say which row, where that alone is stated.
    """
    chosen: dict[str, RowOrder] = {}

    def turned(loop: For | While) -> list[Statement]:
        order = stated.get(loop.stage)
        if order is None:
            order = _order(loop, machine, depths.get(loop.stage, 0))
            if order is not None:
                chosen[loop.stage] = order
        return in_order(loop, order) if order is not None and order.loops else []

    each_array_loop(body, turned)
    return chosen


def _order(loop: For | While, machine: Machine, depth: int) -> RowOrder | None:
    """The order of a loop, of that depth if one is given; None where its iterations do not keep to rows."""
    iterations = iterations_of(loop)
    if iterations is None:
        return None
    if depth:
        return _order_at(iterations, depth, machine)
    for depth in range(iterations.depth, 0, -1):
        order = _order_at(iterations, depth, machine)
        if order is not None:
            together = depth > 1 and _go_together(iterations, depth, machine)
            return (_order_at(iterations, depth - 1, machine) if together else None) or order
    return None


def _order_at(iterations: Iterations, depth: int, machine: Machine) -> RowOrder | None:
    """The order in which so many loops of each stage say which row."""
    rows = by_rows(iterations, depth)
    if rows is not None and rows.apart and rows.end is not None:
        rows = by_rows(iterations, depth, uneven=False)
    if rows is None:
        return None
    in_pieces = rows.in_lanes and depth == 1
    if rows.apart:
        return RowOrder(in_threads(PIECES), _in_l1(machine, SIDE_BY_SIDE), True, ALONE) if in_pieces else None
    loops = in_threads(PIECES if in_pieces else row_axes(depth), UNKNOWN_GRAIN, rows.end is not None)
    return RowOrder(loops, _in_l1(machine, IN_LANES) if in_pieces else 0)


def _go_together(iterations: Iterations, depth: int, machine: Machine) -> bool:
    """Whether the rows of the innermost loop had better go through each iteration together, one after the other.

    A row's iterations wait for each other; other rows do not, and share what an iteration reads for all of them. Everything that they
    change has to stay in half of the first-level cache: the other half is left to what they read.
    """
    if not isinstance(iterations.loop, For) or any(rows.in_lanes for rows in iterations.at(depth)):
        return False
    outer = iterations.at(depth - 1)
    row = of_one_row(iterations.iteration, outer, outer[0])
    places = places_of_rows(row, outer, iterations.swaps)
    if places is None:
        return False
    numbers = {buffer: numbers_of_a_row(buffer, at) for buffer, at in places.items()}
    return None not in numbers.values() and machine.l1 >= 2 * sum(
        buffer.dtype.itemsize * (count or 0) for buffer, count in numbers.items()
    )


def _in_l1(machine: Machine, each: int) -> int:
    """Things of so many bytes that the first-level cache holds, a power of two."""
    return 1 << (max(1, machine.l1 // each).bit_length() - 1)
