"""Forms whose elements depend on one another (`Scan`), while stages are formed: axes renamed, outer axes put in front, copies left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from raido.algo.expr import Array, Axis, Generate, Load, Node, Result, Scan, Var, fresh
from raido.algo.rewrite import rebuild, topological

if TYPE_CHECKING:
    from raido.schedule.stages.normalise import Tables

Dependent: TypeAlias = Scan
DEPENDENT = (Scan,)


def close_form(form: Dependent, outer: Sequence[Axis], tables: Tables) -> Dependent:
    """`form` with `outer` axes in front, as fresh variables."""
    names: dict[Node, Var] = {axis.var: fresh(axis.name) for axis in outer}
    memo: dict[Node, Node] = dict(names)
    extents = tables.rewrite([axis.extent for axis in outer], lambda node: node, memo)
    leading = tuple(Axis(names[axis.var], extent) for axis, extent in zip(outer, extents, strict=True))
    (new,) = tables.rewrite((form,), lambda node: node, memo)
    parts = {name: getattr(new, name) for name in Scan.FIELDS}
    parts |= {"axes": leading + new.axes, "along": new.along + len(leading)}
    return Scan(*parts.values())


def rename_axes(form: Dependent, names: Sequence[str], tables: Tables) -> Dependent:
    """`form` with fresh variables of these names for its axes."""
    memo: dict[Node, Node] = {axis.var: fresh(name) for axis, name in zip(form.axes, names, strict=True)}
    (new,) = tables.rewrite((form,), lambda node: node, memo)
    return new


def leave_out_copies(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Arrays that only repeat what such a form makes (rows of a mapped function that returns a scan) are that form's results."""
    memo: dict[Node, Node] = {}
    for node in topological(*roots):
        new = rebuild(node, memo.__getitem__)
        tables.carry(node, new)
        if isinstance(new, Result) and isinstance(new.form, Generate):
            source = _copied(new.form, new.index)
            if source is not None:
                sources = {getattr(_copied(new.form, k), "form", None) for k in range(len(new.form.bodies))}
                if sources == {source.form}:
                    tables.pass_names(new.form, source.form)
                new = source
        memo[node] = new
    return tuple(memo[root] for root in roots)  # type: ignore[misc]


def _copied(form: Generate, index: int) -> Result | None:
    """The result that body `index` of a form repeats element for element."""
    body = form.bodies[index]
    if not isinstance(body, Load) or body.checked or not isinstance(body.array, Result):
        return None
    if not isinstance(body.array.form, DEPENDENT) or body.indices != tuple(axis.var for axis in form.axes):
        return None
    return body.array if body.array.shape == tuple(axis.extent for axis in form.axes) else None
