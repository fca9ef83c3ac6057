"""The default order of rows and iterations of an array loop, chosen so that data stays in the cache.

Where rows are independent (`rows_outside`), the loop over rows goes outside, for threads. Rows in lanes run in tiles of as many rows as L1
holds with 128 bytes of each; rows that are contiguous in memory, while their iterations lie apart, with 32 bytes of each, and the
iterations outside the rows of a tile, unless it has at most `ALONE` rows, such as the two channels of a signal. Of rows inside rows
(`rd.map` in a map) the inner ones run through an iteration together where the cache holds all that they change.
"""

from __future__ import annotations

from collections.abc import Mapping

from raido.schedule.machine import UNKNOWN_GRAIN, Machine
from raido.schedule.nest.nodes import Block, For, Statement, While
from raido.schedule.nest.passes.row_order import RowOrder, in_threads, row_axes
from raido.schedule.nest.passes.rows_outside import (
    Iterations,
    by_rows,
    dimensions_of_rows,
    each_array_loop,
    in_order,
    iterations_of,
    of_one_row,
)
from raido.schedule.nest.values import elements_of

PIECES = ("rowo", "rowi")
SIDE_BY_SIDE = 32  # bytes of a row that an iteration needs, where neighbours lie side by side …
IN_LANES = 128  # … and where lanes make rows that each keep what they have
ALONE = (
    4  # rows: so many take, one by one, the cycles of a load that follows a masked store, which is not forwarded to it
)


def choose_row_orders(
    body: Block, machine: Machine, stated: Mapping[str, RowOrder], depths: Mapping[str, int]
) -> dict[str, RowOrder]:
    """Returns the orders, by name, of the array loops without a stated one; loops whose rows stay inside are left out.

    depths: the number of loops that select a row, where only that is stated.
    """
    chosen: dict[str, RowOrder] = {}

    def interchanged(loop: For | While) -> list[Statement]:
        order = stated.get(loop.stage)
        if order is None:
            order = _order(loop, machine, depths.get(loop.stage, 0))
            if order is not None:
                chosen[loop.stage] = order
        return in_order(loop, order) if order is not None and order.loops else []

    each_array_loop(body, interchanged)
    return chosen


def _order(loop: For | While, machine: Machine, depth: int) -> RowOrder | None:
    """Returns the order of a loop, of that depth if it is not 0; None where its rows are not independent."""
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
    """Returns the order in which `depth` loops of each stage select the row; None where rows are not independent."""
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
    """Whether the rows of the innermost loop should run through each iteration together, one after the other.

    A row's iterations depend on each other; other rows are independent, and share an iteration's inputs. All that they change has to stay
    in half of L1; the other half is for inputs.
    """
    if not isinstance(iterations.loop, For) or any(rows.in_lanes for rows in iterations.at(depth)):
        return False
    outer = iterations.at(depth - 1)
    row = of_one_row(iterations.iteration, outer, outer[0])
    dimensions = dimensions_of_rows(row, outer, iterations.swaps)
    if dimensions is None:
        return False
    numbers = {buffer: elements_of(buffer, at) for buffer, at in dimensions.items()}
    return None not in numbers.values() and machine.l1 >= 2 * sum(
        buffer.dtype.itemsize * (count or 0) for buffer, count in numbers.items()
    )


def _in_l1(machine: Machine, each: int) -> int:
    """Returns the number of items of `each` bytes that L1 holds, rounded down to a power of two."""
    return 1 << (max(1, machine.l1 // each).bit_length() - 1)
