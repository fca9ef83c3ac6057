"""Static detection of races between iterations of parallel loops.

Two iterations of a parallel loop may write one element of shared memory only where the result does not depend on their order:

    atomic    every write of the loop to that buffer is an atomic update
    ordered   every one is in the loop's ordered section, or a carry from block to block
    apart     an iteration writes other elements than every other iteration: some index differs
    certified a strategy promises that they are apart (`Certificate`), though indices do not show it

"Apart" is proved by intervals. The loop's variable is taken at two iterations; loops inside range over their bounds. No element is written
twice where the interval of some index at the first iteration ends before that at the second begins; nor where that holds of the index's
remainder modulo the step of a loop inside, and the remainders span less than the step. A variable that is divided (of fused loops) is
replaced by its quotient and remainder, for each of which some index must differ.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, Interval, interval_of_all
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Node, Op, Var, fresh
from raido.algo.graph.rewrite import free_variables, substitute, topological
from raido.schedule.nest.effects import Access, bound_within, reads_memory, writes
from raido.schedule.nest.nodes import Block, Carry, For, If, Let, Nest, Ordered, Statement
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.nest.walk import blocks_of

_Index = tuple[Expr, ...] | None


@dataclass(frozen=True, slots=True)
class Race:
    """A parallel loop of which two iterations may write one element of a buffer."""

    loop: For
    buffer: Buffer

    def __str__(self) -> str:
        stage = f' of "{self.loop.stage}"' if self.loop.stage else ""
        return f"two iterations of parallel {self.loop.var.name}{stage} may write one element of {self.buffer.name}"


def find_races(nest: Nest) -> Iterator[Race]:
    """Yields the races of a scalar nest."""
    yield from _races_in(nest.body, {}, {})


def _races_in(s: Statement, known: Mapping[Node, Expr], around: Mapping[Var, Interval]) -> Iterator[Race]:
    """Yields the races in a statement, given the values of variables, and the ranges of the loops, around it."""
    if isinstance(s, For) and s.kind == "parallel":
        yield from _races_of(s, known, around)
    if isinstance(s, For):
        around = {**around, s.var: (substitute(s.low, known), ix.sub(substitute(s.high, known), 1))}
    inner = dict(known)
    for each in s.statements if isinstance(s, Block) else blocks_of(s):
        _learn(each, inner)
        yield from _races_in(each, inner, around)


def _learn(s: Statement, known: dict[Node, Expr]) -> None:
    """Records the value of an index variable that a statement binds."""
    if isinstance(s, Let) and isinstance(s.var, Var) and s.var.dtype is i64 and not reads_memory(s.value):
        known[s.var] = substitute(s.value, known)


def _races_of(loop: For, known: Mapping[Node, Expr], around: Mapping[Var, Interval]) -> Iterator[Race]:
    survey = _Survey(loop.alone)
    survey.visit(loop.body, dict(known), (), ordered=False)
    certified = {buffer for certificate in loop.certificates for buffer in certificate.buffers}
    own = bound_within(loop.body)
    for buffer, found in survey.writes.items():
        together = all(write.atomic for write, _ in found) or all(ordered for _, ordered in found)
        if buffer in own or buffer in certified or together:
            continue
        coordinates = [None if w.indices is None else tuple(map(ix.as_index, w.indices)) for w, _ in found]
        if _has_own(coordinates, loop.var):
            continue
        if not _Apart(loop, known, around, survey, own).holds(coordinates):
            yield Race(loop, buffer)


def _has_own(coordinates: Sequence[_Index], var: Var) -> bool:
    """Whether one index of all writes is the loop variable itself, the common case."""
    first = coordinates[0] or ()
    return any(all(index is not None and index[d] is var for index in coordinates) for d in range(len(first)))


@dataclass(slots=True)
class _Survey:
    """The writes in the body of a loop, by buffer, in terms of loop variables, and the ranges of the loops inside.

    `alone`: the variable that is true if one thread runs the loop, so that its writes are in order.
    """

    alone: Var | None = None
    writes: dict[Buffer, list[tuple[Access, bool]]] = field(default_factory=dict)
    ranges: dict[Var, Interval] = field(default_factory=dict)
    strides: dict[Node, Expr] = field(default_factory=dict)

    def visit(self, s: Statement, known: dict[Node, Expr], holds: tuple[Expr, ...], ordered: bool) -> None:
        """Collects the writes of a statement, given the values of variables around it, and expressions (`holds`) that are at least
        0 there.
        """
        for write in writes(s):
            indices = write.indices and tuple(substitute(i, known) for i in write.indices)
            access = Access(write.buffer, indices, atomic=write.atomic)
            self.writes.setdefault(write.buffer, []).append((access, ordered or isinstance(s, Carry)))
        if isinstance(s, For):
            self._enter(s, known, holds)
        inner = dict(known)
        for each in s.statements if isinstance(s, Block) else blocks_of(s):
            _learn(each, inner)
            here = holds
            if isinstance(s, If):
                here += tuple(_nonnegative(substitute(s.condition, known), each is s.then))
            alone = isinstance(s, If) and each is s.then and self._is_alone(s.condition)
            self.visit(each, inner, here, ordered or alone or isinstance(s, Ordered))

    def _is_alone(self, condition: NestExpr) -> bool:
        """Whether a condition implies that one thread runs the loop."""
        if isinstance(condition, Op) and condition.name == "logical_and":
            return any(map(self._is_alone, condition.args))
        return condition is self.alone

    def _enter(self, loop: For, known: dict[Node, Expr], holds: tuple[Expr, ...]) -> None:
        """Records the range of a loop inside, tightened by `holds`, and its variable in terms of an iteration number."""
        low, last = substitute(loop.low, known), ix.sub(substitute(loop.high, known), 1)
        for e in holds:
            for part in _parts(last):
                last = ix.minimum(last, ix.add(part, e)) if _meets(part, e, 1) else last
            low = ix.maximum(low, ix.sub(low, e)) if _meets(low, e, -1) else low
        self.ranges[loop.var] = (low, last)
        if loop.step > 1:
            number = fresh("number")
            self.ranges[number] = (ix.as_index(0), _quotient(ix.sub(last, low), loop.step))
            self.strides[loop.var] = ix.add(low, ix.mul(number, loop.step))


def _nonnegative(condition: Expr, holds: bool) -> Iterator[Expr]:
    """Yields expressions that are at least 0 if a condition holds, or does not."""
    if not isinstance(condition, Op):
        return
    if condition.name == "logical_and" and holds:
        for part in condition.args:
            yield from _nonnegative(part, holds)
    elif condition.name in ("lt", "le") and condition.args[0].dtype is i64 and not reads_memory(condition):
        gap = ix.sub(condition.args[1], condition.args[0])
        least = int(condition.name == "lt")
        yield ix.sub(gap, least) if holds else ix.sub(ix.sub(least, gap), 1)


def _quotient(e: Expr, k: int) -> Expr:
    """Returns e // k, with a minimum as the minimum of quotients, since each is a bound by itself."""
    first, *others = (ix.floordiv(part, k) for part in _parts(e))
    return functools.reduce(ix.minimum, others, first)


def _parts(e: Expr) -> list[Expr]:
    """Returns the operands of an expression that is a minimum (plus other terms); else the expression itself."""
    for atom, c in ix.linear(e)[1].items():
        if c == 1 and isinstance(atom, Op) and atom.name == "minimum":
            return [part for a in atom.args for part in _parts(ix.add(ix.sub(e, atom), a))]
    return [e]


def _meets(bound: Expr, e: Expr, sign: int) -> bool:
    """Whether adding a multiple of `e` cancels an atom of a bound, or the bound is a constant."""
    terms, atoms = ix.linear(e)[1], ix.linear(bound)[1]
    return not atoms or any(c + sign * terms.get(atom, 0) == 0 for atom, c in atoms.items())


class _Apart:
    """A proof that iterations of a loop write different elements."""

    def __init__(
        self,
        loop: For,
        known: Mapping[Node, Expr],
        around: Mapping[Var, Interval],
        survey: _Survey,
        own: set[Node],
    ) -> None:
        self.around = dict(around)
        self.survey, self.own = survey, own
        low, high = (substitute(e, known) for e in (loop.low, loop.high))
        self.once = _at_most(high, ix.add(low, loop.step), Assumptions((), self.around))
        self.number = fresh("number")  # the number of the iteration
        self.last = _quotient(ix.sub(ix.sub(high, 1), low), loop.step)
        self.at: dict[Node, Expr] = {loop.var: ix.add(low, ix.mul(self.number, loop.step))}
        self.left = _replaced(ix.sub(ix.sub(high, 1), loop.var), self.at)  # after an iteration's first index

    def holds(self, coordinates: Sequence[_Index]) -> bool:
        """Whether two iterations provably never write at one of these indices."""
        if self.once:
            return True
        if None in coordinates:
            return False
        found = [index for index in coordinates if index is not None]
        if self._hold(found, self.at):
            return True
        return bool(self.survey.strides) and self._hold(found, {**self.at, **self.survey.strides})

    def _hold(self, coordinates: Sequence[tuple[Expr, ...]], values: Mapping[Node, Expr]) -> bool:
        """Whether that holds once variables are replaced by these values."""
        moved = [tuple(self._moved(e, values) for e in index) for index in coordinates]
        ranges = {
            var: (self._moved(low, values), self._moved(high, values))
            for var, (low, high) in self.survey.ranges.items()
        }
        return self._separates(list(dict.fromkeys(_merged(moved))), {self.number: self.last}, ranges)

    def _moved(self, e: Expr, values: Mapping[Node, Expr]) -> Expr:
        """Returns an expression with variables replaced, repeatedly."""
        while not free_variables(e).isdisjoint(values):
            e = substitute(e, values)
        return ix.canonical(e)

    def _separates(
        self, coordinates: list[tuple[Expr, ...]], counters: dict[Var, Expr], ranges: dict[Var, Interval]
    ) -> bool:
        """Whether some index differs for each of the counters, which together identify the iteration."""
        for counter, last in counters.items():
            others = {v: (ix.as_index(0), high) for v, high in counters.items() if v is not counter}
            if self._told_apart(coordinates, counter, last, {**ranges, **others}):
                continue
            divided = self._divided(coordinates, counter)
            if divided is None:
                return False
            outer, inner = fresh("quotient"), fresh("remainder")
            parts: dict[Node, Expr] = {
                Op("floordiv", i64, (counter, divided)): outer,
                Op("mod", i64, (counter, divided)): inner,
                counter: ix.add(ix.mul(outer, divided), inner),
            }
            rest = {v: high for v, high in counters.items() if v is not counter}
            rest |= {outer: ix.floordiv(last, divided), inner: ix.sub(divided, 1)}
            within = {v: (_replaced(low, parts), _replaced(high, parts)) for v, (low, high) in ranges.items()}
            return self._separates([tuple(_replaced(e, parts) for e in index) for index in coordinates], rest, within)
        return True

    def _divided(self, coordinates: Iterable[tuple[Expr, ...]], counter: Var) -> Expr | None:
        """Returns the divisor of a counter in some index; None without one."""
        for index in coordinates:
            for node in topological(*index):
                if isinstance(node, Op) and node.name in ("floordiv", "mod") and node.args[0] is counter:
                    return node.args[1]
        return None

    def _told_apart(
        self, coordinates: Sequence[tuple[Expr, ...]], counter: Var, last: Expr, ranges: dict[Var, Interval]
    ) -> bool:
        """Whether one index of all writes differs for every two values of a counter."""
        zero, distance = ix.as_index(0), fresh("distance")  # the difference of two values, less one
        later = ix.add(ix.add(counter, distance), 1)
        spread = {counter: (zero, last), distance: (zero, ix.sub(ix.sub(last, counter), 1))}
        left = (self.left, _replaced(self.left, {counter: later})) if counter is self.number else ()
        assumptions = Assumptions((counter, distance, *left), {**self.around, **spread})
        for dimension in range(len(coordinates[0])):
            indices = list(dict.fromkeys(index[dimension] for index in coordinates))
            if self._differ(indices, counter, later, ranges, assumptions):
                return True
            factors = {abs(c) for index in indices for atom, c in ix.linear(index)[1].items() if atom in ranges}
            for factor in factors - {1}:
                rests = [_rest(index, factor) for index in indices]
                if self._differ(rests, counter, later, ranges, assumptions, factor):
                    return True
        return False

    def _differ(
        self,
        indices: Sequence[Expr],
        counter: Var,
        later: Expr,
        ranges: dict[Var, Interval],
        assumptions: Assumptions,
        modulus: int | None = None,
    ) -> bool:
        """Whether these indices at a value of a counter differ from those at a later value (modulo `modulus`, where given)."""
        found = [self._bounds(index, ranges) for index in indices]
        now = list(dict.fromkeys(bounds for bounds in found if bounds is not None))
        if None in found or not all(counter in free_variables(ix.add(low, high)) for low, high in now):
            return False
        then = [(_replaced(low, {counter: later}), _replaced(high, {counter: later})) for low, high in now]
        assumptions = assumptions.with_known(*_quotients((e for bounds in (*now, *then) for e in bounds), assumptions))
        pairs = [(a, b) for a in now for b in then]
        if all(assumptions.less(high, low) for (_, high), (low, _) in pairs):
            return modulus is None or all(assumptions.less(ix.sub(high, low), modulus) for (low, _), (_, high) in pairs)
        if all(assumptions.less(high, low) for (low, _), (_, high) in pairs):
            return modulus is None or all(assumptions.less(ix.sub(high, low), modulus) for (_, high), (low, _) in pairs)
        return False

    def _bounds(self, index: Expr, ranges: dict[Var, Interval]) -> Interval | None:
        """Returns the least and greatest value of an index, in terms of loop-invariant values and counters; None where there are none."""
        found = interval_of_all(index, ranges)
        unknown = self.own | set(ranges)
        return found if found is not None and unknown.isdisjoint(itertools.chain(*map(free_variables, found))) else None


def _replaced(e: Expr, values: Mapping[Node, Expr]) -> Expr:
    return ix.canonical(substitute(e, values))


def _merged(coordinates: list[tuple[Expr, ...]]) -> list[tuple[Expr, ...]]:
    """Returns the writes' indices with a quotient and its remainder replaced by the dividend, if all writes have both there."""
    for a, b in itertools.permutations(range(len(coordinates[0])), 2):
        pairs = [(index[a], index[b]) for index in coordinates]
        if all(_belong(quotient, remainder) for quotient, remainder in pairs):
            whole = [quotient.args[0] for quotient, _ in pairs if isinstance(quotient, Op)]
            rest = [tuple(e for d, e in enumerate(index) if d not in (a, b)) for index in coordinates]
            return _merged([(one, *others) for one, others in zip(whole, rest, strict=True)])
    return coordinates


def _belong(quotient: Expr, remainder: Expr) -> bool:
    both = isinstance(quotient, Op) and isinstance(remainder, Op) and quotient.args == remainder.args
    return both and (quotient.name, remainder.name) == ("floordiv", "mod")  # type: ignore[attr-defined]


def _at_most(e: Expr, most: Expr, assumptions: Assumptions) -> bool:
    """Whether e <= most, for integers: a quotient is if its dividend is less than the next multiple."""
    for atom, c in ix.linear(e)[1].items():
        k = ix.constant_value(atom.args[1]) if isinstance(atom, Op) and atom.name == "floordiv" else None
        if c == 1 and k and isinstance(atom, Op):
            return assumptions.less(atom.args[0], ix.mul(ix.add(ix.sub(most, ix.sub(e, atom)), 1), k))
    return assumptions.less_equal(e, most)


def _rest(e: Expr, factor: int) -> Expr:
    """Returns an index without the terms that are multiples of a factor."""
    constant, terms = ix.linear(e)
    rest = ix.as_index(constant)
    for atom, c in terms.items():
        rest = ix.add(rest, ix.mul(atom, c)) if c % factor else rest
    return rest


def _quotients(bounds: Iterable[Expr], assumptions: Assumptions) -> list[Expr]:
    """Returns quotients by non-constants that are at least 0, which `Assumptions` does not find itself."""
    found = (e for e in topological(*bounds) if isinstance(e, Op) and e.name == "floordiv")
    return [e for e in found if ix.constant_value(e.args[1]) is None and all(map(assumptions.nonnegative, e.args))]
