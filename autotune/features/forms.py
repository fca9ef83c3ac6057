"""Affine forms of the integers in a nest (`schedule.cost.affine`), for known sizes.

Clamps, minima and maxima take their value in the middle of the loops, where nearly all of the time is spent; quotients their slope, and
remainders that wrap their mean. Values that are no integers have dependences only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raido.algo.graph.expr import Const, Node, Op, SizeVar, Var
from raido.autotune.features.ends import Ends
from raido.schedule.cost.affine import DATA, ZERO, Form, form_of, number, opaque, plus, times
from raido.schedule.nest.values import Buffer, NestExpr, Read

TYPICAL_COUNT = 32.0  # for numbers of iterations that data decides
TYPICAL_SHARE = 0.5  # of iterations in which a condition on data holds; of what may be counted


class Forms:
    """Forms of one nest's expressions; variables are bound during the walk, and `middles` has the middle value of each loop's counter."""

    def __init__(
        self, sizes: Mapping[str, int], ends: Mapping[Buffer, Ends], mask_of_read: Callable[[Read, int], int]
    ) -> None:
        self.sizes = sizes
        self.ends = ends
        self.middles: list[float] = []
        self.variables: dict[Node, Form] = {}
        self.memo: dict[Node, Form] = {}
        self._mask_of_read = mask_of_read
        self._typical_size = max(sizes.values(), default=1024) / 2

    def bind(self, variable: Node, form: Form) -> bool:
        """Sets a variable's form; returns whether it had another one before, in which case cached forms are dropped."""
        changed = self.variables.get(variable, form) != form
        self.variables[variable] = form
        if changed:
            self.memo.clear()
        return changed

    def middle(self, form: Form) -> float:
        """The value of a form in the middle of all loops."""
        return form.constant + sum(slope * self.middles[loop] for loop, slope in form.terms.items())

    def of(self, e: NestExpr) -> Form:
        """The form of an expression."""
        if isinstance(e, Const):
            return number(float(e.bits)) if e.dtype.kind != "f" else ZERO
        if isinstance(e, (Var, SizeVar)):
            known = self.variables.get(e)
            if known is not None:
                return known
            size = self.sizes.get(e.name) if isinstance(e, SizeVar) else None
            return number(size) if size is not None else opaque(DATA, self._typical_size)
        known = self.memo.get(e)
        if known is None:
            known = self.memo[e] = self._work_out(e)
        return known

    def _work_out(self, e: NestExpr) -> Form:
        if isinstance(e, Read):
            mask = 0
            for index in e.indices:
                mask |= self.of(index).mask
            if e.predicate is not None:
                mask |= self.of(e.predicate).mask
            mask = self._mask_of_read(e, mask)
            ends = self.ends.get(e.buffer)
            return opaque(mask | DATA, TYPICAL_COUNT) if ends is None else self._end(e, ends, mask)
        if not isinstance(e, Op):
            raise TypeError(f"not an expression of a scalar nest: {e!r}")
        arguments = [self.of(a) for a in e.args]
        if e.dtype.kind in "iu":
            rule = _RULES.get(e.name)
            if rule is not None:
                known = rule(self, arguments)
                if known is not None:
                    return known
        mask = 0
        for argument in arguments:
            mask |= argument.mask
        return opaque(mask, TYPICAL_COUNT if mask & DATA else 0.0)

    def _end(self, e: Read, ends: Ends, mask: int) -> Form:
        """The expected form of an array element that bounds loops."""
        extent = min(max(self.middle(self.of(buffer.shape[k])), 1.0) for buffer, k in ends.indexed)
        if not ends.borders:
            return opaque(mask, extent * TYPICAL_SHARE)
        segments = max(self.middle(self.of(e.buffer.shape[-1])) - 1.0, 1.0)
        even = times(self.of(e.indices[-1]), extent / segments)
        return Form(even.constant, even.terms, even.rough | mask, even.mask | mask)


_Rule = Callable[[Forms, "list[Form]"], "Form | None"]


def _product(_: Forms, args: list[Form]) -> Form | None:
    a, b = args[0], args[1]
    if not b.mask:
        return times(a, b.constant)
    return times(b, a.constant) if not a.mask else None


def _fused(forms: Forms, args: list[Form]) -> Form | None:
    product = _product(forms, args)
    return plus(product, args[2]) if product is not None else None


def _quotient(_: Forms, args: list[Form]) -> Form | None:
    a, b = args
    if b.mask or not b.constant:
        return None
    return number(float(a.constant // b.constant)) if not a.mask else times(a, 1 / b.constant)


def _remainder(forms: Forms, args: list[Form]) -> Form | None:
    a, b = args
    if b.mask or not b.constant:
        return None
    if not a.mask:
        return number(float(a.constant % b.constant))
    terms = {k: v for k, v in a.terms.items() if v % b.constant}
    wraps = {k for k, v in terms.items() if abs(v) * 2 * forms.middles[k] >= b.constant}
    kept = {k: v for k, v in terms.items() if k not in wraps}
    constant = (b.constant - 1) / 2 if wraps else 0.0 if terms else forms.middle(a) % b.constant
    return form_of(constant, kept, a.rough | sum(1 << k for k in wraps))


def _chosen(forms: Forms, args: list[Form], least: bool) -> Form:
    a, b = args
    if (a.rough | b.rough) & DATA:
        known, other = (b, a) if a.rough & DATA else (a, b)
        return Form(
            min(known.constant, TYPICAL_COUNT) if least else other.constant, {}, a.mask | b.mask, a.mask | b.mask
        )
    return a if (forms.middle(a) <= forms.middle(b)) == least else b


def _selected(forms: Forms, args: list[Form]) -> Form | None:
    test, a, b = args
    if not test.mask:
        return a if test.constant else b
    kept = a if a.mask.bit_count() >= b.mask.bit_count() else b
    return Form(kept.constant, kept.terms, kept.rough | test.rough, kept.mask | test.mask)


_RULES: dict[str, _Rule] = {
    "add": lambda _, a: plus(a[0], a[1]),
    "sub": lambda _, a: plus(a[0], a[1], -1.0),
    "neg": lambda _, a: times(a[0], -1.0),
    "mul": _product,
    "fma": _fused,
    "shl": lambda f, a: times(a[0], 2.0 ** min(a[1].constant, 62)) if not a[1].mask else None,
    "shr": lambda f, a: times(a[0], 0.5 ** min(a[1].constant, 62)) if not a[1].mask else None,
    "floordiv": _quotient,
    "truncdiv": _quotient,
    "floormod": _remainder,
    "mod": _remainder,
    "truncrem": _remainder,
    "minimum": lambda f, a: _chosen(f, a, True),
    "maximum": lambda f, a: _chosen(f, a, False),
    "select": _selected,
    "cast": lambda _, a: a[0],
    **dict.fromkeys(("clamp_index", "wrap_index", "mirror_index", "symmetric_index"), lambda _, a: a[0]),
}
