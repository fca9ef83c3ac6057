"""`Schedule`: a handle on recorded steps, and `StageView`, one stage of it.

The value is the tuple of steps (`s.steps`); the handle replaces it by a longer one with each directive that is accepted, and leaves it
as it is when a directive is refused. While there are holes, steps are checked under a witness: one filling under which all of them
are legal. A branch made by `when` is a schedule too: it starts from the steps before it and keeps its own inside its parent's.
"""

from __future__ import annotations

import keyword
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from raido.algo.errors import ScheduleError, explain
from raido.algo.graph.program import Program
from raido.algo.html import listing, table, titled
from raido.algo.printable import printable
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.tracebacks import bordered
from raido.schedule.directives import RULES, Directives
from raido.schedule.directives.misfits import FROM_HALIDE
from raido.schedule.directives.recorder import deed
from raido.schedule.fingerprint import fingerprint
from raido.schedule.holes import check_filling, fill, fillings, holes_of
from raido.schedule.legal import is_legal, legal_steps, loop_steps, open_strategies
from raido.schedule.machine import Gpu, Machine
from raido.schedule.plan import StagePlan, Variant
from raido.schedule.refusal import Refusal, listed, place, refused
from raido.schedule.replay import apply_step, branch_state, check_in_branch, replay, run, run_with_branches, variant_of
from raido.schedule.stages.stage import AnyStage, Stage, StageGraph, is_array_loop
from raido.schedule.state import State, initial_state, nearest, resolve
from raido.schedule.steps import PART, Step, plain, user_site
from raido.schedule.strategies.array_loops import ITERATIONS, strategies_of_loop
from raido.schedule.strategies.numbers import sizes_and_axes
from raido.schedule.strategies.parts import is_own_pass, part_name
from raido.schedule.strategies.plans_of_parts import plan_of_part
from raido.schedule.strategies.table import Strategy
from raido.schedule.text.diff import Difference, compare
from raido.schedule.text.sizes import parse_test, sizes_of
from raido.schedule.text.steps import call_text, from_json, kind_in_json, schedule_text, to_json


@bordered
class Schedule(NearAttributes):
    """How a program runs: recorded directives over its stages. What is not said, the defaults fill in (`complete`).

    >>> s = blur.schedule()
    >>> s["cols"].tile(y=32, x=512).parallel("yo").vectorize("xi").partition_boundaries()
    <stage "cols": axes yo, xo, yi, xi; ...>
    >>> s["rows"].compute_at("cols", "yo")
    <stage "rows": axes y, x; ...>
    """

    __slots__ = ("_graph", "_only", "_parent", "_prefix", "_state", "_steps", "_witness", "target")
    _spoken = "schedule"
    _site = "schedule"
    __hash__ = None  # type: ignore[assignment]

    find_machine: ClassVar[Callable[[Any], Machine] | None] = None

    def __init__(self, graph: StageGraph, steps: tuple[Step, ...] = (), target: Any = "llvm") -> None:
        self._graph = graph
        self.target = target
        self._prefix: tuple[Step, ...] = ()
        self._parent: tuple[Schedule, int] | None = None
        self._only = ""
        self._witness: dict[str, Any] = {}
        self._state = initial_state(graph, gpu_of(target))
        self._steps: tuple[Step, ...] = ()
        if steps:
            self._state, self._witness = _witness(self._state, tuple(steps))
            self._steps = tuple(steps)

    @classmethod
    def trusted(cls, graph: StageGraph, steps: tuple[Step, ...], state: State, target: Any) -> Schedule:
        """A schedule whose steps, without holes, are known to be legal and to lead to `state`."""
        made = cls(graph, (), target)
        made._steps, made._state = steps, state
        return made

    # What there is

    @property
    def graph(self) -> StageGraph:
        """The stages of the program itself, without copies that the schedule adds."""
        return self._graph

    @property
    def steps(self) -> tuple[Step, ...]:
        """The value: every directive recorded so far."""
        return self._steps

    @property
    def explicit_steps(self) -> tuple[Step, ...]:
        """Every directive that holds here: of a branch, those before it in its parent, and its own."""
        return self._prefix + self._steps

    @property
    def state(self) -> State:
        """The plans so far (under the witness while there are holes)."""
        return self._state

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of all stages, in running order, copies included."""
        return tuple(self._state.uses.stages)

    @property
    def holes(self) -> dict[str, tuple[Any, ...]]:
        """Open questions and their options."""
        return holes_of(self.explicit_steps)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the program that this schedule belongs to."""
        return fingerprint(self._graph.program)

    def __getitem__(self, name: str) -> StageView:
        try:
            return StageView(self, resolve(self._state.uses.stages, name))
        except Refusal as refusal:
            headline = f'the schedule has no stage "{name}"'
            raise refused(headline, refusal, f'["{name}"]', user_site()) from None

    def copy(self) -> Schedule:
        """A schedule of its own with the same steps."""
        return Schedule(self._graph, self.explicit_steps, self.target)

    # Recording

    def accept(self, step: Step) -> None:
        """Records a step, after checking it; raises `ScheduleError` and changes nothing when it is illegal."""
        if self._only:
            try:
                check_in_branch(step, self._only)
            except Refusal as refusal:
                raise refused(
                    f'cannot {deed(step.directive)} stage "{step.stage}"', refusal, call_text(step), step.site
                ) from None
        state, witness = self._after(step)
        self._replace_steps((*self._steps, step))
        self._state, self._witness = state, witness

    def when(self, test: str) -> Schedule:
        """A sub-schedule that runs where a test on sizes holds: it starts from the steps so far and goes on by itself.

        The first branch whose test holds runs; what is said of this schedule afterwards concerns the general case only.
        """
        return self._branch(test, "")

    def _branch(self, test: str, stage: str) -> Schedule:
        """A sub-schedule, of the program or of one of its stages."""
        said, site = f".when({test!r})", user_site()
        try:
            if self._only or (self._parent is not None and not stage):
                raise Refusal("a branch has no branches of its own", 'one test: when("w % 16 == 0 and h > 64")')
            branches = (step for step in self._steps if step.directive == "when" and step.stage == stage)
            if any(step.branches[0][0] == test for step in branches):
                raise Refusal("that test has a branch already", "say its directives there")
            names = sizes_and_axes(self._state, stage) if stage else sizes_of(self._graph.program)
            parse_test(test, names)
        except Refusal as refusal:
            where = f' in stage "{stage}"' if stage else ""
            raise refused("cannot branch on a test" + where, refusal, said, site) from None
        branch = Schedule.__new__(type(self))
        branch._graph, branch.target, branch._only = self._graph, self.target, stage
        branch._prefix = tuple(step for step in self._steps if not step.branches_program)
        branch._steps, branch._state, branch._witness = (), self._state, self._witness
        if stage:
            branch._prefix = (*self._prefix, *branch._prefix)
            branch._state = branch_state(self._state, stage)
        branch._parent = (self, len(self._steps))
        step = Step(stage, "when", (), ((test, ()),), site)
        if stage:
            self._state, self._witness = self._after(step)
        self._replace_steps((*self._steps, step))
        return branch

    def choose(self, name: str, **alternatives: Callable[[Schedule], object]) -> Schedule:
        """A hole for steps: each alternative records its own on the schedule it is given.

        s.choose("place", a=lambda s: s["rows"].root(), b=lambda s: s["rows"].inline())
        """
        if not alternatives:
            raise ScheduleError(explain(f'hole "{name}" has no alternatives', **{"try": "a=lambda s: s[…]…"}))
        branches = []
        for label, record in alternatives.items():
            if not label.isidentifier() or keyword.iskeyword(label):
                raise ScheduleError(explain(f"{label!r} is no name for an alternative", **{"try": "a=lambda s: s[…]…"}))
            trial = self.copy()
            before = len(trial._steps)
            record(trial)
            branches.append((label, trial._steps[before:]))
        self.accept(Step("", "choose", (("name", name),), tuple(branches), user_site()))
        return self

    def with_(self, **values: Any) -> Schedule:
        """The schedule with holes filled; refuses values that are no options, and fillings under which a step is illegal."""
        chosen = {name: plain(value) for name, value in values.items()}
        check_filling(self.holes, chosen)
        return Schedule(self._graph, fill(self.explicit_steps, chosen), self.target)

    def complete(self, target: Any = None, sizes: Mapping[str, int] | None = None) -> Schedule:
        """The schedule with every default written out as steps; completing twice changes nothing.

        target: a `Machine`, or what the targets know as one (a name, a `Target`). sizes: known sizes by name.
        """
        from raido.schedule.defaults.complete import complete

        machine = target or self.target
        if not isinstance(machine, Machine):
            machine = Schedule.find_machine(machine) if Schedule.find_machine else Machine()
        return complete(self.copy(), machine, sizes)

    # What follows from it

    def variants(self) -> tuple[Variant, ...]:
        """The plans of all stages: one variant for each `when`, the general one last. Refuses a schedule with holes."""
        open_ = self.holes
        if open_:
            name = next(iter(open_))
            raise ScheduleError(
                explain("the schedule has holes", holes=listed(open_), **{"try": f"with_({name}={open_[name][0]!r})"})
            )
        steps = self.explicit_steps
        branches = any(step.branches_program for step in steps)
        return replay(self._graph, steps, self._state.gpu) if branches else (variant_of(self._state),)

    def show(self) -> None:
        """Prints the loop nest as pseudo-code, with buffers, sizes and where each stage is computed."""
        print(printable(self.nest_text()))

    def nest_text(self) -> str:
        """The text that `show` prints: the loop nest with every default written out."""
        from raido.schedule.lower import lower
        from raido.schedule.nest.printer import print_nest
        from raido.schedule.repeats import repeats

        complete = self.complete()
        variants = complete.variants()
        nest = lower(complete.graph, variants, Machine(gpu=complete.state.gpu))
        notes = repeats(nest, complete.graph.stages, variants)
        return print_nest(nest) + "".join(f"  # {note}\n" for note in notes)

    def diff(self, other: Schedule) -> Difference:
        """Compares two schedules step by step; prints as a list of steps kept, taken away (-) and added (+)."""
        return compare(self.explicit_steps, other.explicit_steps)

    def to_json(self) -> str:
        """The schedule as JSON, with the program's fingerprint."""
        return to_json(self._graph.program, self.explicit_steps, self._kind)

    @classmethod
    def from_json(cls, text: str, algorithm: Any) -> Schedule:
        """The schedule that `to_json` wrote, for the same program: an algorithm, a schedule of it, whose target it then has, or its stages.

        Static (keyword-only) parameters are part of the program: `rd.Schedule.from_json(text, f.schedule(width=200))`, or
        `rd.capture(f, width=200)` for `f`.
        """
        for_kind = {"target": kind} if (kind := kind_in_json(text)) else {}
        empty = algorithm if isinstance(algorithm, (Schedule, StageGraph)) else algorithm.schedule(**for_kind)
        graph, target = (empty, "llvm") if isinstance(empty, StageGraph) else (empty.graph, empty.target)
        return cls(graph, from_json(text, graph.program), target)

    @property
    def _kind(self) -> str:
        """The kind of the target, "" for a CPU: schedules of CPUs are for all of them."""
        return getattr(self.target, "kind", "") if self._state.gpu else ""

    def _meant(self, name: str) -> str | None:
        if name in self.stages:
            return f's["{name}"]'
        if name in RULES and self.stages:
            return f's["{self.stages[-1]}"].{name}(…)'
        algorithm = self._graph.program.name
        compiled = f"{algorithm}.compile(schedule=s)"
        if name in ("run", "call"):
            return f"{compiled}(…)"
        if name in ("bind", "export", "source", "time"):
            return f"{compiled}.{name}(…)"
        return {"compile": compiled, "interpret": f"{algorithm}.interpret(…)", "lower": "s.show()"}.get(name)

    def __str__(self) -> str:
        return schedule_text(self._graph.program, self.explicit_steps, self._kind)

    def __repr__(self) -> str:
        count = len(self.explicit_steps)
        stages = reprlib.repr(list(self.stages)).replace("'", "").strip("[]")
        return f"<Schedule of {self._graph.program.name}: {count} step{'' if count == 1 else 's'}; stages {stages}>"

    def _repr_html_(self) -> str:
        steps = self.explicit_steps
        said = {name: "".join(call_text(step) for step in steps if step.stage == name) for name in self.stages}
        rows = [(name, self[name].line, ", ".join(self[name].axes), said[name] or "by default") for name in self.stages]
        whole = listing(str(self)) if any(step.stage not in said for step in steps) else ""  # branches, parts, holes
        return titled(
            f"Schedule of {self._graph.program.name}", table(("stage", "line", "axes", "directives"), rows), whole
        )

    def __reduce__(self) -> tuple[Any, ...]:
        steps = self.explicit_steps  # a branch becomes a schedule of its own, as in `copy`
        return _restored, (type(self), self._graph.program, steps, self.target, Schedule.find_machine)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        same = self._graph is other._graph or self.fingerprint == other.fingerprint
        return same and self.explicit_steps == other.explicit_steps

    # Keeping the value

    def _after(self, step: Step) -> tuple[State, dict[str, Any]]:
        steps = (*self.explicit_steps, step)
        holes = holes_of(steps)
        try:
            if not holes:
                return apply_step(self._state, step), {}
            if all(name in self._witness for name in holes):
                return run(self._state, fill((step,), self._witness)), self._witness
        except ScheduleError:
            if not holes:
                raise
        return _witness(initial_state(self._graph, self._state.gpu), steps)

    def _replace_steps(self, steps: tuple[Step, ...]) -> None:
        if self._parent is not None:
            owner, where = self._parent
            step = owner._steps[where]
            kept = replace(step, branches=((step.branches[0][0], steps),))
            changed = (*owner._steps[:where], kept, *owner._steps[where + 1 :])
            if self._only:
                start = initial_state(owner._graph, owner._state.gpu)
                owner._state, owner._witness = _witness(start, owner._prefix + changed)
            owner._replace_steps(changed)
        self._steps = steps


class StageView(Directives):
    """One stage of a schedule: directives are recorded through it, and chain."""

    __slots__ = ("_schedule", "name")

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self.name = name

    @property
    def stage(self) -> AnyStage:
        """The stage itself."""
        return self._schedule.state.uses.stages[self.name]

    @property
    def axes(self) -> tuple[str, ...]:
        """The stage's loops as they now are, outermost first."""
        state = self._schedule.state
        plan = state.plans.get(self.name) or state.array_loops.get(self.name)
        return (ITERATIONS,) if plan is None else tuple(loop.name for loop in plan.loops)

    @property
    def line(self) -> str:
        """The line of the algorithm that the stage comes from, `blur.py:12`; "" for one of raido's own."""
        site = getattr(self.stage, "site", None)
        return "" if site is None else place(site)

    @property
    def plan(self) -> StagePlan:
        """The decisions about the stage so far."""
        state = self._schedule.state
        return state.array_loops.get(self.name) or state.plan(self.name)

    def legal(self) -> tuple[Step, ...]:
        """Steps that could be said next of this stage: a finite, sensible choice of them. `schedule.accept` records one."""
        return legal_steps(self._schedule.state, self.name)

    def strategies(self) -> dict[str, Strategy]:
        """The strategies that `strategy` accepts for the stage, each with its numbers, axes and parts; maps and stencils have none.
        Array loops have two: their rows stay "whole" in each iteration, or go through all of them one by one, "rows".

        >>> running.schedule()["scan_1"].strategies()["chain"]
        Strategy(numbers={'block': 131072}, axes=('xo', 'xi'), parts=('totals',))
        """
        stage = self.stage
        if isinstance(stage, Stage):
            return open_strategies(self._schedule.state, self.name)
        return strategies_of_loop() if is_array_loop(stage) else {}

    def when(self, test: str) -> StageView:
        """Another way to run the stage, where a test on sizes holds: it starts from what was said of the stage so far.

        test: of the program's sizes and the stage's axes, which stand for their extents: "x > 4096 and r < 16 * x". The first branch whose
        test holds runs; what is said of the stage afterwards concerns the general case only. A branch takes loop directives, a strategy,
        and what belongs to loops; the stage is computed whole, and no others are computed in its loops, but for copies (`cache`): a
        branch that has the loop at which a copy stands, and those of its layout, makes it there; another reads the array where it is.

        >>> s = blur.schedule()
        >>> narrow = s["cols"].when("x < 64").unroll("y", 2)
        >>> s["cols"].vectorize("x").parallel("y")
        <stage "cols": axes y, x; ...>
        """
        return StageView(self._schedule._branch(test, self.name), self.name)

    def part(self, name: str) -> StageView:
        """A part of the strategy that was said, which is a stage and takes loop directives; `strategies()` lists the parts of each.

        The part "bins" of an update's "private", its steps, is the stage itself: its loops are those over the steps.
        """
        try:
            if not self.strategies():
                raise Refusal("it has no strategy", parts="none")
            if is_own_pass(self.plan, name):
                return self
            plan_of_part(self._schedule.state, self.name, name)
        except Refusal as refusal:
            headline = f'stage "{self.name}" has no part "{name}"'
            raise refused(headline, refusal, f'.part("{name}")', user_site()) from None
        return PartView(self._schedule, part_name(self.name, name))

    if not TYPE_CHECKING:  # a directive that there is not is an error for checkers of types, too

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            meant = FROM_HALIDE[name] if name in FROM_HALIDE else nearest(name, RULES)
            refusal = Refusal(f'there is no directive "{name}"', meant, directives=listed(sorted(RULES)))
            raise refused(f'cannot {name} stage "{self.name}"', refusal, f".{name}(…)", user_site())

    def __repr__(self) -> str:
        return f'<stage "{self.name}": axes {", ".join(self.axes)}{"; " * bool(self.line)}{self.line}>'

    def _record(self, directive: str, /, **arguments: object) -> StageView:
        entry = RULES[directive]
        site = user_site()
        try:
            said = {k: plain(v) for k, v in arguments.items()}
            args = tuple((k, v) for k, v in said.items() if k not in entry.defaults or entry.defaults[k] != v)
        except TypeError as error:
            view = next((v for v in arguments.values() if isinstance(v, StageView)), None)
            refusal = Refusal(str(error), None if view is None else f'the name of the stage, "{view.name}"')
            raise refused(f'cannot {deed(directive)} stage "{self.name}"', refusal, f".{directive}(…)", site) from None
        args = tuple((k, v) for k, v in args if not (k == entry.spread and v == ()))
        self._schedule.accept(Step(self.name, directive, args, (), site))
        return self


class PartView(StageView):
    """A part of a stage's strategy: loop directives are recorded through it, and chain."""

    __slots__ = ()

    @property
    def _found(self) -> tuple[Stage, StagePlan]:
        owner, _, part = self.name.rpartition(PART)
        return plan_of_part(self._schedule.state, owner, part)

    @property
    def stage(self) -> AnyStage:
        """The part, as a stage."""
        return self._found[0]

    @property
    def axes(self) -> tuple[str, ...]:
        """The part's loops as they now are, outermost first."""
        return tuple(loop.name for loop in self.plan.loops)

    @property
    def plan(self) -> StagePlan:
        """The decisions about the part so far."""
        return self._found[1]

    def strategies(self) -> dict[str, Strategy]:
        """None: parts of strategies have no strategies of their own."""
        return {}

    def legal(self) -> tuple[Step, ...]:
        """Steps that could be said next of this part."""
        state, loops = self._schedule.state, list(self.axes)
        return tuple(step for step in loop_steps(state, self.name, loops) if is_legal(state, step))


def gpu_of(target: Any) -> Gpu | None:
    """The GPU that a target or a machine is; None for a CPU."""
    machine = target if isinstance(target, Machine) else getattr(target, "machine", None)
    return machine.gpu if isinstance(machine, Machine) else None


def _witness(start: State, steps: tuple[Step, ...]) -> tuple[State, dict[str, Any]]:
    """A filling under which all steps are legal, and the state that they lead to; the first error when there is none."""
    first: ScheduleError | None = None
    for values in fillings(holes_of(steps)):
        filled = fill(steps, values)
        try:
            return run_with_branches(start, filled)[0], values
        except ScheduleError as error:
            first = first or error
    assert first is not None
    raise first


def _restored(
    kind: type[Schedule],
    program: Program,
    steps: tuple[Step, ...],
    target: Any,
    find_machine: Callable[[Any], Machine] | None,
) -> Schedule:
    """A pickled schedule, its steps replayed over the stages of its program."""
    from raido.schedule.stages.form_stages import form_stages

    Schedule.find_machine = Schedule.find_machine or find_machine
    return kind(form_stages(program), steps, target)
