"""The differential test: every way to run a program gives the same result.

`check(seed)` draws a random program and compares with the graph interpreter: the scalar nest, the gang nest (both well formed) and the
compiled code on one, two and eight threads, under a random legal schedule, for one instruction set or another (a program that drew
one which this machine lacks is compiled for the widest that it has: `HERE`); of one program in
`DEFAULTS` under its default schedule too, and of one in `OTHERS` in another way: for the sizes of its arguments only, without checks,
or exported to a library. One of the calls has strided views as arguments, one is given memory for its results, and one has arguments
of other sizes.

Results are equal bit for bit, except float results whose reductions may be grouped (`RandomProgram.exact` says which), where they are
close, and the same on any number of threads. A program that faults must raise the same kind of fault everywhere. `hold` does the same
for one program under one schedule.
"""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from calls import as_views, call_into, exported, resized, specialised, unchecked
from processors import lacking, widest_here
from random_programs import Grammar, RandomProgram, leaves_of, random_program

from raido.algo.errors import RaidoError, ScheduleError
from raido.algo.graph.narrow import widen
from raido.algo.graph.program import Program
from raido.algo.interpreter.interpret import interpret
from raido.schedule.legal import candidates
from raido.schedule.lower import lower
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.replay import IN_BRANCHES
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import Stage, is_array_loop
from raido.schedule.strategies.array_loops import row_order
from raido.targets.compile import Compilation, executable_of
from raido.targets.executable import Executable
from raido.targets.native import set_threads
from raido.targets.target import Target

CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
HERE = {cpu: widest_here(CPUS) if lacking(cpu) else cpu for cpu in CPUS}  # where code for each is run on this machine
FIRST_RUN = range(1_000_000, 1_050_000)  # numbers of the first long run, which drew from two grammars
SECOND_RUN = range(2_000_000, 2_050_000)  # of the second, which drew from these and `random_more_forms`
FULL = 0.7  # the share of other programs that the grammar of everything draws
DEFAULTS = 8  # of so many programs one is held under its default schedule too (all other tests do that)
OTHERS = 16  # of so many one is compiled in another way
BRANCHES = 6  # of so many schedules one has a stage with a branch
TRIES = 12  # directives proposed for each step of a random schedule

# Graphs and nests are trees of small objects: looking through them often costs a tenth of a run.
gc.set_threshold(100_000, 20, 20)


@dataclass
class Broken(AssertionError):
    """A counter-example: which program, under which schedule, run in which way, and what was wrong."""

    program: str
    schedule: str
    way: str
    what: str

    def __str__(self) -> str:
        return f"{self.way}: {self.what}\n{self.program}\nschedule:\n{self.schedule}"


@dataclass(frozen=True)
class Shape:
    """How large a drawn program is, how many directives its random schedule has, and which grammar it is of."""

    statements: int
    steps: int
    grammar: Grammar


def shape_of(seed: int) -> Shape:
    """The shape of program number `seed`: mostly small ones, which are checked sooner and understood sooner."""
    draw = random.Random(f"shape {seed}")
    statements, steps = draw.choice((1, 2, 2, 2, 3, 4)), draw.randint(1, 9)
    grammar: Grammar = "wide" if draw.random() < 0.4 else "plain"
    if seed not in FIRST_RUN and draw.random() < FULL:
        grammar = "full" if seed in SECOND_RUN else "whole"
    return Shape(statements, steps, grammar)


def check(seed: int, shape: Shape | None = None, *, compiled: bool = True) -> int:
    """Checks program number `seed`; returns how many runs were compared. Raises `Broken`."""
    shape = shape or shape_of(seed)
    program = random_program(seed, shape.statements, shape.grammar)
    traced = program.algorithm.trace(*program.arguments)
    want = outcome(lambda: interpret(traced, *program.algorithm.flatten(program.arguments)))
    runs = 0
    for k, steps in ((0, 0), (1, shape.steps)) if seed % DEFAULTS == 0 else ((1, shape.steps),):
        cpu = drawn_cpu(seed + k)
        schedule = random_schedule(traced, 1000 * seed + k, steps)
        complete = schedule.complete(Target.parse(f"llvm:{cpu}").machine)
        runs += hold(program, complete, want, cpu, compiled)
    if compiled and seed not in SECOND_RUN and seed % OTHERS == OTHERS // 4:
        runs += hold_otherwise(program, want, drawn_cpu(seed), seed // OTHERS)
    return runs


def drawn_cpu(number: int) -> str:
    """The instruction set for which a schedule of that number is lowered."""
    return CPUS[number % len(CPUS)]


def random_schedule(program: Program, seed: int, steps: int, target: Target | None = None) -> Schedule:
    """A schedule for a target (None: this CPU) with up to that many random legal directives."""
    draw = random.Random(f"schedule {seed}")
    schedule = Schedule(form_stages(program), (), target or "llvm")
    for _ in range(steps):
        possible: dict[str, list[Any]] = {}
        for directive in candidates(schedule.state, draw.choice(schedule.stages)):
            possible.setdefault(directive.name, []).append(directive)
        for _ in range(TRIES if possible else 0):
            try:
                schedule.accept(draw.choice(possible[draw.choice(list(possible))]))
            except ScheduleError:
                continue
            break
    branch(schedule, random.Random(f"branch {seed}"), steps)
    return order_rows(schedule, random.Random(f"rows {seed}"))


def order_rows(schedule: Schedule, draw: random.Random) -> Schedule:
    """Other orders for array loops whose iterations keep to rows: whole, rows one by one, in pieces, iterations inside pieces. Orders that do
    not go together, as those of a loop and of one inside it, are refused where the program is lowered, and left out."""
    if schedule.state.gpu is not None or not any(map(is_array_loop, schedule.state.uses.stages.values())):
        return schedule
    for name, plan in schedule.complete().state.array_loops.items():
        trial = schedule.copy()
        order, way, loop = row_order(plan), draw.randrange(4), trial[name]
        if way == 0:
            loop.strategy("whole")
        elif way < 3:
            loop.strategy("rows", depth=order.depth)
            if order.depth == 1:
                loop.split("row", draw.choice((1, 2, 3, 8)))
                if not order.loops[0].dynamic and draw.randrange(2):
                    loop.reorder("t", "rowi")
            if draw.randrange(2):
                loop.parallel(order.loops[0].name if order.depth > 1 else "rowo", dynamic=way == 2)
        with contextlib.suppress(ScheduleError):
            complete = trial.complete()
            lower(complete.graph, complete.variants(), Target().machine)
            schedule = trial
    return schedule


def branch(schedule: Schedule, draw: random.Random, steps: int) -> None:
    """Of one schedule in `BRANCHES`, gives a stage other loops where a test on the extent of an axis holds, if it may have some."""
    name = draw.choice(schedule.stages)
    stage = schedule[name].stage
    if draw.randrange(BRANCHES) or not isinstance(stage, Stage) or not stage.all_axes:
        return
    test = f"{draw.choice(stage.all_axes).name} {draw.choice(('>', '<=', '!='))} {draw.choice((1, 3, 4, 7))}"
    try:
        inside = schedule[name].when(test)._schedule
    except ScheduleError:
        return
    for _ in range(steps):
        possible = [directive for directive in candidates(inside.state, name) if directive.name in IN_BRANCHES]
        with contextlib.suppress(ScheduleError):
            for directive in draw.sample(possible, min(1, len(possible))):
                inside.accept(directive)


def hold(program: RandomProgram, schedule: Schedule, want: Any, cpu: str = CPUS[1], compiled: bool = True) -> int:
    """Runs a program in every way under a complete schedule; returns how many answers were compared. Raises `Broken`."""

    def compare(way: str, got: Any) -> None:
        fault = difference(want, got, program.exact)
        if fault:
            raise Broken(repr(program), f"# {cpu}\n{schedule}", way, fault)

    inputs = program.algorithm.flatten(program.arguments)
    work = Completed(schedule.graph.program, Target.parse(f"llvm:{cpu}"), schedule, {})
    check_nest(work.nest, "scalar")
    compare("scalar nest", outcome(lambda: interpret_nest(work.nest, *inputs, seed=1)))
    check_nest(work.gang, "gang")
    compare("gang nest", outcome(lambda: interpret_nest(work.gang, *inputs, seed=2)))
    if not compiled:
        return 2
    if HERE[cpu] != cpu:
        work = Completed(schedule.graph.program, Target.parse(f"llvm:{HERE[cpu]}"), schedule, {})
    executable = executable_of(work)
    first = run_on(2, lambda: executable(*program.arguments))
    compare("compiled", leaves(first))
    views = as_views(program.arguments, random.Random(program.seed))
    for threads, way, call in (
        (1, "strided arguments", lambda: executable(*views)),
        (8, "given memory", lambda: call_into(executable, program, first)),
    ):
        fault = difference(leaves(first), leaves(run_on(threads, call)), (True,) * len(program.exact))
        if fault:
            raise Broken(repr(program), f"# {cpu}\n{schedule}", f"compiled, {threads} threads, {way}", fault)
    return 5 + hold_resized(program, schedule, executable, cpu)


def hold_resized(program: RandomProgram, schedule: Schedule, executable: Executable, cpu: str) -> int:
    """Calls compiled code with arguments of other sizes; returns how many answers were compared. Raises `Broken`.

    Nothing is said where the program faults then, since what faults need not be needed, nor of f16, whose sums would be rounded.
    """
    if "f16" in program.source:
        return 0
    arguments = resized(program, random.Random(program.seed))
    traced = program.algorithm.trace(*arguments)
    want = outcome(lambda: interpret(traced, *program.algorithm.flatten(arguments)))
    if isinstance(want, type):
        return 0
    fault = difference(want, leaves(run_on(2, lambda: executable(*arguments))), program.exact)
    if fault:
        sizes = [getattr(argument, "shape", argument) for argument in arguments]
        raise Broken(repr(program), f"# {cpu}\n{schedule}", f"compiled, arguments of the sizes {sizes}", fault)
    return 1


def hold_otherwise(program: RandomProgram, want: Any, cpu: str, which: int) -> int:
    """Compiles a program in another way; returns how many answers were compared. Raises `Broken`."""
    target = Target.parse(f"llvm:{HERE[cpu]}")
    ways: tuple[tuple[str, Any], ...] = (("specialised", specialised), ("exported", exported), ("unchecked", unchecked))
    way, make = ways[which % len(ways)]
    if way == "unchecked" and isinstance(want, type):
        return 0  # a fault is undefined then
    executable = make(program, target)
    fault = difference(want, leaves(run_on(2, lambda: executable(*program.arguments))), program.exact)
    if fault:
        raise Broken(repr(program), f"# {cpu}\n# default", way, fault)
    return 1


def run_on(threads: int, call: Callable[[], Any]) -> Any:
    """What a call returns on that many threads, or the kind of fault."""
    set_threads(threads)
    try:
        return call()
    except RaidoError as error:
        return type(error)
    finally:
        set_threads(None)


def leaves(result: Any) -> Any:
    """The arrays of a result, or the fault that came instead."""
    return result if isinstance(result, type) else leaves_of(result)


class Completed(Compilation):
    """A compilation under a schedule that is complete."""

    @property
    def schedule(self) -> Schedule:  # type: ignore[override]
        """The schedule that was given."""
        assert self.given is not None
        return self.given


def outcome(run: Any) -> Any:
    """The results, or the kind of fault."""
    try:
        return list(run())
    except ScheduleError:
        raise
    except RaidoError as error:
        return type(error)


def difference(want: Any, got: Any, exact: Sequence[bool]) -> str:
    """How two outcomes differ; "" where they do not."""
    if isinstance(want, type) or isinstance(got, type):
        return "" if want is got else f"expected {_name(want)}, got {_name(got)}"
    for k, (a, b) in enumerate(zip(want, got, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: expected {a.dtype}{a.shape}, got {b.dtype}{b.shape}"
        same = _same_bits(a, b) if exact[k] else _close(a, b)
        if not same.all():
            where = tuple(int(i[0]) for i in np.nonzero(~same)) if a.ndim else ()
            return f"result {k}: {int((~same).sum())} of {a.size} differ, first at {where}: expected {a[where]!r}, got {b[where]!r}"
    return ""


def _same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal to the bit, the payload of NaNs aside."""
    a, b = widen(a), widen(b)
    if a.dtype.kind != "f":
        return a == b
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.isclose(widen(a), widen(b), rtol=1e-2 if a.dtype.itemsize == 2 else 1e-4, atol=1e-3, equal_nan=True)


def _name(outcome: Any) -> str:
    return outcome.__name__ if isinstance(outcome, type) else "results"
