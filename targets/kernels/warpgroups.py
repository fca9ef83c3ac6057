"""Loops over products of matrices as instructions of a warpgroup, 128 threads, which read both factors from shared memory.

A schedule has seen to the layout (`schedule/checks/warpgroups.py`): a factor lies in blocks of 8 lines of 16 bytes, one behind the other, and
elements side by side are neighbours along the steps, or along the lines (rows of the left factor, columns of the right one). Where it
begins, and how far apart blocks are, follows from the indices of a thread's statements. Where a loop does not fit, as for the last steps of
a sum, it runs in order.

    operation                                                 means, for a warpgroup
    warpgroup_fence()                                         sums may be added to: what threads have done with their registers is done
    warpgroup_multiply_<dtype>(columns, turned of both factors, factors …, sums …)
                                                              begins to add a tile of 64 × 16 elements (8 steps of tf32) times one of
                                                              16 × columns to sums; a factor is an address, and the bytes between its
                                                              blocks along the steps and along the lines; the sums of a thread are, of
                                                              each 8 columns, two neighbours of a row, and of the row 8 further on
    warpgroup_commit(), warpgroup_await()                     ends a group of these; waits until all groups are done
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i32
from raido.algo.graph.expr import Expr, Var, fresh
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.checks.matrix_units import ALONG_X, ALONG_Y, COLUMNS, DEPTH
from raido.schedule.checks.warpgroups import SUBGROUPS
from raido.schedule.machine import WIDEST_ACCESS
from raido.schedule.nest.nodes import For
from raido.schedule.nest.passes.matrix_loops import Product, products_of
from raido.schedule.nest.values import Buffer, strides_of
from raido.targets import tvm_corner as T
from raido.targets.kernels.unit import load, operation

if TYPE_CHECKING:
    from raido.targets.kernels.statements import Statements

LINES = 8
"""The lines of a block of a factor, each of 16 bytes."""
Indices = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a warpgroup's products: `indices` of its first element as a function of the step. `along_depth` and `along_lines` are
    distances between blocks in elements; `transposed`: transposed, so that adjacent elements lie along the lines."""

    buffer: Buffer
    indices: Callable[[int], Indices]
    along_depth: int
    along_lines: int
    transposed: bool


def emit_warpgroup(statements: Statements, s: For) -> bool:
    """Emits a loop as warpgroup instructions; False where it does not fit."""
    trips = ix.constant_value(ix.canonical(ix.sub(s.high, s.low)))
    if statements.threads is None or statements.extent[:2] != (ALONG_X, ALONG_Y) or statements.extent[2] % SUBGROUPS:
        return False
    if s.step != 1 or not trips or trips % DEPTH:
        return False
    tile = _Tile(statements, s, trips)
    left, right = tile.left_factor(), tile.right_factor()
    if left is None or right is None:
        return False
    unit, size = statements.unit, left.buffer.dtype.itemsize
    at_once = 2 * WIDEST_ACCESS // size  # steps of an instruction
    dtype = "tf32" if size == 4 else left.buffer.dtype.name
    number = lambda value: T.IntImm("int32", value)
    unit.out.append(T.Evaluate(operation("warpgroup_fence", i32)))
    for step in range(0, trips, at_once):
        factors = [_address(statements, factor, step) for factor in (left, right)]
        transposed = [number(int(factor.transposed)) for factor in (left, right)]
        sums = [_sum(statements, product) for product in tile.in_order()]
        columns = number(len(sums) * 2)
        given = [columns, *transposed, *(each for factor in factors for each in factor), *sums]
        unit.out.append(T.Evaluate(operation(f"warpgroup_multiply_{dtype}", i32, *given)))
    unit.out.append(T.Evaluate(operation("warpgroup_commit", i32)))
    unit.out.append(T.Evaluate(operation("warpgroup_await", i32)))
    return True


def _address(statements: Statements, factor: Factor, step: int) -> list[Any]:
    """A factor's address at a step, and the bytes between its blocks along the steps and along the lines."""
    values, at = statements.values, factor.indices(step)
    values.prepare(*at)
    held, offset = values.element(factor.buffer, at)
    size = factor.buffer.dtype.itemsize
    apart = (T.IntImm("int32", by * size) for by in (factor.along_depth, factor.along_lines))
    return [T.address_of(load(held.buffer, offset)), *apart]


def _sum(statements: Statements, product: Product) -> Any:
    statements.values.prepare(*product.indices)
    held, offset = statements.values.element(product.buffer, product.indices)
    return load(held.buffer, offset)


class _Tile:
    """A thread's products, by the elements that they read of both factors."""

    def __init__(self, statements: Statements, s: For, trips: int) -> None:
        assert statements.threads is not None
        self.x, self.y, self.z = statements.threads
        self.var, self.trips, self.statements = s.var, trips, statements
        self.low = self._meaning(s.low)
        self.group = fresh("warpgroup")
        self.sums: dict[tuple[Indices, Indices], Product] = {}
        self.rows: list[Indices] = []
        self.columns: list[Indices] = []
        buffers = set[tuple[Buffer, Buffer]]()
        for product in products_of(s) or ():
            reads = [product.first, product.second]
            first, second = (tuple(self._meaning(i) for i in read.indices) for read in reads)
            if any({self.y, self.z} & free_variables(i) for i in second):
                first, second, reads = second, first, reads[::-1]
            self.sums[first, second] = product
            buffers.add((reads[0].buffer, reads[1].buffer))
        if len(buffers) == 1:
            ((self.left, self.right),) = buffers
            self.rows = self._by_index(self.left, [first for first, _ in self.sums])
            self.columns = self._by_index(self.right, [second for _, second in self.sums])

    def in_order(self) -> list[Product]:
        """Products in the order of their sums' registers: of each 8 columns two of the upper row, two of the lower one."""
        return [
            self.sums[row, column]
            for first in range(0, len(self.columns), 2)
            for row in self.rows
            for column in self.columns[first : first + 2]
        ]

    def left_factor(self) -> Factor | None:
        """The left factor, with 64 rows as lines: 16 per subgroup, of which a thread has the one of its index along y, and that 8 further
        on."""
        if len(self.rows) != 2 or len(self.sums) != len(self.rows) * len(self.columns):
            return None
        lines = {
            16 * w + 8 * i + y: self._element(self.left, row, 0, {"y": y, "w": w})
            for i, row in enumerate(self.rows)
            for w in range(SUBGROUPS)
            for y in range(ALONG_Y)
        }
        return self._factor(self.left, self.rows[0], lines, self.x)

    def right_factor(self) -> Factor | None:
        """The right factor, with columns as lines: a thread has the pair of its index along x, and those 8 further on."""
        if not self.columns or len(self.columns) % 2:
            return None
        lines = {
            COLUMNS * (k // 2) + 2 * x + k % 2: self._element(self.right, column, 0, {"x": x})
            for k, column in enumerate(self.columns)
            for x in range(ALONG_X)
        }
        return self._factor(self.right, self.columns[0], lines, self.y, self.z)

    def _factor(self, buffer: Buffer, first: Indices, lines: dict[int, Expr], *others: Var) -> Factor | None:
        """A factor whose lines begin at these offsets; None where its layout is not the one that a warpgroup reads."""
        together = WIDEST_ACCESS // buffer.dtype.itemsize
        if buffer.scope != "shared" or self.statements.forms.get(buffer, "plain") != "plain":
            return None
        if any(other in free_variables(i) for i in first for other in others):
            return None
        elements = [self._element(buffer, first, k, {}) for k in range(self.trips)]
        line, block = (_gap(lines, k, 0) for k in (1, LINES))
        distance, along = _gap(elements, 1, 0), _gap(elements, together, 0)
        transposed = line == 1
        wanted = (1, together) if transposed else (together, 1)
        if (
            line is None
            or distance is None
            or along is None
            or (line, distance) != wanted
            or (transposed and together != LINES)
        ):
            return None
        block = along if block is None else block  # of 8 columns alone
        if any(_gap(lines, k, 0) != k // LINES * block + k % LINES * line for k in lines):
            return None
        for begin in range(0, self.trips, 2 * together):
            for k in range(2 * together):
                if _gap(elements, begin + k, begin) != k // together * along + k % together * distance:
                    return None
            constant, terms = ix.linear(elements[begin])
            if any(n % together for n in (constant, block, along, *terms.values())):
                return None  # an address that is no multiple of 16 bytes
        own = {self.group: ix.mul(ix.floordiv(self.z, SUBGROUPS), SUBGROUPS)}
        indices = lambda k: tuple(ix.canonical(substitute(self._at(i, k, {}), own)) for i in first)
        return Factor(buffer, indices, along, block, transposed)

    def _by_index(self, buffer: Buffer, found: Sequence[Indices]) -> list[Indices]:
        """Distinct indices ordered by the offsets of their elements, for one thread; empty where the order is unknown."""
        indices = {each: self._element(buffer, each, 0, {}) for each in found}
        first = next(iter(indices.values()))
        gaps = {each: ix.constant_value(ix.canonical(ix.sub(index, first))) for each, index in indices.items()}
        return [] if None in gaps.values() else sorted(indices, key=lambda each: gaps[each] or 0)

    def _element(self, buffer: Buffer, indices: Indices, step: int, lanes: dict[str, int]) -> Expr:
        """The offset of an element in its buffer, at a step, for a thread of the warpgroup; `lanes` has its indices x and y, and its
        subgroup `w`."""
        total: Any = ix.as_index(0)
        for i, stride in zip(indices, strides_of(buffer), strict=True):
            total = ix.add(total, ix.mul(self._at(i, step, lanes), stride))
        return ix.canonical(total)

    def _at(self, i: Expr, step: int, lanes: dict[str, int]) -> Expr:
        substitution = {
            self.var: ix.add(self.low, step),
            self.x: ix.as_index(lanes.get("x", 0)),
            self.y: ix.as_index(lanes.get("y", 0)),
            self.z: ix.add(self.group, lanes.get("w", 0)),
        }
        return ix.canonical(substitute(i, substitution))

    def _meaning(self, e: Any) -> Expr:
        return ix.canonical(substitute(e, dict(self.statements.meanings)))


def _gap(indices: Any, to: int, start: int) -> int | None:
    """The distance in elements between two offsets, if constant."""
    if isinstance(indices, dict) and to not in indices:
        return None
    return ix.constant_value(ix.canonical(ix.sub(indices[to], indices[start])))
