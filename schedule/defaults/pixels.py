"""Fusion of a short last axis with the axis outside it: the colours of pixels, in stages that treat all colours alike.

Arrays of shape [h, w, 3] that are read at (…, x + d, c) and stored at (…, x, c) are rows of 3·w elements in memory, of which neighbouring
pixels are 3 apart: lanes along both axes, fused, load and store whole vectors, where lanes along the pixels shuffle every colour. With two
or four colours, pixels fill vectors, and one channel that all colours read, such as the opacity, is broadcast by one shuffle.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Load, Op, Parameter, Result, Var
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.defaults.chains import has_chain
from raido.schedule.defaults.demand import Point, meets_boundary, with_inlined
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.joins import moves
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.reads import array_name, loads_of
from raido.schedule.stages.stage import Stage


def joins_colours(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Whether lanes may run along the fused last two axes of a stage: the last is short, and every access along it is contiguous with the
    pixels.
    """
    if stage.reduction is not None or len(stage.axes) < 2 or len(stage.all_axes) > len(stage.axes):
        return False
    pixels, colours = stage.axes[-2:]
    if vector is not pixels or not is_short(colours.extent) or stage.outer or stage.whole_axes:
        return False
    if len(stage.axes) == 2 and (has_chain(draft, stage) or meets_boundary(draft.state, draft.demand, stage.name)):
        return False
    shapes = shapes_read_alike(draft, stage)
    if shapes is None:
        return False
    for array, points in draft.demand.reads(stage.name).items():
        if array in draft.demand.inlined:
            continue
        if not all(_goes_along(point, pixels.var, colours, shapes.get(array, ())) for point in points):
            return False
    return True


def shapes_read_alike(draft: Draft, stage: Stage) -> dict[str, tuple[Expr, ...]] | None:
    """Returns the shapes of the arrays that a stage reads, by name, also through stages inlined into it; None where any of their values
    depends on indices themselves.
    """
    sources, names = with_inlined(draft.state, draft.demand, stage.name), draft.state.uses.names
    if any(map(tells_apart, sources)):
        return None
    return {array_name(load.array, names): shape_read(draft, load) for each in sources for load in loads_of(each)}


def tells_apart(stage: Stage) -> bool:
    """Whether values depend on indices themselves, not only through loads."""
    values = stage.bodies if stage.reduction is None else stage.reduction.values
    loads = [node for node in scalar_nodes(*values) if isinstance(node, Load)]
    own = {axis.var for axis in stage.all_axes}
    others = scalar_nodes(*values, stop=loads)
    return any(node in own for node in others)


def shape_read(draft: Draft, load: Load) -> tuple[Expr, ...]:
    """Returns the shape of the array of a load; () where it is no argument and no stage's."""
    if isinstance(load.array, Parameter):
        return load.array.shape
    made = draft.state.uses.stages.get(array_name(load.array, draft.state.uses.names))
    return (
        tuple(axis.extent for axis in made.axes) if isinstance(made, Stage) and isinstance(load.array, Result) else ()
    )


def _goes_along(point: Point, pixels: Var, colours: Axis, shape: tuple[Expr, ...]) -> bool:
    """Whether a read is contiguous along the fused axes, or constant along them."""
    if None in point:
        return False
    moving = [k for k, e in enumerate(point) if e is not None and (moves(e, pixels) or moves(e, colours.var))]
    if not moving:
        return True
    count, last = index.constant_value(colours.extent) or 0, len(point) - 1
    own = moving == [last - 1, last] and point[-1] is colours.var
    shared = moving == [last - 1] and count.bit_count() == 1 and index.constant_value(point[-1] or 0) is not None
    if not (own or shared) or len(shape) != len(point):
        return False
    along = point[-2]
    if isinstance(along, Op) and along.name in index.BOUNDARY_OPS:
        along = along.args[0]
    assert along is not None
    terms = index.linear(along)[1]
    plain = terms.get(pixels) == 1 and all(
        atom is pixels or isinstance(atom, Var) or not free_variables(atom) for atom in terms
    )
    return plain and index.constant_value(shape[-1]) == count
