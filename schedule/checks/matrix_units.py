"""Legality of `tensorize`: the loops of a matrix product that the matrix units of a GPU can run.

The instruction multiplies a tile of 16 × 16 elements by one of 16 × 8, and adds the products to a tile of 16 × 8 sums. The 32 threads of a
subgroup run it together: thread 4 g + t has the sums of rows g and g + 8 and of columns 2 t and 2 t + 1 (PTX ISA, "Matrix fragments for
mma.m16n8k16"; of factors in tf32 each instruction takes 8 steps). The loops of a schedule must assign the same sums to each thread, so that
the instruction, the loops after it, and the scalar loops of cut-off tiles agree:

    rows      thread.y, 8 iterations in steps of 1; inside, unrolled, an even number in steps of 8
    columns   thread.x, 4 iterations in steps of 2; inside, unrolled, 2 in steps of 1, and any number in steps of 8
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.dtypes import f32
from raido.algo.graph.expr import Expr, Load, Op, Result
from raido.algo.graph.rewrite import free_variables
from raido.algo.graph.tf32 import is_rounded
from raido.schedule.checks.levels import all_loops, launch_of, level_of, threads_of
from raido.schedule.plan import LoopPlan, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, axes_of, is_reduction, shared_count, stride_of, trip_count

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""The rows and columns of sums of a matrix instruction, and the reduction steps of each."""
ALONG_Y, ALONG_X = 8, 4
"""The threads of a subgroup along the rows and along the columns of the sums."""
WARPGROUP = 128
"""The threads of a warpgroup, four subgroups that multiply larger matrices together (`warpgroups`)."""


def factors_of(state: State, stage: Stage) -> tuple[Load, Load] | None:
    """Returns the factors of a stage that sums products of types that matrix units take, the one of rows first; None for other stages."""
    fold = stage.reduction
    if fold is None or fold.monoid != "add" or len(fold.values) != 1 or len(fold.axes) != 1 or len(stage.axes) < 2:
        return None
    product = fold.values[0]
    if not isinstance(product, Op) or product.name != "mul" or product.dtype is not f32:
        return None
    loads = [_widened(state, e) for e in product.args]
    row, column = stage.axes[-2].var, stage.axes[-1].var
    for left, right in (loads, loads[::-1]):
        if left is None or right is None or left.dtype is not right.dtype or left.checked or right.checked:
            return None
        seen = [{v for i in load.indices for v in free_variables(i)} for load in (left, right)]
        if row in seen[0] and column not in seen[0] and column in seen[1] and row not in seen[1]:
            return left, right
    return None


def _widened(state: State, e: Expr) -> Load | None:
    """Returns the load behind a factor in f32: of f16 or bf16, or of an array that the program rounded to tf32; None for others."""
    if isinstance(e, Load) and e.dtype is f32:
        return e if _holds_rounded(state, e) else None
    narrow = e.args[0] if isinstance(e, Op) and e.name == "cast" else None
    return narrow if isinstance(narrow, Load) and narrow.dtype.name in ("f16", "bf16") else None


def _holds_rounded(state: State, load: Load) -> bool:
    """Whether the array that is read was rounded to tf32 by the stage that makes it, directly or through copies."""
    while isinstance(load.array, Result):
        made = state.uses.stages.get(state.uses.names.get(load.array.form, ""))
        if (
            not isinstance(made, Stage)
            or made.reduction is not None
            or made.update
            or made.scan
            or made.filter
            or made.sort
        ):
            return False
        body = made.bodies[load.array.index]
        if not isinstance(body, Load):
            return is_rounded(body)
        load = body
    return False


def type_of_factors(factors: tuple[Load, Load]) -> str:
    """Returns the type in which matrix units multiply the factors: "tf32" for f32, else their own."""
    return "tf32" if factors[0].dtype is f32 else factors[0].dtype.name


def matrix_loop(plan: StagePlan) -> LoopPlan | None:
    """Returns the tensorized loop of a stage; None without one."""
    return next((loop for loop in plan.loops if loop.kind == "matrix"), None)


def check_matrix(state: State, name: str) -> None:
    """Refuses a tensorized loop that matrix units cannot run."""
    stage, plan = state.stage(name), state.plans[name]
    loop = matrix_loop(plan)
    if loop is None:
        return
    if state.gpu is None or not state.gpu.products:
        what = "the schedule is for a CPU, which has" if state.gpu is None else "the device has"
        remedy = 'schedule(target="cuda:sm_80"), or leave `tensorize` out'
        raise Refusal(f"{what} no instruction that multiplies matrices: CUDA has it from sm_80 on", remedy)
    factors = factors_of(state, stage)
    if factors is None or stage.scan or stage.update or stage.filter or stage.sort:
        raise Refusal(
            f'"{name}" is not a sum of products that matrix units compute: along one axis, in f32, of a factor of rows and one of columns, '
            "both f16, both bf16, or both rounded to tf32, each read from an array",
            "rd.matmul(a, b, dtype=rd.f32), or rd.round_to_tf32 of both factors, or leave `tensorize` out",
        )
    dtype = type_of_factors(factors)
    if dtype not in state.gpu.products:
        raise Refusal(f"the device multiplies matrices of {listed(state.gpu.products)}, not of {dtype}")
    _check_loops(stage, plan, loop)
    _check_launch(state, name, loop)


def _check_loops(stage: Stage, plan: StagePlan, loop: LoopPlan) -> None:
    """Refuses loops that assign other sums to the threads of a subgroup than the instruction does."""
    rows, columns = stage.axes[-2].name, stage.axes[-1].name
    trips = index.constant_value(trip_count(stage, plan, loop.name))
    split = any(isinstance(r, Split) and r.inner == loop.name and r.tail == "default" for r in plan.relations)
    if not is_reduction(stage, plan, loop.name) or not split or trips is None or trips % DEPTH:
        raise Refusal(
            f'"{loop.name}" is not the inner half of a split of the reduction\'s axis by a multiple of {DEPTH}',
            f'split("{stage.reduction_axes[0].name}", {2 * DEPTH}), and tensorize the inner half',
        )
    where = plan.loops.index(loop)
    inside = {each.name: each for each in plan.loops[where + 1 :]}
    for axis, place, threads, by in ((rows, "thread.y", ALONG_Y, 1), (columns, "thread.x", ALONG_X, 2)):
        found = next((each for each in plan.loops[:where] if each.level == place), None)
        if found is None or shape_of_loop(stage, plan, found) != (axis, threads, by):
            raise Refusal(
                f'a subgroup has {threads} threads along "{axis}", at "{place}" around "{loop.name}", with stride {by}',
                f'split "{axis}" so that a loop makes {threads} iterations with stride {by}, and bind that loop to "{place}"',
            )
    shapes = [shape_of_loop(stage, plan, each) for each in inside.values()]
    own = {
        axis: [(n, by) for of, n, by in sorted(shapes, key=lambda shape: shape[2]) if of == axis]
        for axis in (rows, columns)
    }
    even = len(own[rows]) == 1 and own[rows][0][1] == ALONG_Y and own[rows][0][0] % 2 == 0
    paired = own[columns][:1] == [(2, 1)] and all(by == COLUMNS for _, by in own[columns][1:]) and len(own[columns]) < 3
    if not (even and paired and len(inside) == len(own[rows]) + len(own[columns])):
        raise Refusal(
            f'inside "{loop.name}" must stand a loop of an even trip count with stride {ALONG_Y} along "{rows}", and along "{columns}" '
            f"one of 2 iterations with stride 1 and one of any trip count with stride {COLUMNS}; the loops inside are: "
            + (", ".join(inside) or "none")
        )
    for each in inside.values():
        if each.kind != "unroll":
            raise Refusal(
                f'"{each.name}" stands inside "{loop.name}", and is not unrolled', f'unroll("{each.name}") first'
            )


def shape_of_loop(stage: Stage, plan: StagePlan, loop: LoopPlan) -> tuple[str, int, int]:
    """Returns the axis of a loop ("" for a fused one), its trip count (0: not known), and its stride along the axis."""
    axes = axes_of(plan, loop.name)
    trips = index.constant_value(trip_count(stage, plan, loop.name)) or 0
    return (axes[0] if len(axes) == 1 else "", trips, stride_of(plan, loop.name))


def _check_launch(state: State, name: str, matrix: LoopPlan) -> None:
    """Refuses other stages of the same launch with more threads along x and y (of warpgroups, z too), which would change the subgroups."""
    home = launch_of(state, name)
    limits = {"thread.x": ALONG_X, "thread.y": ALONG_Y}
    if matrix.subgroup == WARPGROUP:
        outer = [each for each in state.plans[name].loops if each.level == "thread.z"]
        limits["thread.z"] = sum(threads_of(state.stage(name), state.plans[name], each) for each in outer)
    for other in state.plans:
        if launch_of(state, other) != home:
            continue
        for loop in state.plans[other].loops[shared_count(state, other) :]:
            most = limits.get(loop.level)
            if most and level_of(loop) == "thread" and threads_of(state.stage(other), state.plans[other], loop) > most:
                raise Refusal(
                    f'"{loop.name}" of "{other}" has more than {most} threads along "{loop.level}", and a subgroup that multiplies '
                    f"matrices has {most} there",
                    f'split("{loop.name}", {most}), and bind the inner half',
                )
    around = [loop for _, loop in all_loops(state, name)]
    indices = [loop.level for loop in around]
    if "thread.x" in indices and indices.index("thread.x") > next(
        k for k, loop in enumerate(around) if loop.kind == "matrix"
    ):
        raise Refusal(
            "the threads of a subgroup multiply matrices together, so loops bound to threads must stand outside the tensorized loop"
        )
