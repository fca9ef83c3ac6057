"""Loops that data ends and that end by a count of their own at the latest: nothing need stop them.

while_loop(lambda s: … & (s.steps < 256), lambda s: … steps=s.steps + 1, … steps=0)      at most 256 iterations
"""

from __future__ import annotations

from collections.abc import Iterator

from raido.algo.graph.expr import Const, Expr, Op, While

MOST = 1 << 30
"""Iterations, as many as those after which a loop without a count is stopped on devices (`targets/kernels/kernel.py`)."""


def counts_up(form: While) -> bool:
    """Whether a state of a loop, an integer, begins with a constant, grows by a constant in every iteration, and must be below a constant."""
    ends = {test.args[0]: int(test.args[1].value) for test in _conjuncts(form.condition) if _is_end(test)}
    for state, first, after in zip(form.state, form.init, form.body, strict=True):
        grows = (
            isinstance(after, Op)
            and after.name == "add"
            and after.args[0] is state
            and isinstance(after.args[1], Const)
        )
        if state not in ends or not state.dtype.is_integer or not grows or not isinstance(first, Const):
            continue
        step, end = int(after.args[1].value), ends[state]  # type: ignore[union-attr]
        if step > 0 and end + step < 1 << (state.dtype.bits - 1) and (end - int(first.value)) // step <= MOST:
            return True
    return False


def _conjuncts(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Op) and e.name == "logical_and":
        yield from (each for arg in e.args for each in _conjuncts(arg))
    else:
        yield e


def _is_end(e: Expr) -> bool:
    return isinstance(e, Op) and e.name == "lt" and isinstance(e.args[1], Const)
