"""`Space`: the search space of schedules for a program, as sequences of decisions.

A schedule with holes is a space of its own: just the holes. Without holes, the space has every choice of `choices.py` that the schedule
leaves open. Candidates are complete, legal schedules; two with the same canonical key are one (`identity.py`).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod

from raido.algo.errors import ScheduleError
from raido.algo.graph.expr import Expr
from raido.autotune.space.choices import choose_everything
from raido.autotune.space.choosers import Even, First, Forced, Listing, Mutated, Openness, Weighted, same_label
from raido.autotune.space.identity import key_of
from raido.autotune.space.locate import Finder
from raido.autotune.space.walk import Chooser, DeadEnd, Decision, Option, Walk
from raido.schedule.defaults.complete import complete, default_directives
from raido.schedule.defaults.draft import Draft
from raido.schedule.holes import fill, holes_of
from raido.schedule.machine import Machine
from raido.schedule.recorded import PART, Value
from raido.schedule.schedule import Schedule

TRIES = 64
MOST_WALKS = 2000
FEW_WALKS = 200
PROBES = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete schedule of a space, with the decisions that lead to it. `key`: equal for candidates with the same code."""

    schedule: Schedule
    key: str
    decisions: tuple[tuple[str, Value], ...]


class Space:
    """The candidates for a schedule on a machine, for calls of the given sizes.

    >>> space = Space(blur.schedule(), Machine(), {"h": 480, "w": 640})
    >>> space.default().schedule == blur.schedule().complete(Machine(), {"h": 480, "w": 640})
    True
    >>> space.sample(random.Random(0)).key != space.default().key
    True
    """

    def __init__(self, schedule: Schedule, machine: Machine, sizes: Mapping[str, int]) -> None:
        self.schedule = schedule.copy()
        self.machine = machine
        self.sizes = dict(sizes)
        self.has_holes = bool(self.schedule.holes)
        self._extents: dict[Expr, int] = {}
        self._open: dict[tuple[tuple[str, Value], ...], Mapping[str, float]] = {}
        self._branches = any(directive.branches_program for directive in self.schedule.directives)

    # What there is

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """The choices, in order, each with its legal labels, as far as they occur with at most one label other than the default."""
        if self.has_holes:
            return tuple(Decision(name, options) for name, options in self.schedule.holes.items())
        found: dict[str, dict[Value, None]] = {}
        for _, offered, departures in self._departing():
            if len(departures) > 1:
                break
            for name, labels in offered.items():
                found.setdefault(name, {}).update(dict.fromkeys(labels))
        return tuple(Decision(name, tuple(labels)) for name, labels in found.items())

    @cached_property
    def size(self) -> int:
        """The number of ways to make all choices: for holes all combinations, legal or not; else an estimate.

        The estimate is the mean, over random paths, of the product of the numbers of options on the path (Knuth, Estimating the efficiency
        of backtrack programs, 1975).
        """
        if self.has_holes:
            return prod(len(options) for options in self.schedule.holes.values())
        total, rng = 0, random.Random(0)
        for _ in range(PROBES):
            even = Even(rng)
            total += even.product if self._make(even, strict=True) else 0
        return max(1, total // PROBES)

    def default(self) -> Candidate:
        """The default schedule, or the first legal filling of the holes."""
        found = self._make(First())
        return found or next(self.grid())

    def sample(self, rng: random.Random) -> Candidate:
        """A random candidate; options are drawn by weight."""
        return self._first(lambda: Weighted(rng))

    def mutate(self, candidate: Candidate, rng: random.Random) -> Candidate:
        """A candidate with another label at one choice; later choices that depend on it are drawn anew. A choice is selected the more
        often, the likelier its other options are."""
        labels = dict(candidate.decisions)
        if not labels:
            return candidate
        openness = self._openness(candidate)
        names, weights = list(labels), [openness.get(name, 1.0) for name in labels]
        return self._first(lambda: Mutated(labels, rng.choices(names, weights)[0], rng), not_key=candidate.key)

    def spell_out(self, candidate: Candidate) -> Candidate:
        """The same schedule with every decision explicit, default ones too, so that each can be mutated; the candidate itself where such
        decisions are not found within `FEW_WALKS` walks."""
        return candidate if self.has_holes else self.locate(candidate.schedule, FEW_WALKS) or candidate

    def take(self, schedule: Schedule) -> Candidate:
        """A schedule from elsewhere as a candidate; without decisions, and so without mutants, where they are not found in time."""
        made = complete(schedule.copy(), self.machine, self.sizes)
        return self.spell_out(Candidate(made, key_of(made), ()))

    def cross(self, a: Candidate, b: Candidate, rng: random.Random) -> Candidate:
        """A candidate with the decisions of one parent or the other, stage by stage."""
        labels = dict(a.decisions)
        theirs = dict(b.decisions)
        stages = dict.fromkeys(stage_of(name) for name in (*labels, *theirs))
        taken = {stage for stage in stages if rng.random() < 0.5}
        mixed = {name: label for name, label in labels.items() if stage_of(name) not in taken}
        mixed |= {name: label for name, label in theirs.items() if stage_of(name) in taken}
        return self._first(lambda: Forced(mixed, Weighted(rng)))

    def grid(self) -> Iterator[Candidate]:
        """All candidates, each once: the default first, then those with one label other than the default, with two, and so on."""
        seen: set[str] = set()
        for candidate, _, _ in self._departing():
            if candidate.key not in seen:
                seen.add(candidate.key)
                yield candidate

    def remake(self, decisions: Mapping[str, Value]) -> Candidate | None:
        """The candidate of these decisions, with defaults for others; None where they are illegal."""
        return self._make(Forced(decisions, First()))

    def locate(self, schedule: Schedule, walks: int = MOST_WALKS) -> Candidate | None:
        """The candidate with the same key as a schedule, once both are complete; None where none is found within `walks` walks."""
        wanted = complete(schedule.copy(), self.machine, self.sizes)
        key = key_of(wanted)
        if self.has_holes:
            return next((each for each in islice(self.grid(), walks) if each.key == key), None)
        finder = Finder.towards(wanted)
        for _ in range(walks):
            found = self._make(finder, judge=finder)
            if found is not None and found.key == key:
                return found
            if not finder.retreat():
                break
        return None

    # How candidates are made

    def _departing(self) -> Iterator[tuple[Candidate, dict[str, tuple[Value, ...]], dict[str, Value]]]:
        """Every way to make the choices, ordered by the number of labels other than the first: the candidate, the labels offered, and those
        labels."""
        queue: deque[tuple[dict[str, Value], int]] = deque([({}, -1)])
        while queue:
            departures, last = queue.popleft()
            listing = Listing(Forced(departures, First()))
            candidate = self._make(listing, strict=True)
            offered = listing.offered
            names = list(offered)
            for at, name in enumerate(names):
                if at > last:
                    queue.extend(({**departures, name: label}, at) for label in offered[name][1:])
            made = dict(candidate.decisions) if candidate else {}
            if candidate and all(name in made and same_label(made[name], label) for name, label in departures.items()):
                yield candidate, offered, departures

    def _openness(self, candidate: Candidate) -> Mapping[str, float]:
        """For each choice of a candidate, the probability that a draw would pick another option; empty for holes."""
        if self.has_holes:
            return {}
        if candidate.decisions not in self._open:
            asker = Openness(dict(candidate.decisions))
            self._make(asker)
            self._open[candidate.decisions] = asker.open
        return self._open[candidate.decisions]

    def _first(self, asker: object, not_key: str = "") -> Candidate:
        for _ in range(TRIES):
            found = self._make(asker())  # type: ignore[operator]
            if found is not None and found.key != not_key:
                return found
        return self.default()

    def _make(self, asker: Chooser, strict: bool = False, judge: Finder | None = None) -> Candidate | None:
        """The candidate that a chooser leads to; None for a dead end. strict: only legal options are offered."""
        try:
            return self._fill(asker) if self.has_holes else self._walk(asker, strict, judge)
        except (DeadEnd, ScheduleError):
            return None

    def _fill(self, asker: Chooser) -> Candidate:
        values: dict[str, Value] = {}
        decisions: list[tuple[str, Value]] = []
        while open_ := holes_of(fill(self.schedule.directives, values)):
            name, options = next(iter(open_.items()))
            values[name] = options[asker.pick(name, [Option(each) for each in options])]
            decisions.append((name, values[name]))
        filled = Schedule(self.schedule.graph, fill(self.schedule.directives, values), self.schedule.target)
        made = complete(filled, self.machine, self.sizes)
        return Candidate(made, key_of(made), tuple(decisions))

    def _walk(self, asker: Chooser, strict: bool, judge: Finder | None) -> Candidate:
        walk = Walk(self.schedule.state, self.machine, self.sizes, asker, self._base, self._extents, strict, judge)
        if judge is not None:
            judge.walk = walk
        choose_everything(walk)
        graph, target, directives = (
            self.schedule.graph,
            self.schedule.target,
            (*self.schedule.directives, *walk.directives),
        )
        if self._branches:
            made = complete(Schedule.trusted(graph, directives, walk.state, target), self.machine, self.sizes)
        else:
            draft = default_directives(walk.state, self.machine, self.sizes)
            made = Schedule.trusted(graph, (*directives, *draft.directives), draft.state, target)
        return Candidate(made, key_of(made), tuple(walk.decisions))

    @cached_property
    def _base(self) -> Draft:
        return Draft(self.schedule.state, self.machine, self.sizes)


def stage_of(decision: str) -> str:
    """The stage of a decision, also for a part of its strategy; a hole's own name."""
    stage = decision.rpartition(": ")[0]
    return (stage.rpartition(PART)[0] or stage) or decision
