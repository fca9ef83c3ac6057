"""The order of array loops by default: rows outside iterations where rows are independent, so that a row's state stays in a cache or
register.

Independence depends on the loops of all stages of the body, and on what changes in place. So the program is lowered, and its nest is
analysed (`nest/passes/row_orders.py`), unless the reads of a state already show that rows depend on one another.
"""

from __future__ import annotations

from raido.algo.errors import RaidoError
from raido.algo.graph.expr import Load, Node, Op
from raido.schedule.defaults.draft import Draft
from raido.schedule.lower.lowered_stage import flat
from raido.schedule.nest.passes.row_order import RowOrder, row_axes
from raido.schedule.replay import variant_of
from raido.schedule.stages.reads import loads_of
from raido.schedule.stages.stage import ControlStage, Stage, is_array_loop
from raido.schedule.state import State, has_explicit_loops
from raido.schedule.strategies.array_loops import ITERATIONS, row_order


def decide_array_loops(draft: Draft) -> None:
    """Decides the order of rows and iterations of every array loop without a strategy."""
    state = draft.state
    if draft.machine.gpu is not None or not any(_is_open(state, name) for name in state.uses.stages):
        return
    from raido.schedule.lower import row_orders_of

    try:
        found = row_orders_of(variant_of(state), draft.machine, _without_loops(state))
    except RaidoError:  # compilation will raise it again
        return
    for name, order in found.items():
        _say_order(draft, name, order)


def _without_loops(state: State) -> list[str]:
    """Returns the array loops with the strategy "rows" and without loop directives."""
    return [n for n, plan in state.array_loops.items() if row_order(plan).loops and not has_explicit_loops(state, n)]


def _is_open(state: State, name: str) -> bool:
    """Whether a stage is an array loop whose order is not decided."""
    stage = state.uses.stages[name]
    if not isinstance(stage, ControlStage) or not is_array_loop(stage):
        return False
    return name in _without_loops(state) or ((name, "strategy") not in state.decided and _may_keep_to_rows(stage))


def _may_keep_to_rows(loop: ControlStage) -> bool:
    """Whether every state that changes has a dimension along which it is read at no neighbouring index."""
    inner = flat((*loop.setup, *loop.body))
    loads = [load for stage in inner if isinstance(stage, Stage) for load in loads_of(stage)]
    changed = [state for state, after in zip(loop.state, loop.results, strict=True) if state is not after]
    return all(
        any(
            not any(_is_apart(load.indices[d]) for load in loads if load.array is state)
            for d in range(len(state.shape))
        )
        for state in changed
    )


def _is_apart(e: Node) -> bool:
    """Whether an index is arithmetic or loaded, not a loop variable itself."""
    return isinstance(e, Load) or (isinstance(e, Op) and e.name in ("add", "sub", "mul"))


def _say_order(draft: Draft, name: str, order: RowOrder) -> None:
    """Records the directives for an order."""
    outermost, *_ = order.loops
    draft.decide(name, "strategy", name="rows", depth=order.depth, **({"alone": order.alone} if order.alone else {}))
    if order.piece:
        draft.decide(name, "split", axis=row_axes(1)[0], factor=order.piece)
    if order.between:
        draft.decide(name, "reorder", axes=(ITERATIONS, order.loops[-1].name))
    grain = {"grain": outermost.grain} if outermost.grain else {}
    draft.decide(name, "parallel", axis=outermost.name, **grain, **({"dynamic": True} if outermost.dynamic else {}))
