"""A default schedule in progress: a state, the steps recorded since, and the known sizes and machine.

Sizes that are not known count as `UNKNOWN`: the defaults of a program are then the same whatever sizes it is called with.
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
from raido.schedule.recorded import Directive, Value
from raido.schedule.replay import IN_BRANCHES, apply_directive
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State
from raido.schedule.strategies.parameters import with_parameters

UNKNOWN = 2048


class Draft:
    """A default schedule in progress; a directive that the rules refuse is skipped, and rules go on with alternatives.

    only: the directives that may be recorded; () for all.
    """

    __slots__ = ("apart", "chains", "cycles", "demand", "directives", "machine", "only", "reads", "sizes", "state")

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
        self.directives: list[Directive] = []
        self.cycles: dict[Hashable, float] = {}  # cache of `rows.rows_of_register_tile`
        self.demand: Demand = demand or find_demand(state)
        self.chains: dict[tuple[str, int], Mapping[str, int | Fraction]] = {}  # cache of `chains.chain_in_row_tiles`
        self.apart: bool | None = None  # cache of `planes.planes_of`, for this demand
        self.reads: dict[tuple[Stage, Stage], RowReads | None] = {}  # cache of `chains.rows_read`, for this demand

    def decide(self, stage: str, directive: str, /, **args: Value) -> bool:
        """Records a directive if it is legal, with default parameters for the machine; returns whether it was."""
        return self.accept(with_parameters(self.state, Directive(stage, directive, tuple(args.items())), self.machine))

    def accept(self, directive: Directive) -> bool:
        """Records a directive if it is legal; returns whether it was."""
        if self.only and directive.name not in self.only:
            return False
        try:
            self.state = apply_directive(self.state, directive)
        except ScheduleError:
            return False
        self.directives.append(with_parameters(self.state, directive))
        self.chains.clear()
        return True

    def fuse(self, stage: str, loops: Sequence[str]) -> str:
        """Fuses perfectly nested loops, outermost first, as far as that is legal; returns the name of the outermost loop then."""
        whole, *others = loops
        for each in others:
            if not self.decide(stage, "fuse", a=whole, b=each):
                break
            whole += each
        return whole

    def parallel(self, stage: str, loop: str, operations: int, most: int | None = None, **how: Value) -> bool:
        """Threads for a loop with so many operations an iteration: chunks of about `Machine.task` operations, of `most` iterations."""
        grain = self.machine.task // operations
        grain = grain if most is None else min(grain, most)
        return self.decide(stage, "parallel", axis=loop, **({"grain": grain} if grain > 1 else {}), **how)

    def cache(self, stage: str, array: str, loop: str | None, **how: Value) -> Stage | None:
        """Records a `cache` of an array at a loop of the stage that reads it, or at root; returns the copy, None where that is refused."""
        before = self.state.plans
        if not self.decide(stage, "cache", array=array, stage=stage, axis=loop, **how):
            return None
        (copy,) = self.state.plans.keys() - before.keys()
        return self.state.stage(copy)

    def trial(self) -> Draft:
        """Returns a draft that starts from this one, to be adopted or dropped."""
        return Draft(self.state, self.machine, self.sizes, self.demand, self.only)

    def adopt(self, trial: Draft) -> None:
        """Takes over the state and the steps of a trial."""
        self.state, self.directives = trial.state, [*self.directives, *trial.directives]
        self.chains.clear()

    def branch(self) -> Draft:
        """Returns a draft of a branch of a stage that starts from this one; `when` makes a directive of it."""
        return Draft(self.state, self.machine, self.sizes, self.demand, IN_BRANCHES)

    def when(self, stage: str, test: str) -> Directive:
        """Returns the step that makes this draft's steps a branch of a stage."""
        return Directive(stage, "when", (), ((test, tuple(self.directives)),))

    def renew_demand(self) -> None:
        """Computes the access maps again, after stages were added or changed."""
        self.demand = find_demand(self.state)
        self.chains.clear()
        self.reads.clear()
        self.apart = None


def known(draft: Draft, e: Expr) -> Expr:
    """Returns a size with the known sizes substituted."""
    values = {SizeVar(name): index.as_index(value) for name, value in draft.sizes.items()}
    return index.canonical(substitute(e, values))


def known_extent(draft: Draft, e: Expr) -> int | None:
    """Returns a size as a number; None where known sizes do not determine it."""
    return index.constant_value(known(draft, e))


def extent(draft: Draft, e: Expr) -> int:
    """Returns a size as a number of at least 1; unknown sizes count as `UNKNOWN`, or as their upper bound where that is less."""
    size = known(draft, e)
    value = index.constant_value(size)
    if value is None:
        counted = {c.size: c.bound for c in draft.state.graph.counts if c.bound is not None}
        most = known_extent(draft, substitute(size, counted))
        value = UNKNOWN if most is None else min(most, UNKNOWN)
    return max(value, 1)
