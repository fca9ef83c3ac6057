"""The default loops, on a GPU, of stages that read arrays across their rows, as a transposition does.

Threads that store neighbouring elements would load elements a row apart, each from a line of memory of its own. So a block has a square of
the results, as long as a subgroup, and copies the square of each such array to shared memory along that array's rows. Rows of the copies
are longer by one element, so that the elements of a column lie in different banks (Ruetsch and Micikevicius, Optimizing Matrix Transpose
in CUDA, 2009):

    block.y, block.x: copy a;  thread.y, thread.x: for results of the thread: out[y, x] = a_copy[x, y]
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Load, SizeVar
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.gpu.bindings import bind, bind_planes
from raido.schedule.defaults.gpu.block_stages import decide_block_loops
from raido.schedule.machine import Gpu
from raido.schedule.stages.stage import Stage
from raido.schedule.state import is_inlined, placed_at


def decide_transposed(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> bool:
    """Schedules a stage that reads arrays across their rows; returns whether it is one, and the schedule is legal."""
    name, side, across = stage.name, gpu.subgroup, arrays_across(draft, stage)
    rows = {array: axis for array, axis in across.items() if axis is next(iter(across.values()))}
    if gpu.in_turn or not rows or list(axes) != list(stage.axes) or len(stage.all_axes) > len(stage.axes):
        return False
    tile = (next(iter(rows.values())), stage.axes[-1])
    if any(n is not None and n < side for n in (known_extent(draft, axis.extent) for axis in tile)):
        return False
    if any(placed_at(draft.state, name, axis.name) for axis in axes):
        return False
    trial, (y, x), height = draft.trial(), (axis.name for axis in tile), max(1, gpu.usual_threads // side)
    planes = [axis.name for axis in stage.axes if axis not in tile]
    for axis, factor in ((y, side), (x, side), (y + "i", height)):
        trial.decide(name, "split", axis=axis, factor=factor)
    trial.decide(name, "reorder", axes=(*planes, y + "o", x + "o", y + "ii", x + "i", y + "io"))
    bind_planes(trial, name, planes)
    bind(trial, name, [y + "o", x + "o"], "block")
    bind(trial, name, [y + "ii", x + "i"], "thread")
    trial.decide(name, "unroll", axis=y + "io")
    for array in rows:
        copy = trial.cache(name, array, x + "o", scope="shared")
        if copy is None:
            return False
        decide_block_loops(trial, copy)
        trial.decide(copy.name, "store", pad=1)
    draft.adopt(trial)
    return True


def arrays_across(draft: Draft, stage: Stage) -> dict[str, Axis]:
    """Returns the arrays that a stage reads down a column where it runs along its own rows, each with the axis that runs along their rows."""
    found = dict[str, Axis]()
    for array, (load, *others) in draft.state.uses.loads[stage.name].items():
        kept = array and not (array in draft.state.plans and is_inlined(draft.state, array))
        axis = axis_across(stage, load) if kept and not others else None
        if axis is not None:
            found[array] = axis
    return found


def axis_across(stage: Stage, load: Load) -> Axis | None:
    """Returns the axis along which elements of a load are neighbours, if the stage's last axis advances by whole rows; else None."""
    owners = list[Axis | None]()
    for i in load.indices:
        _, terms = index.linear(index.canonical(i))
        moving = [(axis, terms[axis.var]) for axis in stage.axes if axis.var in terms]
        sizes = sum(isinstance(atom, SizeVar) for atom in terms)
        if len(moving) > 1 or any(abs(by) != 1 for _, by in moving) or len(terms) > len(moving) + sizes:
            return None
        owners.append(moving[0][0] if moving else None)
    return owners[-1] if len(owners) > 1 and stage.axes[-1] in owners[:-1] else None
