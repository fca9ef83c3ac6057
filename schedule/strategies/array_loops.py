"""Array loops (`rd.loop`, `rd.while_loop` over whole arrays): the directives that order their iterations and rows.

    whole    every iteration runs the stages of the body over all rows
    rows     one row runs through all iterations while it is in the cache; `depth` outer loops of each stage of the body are its rows;
             tiles of at most `alone` rows, whose iterations run outside them, go row by row

By rows, an array loop has the axes `row` (of several, `row0`, `row1`, …) and `t`, its iterations, and takes `split` of its row, `reorder`
and `parallel`. Whether iterations of one row touch that row alone depends on the loops of the body's stages, and is checked during
lowering.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Axis, fresh
from raido.schedule.directives.recorder import Rule, positive
from raido.schedule.nest.passes.row_order import RowOrder, row_axes
from raido.schedule.plan import LoopPlan, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import ControlStage, Stage
from raido.schedule.state import State, no_loops_of
from raido.schedule.strategies.table import Strategy

DIRECTIVES = ("strategy", "split", "reorder", "parallel")
ITERATIONS = "t"
MOST_AXES = 8  # of rows


def strategies_of_loop(depth: int = 1) -> dict[str, Strategy]:
    """Returns the strategies of an array loop by name; "rows" has `depth` row axes."""
    return {
        "whole": Strategy({}, (ITERATIONS,)),
        "rows": Strategy({"depth": 1, "alone": 0}, (*row_axes(depth), ITERATIONS)),
    }


def apply_to_loop(state: State, name: str, entry: Rule, arguments: dict[str, object]) -> State:
    """Returns the state after a directive for an array loop."""
    if entry.name == "time_tile":
        return entry.apply(state, name, **arguments)
    if entry.name == "strategy":
        return _with_strategy(state, name, **arguments)
    plan, loop = state.array_loops.get(name), state.uses.stages[name]
    assert isinstance(loop, ControlStage)
    if plan is None or not row_order(plan).loops or entry.name not in DIRECTIVES:
        rows = 'strategy("rows") first, where each row can go through all iterations on its own'
        raise no_loops_of(loop, rows if entry.name in DIRECTIVES else None)
    stage = _as_stage(loop, plan)
    uses = replace(state.uses, stages={**state.uses.stages, name: stage})
    after = entry.apply(replace(state, uses=uses, plans={**state.plans, name: plan}), name, **arguments)
    _check_order(name, after.plans[name])
    return replace(state, array_loops={**state.array_loops, name: after.plans[name]}, decided=after.decided)


def row_order(plan: StagePlan) -> RowOrder:
    """Returns the order of rows and iterations that the plan of an array loop states."""
    if plan.strategy is None or plan.strategy[0] != "rows":
        return RowOrder()
    rows = tuple(loop for loop in plan.loops if loop.name != ITERATIONS)
    piece = next((relation.factor for relation in plan.relations if isinstance(relation, Split)), 0)
    alone = int(str(dict(plan.strategy[1]).get("alone", 0)))
    return RowOrder(rows, piece, plan.loops[-1].name != ITERATIONS, alone)


def row_orders(plans: Iterable[StagePlan]) -> dict[str, RowOrder]:
    """Maps array loops to the orders that their plans state."""
    return {plan.stage: row_order(plan) for plan in plans}


def _with_strategy(state: State, name: str, /, **arguments: object) -> State:
    """Returns the state after the strategy of an array loop is chosen."""
    chosen = arguments.pop("name", None)
    found = strategies_of_loop()
    if chosen not in found:
        raise Refusal(f'an array loop has no strategy "{chosen}"', strategies=listed(found))
    allowed = found[str(chosen)].numbers
    unknown = next(
        (key for key, value in arguments.items() if key not in allowed and (key, value) != ("depth", 1)), None
    )
    if unknown is not None:
        raise Refusal(f'strategy "{chosen}" has no parameter "{unknown}"', parameters=listed(allowed) or "none")
    if (name, "strategy") in state.decided:
        raise Refusal("the schedule already names a strategy for this loop", "remove one of the two directives")
    if chosen == "rows" and state.gpu is not None:
        raise Refusal("a GPU runs each iteration as one launch, whose threads take the rows", 'strategy("whole")')
    parameters = (("depth", positive(arguments.get("depth", 1), "`depth`", 1, MOST_AXES)),) if allowed else ()
    parameters += (("alone", positive(arguments["alone"], "`alone`")),) if arguments.get("alone") else ()
    axes = strategies_of_loop(dict(parameters).get("depth", 1))[str(chosen)].axes
    plan = StagePlan(name, loops=tuple(map(LoopPlan, axes)), strategy=(str(chosen), parameters))
    decided = state.decided | {(name, "strategy")}
    return replace(state, array_loops={**state.array_loops, name: plan}, decided=decided)


def _as_stage(loop: ControlStage, plan: StagePlan) -> Stage:
    """Returns an array loop as a stage with its axes, for the loop directives' rules; the extents are placeholders."""
    assert plan.strategy is not None
    depth = int(str(dict(plan.strategy[1])["depth"]))
    axes = tuple(Axis(fresh(name), ix.as_index(1)) for name in (*row_axes(depth), ITERATIONS))
    return Stage(loop.name, loop.names, loop.form, axes, None, (), site=loop.site)  # type: ignore[arg-type]


def _check_order(name: str, plan: StagePlan) -> None:
    """Refuses loop orders in which rows are not outside their iterations (but for one split), or are split more than once."""
    splits = [relation for relation in plan.relations if isinstance(relation, Split)]
    if any(relation.parent == ITERATIONS for relation in splits):
        raise Refusal(f'the iterations of "{name}" run in order, in one loop that cannot be split', "split a row axis")
    if len(splits) > 1 or (splits and len(plan.loops) > 3):
        raise Refusal(
            'strategy "rows" allows a single split, and only of a single row axis',
            'one split, with strategy("rows", depth=1)',
        )
    rows = (splits[0].outer, splits[0].inner) if splits else row_axes(len(plan.loops) - 1)
    orders = [(*rows, ITERATIONS), (rows[0], ITERATIONS, rows[-1])] if splits else [(*rows, ITERATIONS)]
    if tuple(loop.name for loop in plan.loops) not in orders:
        listed_orders = " or ".join(", ".join(order) for order in orders)
        raise Refusal(
            f'strategy "rows" runs the loops of "{name}" in the order {listed_orders}',
            'strategy("whole") for other orders',
        )
    threads = [loop.name for loop in plan.loops if loop.kind == "parallel"]
    if threads and threads != [rows[0]]:
        raise Refusal("only the outermost loop over rows can be parallel", f'parallel("{rows[0]}")')
