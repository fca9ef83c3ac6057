"""Legal next directives of a stage: samples of every directive with a few parameters each, filtered by the rules.

The list is finite; tests of random schedules and searches draw from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from raido.algo.errors import ScheduleError
from raido.schedule.checks.levels import PLACES
from raido.schedule.directives.kinds import TAILS
from raido.schedule.plan import Split
from raido.schedule.recorded import Directive, Value
from raido.schedule.replay import apply_directive
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, enclosing_loops, initial_state
from raido.schedule.strategies.table import Strategy, strategies_of

FACTORS = (1, 2, 3, 4, 5, 8, 16, 32)
LANES = (None, 1, 2, 4, 8, 16)


def legal_directives(state: State, stage: str) -> tuple[Directive, ...]:
    """Returns the candidate directives that the rules accept, in a fixed order."""
    return tuple(directive for directive in candidates(state, stage) if is_legal(state, directive))


def is_legal(state: State, directive: Directive) -> bool:
    """Whether the rules accept a directive."""
    try:
        apply_directive(state, directive)
    except ScheduleError:
        return False
    return True


def open_strategies(state: State, stage: str) -> dict[str, Strategy]:
    """Returns the strategies that the rules accept for a stage without directives, each with parameters that they accept.

    Atomic sums of floats are accepted with `reproducible=False` only, and are listed so.
    """
    listed = strategies_of(state.stage(stage))
    if not listed:
        return {}
    found: dict[str, Strategy] = {}
    start = initial_state(state.graph, state.gpu)
    for name, strategy in listed.items():
        chances = [strategy.numbers]
        if "reproducible" in strategy.numbers:
            chances.append({**strategy.numbers, "reproducible": False})
        for numbers in chances:
            if is_legal(start, Directive(stage, "strategy", (("name", name), *numbers.items()))):
                found[name] = replace(strategy, numbers=numbers)
                break
    return found


def candidates(state: State, stage: str) -> Iterator[Directive]:
    """Yields sample directives for a stage, legal or not."""
    if not isinstance(state.uses.stages[stage], Stage):
        return
    loops = [loop.name for loop in state.plans[stage].loops]
    for directive, args in (
        *_loop_candidates(loops),
        *_kind_candidates(state, stage, loops),
        *_compute_site_candidates(state, stage),
        *_memory_candidates(state, stage, loops),
        *_strategy_candidates(state, stage),
    ):
        yield Directive(
            stage,
            directive,
            tuple((name, value) for name, value in args.items() if value is not None or name == "axis"),
        )


def loop_directives(state: State, stage: str, loops: list[str]) -> Iterator[Directive]:
    """Yields sample loop directives for a part of a strategy, legal or not."""
    for directive, args in (*_loop_candidates(loops), *_kinds(loops), *_bindings(state, loops)):
        yield Directive(stage, directive, tuple((name, value) for name, value in args.items() if value is not None))


Candidate = tuple[str, "dict[str, Value]"]


def _loop_candidates(loops: list[str]) -> Iterator[Candidate]:
    for axis in loops:
        for factor in FACTORS:
            yield "split", {"axis": axis, "factor": factor}
    for a, b in pairwise(loops):
        yield "fuse", {"a": a, "b": b}
        yield "reorder", {"axes": (b, a)}
        for outer, inner in ((2, 8), (4, 3), (3, 5), (16, 32)):
            yield "tile", {a: outer, b: inner}
    if len(loops) > 2:
        yield "reorder", {"axes": tuple(reversed(loops))}
        yield "reorder", {"axes": (*loops[1:], loops[0])}
        yield "reorder", {"axes": (loops[-1], *loops[:-1])}


def _kinds(loops: list[str]) -> Iterator[Candidate]:
    for axis in loops:
        for lanes in LANES:
            yield "vectorize", {"axis": axis, "lanes": lanes}
        yield "vectorize", {"axis": axis, "lanes": 4, "interleave": 2}
        yield "vectorize", {"axis": axis, "interleave": 3}
        yield "unroll", {"axis": axis}
        for factor in (2, 3, 4):
            yield "unroll", {"axis": axis, "factor": factor}
        yield "parallel", {"axis": axis}
        yield "parallel", {"axis": axis, "grain": 3}
        yield "parallel", {"axis": axis, "grain": 2, "dynamic": True}


def _bindings(state: State, loops: list[str]) -> Iterator[Candidate]:
    for axis in loops if state.gpu is not None else ():
        for place in PLACES:
            yield "bind", {"axis": axis, "place": place}
        if state.gpu is not None and state.gpu.exchange:
            yield "bind", {"axis": axis, "place": "thread.x", "subgroup": state.gpu.exchange}
        if state.gpu is not None and state.gpu.products:
            yield "tensorize", {"axis": axis}


def _kind_candidates(state: State, stage: str, loops: list[str]) -> Iterator[Candidate]:
    yield from _kinds(loops)
    yield from _bindings(state, loops)
    parents = [r.parent for r in state.plans[stage].relations if isinstance(r, Split)]
    for axis in (*loops, *parents):
        for kind in TAILS:
            if kind != "exact":
                yield "tail", {"axis": axis, "kind": kind}


def _strategy_candidates(state: State, stage: str) -> Iterator[Candidate]:
    for name, strategy in open_strategies(state, stage).items():
        yield "strategy", {"name": name, **strategy.numbers}
        for block in FACTORS[-3:] if "block" in strategy.numbers else ():
            yield "strategy", {"name": name, "block": block}
            yield "strategy", {"name": name, "block": block, **dict.fromkeys(strategy.options, True)}


def _compute_site_candidates(state: State, stage: str) -> Iterator[Candidate]:
    yield "inline", {}
    yield "root", {}
    for other, plan in state.plans.items():
        if other == stage:
            continue
        for loop in plan.loops:
            yield "compute_at", {"stage": other, "axis": loop.name}
            yield "compute_with", {"stage": other, "axis": loop.name}
    for other, loop in enclosing_loops(state, stage):
        yield "store_at", {"stage": other, "axis": loop}
    if enclosing_loops(state, stage):
        yield "store_at", {"stage": enclosing_loops(state, stage)[0][0]}


def _memory_candidates(state: State, stage: str, loops: list[str]) -> Iterator[Candidate]:
    yield "partition_boundaries", {}
    for axis in state.stage(stage).axes:
        yield "partition_boundaries", {"axes": (axis.name,)}
        for multiple in (2, 8):
            yield "align", {"axis": axis.name, "multiple": multiple}
    yield "stream_stores", {}
    arrays = [name for name in state.uses.loads.get(stage, {}) if name]
    for array in arrays:
        if loops:
            yield "prefetch", {"array": array, "axis": loops[0], "ahead": 1}
            yield "prefetch", {"array": array, "axis": loops[-1], "ahead": 4}
        yield "cache", {"array": array, "stage": stage, "axis": None}
        for axis in loops:
            yield "cache", {"array": array, "stage": stage, "axis": axis}
    pure = tuple(axis.name for axis in state.stage(stage).axes)
    yield "store", {"layout": tuple(reversed(pure))}
    for pad in (1, 8):
        yield "store", {"pad": pad}
    if state.gpu is not None and state.gpu.asynchronous:
        for buffers in (2, 3):
            yield "store", {"buffers": buffers}
    yield "store", {"scope": "heap"}
    for reader in state.uses.readers.get(stage, ()):
        yield "clone", {"consumer": reader}
