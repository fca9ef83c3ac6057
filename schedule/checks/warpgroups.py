"""Legality of `tensorize(…, threads=128)`: matrix products by warpgroups, with conditions on loops and on the factors' layout.

The instruction (PTX ISA, "wgmma.mma_async") multiplies a tile of 64 × 16 elements (8 steps of tf32) by one of 16 × N, N a multiple of 8 up
to 256, and adds the products to 64 × N sums. Four subgroups along "thread.z" have 16 rows each; each thread has the sums that a subgroup's
instruction gives it (`matrix_units`). Both factors are read from shared memory, in consecutive blocks of 8 lines of 16 bytes, without a
swizzle. Copies get this layout by a split of one of their axes by the elements of 16 bytes:

    split("r", 8).store(layout=("ro", "y", "ri"))     neighbours along the reduction: elements of 16 bits, and words of tf32 (by 4)
    split("y", 8).store(layout=("yo", "r", "yi"))     neighbours along rows or columns: elements of 16 bits alone
"""

from __future__ import annotations

from raido.algo.graph.expr import Axis, Load, Result
from raido.algo.graph.rewrite import free_variables
from raido.schedule.checks.matrix_units import ROWS, WARPGROUP, factors_of, matrix_loop, shape_of_loop, type_of_factors
from raido.schedule.machine import WIDEST_ACCESS
from raido.schedule.plan import LoopPlan, Split, StagePlan
from raido.schedule.refusal import Refusal
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State

SUBGROUPS = 4
"""The subgroups of a warpgroup, stacked along the rows."""
MOST_COLUMNS = 256


def check_warpgroup(state: State, name: str) -> None:
    """Refuses a tensorized loop of a warpgroup that the instruction cannot run, beyond the conditions of `check_matrix`."""
    stage, plan = state.stage(name), state.plans[name]
    loop = matrix_loop(plan)
    if loop is None or loop.subgroup != WARPGROUP:
        return
    factors = factors_of(state, stage)
    assert factors is not None and state.gpu is not None
    dtype = type_of_factors(factors)
    if dtype not in state.gpu.warpgroups:
        raise Refusal(
            f"the device has no instruction by which {WARPGROUP} threads multiply matrices of {dtype}: of CUDA's architectures sm_90a alone "
            "has it",
            'schedule(target="cuda:sm_90a"), or leave `threads` out',
        )
    _check_loops(stage, plan, loop)
    for factor, line in zip(factors, stage.axes[-2:], strict=True):
        _check_layout(state, name, factor, line)


def _check_loops(stage: Stage, plan: StagePlan, loop: LoopPlan) -> None:
    """Refuses loops that assign other rows to the four subgroups than the instruction does, and more columns than it has."""
    rows, columns = stage.axes[-2].name, stage.axes[-1].name
    where = plan.loops.index(loop)
    found = next((each for each in plan.loops[:where] if each.level == "thread.z"), None)
    axis, count, by = ("", 0, 0) if found is None else shape_of_loop(stage, plan, found)
    if axis != rows or by != ROWS or count == 0 or count % SUBGROUPS:
        raise Refusal(
            f'a warpgroup has {SUBGROUPS} subgroups along "{rows}", at "thread.z" around "{loop.name}", with stride {ROWS}',
            f'split "{rows}" so that a loop makes a multiple of {SUBGROUPS} iterations with stride {ROWS}, and bind that loop to "thread.z"',
        )
    shapes = [shape_of_loop(stage, plan, each) for each in plan.loops[where + 1 :]]
    across = [count for axis, count, _ in shapes if axis == columns]
    width = across[0] * across[1] * 4 if len(across) == 2 else 8  # columns: pairs of four threads
    if [count for axis, count, _ in shapes if axis == rows] != [2] or width > MOST_COLUMNS:
        raise Refusal(
            f'inside "{loop.name}" a thread of a warpgroup has 2 rows and the pairs of at most {MOST_COLUMNS} columns',
            f"more warpgroups along thread.z, or narrower tiles; {MOST_COLUMNS} columns are {MOST_COLUMNS // 8} iterations with stride 8",
        )


def _check_layout(state: State, name: str, factor: Load, line: Axis) -> None:
    """Refuses a factor that is not in shared memory in blocks of 8 lines of 16 bytes."""
    together = WIDEST_ACCESS // factor.dtype.itemsize
    depth = next(
        d for d, i in enumerate(factor.indices) if line.var not in free_variables(i) and _varies(state, name, i)
    )
    copy = state.uses.names.get(factor.array.form, "") if isinstance(factor.array, Result) else ""
    made = state.uses.stages.get(copy)
    array = f'"{copy}"' if copy else "a factor"
    if not isinstance(made, Stage) or state.plans[copy].scope != "shared":
        raise Refusal(
            f'{array} of "{name}" is not in shared memory, from which a warpgroup reads its factors',
            f'cache(…, scope="shared") of both factors before `tensorize`, each with a layout in blocks of {together} elements',
        )
    plan, along = state.plans[copy], made.axes[depth].name
    across = next(axis.name for d, axis in enumerate(made.axes) if line.var in free_variables(factor.indices[d]))
    both = (along, across) if together * 2 == 16 else (along,)
    wanted = [
        (r.outer, across if axis == along else along, r.inner) for axis in both for r in _halves(plan, axis, together)
    ]
    if plan.pad or plan.layout[-3:] not in wanted:
        said = f's["{copy}"].split("{along}", {together}).store(layout=("{along}o", "{across}", "{along}i"))'
        raise Refusal(
            f'"{copy}" is not stored in blocks of {together} elements (16 bytes), with the blocks of consecutive lines side by '
            "side, as a warpgroup reads them"
            + ("; words of tf32 must be consecutive along the reduction axis" if together == 4 else ""),
            f"{said}, without `pad`, before `tensorize`",
        )


def _halves(plan: StagePlan, axis: str, factor: int) -> list[Split]:
    """Returns the splits of an axis by that factor."""
    return [r for r in plan.relations if isinstance(r, Split) and (r.parent, r.factor) == (axis, factor)]


def _varies(state: State, name: str, index: object) -> bool:
    """Whether an index varies with the reduction axis of a product."""
    (axis,) = state.stage(name).reduction_axes
    return axis.var in free_variables(index)  # type: ignore[arg-type]
