"""`Schedule`, a handle on recorded directives, and `StageView`, a handle on one stage of a schedule.

A schedule's value is the tuple `s.directives`. An accepted directive replaces it by a longer tuple; a refused one leaves it as it is. While a
schedule has holes, directives are checked under a witness: one filling under which all of them are legal. A branch made by `when` is a schedule
too: it starts from the directives recorded before it, and its own directives are kept in the `when` directive of its parent.
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
from raido.schedule.legal import is_legal, legal_directives, loop_directives, open_strategies
from raido.schedule.machine import Gpu, Machine
from raido.schedule.plan import StagePlan, Variant
from raido.schedule.recorded import PART, Directive, plain, user_site
from raido.schedule.refusal import Refusal, listed, location, refused
from raido.schedule.replay import (
    apply_directive,
    branch_state,
    check_in_branch,
    replay,
    run,
    run_with_branches,
    variant_of,
)
from raido.schedule.stages.stage import AnyStage, Stage, StageGraph, is_array_loop
from raido.schedule.state import State, initial_state, nearest, resolve
from raido.schedule.strategies.array_loops import ITERATIONS, strategies_of_loop
from raido.schedule.strategies.parameters import sizes_and_axes
from raido.schedule.strategies.parts import is_own_pass, part_name
from raido.schedule.strategies.plans_of_parts import plan_of_part
from raido.schedule.strategies.table import Strategy
from raido.schedule.text.diff import Difference, compare
from raido.schedule.text.serialise import call_text, from_json, kind_in_json, schedule_text, to_json
from raido.schedule.text.sizes import parse_test, sizes_of


@bordered
class Schedule(NearAttributes):
    """A schedule of a program: directives recorded for its stages. Defaults decide the rest (`complete`).

    >>> s = blur.schedule()
    >>> s["cols"].tile(y=32, x=512).parallel("yo").vectorize("xi").partition_boundaries()
    <stage "cols": axes yo, xo, yi, xi; ...>
    >>> s["rows"].compute_at("cols", "yo")
    <stage "rows": axes y, x; ...>
    """

    __slots__ = ("_directives", "_graph", "_only", "_parent", "_prefix", "_state", "_witness", "target")
    _display_name = "schedule"
    _site = "schedule"
    __hash__ = None  # type: ignore[assignment]

    find_machine: ClassVar[Callable[[Any], Machine] | None] = None

    def __init__(self, graph: StageGraph, directives: tuple[Directive, ...] = (), target: Any = "llvm") -> None:
        self._graph = graph
        self.target = target
        self._prefix: tuple[Directive, ...] = ()
        self._parent: tuple[Schedule, int] | None = None
        self._only = ""
        self._witness: dict[str, Any] = {}
        self._state = initial_state(graph, gpu_of(target))
        self._directives: tuple[Directive, ...] = ()
        if directives:
            try:
                self._state, self._witness = _witness(self._state, tuple(directives))
            except ScheduleError:
                if not self._keeps_loops(tuple(directives)):
                    raise
            self._directives = tuple(directives)

    @classmethod
    def trusted(cls, graph: StageGraph, directives: tuple[Directive, ...], state: State, target: Any) -> Schedule:
        """Returns a schedule without checking its directives, which must have no holes, be legal and lead to `state`."""
        made = cls(graph, (), target)
        made._directives, made._state = directives, state
        return made

    # Queries

    @property
    def graph(self) -> StageGraph:
        """The stages of the program, without the copies that `clone` and `cache` add."""
        return self._graph

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The recorded directives, in order."""
        return self._directives

    @property
    def explicit_directives(self) -> tuple[Directive, ...]:
        """All directives in force: of a branch, those recorded before it in its parent, and its own."""
        return self._prefix + self._directives

    @property
    def state(self) -> State:
        """The plans after all directives (of a schedule with holes: under its witness)."""
        return self._state

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of all stages in execution order, copies included."""
        return tuple(self._state.uses.stages)

    @property
    def holes(self) -> dict[str, tuple[Any, ...]]:
        """The open holes by name, each with its options."""
        return holes_of(self.explicit_directives)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the schedule's program, in hexadecimal."""
        return fingerprint(self._graph.program)

    def __getitem__(self, name: str) -> StageView:
        try:
            return StageView(self, resolve(self._state.uses.stages, name))
        except Refusal as refusal:
            if self._keeps_loops(self.explicit_directives, name):
                return self[name]
            headline = f'the schedule has no stage "{name}"'
            raise refused(headline, refusal, f'["{name}"]', user_site()) from None

    def copy(self) -> Schedule:
        """Returns an independent schedule with the same directives."""
        return Schedule(self._graph, self.explicit_directives, self.target)

    # Recording

    def accept(self, directive: Directive) -> None:
        """Checks and records a directive. Raises `ScheduleError`, and leaves the schedule as it is, when the directive is illegal."""
        if self._only:
            try:
                check_in_branch(directive, self._only)
            except Refusal as refusal:
                raise refused(
                    f'cannot {deed(directive.name)} stage "{directive.stage}"',
                    refusal,
                    call_text(directive),
                    directive.site,
                ) from None
        try:
            self._state, self._witness = self._after(directive)
        except ScheduleError:
            if not self._keeps_loops((*self.explicit_directives, directive)):
                raise
        self._replace_directives((*self._directives, directive))

    def when(self, test: str) -> Schedule:
        """Returns a sub-schedule for the sizes for which a test holds; it starts from the directives so far and takes directives of its own.

        The first branch whose test holds is run; later directives of this schedule concern the general case only.
        """
        return self._branch(test, "")

    def _branch(self, test: str, stage: str) -> Schedule:
        """Returns the sub-schedule of a `when`, of the program ("") or of one of its stages."""
        said, site = f".when({test!r})", user_site()
        try:
            if self._only or (self._parent is not None and not stage):
                raise Refusal("a branch has no branches of its own", 'one test: when("w % 16 == 0 and h > 64")')
            branches = (
                directive for directive in self._directives if directive.name == "when" and directive.stage == stage
            )
            if any(directive.branches[0][0] == test for directive in branches):
                raise Refusal("that test has a branch already", "give the directives to that branch")
            names = sizes_and_axes(self._state, stage) if stage else sizes_of(self._graph.program)
            parse_test(test, names)
        except Refusal as refusal:
            where = f' in stage "{stage}"' if stage else ""
            raise refused("cannot branch on a test" + where, refusal, said, site) from None
        branch = Schedule.__new__(type(self))
        branch._graph, branch.target, branch._only = self._graph, self.target, stage
        branch._prefix = tuple(directive for directive in self._directives if not directive.branches_program)
        branch._directives, branch._state, branch._witness = (), self._state, self._witness
        if stage:
            branch._prefix = (*self._prefix, *branch._prefix)
            branch._state = branch_state(self._state, stage)
        branch._parent = (self, len(self._directives))
        directive = Directive(stage, "when", (), ((test, ()),), site)
        if stage:
            self._state, self._witness = self._after(directive)
        self._replace_directives((*self._directives, directive))
        return branch

    def choose(self, name: str, **alternatives: Callable[[Schedule], object]) -> Schedule:
        """Records a hole that stands for directives: each alternative records its own on the schedule that it is given.

        >>> s = blur.schedule()
        >>> s.choose("place", a=lambda s: s["rows"].root(), b=lambda s: s["rows"].inline()).holes
        {'place': ('a', 'b')}
        """
        if not alternatives:
            raise ScheduleError(explain(f'hole "{name}" has no alternatives', **{"try": "a=lambda s: s[…]…"}))
        branches = []
        for label, record in alternatives.items():
            if not label.isidentifier() or keyword.iskeyword(label):
                raise ScheduleError(explain(f"{label!r} is no name for an alternative", **{"try": "a=lambda s: s[…]…"}))
            trial = self.copy()
            before = len(trial._directives)
            record(trial)
            branches.append((label, trial._directives[before:]))
        self.accept(Directive("", "choose", (("name", name),), tuple(branches), user_site()))
        return self

    def with_(self, **values: Any) -> Schedule:
        """Returns the schedule with holes filled. Refuses values that are not among the options, and fillings under which a directive is
        illegal.
        """
        chosen = {name: plain(value) for name, value in values.items()}
        check_filling(self.holes, chosen)
        return Schedule(self._graph, fill(self.explicit_directives, chosen), self.target)

    def complete(self, target: Any = None, sizes: Mapping[str, int] | None = None) -> Schedule:
        """Returns the schedule with every default decision written out as directives; idempotent.

        target: a `Machine`, or the name or `Target` of one; the schedule's own target unless given. sizes: known sizes by name.
        """
        from raido.schedule.defaults.complete import complete

        machine = target or self.target
        if not isinstance(machine, Machine):
            machine = Schedule.find_machine(machine) if Schedule.find_machine else Machine()
        return complete(self.copy(), machine, sizes)

    # Results

    def variants(self) -> tuple[Variant, ...]:
        """Returns the plans of all stages: one variant for each `when`, and the general one last. Refuses a schedule with holes."""
        open_ = self.holes
        if open_:
            name = next(iter(open_))
            raise ScheduleError(
                explain("the schedule has holes", holes=listed(open_), **{"try": f"with_({name}={open_[name][0]!r})"})
            )
        directives = self.explicit_directives
        branches = any(directive.branches_program for directive in directives)
        return replay(self._graph, directives, self._state.gpu) if branches else (variant_of(self._state),)

    def show(self) -> None:
        """Prints the completed schedule's loop nest as pseudo-code, with buffers, sizes and the place where each stage is computed."""
        print(printable(self.nest_text()))

    def nest_text(self) -> str:
        """Returns the text that `show` prints."""
        from raido.schedule.lower import lower
        from raido.schedule.nest.printer import print_nest
        from raido.schedule.repeats import repeats

        complete = self.complete()
        variants = complete.variants()
        nest = lower(complete.graph, variants, Machine(gpu=complete.state.gpu))
        notes = repeats(nest, complete.graph.stages, variants)
        return print_nest(nest) + "".join(f"  # {note}\n" for note in notes)

    def diff(self, other: Schedule) -> Difference:
        """Compares two schedules directive by directive. The result prints as a list of directives in both, only in this one (-) and only in
        the other (+).
        """
        return compare(self.explicit_directives, other.explicit_directives)

    def to_json(self) -> str:
        """Returns the schedule as JSON text, with the fingerprint of its program."""
        return to_json(self._graph.program, self.explicit_directives, self._kind)

    @classmethod
    def from_json(cls, text: str, algorithm: Any) -> Schedule:
        """Returns the schedule that `to_json` wrote. Refuses text that is no schedule, and one of another program.

        algorithm: the program, as an algorithm, its stages, or a schedule of it, whose target the result then has. Static (keyword-only)
        parameters are part of the program: `rd.Schedule.from_json(text, f.schedule(width=200))`, or `rd.capture(f, width=200)` for `f`.
        """
        for_kind = {"target": kind} if (kind := kind_in_json(text)) else {}
        empty = algorithm if isinstance(algorithm, (Schedule, StageGraph)) else algorithm.schedule(**for_kind)
        graph, target = (empty, "llvm") if isinstance(empty, StageGraph) else (empty.graph, empty.target)
        return cls(graph, from_json(text, graph.program), target)

    @property
    def _kind(self) -> str:
        """The kind of the target; "" for a CPU, since a CPU schedule serves all of them."""
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
        return schedule_text(self._graph.program, self.explicit_directives, self._kind)

    def __repr__(self) -> str:
        count = len(self.explicit_directives)
        stages = reprlib.repr(list(self.stages)).replace("'", "").strip("[]")
        return f"<Schedule of {self._graph.program.name}: {count} step{'' if count == 1 else 's'}; stages {stages}>"

    def _repr_html_(self) -> str:
        directives = self.explicit_directives
        said = {
            name: "".join(call_text(directive) for directive in directives if directive.stage == name)
            for name in self.stages
        }
        rows = [(name, self[name].line, ", ".join(self[name].axes), said[name] or "by default") for name in self.stages]
        whole = (
            listing(str(self)) if any(directive.stage not in said for directive in directives) else ""
        )  # branches, parts, holes
        return titled(
            f"Schedule of {self._graph.program.name}", table(("stage", "line", "axes", "directives"), rows), whole
        )

    def __reduce__(self) -> tuple[Any, ...]:
        directives = self.explicit_directives  # a branch becomes a schedule of its own, as in `copy`
        return _restored, (type(self), self._graph.program, directives, self.target, Schedule.find_machine)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        same = self._graph is other._graph or self.fingerprint == other.fingerprint
        return same and self.explicit_directives == other.explicit_directives

    # Maintaining the value

    def _keeps_loops(self, directives: tuple[Directive, ...], name: object = None) -> bool:
        """Whether the steps are legal, and a stage has the name, if loops with independent iterations stay loops; they then do."""
        if not self._graph.mapped or self._parent is not None:
            return False
        from raido.schedule.stages.form_stages import form_stages

        graph = form_stages(self._graph.program, as_loops=True)
        try:
            state, witness = _witness(initial_state(graph, self._state.gpu), directives)
            if name is not None:
                resolve(state.uses.stages, name)
        except (ScheduleError, Refusal):
            return False
        self._graph, self._state, self._witness = graph, state, witness
        return True

    def _after(self, directive: Directive) -> tuple[State, dict[str, Any]]:
        directives = (*self.explicit_directives, directive)
        holes = holes_of(directives)
        try:
            if not holes:
                return apply_directive(self._state, directive), {}
            if all(name in self._witness for name in holes):
                return run(self._state, fill((directive,), self._witness)), self._witness
        except ScheduleError:
            if not holes:
                raise
        return _witness(initial_state(self._graph, self._state.gpu), directives)

    def _replace_directives(self, directives: tuple[Directive, ...]) -> None:
        if self._parent is not None:
            owner, where = self._parent
            directive = owner._directives[where]
            kept = replace(directive, branches=((directive.branches[0][0], directives),))
            changed = (*owner._directives[:where], kept, *owner._directives[where + 1 :])
            if self._only:
                start = initial_state(owner._graph, owner._state.gpu)
                owner._state, owner._witness = _witness(start, owner._prefix + changed)
            owner._replace_directives(changed)
        self._directives = directives


class StageView(Directives):
    """One stage of a schedule: its methods record directives, and can be chained."""

    __slots__ = ("_schedule", "name")

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self.name = name

    @property
    def stage(self) -> AnyStage:
        """The stage that the view names."""
        return self._schedule.state.uses.stages[self.name]

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the stage's current loops, outermost first."""
        state = self._schedule.state
        plan = state.plans.get(self.name) or state.array_loops.get(self.name)
        return (ITERATIONS,) if plan is None else tuple(loop.name for loop in plan.loops)

    @property
    def line(self) -> str:
        """The source line of the algorithm that the stage comes from, such as `blur.py:12`; "" for a stage of raido's own."""
        site = getattr(self.stage, "site", None)
        return "" if site is None else location(site)

    @property
    def plan(self) -> StagePlan:
        """The decisions recorded for the stage so far."""
        state = self._schedule.state
        return state.array_loops.get(self.name) or state.plan(self.name)

    def legal(self) -> tuple[Directive, ...]:
        """Returns directives that may be recorded next for this stage: a finite sample of every directive. `schedule.accept` records one."""
        return legal_directives(self._schedule.state, self.name)

    def strategies(self) -> dict[str, Strategy]:
        """Returns the strategies that `strategy` accepts for the stage, each with its parameters, axes and parts; {} for maps and stencils.

        Array loops have two: "whole" runs all rows in each iteration, "rows" runs all iterations of one row after another.

        >>> running.schedule()["scan_1"].strategies()["chain"]
        Strategy(numbers={'block': 131072}, axes=('xo', 'xi'), parts=('totals',), options=())
        """
        stage = self.stage
        if isinstance(stage, Stage):
            return open_strategies(self._schedule.state, self.name)
        return strategies_of_loop() if is_array_loop(stage) else {}

    def when(self, test: str) -> StageView:
        """Returns a view that schedules the stage for the sizes for which a test holds; it starts from the stage's directives so far.

        test: a comparison of the program's sizes and the stage's axes, which stand for their extents: "x > 4096 and r < 16 * x". The first
        branch whose test holds is run; later directives of the stage concern the general case only. A branch takes loop directives, a
        strategy, and directives about loops. The stage must be computed whole, and no stage may be computed in its loops but copies
        (`cache`): a branch that has the loop at which a copy is placed, and the loops of its layout, makes the copy there; another reads
        the array itself.

        >>> s = blur.schedule()
        >>> narrow = s["cols"].when("x < 64").unroll("y", 2)
        >>> s["cols"].vectorize("x").parallel("y")
        <stage "cols": axes y, x; ...>
        """
        return StageView(self._schedule._branch(test, self.name), self.name)

    def part(self, name: str) -> StageView:
        """Returns a view of a part of the chosen strategy, which takes loop directives; `strategies()` lists the parts. Refuses unknown
        parts.

        The part "bins" of an update's "private" is the update itself, so it is the stage's own view.
        """
        try:
            if not self.strategies():
                raise Refusal("the stage has no strategies", parts="none")
            if is_own_pass(self.plan, name):
                return self
            plan_of_part(self._schedule.state, self.name, name)
        except Refusal as refusal:
            headline = f'stage "{self.name}" has no part "{name}"'
            raise refused(headline, refusal, f'.part("{name}")', user_site()) from None
        return PartView(self._schedule, part_name(self.name, name))

    if not TYPE_CHECKING:  # so that type checkers report unknown directives, too

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
        self._schedule.accept(Directive(self.name, directive, args, (), site))
        return self


class PartView(StageView):
    """One part of a stage's strategy: its methods record loop directives, and can be chained."""

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
        """The names of the part's current loops, outermost first."""
        return tuple(loop.name for loop in self.plan.loops)

    @property
    def plan(self) -> StagePlan:
        """The decisions recorded for the part so far."""
        return self._found[1]

    def strategies(self) -> dict[str, Strategy]:
        """Returns {}: a part of a strategy has no strategies."""
        return {}

    def legal(self) -> tuple[Directive, ...]:
        """Returns loop directives that may be recorded next for this part."""
        state, loops = self._schedule.state, list(self.axes)
        return tuple(directive for directive in loop_directives(state, self.name, loops) if is_legal(state, directive))


def gpu_of(target: Any) -> Gpu | None:
    """Returns the GPU of a target or machine; None for a CPU."""
    machine = target if isinstance(target, Machine) else getattr(target, "machine", None)
    return machine.gpu if isinstance(machine, Machine) else None


def _witness(start: State, directives: tuple[Directive, ...]) -> tuple[State, dict[str, Any]]:
    """Returns the state after all directives under a witness, and that filling of the holes; raises the error of the first filling where none
    is legal.
    """
    first: ScheduleError | None = None
    for values in fillings(holes_of(directives)):
        filled = fill(directives, values)
        try:
            return run_with_branches(start, filled)[0], values
        except ScheduleError as error:
            first = first or error
    assert first is not None
    raise first


def _restored(
    kind: type[Schedule],
    program: Program,
    directives: tuple[Directive, ...],
    target: Any,
    find_machine: Callable[[Any], Machine] | None,
) -> Schedule:
    """Unpickles a schedule: forms the stages of its program and replays its directives."""
    from raido.schedule.stages.form_stages import form_stages

    Schedule.find_machine = Schedule.find_machine or find_machine
    return kind(form_stages(program), directives, target)
