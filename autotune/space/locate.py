"""Locates a schedule in a space: finds the decisions that lead to it.

The choices are made again, with backtracking. An option whose directives contradict the schedule is refused like an illegal one; labels
without directives of their own are read off the schedule's plans. The remaining ones are tried in turn; a walk is abandoned as soon as a
stage differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from raido.autotune.space.choosers import same_label
from raido.autotune.space.compute_sites import SHARED
from raido.autotune.space.identity import (
    loop_origins,
    loop_shapes,
    plans_shape,
    relation_shapes,
    site_shape,
)
from raido.autotune.space.walk import DeadEnd, Option, Walk
from raido.schedule.directives.sharing import follow_leaders
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.recorded import Value
from raido.schedule.schedule import Schedule
from raido.schedule.state import State, has_explicit_loops

NOTHING = loop_shapes(StagePlan("", loops=(LoopPlan(""),)))[0][1:]  # of a loop


@dataclass(slots=True)
class Frame:
    """A choice on the current path: the label tried now, and those left to try."""

    name: str
    current: Value
    left: list[Value]


@dataclass(slots=True)
class Finder:
    """Chooser and judge of the walks towards one complete schedule; `retreat` backtracks to the last choice with a label left."""

    wanted: dict[str, StagePlan]
    shapes: dict[str, tuple[object, ...]]
    path: list[Frame] = field(default_factory=list)
    at: int = 0
    walk: Walk | None = None

    @classmethod
    def towards(cls, schedule: Schedule) -> Finder:
        """The finder for a complete schedule."""
        plans = follow_leaders(schedule.state).plans
        plans |= {part.stage: part for plan in plans.values() for part in plan.parts}
        return cls(plans, {str(shape[0]): shape for shape in plans_shape(plans)})

    def pick(self, name: str, options: Sequence[Option]) -> int:
        if self.at and self.path[self.at - 1].name == name:  # refused: the next one
            self._advance(self.path[self.at - 1])
        elif self.at < len(self.path):
            self.at += 1
        else:
            ranked = self._ranked(name, options)
            if not ranked:
                raise DeadEnd(name)
            self.path.append(Frame(name, ranked[0], ranked[1:]))
            self.at += 1
        frame = self.path[self.at - 1]
        for at, option in enumerate(options):
            if same_label(option.label, frame.current):
                return at
        raise DeadEnd(name)

    def retreat(self) -> bool:
        """Backtracks for the next walk; False when nothing is left to try."""
        self.at = 0
        while self.path and not self.path[-1].left:
            self.path.pop()
        if self.path:
            self._advance(self.path[-1])
        return bool(self.path)

    def agrees(self, state: State) -> bool:
        """Whether the schedule is consistent with all directives so far."""
        old = self.walk.state.plans if self.walk else {}
        changed = [name for name, plan in state.plans.items() if old.get(name) is not plan]
        return all(name in self.wanted and self._bears_out(state, name) for name in changed)

    def closes(self, state: State, stage: str) -> bool:
        """Whether a stage whose choices are all made equals the schedule's, except for parts left to the defaults."""
        parts = plans_shape({part.stage: part for part in state.plans[stage].parts})
        if any(shape != self.shapes.get(str(shape[0])) for shape in parts):
            return False
        if not has_explicit_loops(state, stage):
            return True
        plans = follow_leaders(state).plans
        shape = next(shape for shape in plans_shape(plans) if shape[0] == stage)
        placed = (stage, "placement") in state.decided
        own, wanted = list(shape), list(self.shapes[stage])
        own[-1] = wanted[-1] = None  # parts were looked at; those of which nothing was said follow the defaults
        if not placed:
            own[3] = wanted[3] = None
        return own == wanted

    def _advance(self, frame: Frame) -> None:
        if not frame.left:
            raise DeadEnd(frame.name)
        frame.current = frame.left.pop(0)

    def _bears_out(self, state: State, name: str) -> bool:
        plan, wanted = state.plans[name], self.wanted[name]
        ours, theirs = loop_origins(plan), loop_origins(wanted)
        parts = ((part, self.wanted.get(part.stage)) for part in plan.parts)
        if not all(there is not None and _loops_agree(part, there) for part, there in ((plan, wanted), *parts)):
            return False
        if (name, "placement") in state.decided and plan.compute_with is None and wanted.compute_with is None:
            origins = {other: loop_origins(each) for other, each in state.plans.items()}
            there = {other: loop_origins(each) for other, each in self.wanted.items()}
            if site_shape(plan.compute, origins) != site_shape(wanted.compute, there):
                return False
            if plan.store is not None and site_shape(plan.store, origins) != site_shape(wanted.store, there):
                return False
        elif (name, "placement") in state.decided and (plan.compute_with is None) != (wanted.compute_with is None):
            return False
        fetched = {(p.array, theirs.get(p.loop, p.loop), p.ahead) for p in wanted.prefetches}
        return (
            (plan.strategy, plan.instead) in ((None, ()), (wanted.strategy, wanted.instead))
            and plan.stream_stores in (None, wanted.stream_stores)
            and (not plan.partition or plan.partition == wanted.partition)
            and tuple(ours.get(n, n) for n in plan.layout) in ((), tuple(theirs.get(n, n) for n in wanted.layout))
            and plan.scope in ("", wanted.scope)
            and plan.pad in (0, wanted.pad)
            and plan.buffers in (1, wanted.buffers)
            and all((p.array, ours.get(p.loop, p.loop), p.ahead) in fetched for p in plan.prefetches)
        )

    def _ranked(self, name: str, options: Sequence[Option]) -> list[Value]:
        """Labels to try, best first: the one read off the schedule, else options with directives before those without."""
        stage, _, decision = name.rpartition(": ")
        shown = self._shown(stage, decision, [option.label for option in options])
        if shown is not None:
            return list(shown)
        return [o.label for o in options if o.directives] + [o.label for o in reversed(options) if not o.directives]

    def _shown(self, stage: str, decision: str, labels: list[Value]) -> Sequence[Value] | None:
        """Labels of a choice whose outcome can be read off the schedule; None for other choices."""
        assert self.walk is not None
        wanted = self.wanted.get(stage)
        if wanted is None:
            return None
        origins = loop_origins(self.walk.plan(stage))
        vector, parallel = _loop_of_kind(wanted, "vector"), _loop_of_kind(wanted, "parallel")
        if decision == "vector":
            from_ = [n for n in labels if n and _comes_of(vector, loop_origins(wanted), origins.get(str(n), str(n)))]
            return from_ if vector else [""]
        if decision in ("lanes", "interleave") and vector:
            return [getattr(vector, decision)]
        if decision == "parallel":
            if parallel is None:
                return [""]
            origin = loop_origins(wanted).get(parallel.name, parallel.name)
            plain = [n for n in labels if n and origins.get(str(n), str(n)) == origin]
            return plain or [n for n in labels if n]
        if decision == "grain" and parallel:
            return [parallel.grain, 0]  # 0: the one that the directive comes with, which need not be among the options
        if decision == "place" and wanted.compute_with is not None:
            return [SHARED + wanted.compute_with.stage]
        if decision.startswith("registers ") and "whole" in labels:
            row = decision.removeprefix("registers ")
            unrolled = {shape[0] for shape in loop_shapes(wanted) if shape[1] == "unroll"}
            rows = [origins.get(each, each) for each in (row, row + "i")]
            if not any(each in unrolled for each in rows):
                return [*(n for n in labels if n not in ("whole", 0)), 0]
        return None


def _loops_agree(plan: StagePlan, wanted: StagePlan) -> bool:
    """Whether the explicit directives on the loops of a stage, or of a part, agree with the wanted plan."""
    cuts = {shape[:2]: shape[2:] for shape in relation_shapes(wanted)}
    if any(not _is_start(shape[2:], cuts.get(shape[:2])) for shape in relation_shapes(plan)):
        return False
    kinds = {shape[0]: shape[1:] for shape in loop_shapes(wanted)}
    said = [shape for shape in loop_shapes(plan) if shape[1:] != NOTHING]
    if any(not _is_start(shape[1:], kinds.get(shape[0], NOTHING)) for shape in said):
        return False
    return not any(shape[1] in ("vector", "unroll") for shape in said) or _order(plan) == _order(wanted)


def _is_start(ours: tuple[object, ...], theirs: tuple[object, ...] | None) -> bool:
    """Whether a split's or loop's explicit properties (the tail last) agree with the other's: only undecided ones may differ."""
    if theirs is None or len(ours) != len(theirs):
        return False
    if ours[:1] == ("serial",):
        return ours[-1] in ("default", theirs[-1])
    return ours[:-1] == theirs[:-1] and (not ours or ours[-1] in ("default", theirs[-1]))


def _order(plan: StagePlan) -> list[str]:
    """Loops by derivation, outermost first, fused ones taken apart."""
    return [part for shape in loop_shapes(plan) for part in shape[0].replace("(", "").replace(")", "").split()]


def _loop_of_kind(plan: StagePlan, kind: str) -> LoopPlan | None:
    return next((loop for loop in plan.loops if loop.kind == kind), None)


def _comes_of(loop: LoopPlan | None, origins: dict[str, str], base: str) -> bool:
    """Whether a loop derives from `base`, or is that loop itself."""
    if loop is None:
        return False
    origin = origins.get(loop.name, loop.name)
    return f"{origin}.".startswith(f"{base}.")
