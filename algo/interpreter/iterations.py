"""Interpretation of loops, of scalars and of whole arrays: iterations of all lanes together until they diverge, then of the active ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raido.algo.graph.expr import ArrayLoop, ArrayWhile, Loop, Node, While
from raido.algo.interpreter.lanes import Frame, rank_of, spread
from raido.algo.interpreter.machine import Machine, Task
from raido.algo.interpreter.ragged import put_lanes


def loop(machine: Machine, form: Loop | ArrayLoop, frame: Frame) -> Task:
    bodies = form.body if isinstance(form, Loop) else form.results

    def goes_on(inner: Frame, turn: int) -> Task:
        (count,) = yield from machine.values([form.count], inner)
        return turn < count

    return (yield from _iterate(machine, form, bodies, goes_on, frame))


def while_loop(machine: Machine, form: While | ArrayWhile, frame: Frame) -> Task:
    bodies = form.body if isinstance(form, While) else form.results

    def goes_on(inner: Frame, turn: int) -> Task:
        (condition,) = yield from machine.values([form.condition], inner)
        return condition

    return (yield from _iterate(machine, form, bodies, goes_on, frame))


def _iterate(
    machine: Machine,
    form: Loop | While | ArrayLoop | ArrayWhile,
    bodies: Sequence[Node],
    goes_on: Callable[[Frame, int], Task],
    frame: Frame,
) -> Task:
    """States after each lane's iterations: all lanes together until they diverge, then the active ones."""
    state = yield from machine.values(form.init, frame)
    ranks = [rank_of(variable) for variable in form.state]
    active, finished, turn = frame, None, 0
    while True:
        inner = active.bind(_state(form, state, turn))
        again = yield from goes_on(inner, turn)
        if not again.any():
            break
        if not again.all():
            mask = np.broadcast_to(again, active.shape)
            if finished is None:
                finished = [spread(v, frame, rank).copy() for v, rank in zip(state, ranks, strict=True)]
                state = [spread(v, active, rank)[mask] for v, rank in zip(state, ranks, strict=True)]
                active = frame.pick(mask)
            else:
                _finish(finished, frame, active, state, ranks)
                state = [spread(v, active, rank)[mask] for v, rank in zip(state, ranks, strict=True)]
                active = active.narrow(mask)
            inner = active.bind(_state(form, state, turn))
        state = yield from machine.values(bodies, inner)
        turn += 1
    if finished is None:
        return state
    _finish(finished, frame, active, state, ranks)
    return finished


def _finish(finished: list[np.ndarray], frame: Frame, active: Frame, state: list[np.ndarray], ranks: list[int]) -> None:
    for k, (value, rank) in enumerate(zip(state, ranks, strict=True)):
        finished[k] = put_lanes(finished[k], frame, active, value, rank)


def _state(form: Any, state: list[np.ndarray], turn: int) -> dict[Node, np.ndarray]:
    values: dict[Node, np.ndarray] = dict(zip(form.state, state, strict=True))
    if isinstance(form, (Loop, ArrayLoop)):
        values[form.index] = np.asarray(turn, form.index.dtype.numpy)
    return values
