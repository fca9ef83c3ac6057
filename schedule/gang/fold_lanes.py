"""Reductions over a vectorised axis: a partial result for each lane of each gang, and their combination.

The partial results live around the outermost statement in which the accumulator is only folded into, so that they persist through serial
loops over other parts of the reduction. They start as the neutral element. In the end the gangs are combined pairwise, then the lanes (lane
k with lane k + n/2, and so on), and the result is folded into the accumulator: a fixed tree, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from raido.algo.graph.expr import Expr, Node, Var
from raido.algo.graph.rewrite import free_variables, substitute, topological
from raido.schedule.gang.lanes import shared_parts, widen
from raido.schedule.gang.values import Partial
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.effects import bound_within, buffers_read, is_scan, writes, written
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, Let, Statement, Store
from raido.schedule.nest.values import (
    Buffer,
    Extract,
    LaneFold,
    NestExpr,
    Read,
    Splat,
    VectorVar,
    elements_of,
    indices_of,
)
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within

_LARGEST = 64  # elements of a buffer, each with a partial result of its own


@dataclass(frozen=True)
class Reduction:
    """A fold by lanes inside some statement, whose steps all agree on everything but the values."""

    fold: Fold
    lanes: int
    gangs: int
    indices: tuple[tuple[Expr, ...], ...]
    element: tuple[NestExpr, ...] | None


def find_reductions(
    statement: Statement,
    describe: Callable[[For], tuple[Variability, int, int]],
    active: set[Buffer],
) -> list[Reduction]:
    """The reductions by lanes inside `statement` whose partial results can live around it. describe: the
    variability, lanes and gangs of a loop."""
    if isinstance(statement, For) and statement.kind == "parallel":
        return []
    found: dict[tuple[Buffer, ...], list[tuple[Fold, int, int]]] = {}
    for loop in _vector_loops(statement):
        info, lanes, gangs = describe(loop)
        if lanes == 1:
            continue
        for s in statements_within(loop.body):
            if not isinstance(s, Fold) or is_scan(s):
                continue
            if not info.varies(*s.indices) and info.private.isdisjoint(s.buffers):
                found.setdefault(s.buffers, []).append((s, lanes, gangs))
    if not found:
        return []
    bound, touched = bound_within(statement), _touched_otherwise(statement)
    reductions = []
    for buffers, folds in found.items():
        first = folds[0][0]
        usable = not any(b in active or b in touched or b in bound for b in buffers) and _agree(folds, bound)
        same_element = len({f.indices for f, _, _ in folds}) == 1 and free_variables_of(*first.indices).isdisjoint(
            bound
        )
        same_element &= not any(isinstance(n, Read) for e in first.indices for n in topological(e))
        if not usable or not (same_element or _elements(buffers[0])):
            continue
        gangs = max(g for _, _, g in folds)
        element = first.indices if same_element else None
        indices = ((),) if same_element else tuple(_elements(buffers[0]))
        reductions.append(Reduction(first, folds[0][1], gangs, indices, element))
    return reductions


def _agree(folds: list[tuple[Fold, int, int]], bound: set[Node]) -> bool:
    """Whether folds written with different operand variables have the same operator."""
    first, lanes, _ = folds[0]
    if not (free_variables_of(*first.combine, *first.neutral) - set(first.left) - set(first.right)).isdisjoint(bound):
        return False
    for fold, n, _ in folds:
        names = dict(zip(fold.left + fold.right, first.left + first.right, strict=True))
        same = fold.combine == first.combine or tuple(substitute(e, names) for e in fold.combine) == first.combine
        if not same or n != lanes or fold.neutral != first.neutral:
            return False
    return True


def free_variables_of(*expressions: NestExpr) -> set[Var]:
    """The variables in any of the expressions."""
    return set().union(*(free_variables(e) for e in expressions))


def _vector_loops(statement: Statement) -> Iterator[For]:
    """The vector loops that partial results around `statement` may serve: none inside a parallel loop."""
    if isinstance(statement, For) and statement.kind == "vector":
        yield statement
        return
    if isinstance(statement, For) and statement.kind == "parallel":
        return
    if isinstance(statement, Block):
        for s in statement.statements:
            yield from _vector_loops(s)
    for block in blocks_of(statement):
        yield from _vector_loops(block)


def _touched_otherwise(statement: Statement) -> set[Buffer]:
    """Buffers that statements other than folds read or write, or that parallel loops change."""
    found: set[Buffer] = set()
    for s in statements_within(statement):
        if not isinstance(s, Fold) or is_scan(s):
            found.update(w.buffer for w in writes(s))
        if isinstance(s, For) and s.kind == "parallel":
            found |= written(s.body)
        found |= buffers_read(expressions_of(s))
    return found


def _elements(buffer: Buffer) -> list[tuple[Expr, ...]]:
    """Every index of a buffer of constant shape with at most `_LARGEST` elements; [] for others."""
    count = elements_of(buffer) if buffer.scope in ("register", "stack") else None
    return [] if count is None or count > _LARGEST else list(indices_of(buffer))


def make_partials(r: Reduction) -> tuple[list[Statement], dict[Buffer, Partial]]:
    """Allocates and initialises the partial results; returns the statements, and the partial results by accumulator."""
    statements: list[Statement] = []
    partials: dict[Buffer, Partial] = {}
    for buffer, neutral in zip(r.fold.buffers, r.fold.neutral, strict=True):
        shape = () if r.element is not None else buffer.shape
        scope = "register" if r.element is not None else buffer.scope
        made = tuple(
            Buffer(f"{buffer.name}_lanes{g}", buffer.dtype, shape, scope, buffer.serial, (), r.lanes, None)
            for g in range(r.gangs)
        )
        partials[buffer] = Partial(made, r.element is None)
        for b in made:
            statements.append(Alloc(b))
            statements += [Store(b, index, Splat(neutral, r.lanes)) for index in r.indices]
    return statements, partials


def combine_partials(r: Reduction, partials: dict[Buffer, Partial], serials: Iterator[int]) -> list[Statement]:
    """The statements that combine the lanes' partial results into the accumulators; `serials` make names unique."""
    out: list[Statement] = []
    fold = r.fold

    def merge(a: tuple[NestExpr, ...], b: tuple[NestExpr, ...], lanes: int) -> tuple[NestExpr, ...]:
        operands = dict(zip(fold.left + fold.right, a + b, strict=True))
        values = tuple(widen(e, operands, lanes) if lanes > 1 else substitute(e, operands) for e in fold.combine)
        parts = {part: name("part", part, lanes) for part in shared_parts(values)}
        values = tuple(substitute(value, parts) for value in values)
        return tuple(name("both", value, lanes) if lanes > 1 else keep(value) for value in values)

    def keep(value: NestExpr) -> NestExpr:
        """Puts a scalar of the tree into a register: code generators that look through names would otherwise duplicate the whole tree."""
        b = Buffer("both", value.dtype, (), "register", -next(serials), (), 1, None)
        out.extend((Alloc(b), Store(b, (), value)))
        return Read(b, (), None)

    def name(stem: str, value: NestExpr, lanes: int) -> NestExpr:
        serial = next(serials)
        var = VectorVar(stem, value.dtype, lanes, serial) if lanes > 1 else Var(stem, value.dtype, -serial)
        out.append(Let(var, value))
        return var

    for index in r.indices:
        groups: list[tuple[NestExpr, ...]] = [
            tuple(Read(partials[b].buffers[g], index, None) for b in fold.buffers) for g in range(r.gangs)
        ]
        (vectors,) = _tree(groups, lambda a, b: merge(a, b, r.lanes))
        if len(vectors) == 1 and fold.monoid and r.lanes & (r.lanes - 1) == 0:
            total: tuple[NestExpr, ...] = (LaneFold(fold.monoid, vectors[0]),)
        else:
            lanes = [tuple(Extract(v, lane) for v in vectors) for lane in range(r.lanes)]
            (total,) = _tree(lanes, lambda a, b: merge(a, b, 1))
        element = index if r.element is None else r.element
        before = tuple(Read(b, element, None) for b in fold.buffers)
        result = merge(before, total, 1)
        out += [Store(b, element, value) for b, value in zip(fold.buffers, result, strict=True)]
    return out


def _tree(values: list[tuple[NestExpr, ...]], merge: Callable[..., tuple[NestExpr, ...]]) -> list[tuple[NestExpr, ...]]:
    """Combines by halves: value k with value k + n/2; an odd one out is carried over."""
    while len(values) > 1:
        half = len(values) // 2
        rest = values[2 * half :]
        values = [merge(a, b) for a, b in zip(values[:half], values[half : 2 * half], strict=True)] + rest
    return values
