"""The rows that a stage reads for each of its own rows.

img[y - 1, x] + img[y + 1, x]         one for each, and two more for a row tile
img[2 * y, x] + img[2 * y + 1, x]     two for each
half[y // 2, x]                       half a row for each
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from raido.algo.graph import index
from raido.algo.graph.expr import Expr, Op, Var

MOST = 2  # rows read for each row: with more, row tiles would be too low to share inputs


class RowReads(NamedTuple):
    """The rows read for a row tile: `stride` rows for each row of the tile, and `around` more. A whole rate is an int, as nearly all are:
    arithmetic on fractions takes twenty times as long."""

    stride: int | Fraction
    around: int


def row_reads(indices: Sequence[Expr | None], rows: Var) -> RowReads | None:
    """Returns the rows that are read at these indices; None where they do not advance at one rate with the rows that are computed."""
    found = [offset for e in indices if (offset := _offset(e, rows)) is not None]
    if len(found) < len(indices) or len({stride for stride, *_ in found}) != 1:
        return None
    (stride, *_), lows, highs = zip(*found, strict=True)
    return RowReads(stride, max(0, max(highs) - min(lows) + 1 - max(1, int(stride))))


def _offset(e: Expr | None, rows: Var) -> tuple[int | Fraction, int, int] | None:
    """Returns the rate of an index with respect to rows, and its least and greatest offset, clamps ignored; None for other indices."""
    if e is None:
        return None
    if isinstance(e, Op) and e.name in index.BOUNDARY_OPS:
        if e.name != "clamp_index":
            return None
        e = e.args[0]
    constant, terms = index.linear(e)
    if terms.keys() == {rows} and terms[rows] in range(1, MOST + 1):
        return terms[rows], constant, constant
    if len(terms) != 1:
        return None
    ((quotient, times),) = terms.items()
    if times != 1 or not isinstance(quotient, Op) or quotient.name != "floordiv":
        return None
    divisor = index.constant_value(quotient.args[1])
    inner, inner_terms = index.linear(quotient.args[0])
    if not divisor or divisor < 1 or inner_terms != {rows: 1}:
        return None
    return Fraction(1, divisor), constant + inner // divisor, constant - -inner // divisor
