"""Reads of a matrix down its columns as transposed register blocks: lanes run down a column, and neighbouring columns are read together.

Where a block reads `a[x, c]`, `a[x, c + 1]`, … for as many columns as `x` has lanes, no lane needs to gather an element of its own: row k,
from column c on, is one vector, and log2(lanes) rounds of shuffles transpose rows to columns. In the first rounds elements stay within 128
bits, where shuffles are cheapest. Other reads stay gathers. (Eklundh, A fast computer method for matrix transposing, 1972.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.rewrite import free_variables, topological
from raido.schedule.nest.effects import reads_memory, written
from raido.schedule.nest.nodes import For, Let, Statement
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import expressions_of

SHORT = 128  # bits: shuffles within 128-bit pieces of a register are cheapest, and come first
MOST = 16  # lanes, as this many rows are held in registers at once


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """A register block: reads that differ in the last index alone, by 0, 1, 2, …, as many as there are lanes; and the position of the first
    statement with one of them."""

    reads: tuple[Read, ...]
    first: int


def find_register_blocks(statements: Sequence[Statement], loop: For, lanes: int) -> list[RegisterBlock]:
    """The register blocks that the statements of one block read, of memory that the loop does not write."""
    if not 2 <= lanes <= MOST or lanes & (lanes - 1) or len(statements) < lanes:
        return []
    bound = {s.var for s in statements if isinstance(s, Let)}
    columns: dict[tuple[object, ...], dict[int, tuple[int, Read]]] = {}
    for position, statement in enumerate(statements):
        for read in topological(*expressions_of(statement)):
            if isinstance(read, Read) and _may_transpose(read, lanes) and bound.isdisjoint(free_variables(read)):
                constant, terms = ix.linear(read.indices[-1])  # type: ignore[arg-type]
                key = (read.buffer, read.indices[:-1], frozenset(terms.items()))
                columns.setdefault(key, {}).setdefault(constant, (position, read))
    changed = written(loop) if columns else set()
    return [
        register_block
        for (buffer, *_), columns in columns.items()
        if buffer not in changed
        for register_block in _register_blocks(columns, lanes)
    ]


def _may_transpose(read: Read, lanes: int) -> bool:
    b = read.buffer
    plain = read.predicate is None and b.lanes == 1 and len(b.shape) > 1 and b.scope != "register"
    rows = not b.strides or ix.constant_value(b.strides[-1]) == 1
    counted = reads_memory(*read.indices)  # an index read from memory may change before the read
    return plain and rows and not counted and b.dtype is not bool_ and b.dtype.bits * lanes >= SHORT


def _register_blocks(columns: dict[int, tuple[int, Read]], lanes: int) -> Iterator[RegisterBlock]:
    rest = sorted(columns)
    while len(rest) >= lanes:
        run = rest[:lanes]
        if run[-1] - run[0] == lanes - 1:
            yield RegisterBlock(tuple(columns[c][1] for c in run), min(columns[c][0] for c in run))
            rest = rest[lanes:]
        else:
            rest = rest[1:]


def shuffle_levels(lanes: int, bits: int) -> list[list[tuple[int, int, bytes]]]:
    """Rounds of shuffles that transpose a register block: for each new vector two old ones, and the lanes it takes of them.

    bits: those of an element. Rounds merge groups of neighbouring rows. The first interleave elements, then pairs of them, and so on,
    within `SHORT` bits; the others take every second piece of `SHORT` bits. The last round leaves the columns in order.
    """
    short = max(1, min(lanes, SHORT // bits))
    held = [[(row, column) for column in range(lanes)] for row in range(lanes)]
    groups = [[row] for row in range(lanes)]
    levels = []
    together = 1
    while len(groups) > 1:
        made: list[tuple[int, int, bytes]] = []
        groups = [
            [
                _shuffle(made, a, b, order)
                for a, b in zip(*pair, strict=True)
                for order in _halves(lanes, short, together)
            ]
            for pair in zip(groups[::2], groups[1::2], strict=True)
        ]
        held = [[(held[a] + held[b])[lane] for lane in order] for a, b, order in made]
        together *= 2
        levels.append(made)
    order = sorted(range(lanes), key=lambda k: held[k][0][1])
    levels[-1] = [levels[-1][k] for k in order]
    return levels


def _shuffle(made: list[tuple[int, int, bytes]], a: int, b: int, order: bytes) -> int:
    made.append((a, b, order))
    return len(made) - 1


def _halves(lanes: int, short: int, together: int) -> tuple[bytes, bytes]:
    """The shuffle masks of the two vectors that result from two others, over the lanes of both."""
    if together < short:
        halves = []
        for half in (0, short // 2):
            order = []
            for start in range(0, lanes, short):
                for unit in range(start + half, start + half + short // 2, together):
                    order += [*range(unit, unit + together), *range(lanes + unit, lanes + unit + together)]
            halves.append(bytes(order))
        return halves[0], halves[1]
    pieces = [range(start, start + short) for start in range(0, 2 * lanes, short)]
    return bytes(k for piece in pieces[::2] for k in piece), bytes(k for piece in pieces[1::2] for k in piece)
