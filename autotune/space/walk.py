"""One walk through a program's open choices: a state, the directives so far, and the decisions that led to them.

An `Chooser`, which knows nothing of schedules, picks one of the options at each choice. An option is a label and its directives; an illegal
one is withdrawn, and the asker picks again. A walk is determined by the labels picked: the same labels give the same schedule.
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
from raido.schedule.recorded import Directive, Value
from raido.schedule.replay import apply_directive
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, trip_count
from raido.schedule.strategies.parameters import with_parameters
from raido.schedule.strategies.parts import part_name
from raido.schedule.strategies.plans_of_parts import owner_of, plan_of_part
from raido.schedule.strategies.table import strategies_of

DEFAULT = "default"


class DeadEnd(Exception):
    """The decisions so far lead to no legal schedule."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a choice: its label, its directives, and its weight, the prior probability relative to the others'."""

    label: Value
    directives: tuple[Directive, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice and its labels."""

    name: str
    options: tuple[Value, ...]


class Chooser(Protocol):
    """Interface of strategies that pick an option at each choice."""

    def pick(self, name: str, options: Sequence[Option]) -> int:
        """The position of the picked option, among those not refused so far."""
        ...


class Judge(Protocol):
    """Interface of objects that may refuse legal decisions."""

    def agrees(self, state: State) -> bool:
        """Whether a state may be reached."""
        ...

    def closes(self, state: State, stage: str) -> bool:
        """Whether a stage may stay as it is, after all its choices."""
        ...


@dataclass(slots=True)
class Walk:
    """A walk through open choices (see the module). `base` has the defaults' analysis before any decision; `shares` maps each leader to the
    stages that wait for its loops.

    extents: values of sizes, cached over walks. strict: illegal options are not offered.
    """

    state: State
    machine: Machine
    sizes: Mapping[str, int]
    asker: Chooser
    base: Draft
    extents: dict[Expr, int]
    strict: bool = False
    judge: Judge | None = None
    directives: list[Directive] = field(default_factory=list)
    decisions: list[tuple[str, Value]] = field(default_factory=list)
    shares: dict[str, list[str]] = field(default_factory=dict)
    now: Draft | None = None

    def choose(self, stage: str, decision: str, options: Iterable[Option]) -> Value:
        """Makes a choice for a stage, applies the picked option's directives, and returns its label. A single option is taken without
        asking."""
        left = [option for option in options if not self.strict or self.allows(*option.directives)]
        alone = len(left) == 1
        name = f"{stage}: {decision}"
        while left:
            at = 0 if alone else self.asker.pick(name, left)
            if self.try_all(left[at].directives):
                if not alone:
                    self.decisions.append((name, left[at].label))
                return left[at].label
            del left[at]
        raise DeadEnd(name)

    def try_all(self, directives: Iterable[Directive]) -> bool:
        """Applies all of these directives, or none if one is refused; returns whether they were applied."""
        said = tuple(directives)
        state = self._after(said)
        if state is None or (self.judge is not None and not self.judge.agrees(state)):
            return False
        self.state = state
        self.directives += (with_parameters(state, directive) for directive in said)
        return True

    def decide(self, stage: str, directive: str, /, **args: Value) -> None:
        """Applies a directive that follows from decisions; raises `DeadEnd` where it is refused."""
        if not self.try_all((make_directive(stage, directive, **args),)):
            raise DeadEnd(f"{stage}: {directive}")

    def allows(self, *directives: Directive) -> bool:
        """Whether these directives would be legal."""
        return self._after(directives) is not None

    def close(self, stage: str) -> None:
        """Ends the choices for a stage."""
        if self.judge is not None and not self.judge.closes(self.state, stage):
            raise DeadEnd(stage)

    def _after(self, directives: tuple[Directive, ...]) -> State | None:
        state = self.state
        try:
            for directive in directives:
                state = apply_directive(state, directive)
        except ScheduleError:
            return None
        return state

    # What questions are made of

    def stage(self, name: str) -> Stage:
        """The stage of that name; a part of a strategy is a stage without bodies."""
        part = owner_of(self.state, name)
        return self.state.stage(name) if part is None else plan_of_part(self.state, *part)[0]

    def owner(self, name: str) -> Stage:
        """The stage of that name, or the one that a part belongs to."""
        part = owner_of(self.state, name)
        return self.state.stage(name if part is None else part[0])

    def parts(self, name: str) -> list[str]:
        """Names of the parts of a stage's explicit strategy."""
        plan = self.plan(name)
        if plan.strategy is None or plan.compute_with is not None:
            return []
        return [part_name(name, part) for part in strategies_of(self.stage(name))[plan.strategy[0]].parts]

    def reads(self, name: str) -> Mapping[str, Iterable[Point]]:
        """Access maps of a stage, by array; empty for a part."""
        return self.facts(name).demand.reads(name) if name in self.state.plans else {}

    def facts(self, name: str) -> Draft:
        """The defaults' analysis of a stage: from before any decision, or for a clone made since, of the present state."""
        if name in self.base.state.plans:
            return self.base
        if self.now is None or self.now.state.graph is not self.state.graph:
            self.now = Draft(self.state, self.machine, self.sizes)
        return self.now

    def plan(self, name: str) -> StagePlan:
        """The plan of a stage, or of a part."""
        part = owner_of(self.state, name)
        return self.state.plan(name) if part is None else plan_of_part(self.state, *part)[1]

    def free_loops(self, name: str) -> list[LoopPlan]:
        """Loops of a stage that no directive has changed."""
        return [loop for loop in self.plan(name).loops if loop.kind == "serial"]

    def iterations(self, name: str, loop: str) -> int:
        """Trip count of a loop for the known sizes."""
        return self.extent(trip_count(self.stage(name), self.plan(name), loop))

    def extent(self, size: Expr) -> int:
        """The value of a size; unknown ones are estimated as the defaults do."""
        if size not in self.extents:
            self.extents[size] = extent(self.base, size)
        return self.extents[size]

    def is_constant(self, name: str, loop: str) -> bool:
        """Whether a loop's trip count is the same for all sizes."""
        return index.constant_value(trip_count(self.stage(name), self.plan(name), loop)) is not None

    def is_copy(self, name: str) -> bool:
        """Whether a stage is a cached copy (`cache`)."""
        made = name in self.state.plans and name not in self.base.state.plans
        return made and all(isinstance(body, Load) for body in self.stage(name).bodies)

    def is_decided(self, stage: str, decision: str) -> bool:
        """Whether a decision about a stage was made, by the user or in this walk."""
        return (stage, decision) in self.state.decided


def make_directive(stage: str, directive: str, /, **args: Value) -> Directive:
    """A directive; arguments that are None are left out, except `axis`, where None is a compute site."""
    return Directive(stage, directive, tuple((k, v) for k, v in args.items() if v is not None or k == "axis"))
