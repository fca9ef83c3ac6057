"""Outputs that regroup the elements of an array, as a reshape does, are computed in the shape of that array, and viewed in their own.

    out[x] = f(a[x // m, x % m])                     →      n[i, j] = f(a[i, j]);  out[x] = n[x // m, x % m], of kind "view"

Loops over `n` divide no index, and its short axes can be unrolled or vectorized like others. A view holds the elements of an array in the
same row-major order: as an output it is the memory of that array, so nothing is copied. Specialisation for sizes changes no view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from raido.algo.graph import index
from raido.algo.graph.expr import (
    Array,
    Axis,
    Count,
    Expr,
    Generate,
    Load,
    Node,
    Op,
    Reduce,
    Result,
    Scan,
    Sort,
    Var,
    fresh,
)
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import children, free_variables, loads_in, scalar_nodes, substitute, topological

VIEW = "view"
_PHASES = (
    8  # indices: axes split by no more are unrolled where they are read at quotients (`schedule/defaults/phases.py`)
)


def regroup_outputs(program: Program) -> Program:
    """The program whose outputs regroup no array: each unnamed one that does, and that nothing else reads, is a view."""
    from raido.algo.passes.finish import follow_tables

    memo: dict[Node, Node] = {}
    views: dict[Node, str] = {}
    uses: Counter[Array] = Counter(
        child for node in topological(*program.results) for child in children(node) if isinstance(child, Result)
    )
    for root in program.results:
        form = _plain(program, root) if not uses[root] else None
        made = _ungrouped(program, form, uses) if form is not None else None
        if form is not None and made is not None:
            axes = tuple(Axis(fresh(axis.name), axis.extent) for axis in form.axes)
            positions = _regrouped([axis.var for axis in axes], root.shape, made.shape)
            view = Generate(axes, (Load(made, positions, False),))
            memo |= {form: made.form, root: Result(view, 0)}
            views[view] = VIEW
    if not views:
        return program
    program = follow_tables(program, memo, (memo.get(root, root) for root in program.results))
    return replace(program, kinds={**program.kinds, **views})


def _plain(program: Program, array: Array) -> Generate | None:
    """Returns the form of an array if it is an unnamed move or expression of elements, else None."""
    form = array.form if isinstance(array, Result) else None
    if not isinstance(form, Generate) or len(form.bodies) != 1 or program.names.get(form):
        return None
    plain = program.kinds.get(form) in ("move", "elementwise")
    return form if plain and not any(isinstance(e, Reduce) for e in scalar_nodes(*form.bodies)) else None


def _ungrouped(program: Program, form: Generate, uses: Counter[Array]) -> Result | None:
    """Returns the array of a form's elements in the shape of an array that it regroups; None where it regroups none."""
    if any(isinstance(node, Count) for node in topological(*(axis.extent for axis in form.axes))):
        return None
    body, axes = _inlined(program, form, uses), form.axes
    while regrouping := next(_regroupings(axes, body, program), None):
        first, end, dims, indices = regrouping
        parts = tuple(Axis(fresh("_"), n) for n in dims)
        positions = [part.var for part in parts]
        whole = _regrouped(positions, dims, [axis.extent for axis in axes[first:end]])
        values = {axis.var: e for axis, e in zip(axes[first:end], whole, strict=True)}
        body = substitute(body, {**values, **dict(zip(indices, positions, strict=True))})
        divided = (e for e in scalar_nodes(body) if isinstance(e, Op) and e.name in DIVISIONS)
        if any(not free_variables(e).isdisjoint(positions) for e in divided):
            return None
        axes = (*axes[:first], *parts, *axes[end:])
    if axes is form.axes:
        return None
    return _repeated(body, axes) or Result(Generate(axes, (body,)), 0)


def _inlined(program: Program, form: Generate, uses: Counter[Array]) -> Expr:
    """Returns the body of a form with its pointwise producers substituted, and theirs, each body rewritten once."""
    values: dict[Node, Node] = {}
    bodies, readers = [(form.bodies[0], values)], list[tuple[Load, dict[Node, Node]]]()
    for body, values in bodies:
        for load, made in _pointwise(program, body, uses):
            renamed = (values.get(e, e) for e in load.indices)
            bodies.append((made.bodies[0], {axis.var: e for axis, e in zip(made.axes, renamed, strict=True)}))
            readers.append((load, values))
    for (body, values), (load, above) in zip(reversed(bodies), reversed(readers), strict=False):
        above[load] = substitute(body, values)
    return substitute(*bodies[0])


def _pointwise(program: Program, body: Expr, uses: Counter[Array]) -> Iterator[tuple[Load, Generate]]:
    """Yields the loads, each the only use of an array of elementwise expressions, at an index made of distinct axes, with the form of the
    array.
    """
    for load in loads_in(body):
        distinct = len(set(load.indices)) == len(load.indices) and all(isinstance(e, Var) for e in load.indices)
        if distinct and not load.checked and uses[load.array] == 1 and (form := _plain(program, load.array)):
            yield load, form


def _regroupings(
    axes: Sequence[Axis], body: Expr, program: Program
) -> Iterator[tuple[int, int, tuple[Expr, ...], tuple[Expr, ...]]]:
    """Yields runs of axes, `first` to `end`, whose indices are regrouped to read several dimensions of an array: the sizes and indices of
    these.
    """
    equal = {(check.left, check.right) for check in program.size_checks}
    for load in loads_in(body):
        if load.checked or any(isinstance(node, Count) for node in topological(*load.array.shape)):
            continue
        dims = [(n, e) for n, e in zip(load.array.shape, load.indices, strict=True) if index.constant_value(n) != 1]
        runs = [(k, k + 1) for k in range(len(axes))] + [(0, len(axes))] * (len(axes) > 1)
        for first, end in runs:
            positions, extents = [axis.var for axis in axes[first:end]], [axis.extent for axis in axes[first:end]]
            for low in range(len(dims) - 1):
                for high in range(low + 2, len(dims) + 1):
                    sizes, indices = zip(*dims[low:high], strict=True)
                    counts = _count(extents), _count(sizes)
                    if (
                        (counts[0] is counts[1] or counts in equal or counts[::-1] in equal)
                        and len(sizes) > len(extents)
                        and not any(index.constant_value(e) is not None for e in indices)  # of no elements
                        and indices == _regrouped(positions, extents, sizes)
                    ):
                        yield first, end, sizes, indices
        nodes = set(scalar_nodes(*load.indices))
        for k, axis in enumerate(axes):
            for d in (e.args[1] for e in nodes if isinstance(e, Op) and e.name == "mod" and e.args[0] is axis.var):
                parts = index.floordiv(axis.var, d), index.mod(axis.var, d)
                whole, part = index.constant_value(axis.extent) or 1, index.constant_value(d) or 1
                if nodes.issuperset(parts) and part > _PHASES and whole % part == 0:
                    yield k, k + 1, (index.as_index(whole // part), d), parts


def _regrouped(positions: Sequence[Expr], new: Sequence[Expr], old: Sequence[Expr]) -> tuple[Expr, ...]:
    from raido.algo.language.moves import regrouped

    return regrouped(positions, new, old)


def _count(extents: Sequence[Expr]) -> Expr:
    return reduce(index.mul, extents, index.as_index(1))


def _repeated(body: Expr, axes: Sequence[Axis]) -> Result | None:
    """Returns the array, made by the program, that a form repeats element for element; None without one."""
    if not isinstance(body, Load) or body.checked or not isinstance(body.array, Result):
        return None
    dims = [(n, e) for n, e in zip(body.array.shape, body.indices, strict=True) if index.constant_value(n) != 1]
    same = dims == [(axis.extent, axis.var) for axis in axes]
    return body.array if same and isinstance(body.array.form, Generate | Scan | Sort) else None
