"""Checks that sizes keep within their limits, emitted before anything is computed with them or memory is allocated.

`require` adds a check where the limit is not proved: by the bound of every size, or because an argument or a result, whose memory the
caller holds, is as large. The checks multiply floats, which do not overflow, and stop at half of the 64-bit range: rounding is far below
that. A check costs a multiplication for each dimension and a branch, once in a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import DType, bool_, f64, i64
from raido.algo.graph.expr import Const, Expr, Op, SizeVar, conjunction, const
from raido.algo.graph.limits import LARGEST_ARRAY, divisor_text, magnitude, reach, sizes_within
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import Check, Statement

LARGEST_NUMBER = (1 << 63) - 1  # the greatest i64

_Held = tuple[int, tuple[Expr, ...]]  # bytes of an element, times literal extents; and the other extents


class Limits:
    """The sizes known to be within the limits, and the checks for all others. held: element sizes and shapes of arrays
    whose memory the caller holds."""

    def __init__(self, held: Iterable[tuple[int, Sequence[Expr]]], add: Callable[[Statement], None]) -> None:
        self.known: list[_Held] = [_split(itemsize, shape) for itemsize, shape in held]
        self.divisors: list[Expr] = []  # checked not to be 0
        self.add = add

    def require(self, dtype: DType, shape: Sequence[Expr], site: Callable[[], int], itemsize: int = 0) -> None:
        """Emits a check that an array of this shape, its extents, and intermediate results of their arithmetic are
        within the limits, unless proved."""
        shape = tuple(ix.canonical(extent) for extent in shape)
        if not shape or not all(isinstance(node, (Const, SizeVar, Op)) for node in topological(*shape)):
            return
        itemsize = itemsize or dtype.itemsize
        held = _split(itemsize, shape)
        large = [e for e in shape if min(reach(e), self._most(e)) > LARGEST_ARRAY]
        parts = [_at_most(magnitude(e), LARGEST_ARRAY) for e in large]
        if not self._is_held(held):
            parts.append(_at_most(_product(itemsize, shape), LARGEST_ARRAY))
        if parts:
            sizes = sizes_within(shape)
            self.add(Check(conjunction(parts), f"limit_{len(sizes)}", site(), sizes))
            self.known.append(held)

    def require_number(self, e: Expr, site: Callable[[str], int]) -> None:
        """Emits checks that arithmetic on sizes is within the limits, with its intermediate results, and divides by no 0.

        site: returns the number of the source line, given a description of what is at fault.
        """
        for node in topological(e):
            if isinstance(node, Op) and node.name in DIVISIONS and not Assumptions().less_equal(1, node.args[1]):
                dividend, divisor = node.args
                if divisor not in self.divisors:
                    self.divisors.append(divisor)
                    location = site(divisor_text(divisor))
                    self.add(Check(Op("ne", bool_, (divisor, const(i64, 0))), "division", location, (dividend,)))
        if self._most(e) > LARGEST_NUMBER and all(isinstance(n, (Const, SizeVar, Op)) for n in topological(e)):
            sizes = sizes_within((e,))
            self.add(Check(_at_most(magnitude(e), LARGEST_ARRAY), f"limit_{len(sizes)}", site(""), sizes))

    def _most(self, e: Expr) -> int:
        """An upper bound of a number and its intermediate results; that of a product of sizes may follow from
        an array that the caller holds."""
        if not isinstance(e, Op):
            return reach(e)
        most = [self._most(a) for a in e.args]
        if e.name != "mul":
            return sum(most) if e.name in ("add", "sub") else max(most)
        held = _split(1, _factors(e))
        inner = all(isinstance(factor, (Const, SizeVar)) for factor in _factors(e))
        return LARGEST_ARRAY if inner and self._is_held(held) else most[0] * most[1]

    def _is_held(self, wanted: _Held) -> bool:
        size, extents = wanted
        for extent in extents:
            size *= max(reach(extent), 1)
        if size <= LARGEST_ARRAY:
            return True
        return any(_fits_in(wanted, known) for known in self.known)


def _factors(e: Expr) -> list[Expr]:
    return [f for a in e.args for f in _factors(a)] if isinstance(e, Op) and e.name == "mul" else [e]


def _split(itemsize: int, shape: Sequence[Expr]) -> _Held:
    """The bytes of an element times the literal extents, and the other extents."""
    rest = []
    for extent in shape:
        value = ix.constant_value(extent)
        if value is None:
            rest.append(extent)
        else:
            itemsize *= max(value, 1)
    return itemsize, tuple(rest)


def _fits_in(wanted: _Held, known: _Held) -> bool:
    """Whether each extent is provably at most one of the known array's, a different one for each, and the element size is, too."""
    if wanted[0] > known[0] or len(wanted[1]) > len(known[1]):
        return False
    assumptions, free = Assumptions(), list(known[1])
    for extent in wanted[1]:
        match = next((e for e in free if extent is e), None) or next(
            (e for e in free if assumptions.less_equal(extent, e)), None
        )
        if match is None:
            return False
        free.remove(match)
    return True


def _product(itemsize: int, shape: Sequence[Expr]) -> Expr:
    size, extents = _split(itemsize, shape)
    total: Expr = const(f64, size)
    for extent in extents:
        total = Op("mul", f64, (total, Op("cast", f64, (ix.maximum(extent, 1),))))
    return total


def _at_most(e: Expr, limit: int) -> Expr:
    return Op("le", bool_, (e, const(f64, limit)))
