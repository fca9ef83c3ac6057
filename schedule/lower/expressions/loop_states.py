"""Bounds of the integers that scalar loops carry from iteration to iteration.

    while_loop(s > 0 and …, s -> s - 1, start k)      0 <= s <= k, and 1 <= s inside an iteration

Bounds are guessed from the states' initial values and from comparisons in the condition. A guess stays if it holds of the initial value,
and of the next one wherever all guesses and the condition held before it; the others are dropped until a fixed point is reached (Flanagan
and Leino, "Houdini", FME 2001). States are i64; one that is not bounded on both sides might wrap, so nothing is assumed of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.assumed import assumed
from raido.algo.graph.assumptions import Assumptions, Interval, interval
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Checked, Expr, Item, Loop, Node, Op, Var, While, const
from raido.algo.graph.rewrite import children, free_variables, post_order, scalar_nodes, scalars_below, substitute
from raido.schedule.lower.expressions.index_checks import is_affine, range_of, same_value

_GUESSES = 6  # of one side of a state: a loop compares it with few numbers, and each costs a proof in every pass
_EXACT = 1 << 53  # numbers below this leave room for index arithmetic in 64 bits
_DEPTH = 6  # operations that are looked through
_NOTHING_KNOWN = Assumptions()

Bound: TypeAlias = tuple[Var, Expr, bool]  # a state, a number, and whether the state is at least that; else at most


def is_of_loop(e: Node) -> bool:
    """Whether an expression is the final i64 state of a scalar loop."""
    return isinstance(e, Item) and isinstance(e.form, (Loop, While)) and e.form.state[e.index].dtype is i64


def as_state(e: Expr) -> Expr:
    """An index with each final state of a loop replaced by the state's variable: bounds of a state hold after the loop as well."""
    found = {item: item.form.state[item.index] for item in _atoms(e) if is_of_loop(item)}  # type: ignore[attr-defined]
    return ix.canonical(substitute(e, found)) if found else e


def _atoms(e: Expr) -> Iterator[Expr]:
    """The subexpressions of an index that are opaque to index arithmetic."""
    stack = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Op) and part.dtype is i64 and part.name in _LINEAR:
            stack += part.args
        else:
            yield part


_LINEAR = {"add", "sub", "mul", "neg", "minimum", "maximum", "floordiv", "mod"}


def with_loop_states(
    assumptions: Assumptions, order: Sequence[Node], values: Mapping[Node, Node]
) -> tuple[Assumptions, dict[Node, Assumptions]]:
    """The assumptions with a range for each state of the loops in `order`; and, for nodes inside iterations, assumptions that also have all
    bounds and the loop's condition.

    values: the values of the expressions' variables, in terms of the assumptions.
    """
    loops = [node for node in reversed(order) if isinstance(node, (Loop, While)) and _counters(node)]
    known: dict[Node, tuple[Expr, ...]] = {}
    for loop in loops:
        around = assumptions.with_known(*known.get(loop, ()))
        bounds = _Guessing(loop, around, values).bounds()
        if not bounds:
            continue
        ranges, more = _bounded(loop, bounds, around, values)
        assumptions = _ranged(assumptions, ranges)
        if isinstance(loop, While):
            more += _known(loop.condition, True, values)
        for node in _of_iterations(loop) if more else ():
            known[node] = (*known.get(node, ()), *more)
    alike = {parts: assumptions.with_known(*parts) for parts in set(known.values())}
    return assumptions, {node: alike[parts] for node, parts in known.items()}


def _counters(loop: Loop | While) -> list[int]:
    """The positions of the states that are scalar i64."""
    return [k for k, var in enumerate(loop.state) if var.dtype is i64 and not hasattr(var, "shape")]


def _of_iterations(loop: Loop | While) -> list[Node]:
    """The nodes evaluated by a loop's iterations only, and not by its condition."""
    before = set(scalar_nodes(loop.condition)) if isinstance(loop, While) else set()
    depends: set[Node] = {*loop.state}
    found = []
    for node in scalar_nodes(*loop.body):
        if node not in depends and any(child in depends for child in children(node)):
            depends.add(node)
            if node not in before:
                found.append(node)
    return found


def _bounded(
    loop: Loop | While, bounds: Iterable[Bound], assumptions: Assumptions, values: Mapping[Node, Node]
) -> tuple[dict[Var, Interval], list[Expr]]:
    """A range for each state, in all iterations and after the loop; and further expressions that are at least 0 in an iteration."""
    end: dict[Var, Expr] = {}
    if isinstance(loop, Loop):
        count = _plain(loop.count, values) if _is_index(loop.count) else loop.index
        end[loop.index] = count if assumptions.nonnegative(count) else ix.maximum(count, 0)
    sides: dict[Var, tuple[list[Expr], list[Expr]]] = {}
    more: list[Expr] = []
    for var, number, least in bounds:
        last = ix.canonical(substitute(number, end))
        if end.keys().isdisjoint(free_variables(last)):
            sides.setdefault(var, ([], []))[not least].append(last)
        if last is not number:
            more.append(ix.sub(var, number) if least else ix.sub(number, var))
    ranges: dict[Var, Interval] = {}
    for var, (lows, highs) in sides.items():
        low, high = _tightest(lows, True), _tightest(highs, False)
        if low and high:
            ranges[var] = low[0], high[0]
        more += [ix.sub(var, number) for number in low] + [ix.sub(number, var) for number in high]
    return ranges, more


def _ranged(assumptions: Assumptions, ranges: Mapping[Var, Interval]) -> Assumptions:
    for var, (low, high) in ranges.items():
        assumptions = assumptions.with_range(var, low, high)
    return assumptions


def _tightest(numbers: Sequence[Expr], least: bool) -> list[Expr]:
    """The bounds with the tightest literal first, without the other literals."""
    literals = [value for number in numbers if (value := ix.constant_value(number)) is not None]
    rest = [number for number in numbers if ix.constant_value(number) is None]
    return [ix.as_index(max(literals) if least else min(literals)), *rest] if literals else rest


class _Guessing:
    """The guessed and proved bounds of one loop's states."""

    def __init__(self, loop: Loop | While, assumptions: Assumptions, values: Mapping[Node, Node]) -> None:
        self.loop, self.assumptions, self.values = loop, assumptions, values
        self.own = {*loop.state, *((loop.index,) if isinstance(loop, Loop) else ())}
        self.order = post_order(loop.body, _below_loops)

    def bounds(self) -> list[Bound]:
        """The bounds that hold at the start of every iteration and after the loop; each state has bounds on both sides, or none."""
        guesses = self._first(self._guesses())
        while guesses:
            kept = self._both_sided(self._next(guesses))
            if kept == guesses:
                break
            guesses = kept
        return guesses

    def _guesses(self) -> list[Bound]:
        lows: list[Expr] = [ix.as_index(0), ix.as_index(-1)]
        highs: list[Expr] = []
        for init in (part for k in _counters(self.loop) for part in _chosen_among(self.loop.init[k])):
            if _is_index(init):
                lows.append(_plain(init, self.values))
                highs.append(lows[-1])
            reach = _reach(init, self.assumptions, self.values)
            if reach is not None:
                lows.append(reach[0])
                highs.append(reach[1])
        if isinstance(self.loop, While):
            for gap in _known(self.loop.condition, True, self.values):
                for bound, least in self._compared(gap):
                    (lows if least else highs).extend(bound)
        if isinstance(self.loop, Loop):
            highs += [ix.add(high, self.loop.index) for high in highs]
        pool = [(list(dict.fromkeys(side))[:_GUESSES]) for side in (lows, highs)]
        return [
            (self.loop.state[k], number, not side)
            for k in _counters(self.loop)
            for side in (0, 1)
            for number in pool[side]
        ]

    def _compared(self, gap: Expr) -> Iterator[tuple[list[Expr], bool]]:
        """The numbers that a state is compared with where `gap` >= 0, extended by the steps that the last iteration may go beyond them; and
        whether they are low bounds."""
        terms = ix.linear(gap)[1]
        for k in _counters(self.loop):
            var = self.loop.state[k]
            c = terms.get(var)
            rest = ix.sub(gap, ix.mul(var, c)) if c in (1, -1) else None
            if rest is not None and self.own.isdisjoint(free_variables(rest)):
                limit = ix.mul(rest, -1) if c == 1 else rest
                beyond = [offset for offset in _offsets(var, self.loop.body[k]) if offset * c < 0]  # type: ignore[operator]
                yield [limit, *(ix.add(limit, offset) for offset in beyond)], c == 1

    def _first(self, guesses: Sequence[Bound]) -> list[Bound]:
        """The guesses that hold of the states' initial values."""
        start = {self.loop.index: ix.as_index(0)} if isinstance(self.loop, Loop) else {}
        held = []
        for var, number, least in guesses:
            init = self.loop.init[self.loop.state.index(var)]
            if _holds(init, substitute(number, start), least, self.assumptions, self.values):
                held.append((var, number, least))
        return self._both_sided(held)

    def _next(self, guesses: list[Bound]) -> list[Bound]:
        """The guesses that hold after an iteration before which all of them did."""
        ranges, more = _bounded(self.loop, guesses, self.assumptions, self.values)
        assumptions = _ranged(self.assumptions, ranges)
        after: dict[Var, Expr] = {}
        if isinstance(self.loop, While):
            more += _known(self.loop.condition, True, self.values)
        else:
            after = {self.loop.index: ix.add(self.loop.index, 1)}
            reach = _reach(self.loop.count, self.assumptions, self.values)
            high = ix.sub(reach[1], 1) if reach is not None else ix.as_index(_EXACT)
            assumptions = assumptions.with_range(self.loop.index, 0, high)
        assumptions = self._with_inner(assumptions.with_known(*more))
        held = []
        for var, number, least in guesses:
            value = self.loop.body[self.loop.state.index(var)]
            if _holds(value, ix.canonical(substitute(number, after)), least, assumptions, self.values):
                held.append((var, number, least))
        return held

    def _with_inner(self, assumptions: Assumptions) -> Assumptions:
        """The assumptions with the ranges of the final states of loops inside an iteration."""
        for node in reversed(self.order):
            if isinstance(node, (Loop, While)) and _counters(node):
                bounds = _Guessing(node, assumptions, self.values).bounds()
                assumptions = _ranged(assumptions, _bounded(node, bounds, assumptions, self.values)[0])
        return assumptions

    def _both_sided(self, bounds: list[Bound]) -> list[Bound]:
        sides = [{var for var, _, least in bounds if least == side} for side in (True, False)]
        both = sides[0] & sides[1]
        return [bound for bound in bounds if bound[0] in both]


def _below_loops(node: Node) -> Sequence[Node]:
    """The scalar operands of a node; of a loop those evaluated before its iterations."""
    below = scalars_below(node)
    if not isinstance(node, (Loop, While)):
        return below
    before = {*node.init, *((node.count,) if isinstance(node, Loop) else ())}
    return [operand for operand in below if operand in before]


def _chosen_among(e: Expr) -> list[Expr]:
    """Returns the values that a selection selects among; the value itself if it is none."""
    if isinstance(e, Op) and e.name == "select":
        return [part for each in e.args[1:] for part in _chosen_among(each)]
    return [e]


def _offsets(var: Var, e: Expr) -> list[int]:
    """The constants by which an iteration changes a state."""
    found, stack = [], [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Op) and part.name == "select":
            stack += part.args[1:]
            continue
        offset = ix.difference(part, var) if part.dtype is i64 and _is_index(part) else None
        if offset:
            found.append(offset)
    return found


def _plain(e: Expr, values: Mapping[Node, Node]) -> Expr:
    """An index of variables and sizes, in terms of the assumptions."""
    e = ix.canonical(e)
    own = {v: values[v] for v in free_variables(e) if v in values}
    return as_state(ix.canonical(substitute(e, own)) if own else e)


def _reach(e: Expr, assumptions: Assumptions, values: Mapping[Node, Node]) -> tuple[Expr, Expr] | None:
    """Inclusive bounds of a value; None where they are unknown or not below 2^53 in magnitude."""
    if e.dtype is i64 and _is_index(e):
        plain = _plain(e, values)
        return interval(plain, assumptions.ranges, assumptions)
    least, most = range_of(e)
    return (ix.as_index(least), ix.as_index(most)) if _is_exact(least) and _is_exact(most) else None


def _is_exact(number: int) -> bool:
    return -_EXACT < number < _EXACT


def _is_index(e: Expr) -> bool:
    """Whether a value consists of variables, sizes and final states of loops, by index arithmetic alone."""
    return all(is_affine(atom) or is_of_loop(atom) for atom in _atoms(e))


def _holds(
    e: Expr, number: Expr, least: bool, assumptions: Assumptions, values: Mapping[Node, Node], depth: int = _DEPTH
) -> bool:
    """Whether a value is provably at least (`least`) or at most `number`."""
    again = lambda part, known=assumptions: _holds(part, number, least, known, values, depth - 1)
    if e.dtype is i64 and _is_index(e):
        plain = _plain(e, values)
        return assumptions.less_equal(number, plain) if least else assumptions.less_equal(plain, number)
    limit = range_of(e)[not least]
    if _is_exact(limit) and (assumptions.less_equal(number, limit) if least else assumptions.less_equal(limit, number)):
        return True
    if not isinstance(e, (Op, Checked)) or not depth:
        return False
    if isinstance(e, Checked):
        return again(e.value, _assumed(assumptions, e.holds, True, values)) and again(const(e.dtype, 0))
    if e.name == "select":
        test, one, other = e.args
        return again(one, _assumed(assumptions, test, True, values)) and again(
            other, _assumed(assumptions, test, False, values)
        )
    if e.name in ("minimum", "maximum"):
        return (all if (e.name == "minimum") == least else any)(again(part) for part in e.args)
    if e.name in ("add", "sub") and e.dtype is i64:
        return _sum_holds(e, number, least, assumptions, values, depth)
    inner = same_value(e)
    return inner is not None and not inner.dtype.is_float and again(inner)


def _sum_holds(
    e: Op, number: Expr, least: bool, assumptions: Assumptions, values: Mapping[Node, Node], depth: int
) -> bool:
    """Whether a sum or difference of an index and another value is provably at least, or at most, `number`: the bound for the other value
    is `number` without the index."""
    for one, other in (e.args, e.args[::-1]):
        if not (one.dtype is i64 and _is_index(one)):
            continue
        plain = _plain(one, values)
        if e.name == "add":
            return _holds(other, ix.sub(number, plain), least, assumptions, values, depth - 1)
        if other is e.args[1]:
            return _holds(other, ix.sub(plain, number), not least, assumptions, values, depth - 1)
        return _holds(other, ix.add(number, plain), least, assumptions, values, depth - 1)
    return False


def _assumed(assumptions: Assumptions, test: Expr, holds: bool, values: Mapping[Node, Node]) -> Assumptions:
    known = _known(test, holds, values)
    return assumptions.with_known(*known) if known else assumptions


def _known(test: Expr, holds: bool, values: Mapping[Node, Node]) -> list[Expr]:
    """Index expressions that are at least 0 where a test holds, or (`holds` false) where it does not."""
    return [_plain(gap, values) for gap in assumed(test, holds, _NOTHING_KNOWN) if _is_index(gap)]
