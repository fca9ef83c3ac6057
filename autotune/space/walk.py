"""One walk through a program's open questions: a state, the steps said so far, and the decisions they came of.

Questions are asked of an `Asker`, which knows nothing of schedules: it picks one of the options that it is shown. An option is a label
and the steps that it stands for; one that the rules refuse is taken back, and the asker picks again. So a walk is decided by the labels
that were picked, and the same labels give the same schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from raido.algo.errors import ScheduleError
from raido.algo.graph import index
from raido.algo.graph.expr import Expr, Load
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft, extent
from raido.schedule.machine import Machine
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.replay import apply_step
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, trip_count
from raido.schedule.steps import Step, Value
from raido.schedule.strategies.numbers import with_numbers
from raido.schedule.strategies.parts import part_name
from raido.schedule.strategies.plans_of_parts import owner_of, plan_of_part
from raido.schedule.strategies.table import strategies_of

DEFAULT = "default"


class DeadEnd(Exception):
    """The decisions so far lead nowhere: the rules refuse what they ask for."""


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: a label, the steps it stands for, and how likely it is to be a good one, against the others."""

    label: Value
    steps: tuple[Step, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A question and the labels that answer it."""

    name: str
    options: tuple[Value, ...]


class Asker(Protocol):
    """The interface that answers the questions of a walk."""

    def pick(self, name: str, options: Sequence[Option]) -> int:
        """The position of the option picked, among those not refused so far."""
        ...


class Judge(Protocol):
    """The interface that may refuse a decision that the rules accept."""

    def agrees(self, state: State) -> bool:
        """Whether a state may be reached."""
        ...

    def closes(self, state: State, stage: str) -> bool:
        """Whether a stage may stay as it is, now that everything was asked of it."""
        ...


@dataclass(slots=True)
class Walk:
    """See the module's text. `base` is what the defaults know before anything is decided; `shares` are the guests of each host.

    extents: sizes that have been worked out, kept for later walks.
    strict: what the rules refuse is not even offered.
    """

    state: State
    machine: Machine
    sizes: Mapping[str, int]
    asker: Asker
    base: Draft
    extents: dict[Expr, int]
    strict: bool = False
    judge: Judge | None = None
    steps: list[Step] = field(default_factory=list)
    decisions: list[tuple[str, Value]] = field(default_factory=list)
    shares: dict[str, list[str]] = field(default_factory=dict)
    now: Draft | None = None

    def choose(self, stage: str, question: str, options: Iterable[Option]) -> Value:
        """Asks a question about a stage and says what the answer stands for; the answer's label. No question where there is no choice."""
        left = [option for option in options if not self.strict or self.allows(*option.steps)]
        alone = len(left) == 1
        name = f"{stage}: {question}"
        while left:
            at = 0 if alone else self.asker.pick(name, left)
            if self.try_all(left[at].steps):
                if not alone:
                    self.decisions.append((name, left[at].label))
                return left[at].label
            del left[at]
        raise DeadEnd(name)

    def try_all(self, steps: Iterable[Step]) -> bool:
        """Says all of these steps, or none where one is refused; whether they were said."""
        said = tuple(steps)
        state = self._after(said)
        if state is None or (self.judge is not None and not self.judge.agrees(state)):
            return False
        self.state = state
        self.steps += (with_numbers(state, step) for step in said)
        return True

    def say(self, stage: str, directive: str, /, **args: Value) -> None:
        """Says a step that follows from decisions; a dead end where it is refused."""
        if not self.try_all((make_step(stage, directive, **args),)):
            raise DeadEnd(f"{stage}: {directive}")

    def allows(self, *steps: Step) -> bool:
        """Whether the rules would accept these steps."""
        return self._after(steps) is not None

    def close(self, stage: str) -> None:
        """Ends the questions about a stage."""
        if self.judge is not None and not self.judge.closes(self.state, stage):
            raise DeadEnd(stage)

    def _after(self, steps: tuple[Step, ...]) -> State | None:
        state = self.state
        try:
            for step in steps:
                state = apply_step(state, step)
        except ScheduleError:
            return None
        return state

    # What questions are made of

    def stage(self, name: str) -> Stage:
        """The stage of that name; a part of a strategy is one, without bodies."""
        part = owner_of(self.state, name)
        return self.state.stage(name) if part is None else plan_of_part(self.state, *part)[0]

    def owner(self, name: str) -> Stage:
        """The stage of that name, or the one that a part belongs to."""
        part = owner_of(self.state, name)
        return self.state.stage(name if part is None else part[0])

    def parts(self, name: str) -> list[str]:
        """The parts of the strategy that was said of a stage."""
        plan = self.plan(name)
        if plan.strategy is None or plan.compute_with is not None:
            return []
        return [part_name(name, part) for part in strategies_of(self.stage(name))[plan.strategy[0]].parts]

    def reads(self, name: str) -> Mapping[str, Iterable[Point]]:
        """The access maps of a stage, by array; those of a part are not known."""
        return self.facts(name).demand.reads(name) if name in self.state.plans else {}

    def facts(self, name: str) -> Draft:
        """The assumptions that defaults have about a stage: before any decision, or, for a clone made since, now."""
        if name in self.base.state.plans:
            return self.base
        if self.now is None or self.now.state.graph is not self.state.graph:
            self.now = Draft(self.state, self.machine, self.sizes)
        return self.now

    def plan(self, name: str) -> StagePlan:
        """The decisions about a stage, or about a part."""
        part = owner_of(self.state, name)
        return self.state.plan(name) if part is None else plan_of_part(self.state, *part)[1]

    def free_loops(self, name: str) -> list[LoopPlan]:
        """The loops of a stage of which nothing has been said."""
        return [loop for loop in self.plan(name).loops if loop.kind == "serial"]

    def iterations(self, name: str, loop: str) -> int:
        """How many iterations a loop makes, with the sizes that are known."""
        return self.extent(trip_count(self.stage(name), self.plan(name), loop))

    def extent(self, size: Expr) -> int:
        """A size as a number; unknown ones count as the defaults count them."""
        if size not in self.extents:
            self.extents[size] = extent(self.base, size)
        return self.extents[size]

    def is_constant(self, name: str, loop: str) -> bool:
        """Whether a loop makes the same number of iterations whatever the sizes are."""
        return index.constant_value(trip_count(self.stage(name), self.plan(name), loop)) is not None

    def is_copy(self, name: str) -> bool:
        """Whether a stage is a copy that was made to be read from (`cache`)."""
        made = name in self.state.plans and name not in self.base.state.plans
        return made and all(isinstance(body, Load) for body in self.stage(name).bodies)

    def answered(self, stage: str, question: str) -> bool:
        """Whether a question of a stage was answered, by the user or so far."""
        return (stage, question) in self.state.asked


def make_step(stage: str, directive: str, /, **args: Value) -> Step:
    """A step; arguments that are None are left out, but for an `axis`, where None is a place."""
    return Step(stage, directive, tuple((k, v) for k, v in args.items() if v is not None or k == "axis"))
