"""The interior, in which a stage's boundary operations are the identity: conditions on a tile, and bounds of the loop along one axis.

A boundary operation `clamp(e, n)` (wrap, mirror alike) is the identity where 0 <= e and e <= n − 1. For the axes that are chosen outside,
that is a condition on the tile; along the axis whose index set is split (Allen & Kennedy), solving for it gives the interior [low, high].
Nested operations are solved with the inner ones taken as the identity, so a chain of inlined stencils has one interior.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, interval
from raido.algo.graph.expr import Checked, Const, Expr, Node, Op, SizeVar, Var
from raido.algo.graph.rewrite import rebuild, scalar_nodes, substitute
from raido.schedule.lower.expressions.index_checks import is_made_of_sizes

Ranges = Mapping[Var, tuple[Expr, Expr]]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A boundary operation: its node, the boundary operations in its index, the index with these removed, the extent, and the variables of
    the index. If the index is a quotient, `index` and `extent` are those of its dividend."""

    node: Op
    inner: tuple[Op, ...]
    index: Expr
    extent: Expr
    variables: frozenset[Var]


@dataclass(slots=True)
class Interior:
    """The conditions under which boundary operations are the identity: `conditions` (each at least 0), or along the
    split axis `lows` <= x <= `highs`."""

    conditions: list[Expr] = field(default_factory=list)
    lows: list[Expr] = field(default_factory=list)
    highs: list[Expr] = field(default_factory=list)
    identity: set[Node] = field(default_factory=set)
    along: dict[Boundary, tuple[Expr, Expr]] = field(default_factory=dict)  # bounds of each one's interior


def boundaries_of(bodies: tuple[Expr, ...]) -> list[Boundary]:
    """The boundary operations whose index is affine, but for quotients and remainders, or the quotient of such an index, and whose extent is
    made of sizes; inner ones first."""
    found: dict[Op, Boundary] = {}
    for node in scalar_nodes(*bodies):
        if not isinstance(node, Op) or node.name not in ix.BOUNDARY_OPS:
            continue
        inner = [n for n in scalar_nodes(node.args[0]) if isinstance(n, Op) and n.name in ix.BOUNDARY_OPS]
        if any(n not in found for n in inner):
            continue
        checks = [n for n in scalar_nodes(node.args[0]) if isinstance(n, Checked)]
        index, divisor = _dividend(without_boundaries(node.args[0], [*inner, *checks]))
        variables = _variables_of_bounded(index)
        known = all(isinstance(n, (Const, SizeVar, Op)) for n in scalar_nodes(node.args[1]))
        if checks and not variables:  # all iterations check the same index
            continue
        if variables is not None and known:
            found[node] = Boundary(node, tuple(inner), index, ix.mul(node.args[1], divisor), variables)
    return list(found.values())


def boundary_at(boundary: Boundary, values: Mapping[Node, Expr]) -> Boundary | None:
    """Returns a boundary operation with values for axes in its index; None where that is no longer affine."""
    index = ix.canonical(substitute(boundary.index, values))
    variables = _variables_of_bounded(index)
    return None if variables is None else replace(boundary, index=index, variables=variables)


def _dividend(e: Expr) -> tuple[Expr, int]:
    """The dividend and divisor of an index: a + c·d and d for ⌊a / d⌋ + c with a positive constant d, else the index and 1. The quotient
    lies in 0 … n − 1 where the dividend lies in 0 … d·n − 1."""
    constant, terms = ix.linear(e)
    (atom, *others) = terms or (None,)
    if isinstance(atom, Op) and atom.name == "floordiv" and not others and terms[atom] == 1:
        divisor = ix.constant_value(atom.args[1]) or 0
        if divisor > 0:
            inner, further = _dividend(ix.add(atom.args[0], constant * divisor))
            return inner, divisor * further
    return e, 1


def without_boundaries(e: Expr, gone: Collection[Node]) -> Expr:
    """An index in which the boundary operations and checks in `gone` are replaced by the index inside."""
    if not gone:
        return ix.canonical(e)
    memo: dict[Node, Node] = {}
    for node in scalar_nodes(e):
        new = rebuild(node, lambda child: memo.get(child, child))
        memo[node] = (new.value if isinstance(new, Checked) else new.args[0]) if node in gone else new  # type: ignore[attr-defined]
    return ix.canonical(memo[e])  # type: ignore[arg-type]


def _variables_of_bounded(e: Expr) -> frozenset[Var] | None:
    """The variables of an index that is a sum of products with factors made of constants and sizes, or of their quotients and remainders;
    None for any other index."""
    variables: set[Var] = set()
    for atom in ix.linear(e)[1]:
        if is_made_of_sizes(atom):
            continue
        for node in scalar_nodes(atom):
            if isinstance(node, Var):
                variables.add(node)
            elif not isinstance(node, (Const, SizeVar)) and not (isinstance(node, Op) and node.name in _BOUNDED):
                return None
    return frozenset(variables)


_BOUNDED = ("add", "mul", "sub", "floordiv", "mod")  # of which `interval` finds bounds


def interior_of(
    boundaries: list[Boundary], allowed: set[Var], ranges: Ranges, peeled: Var | None, assumptions: Assumptions
) -> Interior:
    """The interior of the boundaries over `allowed` variables, which range over `ranges`; `peeled` is the axis to solve
    for, None for conditions only."""
    result = Interior()
    for b in boundaries:
        if not b.variables <= allowed or any(n not in result.identity for n in b.inner):
            continue
        last = ix.sub(b.extent, 1)
        if peeled is None or peeled not in b.variables:
            bounds = interval(b.index, ranges, assumptions)
            if bounds is None:
                continue
            wanted = [bounds[0], ix.sub(last, bounds[1])]
            if any(assumptions.nonnegative(ix.sub(-1, e)) or contradicts(e, result.conditions) for e in wanted):
                continue
            result.conditions += [e for e in wanted if not assumptions.nonnegative(e) and e not in result.conditions]
        else:
            k = ix.linear(b.index)[1].get(peeled)
            rest = None if k is None else interval(ix.sub(b.index, ix.mul(peeled, k)), ranges, assumptions)
            if rest is None or k is None:
                continue
            result.along[b] = _solve(result, k, rest, last)
        result.identity.add(b.node)
    return result


def contradicts(e: Expr, conditions: list[Expr]) -> bool:
    """Whether e >= 0 cannot hold together with one of the conditions."""
    sums = (ix.constant_value(ix.add(e, c)) for c in conditions)
    return any(s is not None and s < 0 for s in sums)


def _solve(result: Interior, k: int, rest: tuple[Expr, Expr], last: Expr) -> tuple[Expr, Expr]:
    """Solves 0 <= k·x + rest <= last for x: the least and the greatest value, which it adds to `result`."""
    if k > 0:
        low = ix.ceildiv(ix.mul(rest[0], -1), k)
        high = ix.floordiv(ix.sub(last, rest[1]), k)
    else:
        low = ix.ceildiv(ix.sub(rest[1], last), -k)
        high = ix.floordiv(rest[0], -k)
    if low not in result.lows:
        result.lows.append(low)
    if high not in result.highs:
        result.highs.append(high)
    return low, high


def solved(result: Interior) -> tuple[Expr, Expr] | None:
    """The inclusive bounds of the interior along the split axis; None when there was nothing to solve."""
    if not result.lows:
        return None
    low, high = result.lows[0], result.highs[0]
    for e in result.lows[1:]:
        low = ix.maximum(low, e)
    for e in result.highs[1:]:
        high = ix.minimum(high, e)
    return low, high
