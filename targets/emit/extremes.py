"""Networks of float extremes, as of a median, an erosion or a sort of a few elements: NaN is tested once for a network, not in each extreme.

A result of a network is NaN where any of its inputs is. So the extremes inside may drop NaN, which takes one instruction each where the
processor orders zeros by their signs (`Capabilities.ranges`), and each result is replaced by NaN where the inputs are unordered: a
comparison for two inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import f32, f64
from raido.algo.graph.expr import Const, Op
from raido.schedule.nest.nodes import Let, Scatter, Store, VectorStore
from raido.schedule.nest.values import Splat, lanes_of
from raido.schedule.nest.walk import expressions_of, statements_within
from raido.targets.emit.order import is_leaf, order_of
from raido.targets.emit.terms import Term, tir
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.extremes import saved_without_nan

if TYPE_CHECKING:
    from raido.targets.emit.values import Values


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks of a block: all their extremes, and those of which a result is used outside."""

    members: frozenset[Op] = frozenset()
    ends: frozenset[Op] = frozenset()


def find_networks(statements: Sequence[Any], can: Capabilities) -> Networks:
    """The networks among the values of a block's own statements for which one test of NaN takes fewer instructions than a test in each."""
    plain = [s for s in statements if isinstance(s, Let | Store | VectorStore | Scatter)]
    order, _ = order_of(e for s in plain for e in expressions_of(s))
    members = {e for e, _ in order if _is_extreme(e)}
    if len(members) < 2:
        return Networks()
    others = [
        each
        for s in statements
        if not isinstance(s, Let | Store | VectorStore | Scatter)
        for each in statements_within(s)
    ]
    elsewhere = {e for e, _ in order_of(e for s in others for e in expressions_of(s))[0]}
    members -= elsewhere
    named = {s.var: s.value for s in plain if isinstance(s, Let) and s.value in members}
    within = lambda e: named.get(e, e)
    ends = {within(e) for e in elsewhere} | {within(s.value) for s in plain if not isinstance(s, Let)}
    ends |= {within(a) for e, of in order if e not in members for a in of}
    inputs: dict[Any, frozenset[Any]] = {}
    network: dict[Any, set[Any]] = {}
    for e, of in order:
        if e in members:
            below = [within(a) for a in of if not _is_number(a)]
            inputs[e] = frozenset().union(*(inputs.get(a, {a}) for a in below))
            joined = {e}.union(*(network.get(a, {a}) for a in below))
            for each in joined:
                network[each] = joined
    chosen: set[Any] = set()
    for joined in {id(each): each for each in network.values()}.values():
        extremes, results = joined & members, {inputs[e] for e in joined & ends & members}
        saved = sum(
            saved_without_nan(e.name, e.dtype, lanes_of(e), can) for e in extremes if not any(map(_is_number, e.args))
        )
        if saved > sum((len(each) + 1) // 2 for each in results) + len(joined & ends):
            chosen |= extremes
    return Networks(frozenset(chosen), frozenset(chosen & ends))


def bind_inputs(values: Values, e: Op) -> list[Term]:
    """The operands of an extreme of a network; names the inputs of the network, which each result is tested by."""
    inputs: dict[int, Term] = {}
    for a in e.args:
        if a in values.inputs and (is_leaf(a) or a in values.networks.members):
            inputs |= values.inputs[a]
        elif not _is_number(a):
            if not is_leaf(a):
                values.memo[a] = values.unit.bind("v", e.dtype, lanes_of(e), tir(values.memo[a]))
            inputs[id(values.memo[a])] = values.memo[a]
    values.inputs[e] = inputs
    return [values.memo[a] for a in e.args]


def nan_of_inputs(values: Values, e: Op, result: Term) -> Term:
    """The result of a network, or NaN where one of its inputs is."""
    inputs = values.inputs[e].values()
    symbol = values.unit.helpers.values.unless_unordered(e.dtype, lanes_of(e), len(inputs))
    return values.unit.call(symbol, e.dtype, lanes_of(e), result, *inputs)


def _is_extreme(e: Any) -> bool:
    return isinstance(e, Op) and e.name in ("minimum", "maximum") and e.dtype in (f32, f64) and lanes_of(e) > 1


def _is_number(e: Any) -> bool:
    """Whether an operand is a literal other than NaN."""
    known = e.value if isinstance(e, Splat) else e
    return isinstance(known, Const) and not math.isnan(known.value)
