"""Reads that a selection takes only where their index is in range need no boundary operation: they are predicated by the selection's mask.

    a[clamp(x - r)] if 0 <= x - r and x - r < n else 0     becomes     a[x - r] where 0 <= x - r and x - r < n

A clamp along lanes is a vector and two elements, each under a mask of its own, and two selections. Padded arrays, stencils with a constant
boundary and convolutions through these have such selections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from raido.algo.graph import index as ix
from raido.algo.graph.assumed import assumed
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Const, Expr, Node, Op, Var
from raido.algo.graph.rewrite import free_variables, substitute, topological
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.nodes import For, Let, Nest
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import expressions_of, statements_within
from raido.schedule.stages.boundary_rules import clamped_index

_NOTHING_KNOWN = Assumptions()


def read_where_chosen(nest: Nest) -> Nest:
    """The nest with reads in vector loops predicated by the selections that take them."""
    names: dict[Expr, Expr] = {
        s.var: s.value  # type: ignore[misc]
        for s in statements_within(nest.body)
        if isinstance(s, Let) and isinstance(s.var, Var) and s.var.dtype is bool_
    }

    def made(loop: For) -> For:
        change = partial(_choice, lane=loop.var, names=names)
        return map_expressions(loop, change, lambda buffer: buffer) if _chooses(loop) else loop

    return replace_vector_loops(nest, made)


def _chooses(loop: For) -> bool:
    """Whether a vector loop has selections."""
    nodes = topological(*(e for s in statements_within(loop) for e in expressions_of(s)))
    return any(isinstance(node, Op) and node.name == "select" for node in nodes)


def _choice(e: Node, lane: Var, names: Mapping[Expr, Expr]) -> Node:
    if not isinstance(e, Op) or e.name != "select":
        return e
    predicate, taken, other = e.args
    reads = [node for node in topological(taken) if isinstance(node, Read) and _clamped_along(node, lane)]
    if not reads:
        return e
    bounds = list(assumed(names.get(predicate, predicate), True, _NOTHING_KNOWN))
    memo: dict[Node, Node] = {read: new for read in reads if (new := _under(read, predicate, bounds, lane, names))}
    if not memo:
        return e
    is_zero = isinstance(other, Const) and not np.signbit(other.value) and not other.value
    taken, alone = substitute(taken, memo), taken in memo
    return taken if alone and is_zero else Op("select", e.dtype, (predicate, taken, other))


def _clamped_along(read: Read, lane: Var) -> dict[int, tuple[Expr, Expr]]:
    """The dimensions along which the lanes of a read are clamped, with the unclamped index and the size of each."""
    found = {}
    for d, (index, size) in enumerate(zip(read.indices, read.buffer.shape, strict=True)):
        if lane in free_variables(index) and (clamped := clamped_index(index, size)) is not None:
            found[d] = clamped
    return found


def _under(read: Read, predicate: Expr, bounds: Iterable[Expr], lane: Var, names: Mapping[Expr, Expr]) -> Read | None:
    """The read predicated by the selection's condition, without clamps, if its lanes are provably in range there; else None."""
    indices, clamped = list(read.indices), _clamped_along(read, lane)
    for d, (index, size) in clamped.items():
        if not all(_is_among(each, bounds) for each in (index, ix.sub(ix.sub(size, 1), index))):
            return None
        indices[d] = index
    sizes = [size for _, size in clamped.values()]
    already = read.predicate
    if already is None or _says_nonempty(names.get(already, already), sizes):  # type: ignore[call-overload, arg-type]
        return Read(read.buffer, tuple(indices), predicate)
    return Read(read.buffer, tuple(indices), Op("logical_and", bool_, (already, predicate)))  # type: ignore[arg-type]


def _is_among(e: Expr, bounds: Iterable[Expr]) -> bool:
    """Whether an index exceeds one of these nonnegative indices by a nonnegative constant."""
    distances = (ix.difference(e, bound) for bound in bounds)
    return any(distance is not None and distance >= 0 for distance in distances)


def _says_nonempty(predicate: Expr, sizes: Iterable[Expr]) -> bool:
    """Whether a comparison holds exactly where a dimension of one of these sizes is not empty, which an index in range implies."""
    alone = isinstance(predicate, Op) and predicate.name in ("lt", "le", "gt", "ge")
    bounds = list(assumed(predicate, True, _NOTHING_KNOWN)) if alone else []
    return bool(bounds) and any(
        _is_among(bounds[0], [ix.sub(size, 1)]) and _is_among(ix.sub(size, 1), bounds) for size in sizes
    )
