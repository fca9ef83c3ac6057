"""The tree of loops of a stencil computed in register tiles of several rows, built from its access maps alone, without a nest.

Indices are affine functions of the stage's axes; boundary conditions count as their interior. Reads of one array with equal coefficients
are one box, as tall as the rows that they span. Neighbouring rows share loaded values as far as registers hold them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add

from raido.algo.graph import index
from raido.algo.graph.expr import Expr, Op, Var
from raido.schedule.cost.affine import Form, form_of
from raido.schedule.cost.estimate import cycles_of
from raido.schedule.cost.tree import ACCESSES, Loop
from raido.schedule.machine import Machine

VECTOR = ACCESSES.index("vector")
Indices = tuple["Expr | None", ...]
Affine = tuple[int, tuple[tuple[Var, int], ...]]  # a constant, and the coefficient of each variable


@dataclass(slots=True)
class Reads:
    """The reads of one array whose indices have equal coefficients.

    motion: the coefficients of each dimension's index, as (variable, coefficient) pairs. offsets: the constants of the indices, a tuple for
    each read. each: bytes of an element; of a stage inlined into its readers, operations of an element.
    """

    array: str
    each: int
    motion: tuple[tuple[tuple[Var, int], ...], ...]
    offsets: set[tuple[int, ...]] = field(default_factory=set)


@dataclass(slots=True)
class Work:
    """The work of an element of a stencil, or of several stencils fused into the same loops.

    axes: the variables of the axes with their extents; rows run along the last but one. stored: bytes of each stored value. operations: of
    an element, without inlined stages. far: whether some input comes from memory or from other threads. apart: whether threads take rows in
    turn, so that a row's cache lines are not reused by the next. reads: of arrays. inlined: reads of stages inlined here.
    """

    axes: tuple[tuple[Var, int], ...]
    stored: tuple[int, ...] = ()
    operations: int = 0
    far: bool = False
    apart: bool = False
    reads: dict[object, Reads] = field(default_factory=dict)
    inlined: dict[object, Reads] = field(default_factory=dict)

    def lanes(self, machine: Machine) -> int:
        """Returns the lanes of the loops: a register of the widest elements."""
        return machine.lanes(8 * max((*self.stored, *(reads.each for reads in self.reads.values()))))

    def add_reads(self, array: str, points: Iterable[Indices], own: Mapping[Var, Var], itemsize: int) -> bool:
        """Adds the reads of an array; `own` maps its variables to this work's. Returns False, and adds none, unless all are affine."""
        return _group(self.reads, array, points, own, itemsize)

    def add_inlined(self, array: str, points: Iterable[Indices], own: Mapping[Var, Var], operations: int) -> bool:
        """Adds the reads of an inlined stage. Returns False, and adds none, unless all are affine."""
        return _group(self.inlined, array, points, own, operations)


def _group(
    found: dict[object, Reads], array: str, points: Iterable[Indices], own: Mapping[Var, Var], each: int
) -> bool:
    affine = [[None if e is None else affine_of(e, own) for e in point] for point in points]
    if any(index is None for point in affine for index in point):
        return False
    for point in filter(None, affine):  # a scalar stays in a register
        motion = tuple(terms for _, terms in point)  # type: ignore[misc]
        group = found.setdefault((array, motion), Reads(array, each, motion))
        group.offsets.add(tuple(constant for constant, _ in point))  # type: ignore[misc]
    return True


def affine_of(e: Expr, own: Mapping[Var, Var]) -> Affine | None:
    """Returns an index as an affine function, boundary conditions dropped and variables renamed by `own`; None where it is not affine."""
    constant, atoms = index.linear(e)
    terms: dict[Var, int] = {}
    for atom, factor in atoms.items():
        if isinstance(atom, Var):
            var = own.get(atom, atom)
            terms[var] = terms.get(var, 0) + factor
        elif isinstance(atom, Op) and atom.name in index.BOUNDARY_OPS and (inner := affine_of(atom.args[0], own)):
            constant += factor * inner[0]
            for var, stride in inner[1]:
                terms[var] = terms.get(var, 0) + factor * stride
        else:
            return None
    return constant, tuple(terms.items())


def description(work: Work) -> Hashable:
    """Returns a key of all that the cycles of a stage depend on, equal for stages that differ in the names of arrays and axes alone."""
    numbers: dict[object, int] = {}
    number = lambda each: numbers.setdefault(each, len(numbers))
    extents = tuple((number(var), extent) for var, extent in work.axes)
    reads = tuple(
        tuple(
            (
                number(reads.array),
                reads.each,
                tuple(tuple((number(var), factor) for var, factor in terms) for terms in reads.motion),
                frozenset(reads.offsets),
            )
            for reads in found.values()
        )
        for found in (work.reads, work.inlined)
    )
    return extents, work.stored, work.operations, work.far, work.apart, reads


class Rows:
    """Estimates of a stage's cycles for different heights of its register tile."""

    def __init__(self, work: Work, machine: Machine) -> None:
        self.work, self.machine = work, machine
        sizes = dict(work.axes)
        numbers = {var: number for number, (var, _) in enumerate(work.axes, 1)}
        self.row = work.axes[-2][0]
        self.lanes = work.lanes(machine)
        self.shared = fits_registers(work.reads.values(), machine)
        self.own = tuple(_form(((var, 1),), numbers) for var, _ in work.axes)
        own_shape = tuple(float(extent) for _, extent in work.axes)
        self.shapes: dict[object, tuple[float, ...]] = dict.fromkeys(range(len(work.stored)), own_shape)
        self.boxes: list[tuple[Reads, tuple[Form, ...], list[float], list[float], list[int]]] = []
        for reads in work.reads.values():
            forms = tuple(_form(terms, numbers) for terms in reads.motion)
            self.shapes.setdefault(reads.array, tuple(_extent(terms, sizes) for terms in reads.motion))
            low, high = ([float(ends(each)) for each in zip(*reads.offsets, strict=True)] for ends in (min, max))
            self.boxes.append((reads, forms, low, high, _strides(reads, self.row)))

    def cycles(self, rows: int, streamed: bool) -> float:
        """Returns the cycles of the stage with a register tile of `rows` rows; `streamed`: with non-temporal stores."""
        work, machine = self.work, self.machine
        root = Loop(0, "root", None, host=True)
        middles, inner = [0.0], root
        for var, extent in work.axes:
            stride = rows if var is self.row else 1
            trips = -(-extent // stride)
            inner.loops.append(Loop(len(middles), "serial", inner, trips, trips, (trips - 1) * stride))
            (inner,) = inner.loops
            middles.append(inner.span / 2)
        inner.kind, inner.lanes, inner.runs_of_body = "vector", self.lanes, math.ceil(work.axes[-1][1] / self.lanes)
        again = sum(reads.each * _made(reads, self.row, rows, self.shared) for reads in work.inlined.values())
        inner.cycles = 0.5 * (rows * work.operations + again) * machine.vector_bits / 256
        inner.loads[VECTOR] = sum(_made(reads, self.row, rows, self.shared) for reads in work.reads.values())
        inner.stores[VECTOR] = rows * len(work.stored)
        for reads, forms, low, first, strides in self.boxes:
            high = [end + (rows - 1) * stride for end, stride in zip(first, strides, strict=True)]
            tall = math.prod(b - a + 1 for a, b in zip(low[:-1], high[:-1], strict=True))
            inner.add_box(reads.array, reads.each, forms, (low, high), tall, stored=False, streamed=False)
        end = [0.0] * (len(self.own) - 2) + [rows - 1.0, 0.0]
        for k, size in enumerate(work.stored):
            inner.add_box(k, size, self.own, ([0.0] * len(end), end), rows, stored=True, streamed=streamed)
        return cycles_of(root, machine, middles, self.shapes.__getitem__, work.far, work.apart)


def fits_registers(values: Iterable[Reads], machine: Machine) -> bool:
    """Whether vector registers hold all values that a row reads, so that the next row finds them there."""
    return sum(len(reads.offsets) for reads in values) <= machine.registers


def values_of(work: Work, rows: int) -> int:
    """Returns the number of distinct array elements that a tile of `rows` rows reads for each column."""
    return sum(_made(reads, work.axes[-2][0], rows, True) for reads in work.reads.values())


def _made(reads: Reads, row: Var, rows: int, shared: bool) -> int:
    """Returns the number of distinct elements that a tile of `rows` rows reads; without `shared`, each row counts for itself."""
    if not shared:
        return rows * len(reads.offsets)
    strides = _strides(reads, row)
    moved = [[k * stride for stride in strides] for k in range(rows)]
    return len({tuple(map(add, offset, by)) for offset in reads.offsets for by in moved})


def _strides(reads: Reads, row: Var) -> list[int]:
    """Returns by how much the index in each dimension advances from row to row."""
    return [dict(terms).get(row, 0) for terms in reads.motion]


def _form(terms: Sequence[tuple[Var, int]], numbers: Mapping[Var, int]) -> Form:
    return form_of(0.0, {numbers[var]: float(factor) for var, factor in terms if var in numbers}, 0)


def _extent(terms: Sequence[tuple[Var, int]], sizes: Mapping[Var, int]) -> float:
    return 1.0 + sum(abs(factor) * (sizes.get(var, 1) - 1) for var, factor in terms)
