"""A default schedule being written: a state, the steps said since, and what is known of sizes and of the machine.

Sizes that are not known count as `UNKNOWN`: the defaults of a program are then the same whatever it is called with.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from fractions import Fraction

from raido.algo.errors import ScheduleError
from raido.algo.graph import index
from raido.algo.graph.expr import Expr, SizeVar
from raido.algo.graph.rewrite import substitute
from raido.schedule.defaults.demand import Demand, find_demand
from raido.schedule.defaults.row_reads import RowReads
from raido.schedule.machine import Machine
from raido.schedule.replay import IN_BRANCHES, apply_step
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State
from raido.schedule.steps import Step, Value
from raido.schedule.strategies.numbers import with_numbers

UNKNOWN = 2048


class Draft:
    """A state and the steps said since: defaults try what they want, and go on when the rules refuse it.

    only: the directives that may be said, where not all may.
    """

    __slots__ = ("apart", "chains", "cycles", "demand", "machine", "only", "reads", "sizes", "state", "steps")

    def __init__(
        self,
        state: State,
        machine: Machine,
        sizes: Mapping[str, int],
        demand: Demand | None = None,
        only: Collection[str] = (),
    ) -> None:
        self.state = state
        self.machine = machine
        self.sizes = sizes
        self.only = only
        self.steps: list[Step] = []
        self.cycles: dict[Hashable, float] = {}  # of the rows that `rows.jammed_rows` has looked at
        self.demand: Demand = demand or find_demand(state)
        self.chains: dict[tuple[str, int], Mapping[str, Fraction]] = {}  # `chains.chain_in_strips`, until more is said
        self.apart: bool | None = None  # `planes.planes_of`, of this demand
        self.reads: dict[
            tuple[Stage, Stage], RowReads | None
        ] = {}  # `chains.rows_read`, of these stages and this demand

    def say(self, stage: str, directive: str, /, **args: Value) -> bool:
        """Records a step if it is legal, with the numbers that suit the machine where it leaves some open; whether it was."""
        return self.accept(with_numbers(self.state, Step(stage, directive, tuple(args.items())), self.machine))

    def accept(self, step: Step) -> bool:
        """Records a step if it is legal; whether it was."""
        if self.only and step.directive not in self.only:
            return False
        try:
            self.state = apply_step(self.state, step)
        except ScheduleError:
            return False
        self.steps.append(with_numbers(self.state, step))
        self.chains.clear()
        return True

    def fuse(self, stage: str, loops: Sequence[str]) -> str:
        """Fuses loops that stand one right inside the other, as far as that is legal; the name of the outermost one then."""
        whole, *others = loops
        for each in others:
            if not self.say(stage, "fuse", a=whole, b=each):
                break
            whole += each
        return whole

    def parallel(self, stage: str, loop: str, operations: int, most: int | None = None, **how: Value) -> bool:
        """Threads for a loop with so many operations an iteration: chunks of about `Machine.task` operations, of `most` iterations."""
        grain = self.machine.task // operations
        grain = grain if most is None else min(grain, most)
        return self.say(stage, "parallel", axis=loop, **({"grain": grain} if grain > 1 else {}), **how)

    def cache(self, stage: str, array: str, loop: str, **how: Value) -> Stage | None:
        """Makes a stage's copy of what it reads of an array in a loop; None where that is refused."""
        before = self.state.plans
        if not self.say(stage, "cache", array=array, stage=stage, axis=loop, **how):
            return None
        (copy,) = self.state.plans.keys() - before.keys()
        return self.state.stage(copy)

    def trial(self) -> Draft:
        """A draft that goes on from here, to be adopted or dropped."""
        return Draft(self.state, self.machine, self.sizes, self.demand, self.only)

    def adopt(self, trial: Draft) -> None:
        """Goes on from where a trial has come to."""
        self.state, self.steps = trial.state, [*self.steps, *trial.steps]
        self.chains.clear()

    def branch(self) -> Draft:
        """A draft of a stage's branch, which goes on from here; `when` makes a step of it."""
        return Draft(self.state, self.machine, self.sizes, self.demand, IN_BRANCHES)

    def when(self, stage: str, test: str) -> Step:
        """The branch of a stage in which the steps said here hold."""
        return Step(stage, "when", (), ((test, tuple(self.steps)),))

    def renew_demand(self) -> None:
        """Finds the reads of the present state, which has new stages."""
        self.demand = find_demand(self.state)
        self.chains.clear()
        self.reads.clear()
        self.apart = None


def known(draft: Draft, e: Expr) -> Expr:
    """A size with the sizes known beforehand put in."""
    values = {SizeVar(name): index.as_index(value) for name, value in draft.sizes.items()}
    return index.canonical(substitute(e, values))


def known_extent(draft: Draft, e: Expr) -> int | None:
    """A size as a number, where the sizes known beforehand decide it."""
    return index.constant_value(known(draft, e))


def extent(draft: Draft, e: Expr) -> int:
    """A size as a number, at least 1, since rules divide by products of sizes; unknown ones count as `UNKNOWN`, or the most they can be."""
    size = known(draft, e)
    value = index.constant_value(size)
    if value is None:
        counted = {c.size: c.bound for c in draft.state.graph.counts if c.bound is not None}
        most = known_extent(draft, substitute(size, counted))
        value = UNKNOWN if most is None else min(most, UNKNOWN)
    return max(value, 1)
