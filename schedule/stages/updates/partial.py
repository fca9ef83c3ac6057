"""Turns maps that change part of an array and repeat the rest into updates of that part.

    out[y, x] = new if y == k + 1 and x >= lo else old[y, x]   →   old with [k + 1, lo + r] = new, for r in 0..w - lo

The body is a selection whose default is the old element at the same index. Of the conditions for the new value, an equation of an index
fixes that index, and bounds (with a remainder, where every third index is changed) become an axis of steps; both must define the index in
terms of sizes and counters of loops around, or, for an equation, of anything but indices that are fixed themselves. Data-dependent bounds
(`out.at[start[i]:end[i]]`) become an axis, too, where sizes determine their distance. The remaining conditions decide in each step whether
it changes anything: a step that does not names the index −1, which does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    Axis,
    Checked,
    Cond,
    Const,
    Count,
    Expr,
    Generate,
    Item,
    Load,
    Node,
    Op,
    Parameter,
    Result,
    SizeVar,
    Update,
    Var,
    conjunction,
    const,
    fresh,
)
from raido.algo.graph.faults import can_fault, is_index_of
from raido.algo.graph.node import with_fields
from raido.algo.graph.primitives import CAN_FAULT
from raido.algo.graph.rewrite import loads_in, scalar_nodes
from raido.schedule.stages.checks import checked_index
from raido.schedule.stages.tables import Tables


@dataclass(slots=True)
class _Choice:
    """A new value and the conditions under which it replaces the old one. `lazy`: conditions that also guard its evaluation."""

    dest: Array
    tests: list[Expr]
    lazy: list[Expr]
    value: Expr


@dataclass(slots=True)
class _Reach:
    """The changed indices along one axis.

    `fixed`: the only index, if there is one; `check`: the load, from an array that checks it, that it stands for. `low`, `high`: bounds in
    sizes. `first`, `end`: data-dependent bounds, with the conditions that state them; `span`: a first index and the distance to its end,
    which sizes determine.
    """

    fixed: Expr | None = None
    check: Load | None = None
    low: list[Expr] = field(default_factory=list)
    high: list[Expr] = field(default_factory=list)
    first: list[tuple[Expr, Expr]] = field(default_factory=list)
    end: list[tuple[Expr, Expr]] = field(default_factory=list)
    span: tuple[Expr, Expr] | None = None
    stride: tuple[Expr, int] | None = None  # an index that is changed, and how far the others are apart

    @property
    def narrow(self) -> bool:
        some = self.fixed is not None or self.stride is not None or self.span is not None
        return some or bool(self.low or self.high)


@dataclass(frozen=True, slots=True)
class Change:
    """An update equivalent to a body of a map, and the number of the update's result that the body is.

    `absorbed`: an update that this one replaces. `value`: the new value in terms of the map's axes, which are `where` in terms of the
    steps'; it is taken where `tests` hold. `everywhere`: no index is fixed or bounded, so there is a step for each element.
    """

    update: Update
    index: int
    absorbed: Update | None = None
    value: Expr | None = None
    where: tuple[tuple[Var, Expr], ...] = ()
    tests: tuple[Expr, ...] = ()
    everywhere: bool = False


def updates_of(form: Generate, tables: Tables, assumptions: Assumptions) -> dict[int, Change]:
    """Returns the changes that a form makes, by the numbers of the bodies that change part of an array."""
    groups: dict[tuple[object, ...], list[tuple[int, _Part]]] = {}
    found: dict[int, Change] = {}
    taken: set[Array] = set()
    for k, body in enumerate(form.bodies):
        guarded = _guarded(form, body, tables)
        if guarded is not None and guarded.update.dest[0] not in taken:
            taken.add(guarded.update.dest[0])
            found[k] = guarded
            continue
        part = _part_of(form, body, tables, assumptions)
        if part is not None and part.dest not in taken:
            taken.add(part.dest)
            groups.setdefault(part.key, []).append((k, part))
    for members in groups.values():
        update = _joined([part for _, part in members], tables)
        for position, (k, part) in enumerate(members):
            where = part.where if position == 0 else ()
            found[k] = Change(update, position, None, part.old_value, where, part.old_tests, part.everywhere)
    return found


@dataclass(slots=True)
class _Part:
    """One change: its steps' axes, the index that each changes, the remaining conditions, and the new value, in terms of the steps'
    axes.
    """

    dest: Array
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    checked: bool
    tests: tuple[Expr, ...]
    lazy: tuple[Expr, ...]
    value: Expr
    old_value: Expr
    old_tests: tuple[Expr, ...]
    where: tuple[tuple[Var, Expr], ...]
    key: tuple[object, ...]
    everywhere: bool


def _part_of(form: Generate, body: Expr, tables: Tables, assumptions: Assumptions) -> _Part | None:
    choice = _choice(body, tuple(axis.var for axis in form.axes))
    if choice is None or not form.axes or choice.dest.shape != tuple(axis.extent for axis in form.axes):
        return None  # of an array of rank 0 nothing changes in part
    reaches = {axis.var: _Reach() for axis in form.axes}
    rest = [test for test in _conjuncts(choice.tests, tables) if not _settle(test, reaches)]
    _leave_out_circles(reaches, rest)
    for reach in reaches.values():
        _find_span(reach, rest)
    if not (any(reach.narrow for reach in reaches.values()) or choice.lazy):
        return None
    key = (*choice.lazy, *_conjuncts(choice.tests, tables))
    return _with_strides(form, choice, reaches, rest, key, tables, assumptions)


def _guarded(form: Generate, body: Expr, tables: Tables) -> Change | None:
    """Returns an update that is conditional as a whole, on conditions that mention no index; None for other bodies."""
    own = tuple(axis.var for axis in form.axes)
    choice = _choice(body, own)
    if choice is None or not isinstance(choice.value, Load) or choice.value.indices != own:
        return None
    array = choice.value.array
    inner = array.form if isinstance(array, Result) else None
    if not isinstance(inner, Update) or inner.dest != (choice.dest,):
        return None
    if any(node in own for node in scalar_nodes(*choice.tests, *choice.lazy)):
        return None
    spot = next((d for d, index in enumerate(inner.indices) if not isinstance(index, Var)), 0)
    indices = [_checked(inner, d, tables) if inner.checked else index for d, index in enumerate(inner.indices)]
    values = list(inner.values)
    _guard(indices, values, choice.tests, choice.lazy, range(len(indices)) if inner.checked else [spot])
    update = with_fields(inner, indices=tuple(indices), values=tuple(values), checked=False)
    tables.carry(inner, update)
    return Change(update, 0, inner)


def _checked(update: Update, dimension: int, tables: Tables) -> Expr:
    """Returns an index of an update with a check of its own."""
    index, extent = update.indices[dimension], update.dest[0].shape[dimension]
    if isinstance(index, Var) and any(axis.var is index and axis.extent is extent for axis in update.axes):
        return index
    return checked_index(update, dimension, index, extent, tables)


def _guard(
    indices: list[Expr], values: list[Expr], tests: Sequence[Expr], lazy: Sequence[Expr], named: Sequence[int]
) -> None:
    """Makes steps name the index −1 where conditions do not hold; `lazy` ones guard the evaluation of the `named` indices, too."""
    last = named[-1]
    if tests:
        indices[last] = Op("select", i64, (conjunction(tests), indices[last], const(i64, -1)))
    if lazy:
        none = (*[const(i64, -1)] * len(named), *(const(value.dtype, 0) for value in values))
        cond = Cond(conjunction(lazy), (*(indices[d] for d in named), *values), none)
        for k, d in enumerate(named):
            indices[d] = Item(cond, k)
        values[:] = [Item(cond, len(named) + k) for k in range(len(values))]


# The choice


def _choice(body: Expr, indices: tuple[Var, ...]) -> _Choice | None:
    """Returns a body as a selection between a new value and an element at the same index; None for other bodies."""
    tests: list[Expr] = []
    lazy: list[Expr] = []
    dest: Array | None = None
    while True:
        if isinstance(body, Op) and body.name == "select":
            test, yes, no = body.args
            sides, strict = (yes, no), True
        elif isinstance(body, Item) and isinstance(body.form, Cond) and not lazy:
            test, sides, strict = body.form.predicate, (body.form.then[body.index], body.form.orelse[body.index]), False
        else:
            break
        olds = [_repeated(side, indices) for side in sides]
        old = olds[1] if olds[1] is not None else olds[0]
        if old is None or (dest is not None and old is not dest):
            break
        dest = old
        kept = olds[1] is not None
        condition = test if kept else Op("logical_not", bool_, (test,))
        (tests if strict else lazy).append(condition)
        body = _taken(sides[0] if kept else sides[1], lazy)
    return None if dest is None else _Choice(dest, tests, lazy, body)


def _taken(e: Expr, conditions: Sequence[Expr]) -> Expr:
    """Returns a value without the conditionals that are decided by conditions that hold."""
    while isinstance(e, Item) and isinstance(e.form, Cond) and e.form.predicate in conditions:
        e = e.form.then[e.index]
    return e


def _repeated(e: Expr, indices: tuple[Var, ...]) -> Array | None:
    """Returns the array of which an expression is the element at the same index; None for other expressions."""
    if isinstance(e, Load) and not e.checked and e.indices == indices and isinstance(e.array, (Parameter, Result)):
        return e.array
    return None


def _conjuncts(tests: Sequence[Expr], tables: Tables) -> list[Expr]:
    """Returns the conjuncts of conditions that must all hold, with negations and broadcast maps expanded."""
    found: dict[Expr, None] = {}
    stack = list(reversed(tests))
    while stack:
        test = stack.pop()
        if isinstance(test, Op) and test.name == "logical_and":
            stack += reversed(test.args)
        elif isinstance(test, Op) and test.name == "logical_not" and _negated(test.args[0]) is not None:
            stack.append(_negated(test.args[0]))  # type: ignore[arg-type]
        elif (opened := _opened(test, tables)) is not None:
            stack.append(opened)
        else:
            found[test] = None
    return list(found)


def _opened(test: Expr, tables: Tables) -> Expr | None:
    """Returns a condition with maps of indices, which are broadcast, inlined; None where there are none."""
    known: dict[Node, Node] = {
        load: tables.beta(load.array.form, load.array.index, load.indices)  # type: ignore[union-attr, arg-type]
        for load in loads_in(test)
        if _is_of_indices_alone(load, tables)
    }
    return tables.substitute((test,), known)[0] if known else None


def _is_of_indices_alone(e: Node, tables: Tables) -> bool:
    """Whether a value is computed from positions and sizes, also through unnamed maps."""
    if not isinstance(e, Load):
        return isinstance(e, (Const, SizeVar, Count, Var)) or (isinstance(e, Op) and not can_fault(e))
    made = e.array.form if isinstance(e.array, Result) and not e.checked else None
    if not isinstance(made, Generate) or tables.names.get(made):
        return False
    return all(_is_of_indices_alone(node, tables) for node in scalar_nodes(*made.bodies))


def _negated(e: Expr) -> Expr | None:
    if isinstance(e, Op) and e.name in ix.NEGATED and e.args[0].dtype is i64:
        return Op(ix.NEGATED[e.name], bool_, e.args)
    return None


# What the conditions say of each axis


def _settle(test: Expr, reaches: dict[Var, _Reach]) -> bool:
    """Records a condition on an index in its reach; returns whether it is one."""
    if not isinstance(test, Op) or test.name not in (*ix.NEGATED, "eq") or test.args[0].dtype is not i64:
        return False
    if test.name == "eq" and _settle_stride(test, reaches):
        return True
    index, check = _unchecked(test.args[1])
    for var, reach in reaches.items():
        solved = ix.solved_for(Op(test.name, bool_, (test.args[0], index)), var)
        if solved is None:
            continue
        name, bound = solved
        if name == "eq":
            if reach.fixed is None:
                reach.fixed, reach.check = bound, check
                return True
            continue
        if check is not None or not _is_of_data(bound, reaches):
            continue
        bound, below = ix.add(bound, 1) if name in ("gt", "le") else bound, name in ("lt", "le")
        if _is_of_sizes(bound, reaches):
            (reach.high if below else reach.low).append(bound)
        else:
            (reach.end if below else reach.first).append((bound, test))
        return True
    return False


def _find_span(reach: _Reach, rest: list[Expr]) -> None:
    """Chooses a data-dependent first and end index at a distance that sizes determine; all other such bounds become conditions."""
    if reach.fixed is None and reach.stride is None:
        pairs = ((first, ix.canonical(ix.sub(end, first))) for first, _ in reach.first for end, _ in reach.end)
        reach.span = next((pair for pair in pairs if _is_of_sizes(pair[1], {})), None)
    taken = reach.span
    left = [test for first, test in reach.first if taken is None or first is not taken[0]]
    left += [test for end, test in reach.end if taken is None or ix.canonical(ix.sub(end, taken[0])) is not taken[1]]
    rest += left


def _settle_stride(test: Op, reaches: dict[Var, _Reach]) -> bool:
    """Records a condition that the distance from some index is a multiple of a constant; returns whether it is one."""
    left, right = test.args
    if ix.constant_value(right) != 0 or not isinstance(left, Op) or left.name not in ("mod", "floormod"):
        return False
    stride = ix.constant_value(left.args[1])
    _, terms = ix.linear(left.args[0])
    for var, reach in reaches.items():
        sign = terms.get(var)
        if sign in (1, -1) and stride and reach.stride is None:
            start = ix.mul(ix.sub(var, ix.mul(left.args[0], sign)), 1)
            if _is_of_sizes(start, reaches):
                reach.stride = (start, stride)
                return True
    return False


def _unchecked(e: Expr) -> tuple[Expr, Load | None]:
    """Returns the index behind a load from an array of 0, 1, … that checks it, and that load; other indices themselves and None."""
    if isinstance(e, Load) and e.checked and isinstance(e.array, Result) and isinstance(e.array.form, Generate):
        counting = e.array.form
        if len(counting.axes) == 1 and counting.bodies[e.array.index] is counting.axes[0].var:
            return e.indices[0], e
    return e, None


def _is_of_data(e: Expr, reaches: dict[Var, _Reach]) -> bool:
    """Whether an index is the same in all steps: made of sizes, counters and elements that do not depend on the axes."""
    return all(
        isinstance(node, (Const, SizeVar, Count, Load))
        or (isinstance(node, Var) and node not in reaches)
        or (isinstance(node, Op) and node.name not in CAN_FAULT)
        for node in scalar_nodes(e)
    )


def _is_of_sizes(e: Expr, reaches: dict[Var, _Reach]) -> bool:
    """Whether the host can compute an index: made of sizes and counters of loops around."""
    return is_index_of(e, lambda node: isinstance(node, Count) or (isinstance(node, Var) and node not in reaches))


def _leave_out_circles(reaches: dict[Var, _Reach], rest: list[Expr]) -> None:
    """Turns fixed indices that depend on other fixed indices back into conditions."""
    for var, reach in reaches.items():
        if reach.fixed is not None:
            others = {v for v, r in reaches.items() if r.fixed is not None or v is var}
            if any(node in others for node in scalar_nodes(reach.fixed)):
                rest.append(Op("eq", bool_, (var, reach.check or reach.fixed)))
                reach.fixed = reach.check = None


# The steps


def _with_strides(
    form: Generate,
    choice: _Choice,
    reaches: dict[Var, _Reach],
    rest: list[Expr],
    key: tuple[object, ...],
    tables: Tables,
    assumptions: Assumptions,
) -> _Part:
    axes: list[Axis] = []
    values: dict[Node, Node] = {}
    lazy = list(choice.lazy)
    for axis in form.axes:
        reach = reaches[axis.var]
        if reach.fixed is not None:
            rest += _kept_bounds(axis.var, reach)
        else:
            strided, index = _strided_axis(axis, reach, rest, lazy, assumptions)
            axes.append(strided)
            tables.named_axes.update([strided.var] if axis.var in tables.named_axes else [])
            values[axis.var] = index
    guarded = bool(rest or lazy)
    indices = dict(values)
    for axis in form.axes:
        reach = reaches[axis.var]
        if reach.fixed is not None:
            position = reach.check if reach.check is not None and guarded else reach.fixed
            bare, shown = tables.substitute((reach.fixed, position), values)
            indices[axis.var] = ix.canonical(shown)
            values[axis.var] = Op("clamp_index", i64, (ix.canonical(bare), axis.extent))
    checked = not guarded and any(reach.check is not None for reach in reaches.values())
    value, *new = tables.substitute((choice.value, *rest, *lazy), values)
    tests, guards = tuple(new[: len(rest)]), tuple(new[len(rest) :])
    named: Any = tuple(indices[axis.var] for axis in form.axes)
    where: Any = tuple((axis.var, values[axis.var]) for axis in form.axes)
    old_tests = (*choice.tests, *choice.lazy)
    everywhere = not any(reach.narrow for reach in reaches.values())
    return _Part(
        choice.dest,
        tuple(axes),
        named,
        checked,
        tests,
        guards,
        value,
        choice.value,
        old_tests,
        where,
        key,
        everywhere,
    )


def _kept_bounds(var: Var, reach: _Reach) -> list[Expr]:
    """Returns the bounds of a fixed index as conditions."""
    bounds: list[Expr] = [Op("le", bool_, (low, var)) for low in reach.low]
    bounds += [Op("lt", bool_, (var, high)) for high in reach.high]
    if reach.stride is not None:
        start, stride = reach.stride
        bounds.append(Op("eq", bool_, (Op("mod", i64, (ix.sub(var, start), const(i64, stride))), const(i64, 0))))
    return bounds


def _strided_axis(
    axis: Axis, reach: _Reach, rest: list[Expr], lazy: list[Expr], assumptions: Assumptions
) -> tuple[Axis, Expr]:
    """Returns the axis of steps along an axis of the array, and the index that a step names.

    Where the index may be out of range, a condition is added to `lazy`, so that nothing is evaluated.
    """
    if not reach.narrow and reach.stride is None:
        rest += _kept_bounds(axis.var, reach)
        var = fresh(axis.name)
        return Axis(var, axis.extent), var
    low = reduce(assumptions.greater, reach.low, ix.as_index(0))
    high = reduce(assumptions.lesser, reach.high, axis.extent)
    var = fresh(axis.name)
    if reach.span is not None:
        first, span = reach.span
        rest += _kept_bounds(axis.var, reach)
        if not _is_inside(first, span, axis.extent, assumptions):
            inside = (Op("le", bool_, (const(i64, 0), axis.var)), Op("lt", bool_, (axis.var, axis.extent)))
            lazy.append(conjunction(inside))
        return Axis(var, span if assumptions.nonnegative(span) else ix.maximum(span, 0)), ix.add(first, var)
    stride = 1
    if reach.stride is not None:
        start, by = reach.stride
        low, stride = ix.add(low, ix.mod(ix.sub(start, low), by)), by
    span = ix.sub(high, low)
    count = span if stride == 1 else ix.ceildiv(span, stride)
    extent = count if assumptions.nonnegative(count) else ix.maximum(count, 0)
    return Axis(var, extent), ix.add(low, ix.mul(var, stride))


def _is_inside(first: Expr, span: Expr, extent: Expr, assumptions: Assumptions) -> bool:
    """Whether `span` indices from `first` on are provably in range, or were checked before they were counted."""
    if assumptions.nonnegative(first) and assumptions.less_equal(ix.add(first, span), extent):
        return True
    form = span.array.form if isinstance(span, Count) and isinstance(span.array, Result) else None
    length = form.bodies[0] if isinstance(form, Generate) and len(form.bodies) == 1 else None
    if not isinstance(length, Checked) or not length.kind.endswith("bounds"):
        return False
    start, _, size = length.details
    return ix.canonical(start) is ix.canonical(first) and ix.canonical(size) is ix.canonical(extent)


def _joined(parts: Sequence[_Part], tables: Tables) -> Update:
    """Returns one update of all arrays that change at the same indices."""
    first = parts[0]
    same = {a.var: b.var for part in parts[1:] for a, b in zip(part.axes, first.axes, strict=True)}
    values = [part.value for part in parts]
    if same:
        values = [first.value, *tables.substitute(values[1:], same)]
    indices = list(first.indices)
    named = [d for d, index in enumerate(indices) if not isinstance(index, Var)] or [len(indices) - 1]
    _guard(indices, values, first.tests, first.lazy, named)
    axes = first.axes or (Axis(fresh("r"), const(i64, 1)),)
    dest = tuple(part.dest for part in parts)
    return Update(dest, axes, tuple(indices), (), (), (), (), tuple(values), "unique", first.checked, "")
