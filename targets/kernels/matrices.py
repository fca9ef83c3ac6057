"""Loops over products of matrices as instructions of matrix units, which the 32 threads of a subgroup run together.

A thread has the sums that the instruction gives it (`schedule/checks/matrix_units.py`), so its statements say all that is needed: which rows
and columns the subgroup has follows from them. `raido_matrix_load` brings 8 × 8 elements of shared memory to each thread's registers, of
rows that begin at multiples of 16 bytes; factors that lie otherwise are loaded element by element. Where a loop does not fit, it runs in order.

    operation                                                    means, for thread l of a subgroup
    matrix_load(count, transposed, address, words …)             words k: elements 2 (l % 4) and the next of row l / 4 of tile k, whose row j
                                                                 is at the address that thread 8 k + j gives; transposed: of column l / 4
    matrix_multiply_<dtype>(sums …, left words …, right words …) adds a tile of 16 × 16 times one of 16 × 8 to 4 sums (PTX ISA, mma.m16n8k16)

Factors in tf32 are words of 32 bits: tiles are 8 × 4 of them, and an instruction takes 8 steps (mma.m16n8k8). Such tiles are not transposed on
their way: where neighbours lie along rows or columns of the result, threads load their words one by one.

Of a loop of fewer steps than an instruction takes, both factors are 0 in those that it does not have, whatever memory holds there: each
thread masks its words. What is loaded together begins inside of the factor, so addresses stay there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64, u32
from raido.algo.graph.expr import Expr, Node, Op, Var, const, fresh
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.checks.matrix_units import ALONG_X, ALONG_Y, COLUMNS, DEPTH, ROWS
from raido.schedule.nest.nodes import For, Let
from raido.schedule.nest.passes.matrix_loops import Product, products_of
from raido.schedule.nest.values import Buffer, Read, strides_of
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import tir
from raido.targets.kernels.unit import condition, load, operation
from raido.targets.kernels.values import to_word

if TYPE_CHECKING:
    from raido.targets.kernels.statements import Statements

ROW = 16
"""Bytes of a row of a tile, which `matrix_load` takes at once."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a subgroup's products. Index `lines` (a row of the left factor, a column of the right one) counts from the subgroup's
    first; `depth_dimension` is the dimension of the index along which products are summed."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    lines: int
    depth_dimension: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """A thread's products as tiles of its subgroup: sums[row][column] are the thread's, of rows 8 apart and of column pairs 8 apart."""

    left: Factor
    right: Factor
    sums: tuple[tuple[Product, ...], ...]


def emit_matrix(statements: Statements, s: For) -> bool:
    """Emits a loop as matrix-unit instructions; False where it does not fit."""
    threads, extent = statements.threads, statements.extent
    trips = ix.constant_value(ix.canonical(ix.sub(s.high, s.low)))
    if threads is None or extent[:2] != (ALONG_X, ALONG_Y) or s.step != 1:
        return False
    tiles = tiles_of(s, (threads[0], threads[1]), statements.meanings)
    if tiles is None:
        return False
    writer = _Writer(statements, s, tiles, (threads[0], threads[1]))
    if trips is None or trips % DEPTH:
        writer.write_rest()
    else:
        writer.write(trips)
    return True


def tiles_of(s: For, lanes: tuple[Var, Var], meanings: Mapping[Node, Expr]) -> Tiles | None:
    """Tiles of a loop's products, or None unless the thread at these indices has the sums that the instructions assign to it."""
    (x, y), sums = lanes, dict[tuple[tuple[Expr, ...], tuple[Expr, ...]], Product]()
    rows, columns, buffers = (
        dict[tuple[Expr, ...], None](),
        dict[tuple[Expr, ...], None](),
        set[tuple[Buffer, Buffer]](),
    )
    for product in products_of(s) or ():
        first, second = ([_meaning(i, meanings) for i in read.indices] for read in (product.first, product.second))
        left, right, reads = first, second, (product.first.buffer, product.second.buffer)
        if any(y in free_variables(i) for i in second):
            left, right, reads = second, first, (reads[1], reads[0])
        rows[tuple(left)] = columns[tuple(right)] = None
        sums[tuple(left), tuple(right)] = product
        buffers.add(reads)
    if len(buffers) != 1 or len(sums) != len(rows) * len(columns):
        return None
    ((left_buffer, right_buffer),) = buffers
    left, row_offsets = _factor(left_buffer, list(rows), s.var, y, 1)
    right, column_offsets = _factor(right_buffer, list(columns), s.var, x, 2)
    if left is None or right is None:
        return None
    across, down = sorted(column_offsets), sorted(row_offsets)
    pairs = [k // 2 * COLUMNS + k % 2 for k in range(len(across))]
    if len(down) % 2 or len(across) % 2 or down != [k * ALONG_Y for k in range(len(down))] or across != pairs:
        return None
    ordered = tuple(tuple(sums[row_offsets[i], column_offsets[j]] for j in across) for i in down)
    return Tiles(left, right, ordered)


def _factor(
    buffer: Buffer, accesses: Sequence[tuple[Expr, ...]], step: Var, lane: Var, by: int
) -> tuple[Factor | None, dict[int, tuple[Expr, ...]]]:
    """A factor whose lines a thread reaches at its index times `by`, and each of the thread's accesses by its line offset from the first."""
    found: dict[int, tuple[Expr, ...]] = {}
    terms = [ix.linear(i)[1] for i in accesses[0]]
    lines = [d for d, each in enumerate(terms) if each.get(lane) == by]
    depths = [d for d, each in enumerate(terms) if each.get(step) == 1]
    if len(lines) != 1 or len(depths) != 1 or lines == depths:
        return None, found
    for indices in accesses:
        gaps = [ix.constant_value(ix.canonical(ix.sub(a, b))) for a, b in zip(indices, accesses[0], strict=True)]
        offset = gaps[lines[0]]
        if offset is None or any(gap != 0 for d, gap in enumerate(gaps) if d != lines[0]):
            return None, found
        found[offset] = indices
    first = min(found)
    found = {offset - first: indices for offset, indices in found.items()}
    return Factor(buffer, found[0], lines[0], depths[0]), found


def _meaning(e: Any, meanings: Mapping[Node, Expr]) -> Expr:
    return ix.canonical(substitute(e, dict(meanings)))


class _Writer:
    """Emits the instructions of one loop."""

    def __init__(self, statements: Statements, s: For, tiles: Tiles, lanes: tuple[Var, Var]) -> None:
        self.statements, self.unit, self.s, self.tiles = statements, statements.unit, s, tiles
        self.x, self.y = lanes
        self.low = _meaning(s.low, statements.meanings)
        self.word = 4 // tiles.left.buffer.dtype.itemsize  # elements of a word
        self.half = ROW // tiles.left.buffer.dtype.itemsize  # steps of a tile, of which an instruction takes two
        rows, columns = len(tiles.sums) // 2, len(tiles.sums[0]) // 2
        self.left = self._words("left", 4 * rows)
        self.right = self._words("right", 2 * columns)
        self.depth: Var | None = None  # that there are, where these are fewer than an instruction takes
        self.masks: list[Any] = []  # of a word of the first and one of the second half of an instruction's steps

    def _words(self, name: str, count: int) -> Any:
        made = T.flat_buffer(self.unit.fresh_name(name), u32, count, scope="local")
        self.unit.out.append(T.AllocBuffer(made))
        return made

    def write(self, trips: int) -> None:
        """Emits the instructions for `trips` iterations."""
        rows, columns = len(self.tiles.sums) // 2, len(self.tiles.sums[0]) // 2
        for step in range(0, trips, 2 * self.half):
            self._name_masks(step)
            for j in range(0, columns, 2):
                self._load_right(j, min(2, columns - j), step)
            for i in range(rows):
                self._load_left(i, step)
                for j in range(columns):
                    self._multiply(i, j)

    def write_rest(self) -> None:
        """Emits the instructions for a loop of fewer than `DEPTH` iterations, if it has any."""
        unit, statements = self.unit, self.statements
        self.depth = fresh("steps", i64)
        statements.block([Let(self.depth, ix.sub(self.s.high, self.s.low))])
        outer = unit.block()
        self.write(DEPTH)
        body = unit.end_block(outer)
        some = statements.values.scalar(Op("lt", bool_, (ix.as_index(0), self.depth)))
        unit.out.append(T.IfThenElse(condition(some), body, None))

    def _name_masks(self, step: int) -> None:
        """Binds the bit masks of a thread's words in an instruction that begins at a step."""
        self.masks = []
        if self.depth is None:
            return
        for half in range(2):
            left = ix.sub(ix.sub(self.depth, step + half * self.half), ix.mul(self.x, self.word))
            mask: Expr = const(u32, 0)
            for element in range(self.word):
                bits = (1 << 32 // self.word * (element + 1)) - 1
                there = Op("lt", bool_, (ix.as_index(element), left))
                mask = Op("select", u32, (there, const(u32, bits), mask))
            self.masks.append(self.unit.bind("mask", u32, tir(self.statements.values.scalar(mask), u32)))

    def _masked(self, words: Any, word: int, half: int) -> None:
        """Masks a word to the elements of existing steps."""
        if self.masks:
            self.unit.put(words, operation("bit_and", u32, load(words, word), self.masks[half]), word)

    def _inside(self, step: int, further: Expr, together: int) -> Expr:
        """Step `further` (relative to `step`) clamped to an existing one, for a load of `together` steps; clamped loads are masked later."""
        if self.depth is None:
            return further
        step_number = ix.minimum(ix.add(further, step), ix.sub(self.depth, 1))
        return ix.sub(ix.mul(ix.floordiv(step_number, together), together), step)

    def _multiply(self, i: int, j: int) -> None:
        sums = []
        for row, column in ((2 * i, 2 * j), (2 * i, 2 * j + 1), (2 * i + 1, 2 * j), (2 * i + 1, 2 * j + 1)):
            product = self.tiles.sums[row][column]
            self.statements.values.prepare(*product.indices)
            held, offset = self.statements.values.element(product.buffer, product.indices)
            sums.append(load(held.buffer, offset))
        words = [load(self.left, 4 * i + k) for k in range(4)] + [load(self.right, 2 * j + k) for k in range(2)]
        dtype = self.tiles.left.buffer.dtype.name if self.word > 1 else "tf32"
        self.unit.out.append(T.Evaluate(operation(f"matrix_multiply_{dtype}", i32, *sums, *words)))

    # --- factors

    def _load_left(self, i: int, step: int) -> None:
        """Loads the words of 16 rows: of rows 0 to 7 and 8 to 15 for the first half of the steps, then for the second."""
        factor, half = self.tiles.left, ix.mul(ix.floordiv(self.y, 4), self.half)
        element = self._element(factor, ROWS * i, step)
        if _contiguous(factor.buffer, factor.depth_dimension):
            row = ix.add(ix.mul(ix.mod(self.y, 4), 4), self.x)
            at = element({self.y: row}, self._inside(step, half, self.half))
            transposed = False
        else:
            line = ix.mul(ix.mod(ix.floordiv(self.y, 2), 2), ALONG_Y)
            further = ix.add(ix.add(ix.mul(ix.mod(self.y, 2), 4), self.x), half)
            at = element({self.y: line}, self._inside(step, further, 1))
            transposed = True
        if self._is_aligned(factor, at, factor.lines if transposed else factor.depth_dimension):
            self._load(self.left, 4 * i, 4, transposed, factor, at)
            for k in range(4):
                self._masked(self.left, 4 * i + k, k // 2)
            return
        for k in range(4):
            first = ix.add(ix.mul(self.x, self.word), k // 2 * self.half)
            self._pack(
                self.left,
                4 * i + k,
                factor,
                [
                    self._element(factor, ROWS * i + k % 2 * ALONG_Y, step)({}, ix.add(first, e))
                    for e in range(self.word)
                ],
                ix.add(first, step),
            )

    def _load_right(self, j: int, tiles: int, step: int) -> None:
        """Loads the words of one or two tiles of 8 columns: each for the first half of the steps, then for the second."""
        factor, further = self.tiles.right, ix.mul(ix.floordiv(self.y, 4), COLUMNS if tiles == 2 else 0)
        element = self._element(factor, COLUMNS * j, step)
        transposed = not _contiguous(factor.buffer, factor.depth_dimension)
        none = ix.as_index(0)
        if transposed:
            row = ix.add(ix.mul(ix.mod(self.y, 4), 4), self.x)
            at = element({self.x: none}, self._inside(step, row, 1), further)
        else:
            line = ix.add(ix.add(ix.mul(ix.mod(self.y, 2), 4), self.x), further)
            half = ix.mul(ix.mod(ix.floordiv(self.y, 2), 2), self.half)
            at = element({self.x: none}, self._inside(step, half, self.half), line)
        if self._is_aligned(factor, at, factor.lines if transposed else factor.depth_dimension):
            self._load(self.right, 2 * j, 2 * tiles, transposed, factor, at)
            for k in range(2 * tiles):
                self._masked(self.right, 2 * j + k, k % 2)
            return
        for k in range(2 * tiles):
            first = ix.add(ix.mul(self.x, self.word), k % 2 * self.half)
            line = self._element(factor, COLUMNS * (j + k // 2), step)
            self._pack(
                self.right,
                2 * j + k,
                factor,
                [line({self.x: none}, ix.add(first, e), self.y) for e in range(self.word)],
                ix.add(first, step),
            )

    def _element(self, factor: Factor, line: int, step: int) -> Any:
        """A function that returns an element's indices: with substitutes for the thread's index, at a step and a line offset."""

        def indices(lanes: Mapping[Node, Expr], further_step: Expr, further_line: Expr | int = 0) -> tuple[Expr, ...]:
            found = []
            for d, i in enumerate(factor.indices):
                if d == factor.lines:
                    i = ix.add(ix.add(substitute(i, dict(lanes)), line), further_line)
                elif d == factor.depth_dimension:
                    i = substitute(i, {self.s.var: ix.add(ix.add(self.low, step), further_step)})
                found.append(ix.canonical(i))
            return tuple(found)

        return indices

    def _is_aligned(self, factor: Factor, at: Sequence[Expr], contiguous: int) -> bool:
        """Whether the 16 bytes of adjacent elements at `at` are in shared memory, at a multiple of 16 bytes."""
        if factor.buffer.scope != "shared" or self.statements.forms.get(factor.buffer, "plain") != "plain":
            return False
        if self.word == 1 and contiguous != factor.depth_dimension:
            return False
        if self.depth is not None and (ix.constant_value(factor.buffer.shape[factor.depth_dimension]) or 1) % self.half:
            return False  # the last of what is loaded together may lie behind the factor
        for d, stride in enumerate(strides_of(factor.buffer)):
            by = ix.constant_value(stride)
            if by is None or (d == contiguous) != (by == 1) or (d != contiguous and by % self.half):
                return False
        constant, terms = ix.linear(at[contiguous])
        return constant % self.half == 0 and all(c % self.half == 0 for c in terms.values())

    def _load(self, words: Any, first: int, count: int, transposed: bool, factor: Factor, at: tuple[Expr, ...]) -> None:
        values = self.statements.values
        values.prepare(*at)
        held, offset = values.element(factor.buffer, at)
        flags = (T.IntImm("int32", count), T.IntImm("int32", int(transposed)))
        into = (load(words, first + k) for k in range(count))
        address = T.address_of(load(held.buffer, offset))
        self.unit.out.append(T.Evaluate(operation("matrix_load", i32, *flags, address, *into)))

    def _pack(self, words: Any, word: int, factor: Factor, pair: Sequence[tuple[Expr, ...]], first: Expr) -> None:
        """Packs two elements into a word, the earlier step in its lower half; a 32-bit element is a word itself."""
        values, dtype, reads = self.statements.values, factor.buffer.dtype, list[Read]()
        for element, at in enumerate(pair):
            there = None if self.depth is None else Op("lt", bool_, (ix.add(first, element), self.depth))
            reads.append(Read(factor.buffer, at, there))
        if len(reads) == 1:
            (element,) = values.prepare(*reads)
            self.unit.put(words, operation("bitcast", u32, tir(element, dtype)), word)
            return
        low, high = values.prepare(*reads)
        upper = operation("shift_left", u32, to_word(dtype, high), T.IntImm("uint32", 16))
        self.unit.put(words, operation("bit_or", u32, to_word(dtype, low), upper), word)


def _contiguous(buffer: Buffer, dimension: int) -> bool:
    """Whether a buffer has stride 1 along a dimension."""
    return ix.constant_value(strides_of(buffer)[dimension]) == 1
