"""The coordinates of a stage's loops: the range of every axis, given the loops chosen so far.

Loops carry global coordinates. A split is strip-mining: `for yo in lo..hi step 32: for y in yo..min(yo + 32, hi)`; an inner loop that
stands outside its outer one counts an offset, and shifts where the outer starts. So any order of any splits is exact, without guards. A
fused loop counts the product of two trip counts and recovers both coordinates by division; a guard is needed only where the inner trip
count depends on the outer coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.schedule.lower.regions.regions import spread
from raido.schedule.plan import Fuse, Split


@dataclass(slots=True)
class Range:
    """The values `low`, `low + step`, … below `high` of an axis or loop; once a loop has chosen a `value`, that alone, and `end` is None.

    offset: the values are relative to the outer loop's value.
    """

    low: Expr
    end: Expr | None
    step: int
    value: Expr | None = None
    offset: bool = False
    exact: bool = False
    narrowed: bool = False
    base: Expr | int = 0

    @property
    def high(self) -> Expr:
        """The exclusive upper bound."""
        return ix.add(self.low if self.value is None else self.value, 1) if self.end is None else self.end

    def set(self, low: Expr, end: Expr) -> None:
        """Sets the bounds, `end` exclusive."""
        self.low, self.end = low, end

    def fix(self, value: Expr) -> None:
        """Restricts the range to one value."""
        self.value, self.low, self.end = value, value, None


Bind = Callable[[str, Expr, Expr, Expr], Expr]


class Coordinates:
    """The ranges of a stage's axes and of every loop that they were split and fused into. Copies share a range until
    one of them changes it (`_own`).

    whole: the initial ranges of the axes. most: an upper bound of an axis's extent that fused loops use as trip count.
    """

    def __init__(
        self,
        axes: Sequence[tuple[str, Expr, Expr]],
        relations: Sequence[Split | Fuse],
        most: Mapping[str, int] | None = None,
    ) -> None:
        self.most = most or {}
        self.whole = {name: (low, high) for name, low, high in axes}
        self.ranges = {name: Range(low, high, 1) for name, low, high in axes}
        self._shared: set[str] = set()  # names of ranges shared with a copy
        self.axes = tuple(self.ranges)
        self.owner: dict[str, Split | Fuse] = {}
        self.below: dict[str, Split] = {}
        self.guards: list[tuple[Expr, Expr]] = []
        self.counts: dict[str, Expr] = {}
        for relation in relations:
            self._relate(relation)

    def _relate(self, relation: Split | Fuse) -> None:
        if isinstance(relation, Split):
            parent = self.ranges[relation.parent]
            stride = parent.step * relation.factor
            self.ranges[relation.outer] = Range(parent.low, parent.high, stride)
            self.ranges[relation.inner] = Range(ix.as_index(0), ix.as_index(stride), parent.step, offset=True)
            self.owner[relation.outer] = self.owner[relation.inner] = relation
            self.below[relation.parent] = relation
            return
        for name in (relation.outer, relation.inner):
            self.counts[name] = self._count(name)
        count = ix.mul(self.counts[relation.outer], self.counts[relation.inner])
        self.ranges[relation.into] = Range(ix.as_index(0), count, 1)
        self.owner[relation.into] = relation

    def copy(self) -> Coordinates:
        """An independent copy, for one of several unrolled iterations."""
        new = object.__new__(Coordinates)
        new.most = self.most
        new.ranges = dict(self.ranges)
        new._shared, self._shared = set(self.ranges), set(self.ranges)
        new.whole, new.axes, new.owner, new.below, new.counts = (
            self.whole,
            self.axes,
            self.owner,
            self.below,
            self.counts,
        )
        new.guards = list(self.guards)
        return new

    def _own(self, name: str) -> Range:
        """A range that this object may change, copied first if it is shared."""
        if name in self._shared:
            self._shared.discard(name)
            r = self.ranges[name]
            self.ranges[name] = Range(r.low, r.end, r.step, r.value, r.offset, r.exact, r.narrowed, r.base)
        return self.ranges[name]

    def extended(
        self, axis: str, low: Expr, high: Expr, value: Expr | None = None, relations: Sequence[Split] = ()
    ) -> Coordinates:
        """A copy with one more axis, at `value` if given, or split into loops by `relations`."""
        new = self.copy()
        new.whole = {**self.whole, axis: (low, high)}
        new.axes = (*self.axes, axis)
        new.owner, new.below, new.counts = dict(self.owner), dict(self.below), dict(self.counts)
        new.ranges[axis] = Range(low, high, 1, value)
        for relation in relations:
            new._relate(relation)
        return new

    def box(self, axis: str) -> tuple[Expr, Expr]:
        """The inclusive bounds of one of the stage's axes, as far as loops have chosen it."""
        r = self.ranges[axis]
        if r.value is not None:
            return r.value, r.value
        return r.low, spread(ix.sub(r.high, 1))

    def bounds(self, loop: str) -> tuple[Expr, Expr, int]:
        """The low bound, exclusive high bound and step of a loop that is entered next."""
        r = self.ranges[loop]
        relation = self.owner.get(loop)
        if isinstance(relation, Fuse) and loop not in self.below and not r.narrowed:
            low, high, step = self.bounds(relation.outer)
            return r.low, ix.mul(ix.ceildiv(ix.sub(high, low), step), self.counts[relation.inner]), 1
        if not r.offset:
            return r.low, r.high, r.step
        assert isinstance(relation, Split)
        parent = self.ranges[relation.parent]
        return r.low, ix.minimum(r.high, ix.add(r.low, ix.sub(parent.high, parent.low))), r.step

    def simplify(self, change: Callable[[Expr], Expr]) -> None:
        """Rewrites every bound that no loop has chosen by `change`."""
        for name, r in list(self.ranges.items()):
            if r.value is None:
                self._own(name).set(change(r.low), change(r.high))

    def narrow(self, loop: str, low: Expr, high: Expr, step: int | None = None) -> None:
        """Restricts a loop that is entered next (not one over offsets) to low … high − 1, with `step` or its own step."""
        r = self._own(loop)
        r.set(low, high)
        r.step, r.narrowed = step or r.step, True
        self._moved(loop, None)

    def fix(self, axis: str, value: Expr) -> None:
        """Sets one of the stage's axes to `value`, whatever loops it was split into."""
        self._set(axis, value, None)

    def choose(self, loop: str, value: Expr, bind: Bind) -> None:
        """Sets a loop to `value`. bind: names a computed coordinate, given (name, value, low, high)."""
        r = self._own(loop)
        relation = self.owner.get(loop)
        if isinstance(relation, Split) and loop == relation.outer:
            self._own(relation.inner).exact = ix.is_multiple(ix.sub(r.high, r.low), r.step)
        r.fix(value)
        self._moved(loop, bind)

    def _moved(self, name: str, bind: Bind | None) -> None:
        relation = self.owner.get(name)
        r = self.ranges[name]
        if isinstance(relation, Fuse):
            if r.value is not None and bind is not None:
                self._recover(relation, r.value, bind)
            return
        if relation is None:
            return
        outer = self.ranges[relation.outer]
        if name == relation.outer and outer.value is not None:
            self._enter(relation, bind)
            return
        parent, inner = self._own(relation.parent), self._own(relation.inner)
        if name == relation.outer:
            parent.set(outer.low, outer.high)
        elif inner.offset:
            delta = ix.sub(inner.low, inner.base)
            inner.base = inner.low
            self._shift(relation.outer, delta)
            parent.low = self.ranges[relation.outer].low
        elif inner.value is not None:
            self._set(relation.parent, inner.value, bind)
            return
        else:
            parent.set(inner.low, inner.high)
        self._moved(relation.parent, bind)

    def _enter(self, relation: Split, bind: Bind | None) -> None:
        """Makes the inner loop's range global, starting from the value that the outer loop has taken."""
        parent, outer, inner = (self._own(n) for n in (relation.parent, relation.outer, relation.inner))
        assert outer.value is not None
        if inner.value is not None:
            self._set(relation.parent, outer.value, bind)
            return
        low = ix.add(outer.value, ix.sub(inner.low, inner.base))
        reach = ix.add(outer.value, ix.sub(inner.high, inner.base))
        delta = ix.sub(low, inner.low)
        inner.offset = False
        inner.set(low, reach if inner.exact else ix.minimum(reach, parent.high))
        parent.set(inner.low, inner.high)
        if relation.inner in self.below:
            self._rebase(self.below[relation.inner], delta)
        self._moved(relation.parent, bind)

    def _rebase(self, relation: Split, delta: Expr) -> None:
        """Shifts the ranges of loops that an inner range was split into by `delta`, once that range is global."""
        outer, inner, parent = (self._own(n) for n in (relation.outer, relation.inner, relation.parent))
        if outer.value is None:
            outer.set(ix.add(outer.low, delta), parent.high)
            if relation.outer in self.below:
                self._rebase(self.below[relation.outer], delta)
        elif inner.value is None and not inner.offset:
            inner.set(ix.add(inner.low, delta), ix.minimum(ix.add(inner.high, delta), parent.high))
            if relation.inner in self.below:
                self._rebase(self.below[relation.inner], delta)

    def _shift(self, name: str, delta: Expr) -> None:
        r = self._own(name)
        r.set(ix.add(r.low, delta), r.high)
        if name in self.below:
            relation = self.below[name]
            outer = self.ranges[relation.outer]
            self._shift(relation.outer if outer.value is None else relation.inner, delta)

    def _set(self, name: str, value: Expr, bind: Bind | None) -> None:
        self._own(name).fix(value)
        self._moved(name, bind)

    def _count(self, name: str) -> Expr:
        """An upper bound of a loop's trip count, whatever the enclosing loops have chosen."""
        most = self._known_most(name)
        if most is not None:
            return ix.as_index(most)
        low, high, step = self.bounds(name)
        relation = self.owner.get(name)
        if (
            isinstance(relation, Split)
            and name == relation.inner
            and ix.constant_value(self.ranges[name].high) is not None
        ):
            whole = self.ranges[relation.parent]
            high = ix.minimum(self.ranges[name].high, ix.sub(whole.high, whole.low))
            low = ix.as_index(0)
        return ix.ceildiv(ix.sub(high, low), step)

    def _known_most(self, name: str) -> int | None:
        """The constant upper bound of the trip count of an axis, or of the outer loop of its split, from `most`; None if there is none."""
        relation = self.owner.get(name)
        if name in self.most or not isinstance(relation, Split) or name != relation.outer:
            return self.most.get(name)
        whole = self._known_most(relation.parent)
        return None if whole is None else -(-whole // relation.factor)

    def _recover(self, relation: Fuse, value: Expr, bind: Bind) -> None:
        count = self.counts[relation.inner]
        for name, at in ((relation.outer, ix.floordiv(value, count)), (relation.inner, ix.mod(value, count))):
            low, high, step = self.bounds(name)
            now = ix.ceildiv(ix.sub(high, low), step)
            at = ix.add(low, ix.mul(at, step))
            if now is self.counts[name] or (name == relation.outer and relation.into not in self.below):
                chosen = bind(name, at, low, ix.sub(high, 1))
            else:
                chosen = bind(name, at, low, ix.add(low, ix.mul(ix.sub(self.counts[name], 1), step)))
                self.guards.append((chosen, high))
            self.choose(name, chosen, bind)
