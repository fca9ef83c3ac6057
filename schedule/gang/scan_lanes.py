"""A scan over the lanes of gangs: shifts of 1, 2, 4, … lanes, then the value before the gang on the left.

Each gang's own prefixes take log2(lanes) steps that depend on no other gang, so interleaved gangs overlap; one scalar goes from gang to
gang, combined once. The operator is applied in order, so it need not commute. (Hillis & Steele, Data parallel algorithms, 1986.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Op, Var, const
from raido.algo.graph.rewrite import substitute
from raido.schedule.gang.lanes import choose, shared_parts, widen
from raido.schedule.nest.carry import applied
from raido.schedule.nest.nodes import Fold, Let, Statement, Store
from raido.schedule.nest.values import Extract, LaneShift, NestExpr, Ramp, Read, Splat, VectorVar

Values = tuple["NestExpr", ...]


class ScanLanes:
    """One step of a scan for whole gangs; statements are appended to `out`."""

    def __init__(self, fold: Fold, lanes: int, serials: Iterator[int], out: list[Statement]) -> None:
        self.fold, self.lanes, self.serials, self.out = fold, lanes, serials, out

    def gangs(self, values: Sequence[Values]) -> list[Values]:
        """For each gang's values (one vector for each buffer), the vectors of the step's names; the buffers are set to the total."""
        s = self.fold
        scanned = [self._prefixes(each) for each in values]
        carry: Values = tuple(self._scalar("carry", Read(b, s.indices, None)) for b in s.buffers)
        results = []
        for gang in scanned:
            spread = tuple(Splat(c, self.lanes) for c in carry)
            before = self._from_lane(1, self._combine(spread, self._moved(gang, 1)), spread) if s.before else ()
            results.append((*before, *(self._combine(spread, gang) if s.after else ())))
            last = tuple(Extract(v, self.lanes - 1) for v in gang)
            carry = tuple(self._scalar("carry", value) for value in applied(s, carry, last))
        self.out += [Store(b, s.indices, c) for b, c in zip(s.buffers, carry, strict=True)]
        return results

    def _prefixes(self, values: Values) -> Values:
        distance = 1
        while distance < self.lanes:
            both = self._combine(self._moved(values, distance), values)
            values = both if self.fold.neutral else self._from_lane(distance, both, values)
            distance *= 2
        return values

    def _moved(self, values: Values, distance: int) -> Values:
        fill = self.fold.neutral or tuple(const(v.dtype, 0) for v in values)
        return tuple(self._vector("moved", LaneShift(v, distance, f)) for v, f in zip(values, fill, strict=True))

    def _from_lane(self, lane: int, yes: Values, no: Values) -> Values:
        """`yes` from lane `lane` on, `no` before it."""
        on = Op("ge", bool_, (Ramp(const(i64, 0), 1, self.lanes), Splat(const(i64, lane), self.lanes)))
        return tuple(self._vector("prefix", choose(on, a, b)) for a, b in zip(yes, no, strict=True))

    def _combine(self, left: Values, right: Values) -> Values:
        operands = dict(zip(self.fold.left + self.fold.right, left + right, strict=True))
        values = tuple(widen(e, operands, self.lanes) for e in self.fold.combine)
        parts = {part: self._vector("part", part) for part in shared_parts(values)}
        return tuple(self._vector("both", substitute(value, parts)) for value in values)

    def _vector(self, stem: str, value: NestExpr) -> NestExpr:
        var = VectorVar(stem, value.dtype, self.lanes, next(self.serials))
        self.out.append(Let(var, value))
        return var

    def _scalar(self, stem: str, value: NestExpr) -> NestExpr:
        var = Var(stem, value.dtype, -next(self.serials))
        self.out.append(Let(var, value))
        return var
