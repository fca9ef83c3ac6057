"""Forms whose elements depend on one another (`Scan`, `Update`, `Filter`, `Sort`), during the forming of stages.

Their axes get names, outer axes are put in front where they are lifted out of mapped functions, and plain copies of them are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Const,
    Count,
    Filter,
    Generate,
    Load,
    Op,
    Reduce,
    Result,
    Scan,
    SizeVar,
    Sort,
    Update,
    fresh,
)
from raido.algo.graph.node import Node, with_fields
from raido.algo.graph.rewrite import rebuild, rewritten, scalar_nodes, topological

if TYPE_CHECKING:
    from raido.schedule.stages.tables import Tables

Dependent: TypeAlias = "Scan | Update | Filter | Sort"
DEPENDENT = (Scan, Update, Filter, Sort)


def close_form(form: Dependent, outer: Sequence[Axis], tables: Tables) -> Dependent:
    """Returns `form` with `outer` axes in front, as fresh variables."""
    leading, (new,) = tables.over_new_axes((form,), outer)
    assert not isinstance(new, Filter)  # filters of elements have become updates (private_arrays)
    if isinstance(new, Update):
        return _close_update(new, leading, tables)
    return with_fields(new, axes=leading + new.axes, along=new.along + len(leading))


def _close_update(form: Update, leading: tuple[Axis, ...], tables: Tables) -> Update:
    """Returns an update whose expressions mention variables of `leading` axes, as an update of arrays with these dimensions in front."""
    shape = form.dest[0].shape
    dims = tuple(Axis(fresh(f"d{k}"), extent) for k, extent in enumerate(shape))
    coordinates = tuple(axis.var for axis in dims)
    bodies = tuple(
        tables.beta(d.form, d.index, coordinates)
        if isinstance(d, Result) and isinstance(d.form, Generate)
        else Load(d, coordinates, False)
        for d in form.dest
    )
    start = tables.with_axes(Generate(dims, bodies), leading)
    dest = tuple(Result(start, k) for k in range(len(bodies)))
    indices = tuple(axis.var for axis in leading) + form.indices
    return with_fields(form, dest=dest, axes=leading + form.axes, indices=indices)


def is_ragged(form: Reduce) -> bool:
    """Whether a fold has a data-dependent length: it is then a loop inside its stage, never an axis of the stage."""
    nodes = scalar_nodes(*(axis.extent for axis in form.axes))
    return not all(isinstance(node, (Const, SizeVar, Count, Op)) for node in nodes)


def mapped_axes(form: Update) -> dict[int, int]:
    """Maps dimensions of an update's result to axes of its steps that index them directly: leading and trailing ones.

    At least one axis is left over for the steps.
    """
    rank, own = len(form.indices), [axis.var for axis in form.axes]
    found: dict[int, int] = {}

    def same(d: int, k: int) -> bool:
        return form.indices[d] is own[k] and form.dest[0].shape[d] is form.axes[k].extent and len(found) + 1 < len(own)

    for k in range(min(rank, len(own))):
        if not same(k, k):
            break
        found[k] = k
    for k in range(1, min(rank, len(own)) - len(found) + 1):
        if not same(rank - k, len(own) - k):
            break
        found[rank - k] = len(own) - k
    return found


def rename_axes(form: Dependent, names: Sequence[str], tables: Tables) -> Dependent:
    """Returns `form` with fresh variables of these names for its axes."""
    memo: dict[Node, Node] = {axis.var: fresh(name) for axis, name in zip(form.axes, names, strict=True)}
    (new,) = tables.substitute((form,), memo)
    return new


def leave_out_copies(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces arrays that only repeat the result of such a form (rows of a mapped function that returns a scan) by that result.

    Loops likewise begin with the states of other loops that such arrays repeat, without a copy.
    """
    memo: dict[Node, Node] = {}
    nodes = topological(*roots)
    states = {state for node in nodes if isinstance(node, ArrayLoop | ArrayWhile) for state in node.state}
    for node in nodes:
        new = rebuild(node, memo.__getitem__)
        if isinstance(new, ArrayLoop | ArrayWhile):
            new = with_fields(new, init=_begun(new.init, states, tables))
        tables.carry(node, new)
        if isinstance(new, Result) and isinstance(new.form, Generate):
            source = _copied(new.form, new.index)
            if source is not None:
                sources = {getattr(_copied(new.form, k), "form", None) for k in range(len(new.form.bodies))}
                if sources == {source.form}:
                    tables.pass_names(new.form, source.form)
                new = source
        memo[node] = new
    return rewritten(roots, memo)


def _begun(arrays: Sequence[Array], states: Collection[Array], tables: Tables) -> tuple[Array, ...]:
    """Returns a loop's initial arrays, with arrays that repeat the state of a loop around replaced by that state, each at most once."""
    found: list[Array] = []
    for array in arrays:
        source = _repeated(array, tables)
        fits = source in states and source not in found and source not in arrays
        found.append(source if source is not None and fits else array)
    return tuple(found)


def _repeated(array: Array, tables: Tables) -> Array | None:
    """Returns the array that another one repeats element for element; None without one."""
    form = array.form if isinstance(array, Result) else None
    if not isinstance(form, Generate) or not form.axes or tables.names.get(form):
        return None
    assert isinstance(array, Result)
    return _source(form, array.index)


def _copied(form: Generate, index: int) -> Result | None:
    """Returns the result of a dependent form that body `index` of a form repeats element for element; None without one."""
    source = _source(form, index)
    return source if isinstance(source, Result) and isinstance(source.form, DEPENDENT) else None


def _source(form: Generate, index: int) -> Array | None:
    """Returns the array of its shape that body `index` of a form repeats element for element; None without one."""
    body, own = form.bodies[index], tuple(axis.var for axis in form.axes)
    if not isinstance(body, Load) or body.checked or body.indices != own:
        return None
    return body.array if body.array.shape == tuple(axis.extent for axis in form.axes) else None
