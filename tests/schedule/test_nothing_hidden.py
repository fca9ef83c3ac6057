"""The completed schedule is explicit: a nest has no threads, lanes, chunks, unrolled loops or fallbacks of its own.

`hidden` lists the properties of a nest's loops that no directive states.

    python tests/schedule/test_nothing_hidden.py --programs 1000

prints the whole report: over the corpus, every program of the tables in tests/laws under every strategy, and so many random programs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "laws")]

from random_programs import random_program
from scheduled_programs import scheduled, scheduled_programs

import raido as rd
from raido.algo.graph import index as ix
from raido.algo.graph.expr import Const, Node, Op, SizeVar
from raido.algo.graph.rewrite import topological
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Block, For, If, Let, Nest, Produce, Statement
from raido.schedule.nest.values import NestExpr
from raido.schedule.nest.walk import blocks_of
from raido.schedule.plan import Fuse, LoopPlan, Split, StagePlan, Variant
from raido.schedule.recorded import PART
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.segments import segments_of
from raido.schedule.stages.stage import Stage

MACHINE = Machine(vector_bits=512, registers=32, cores=64)

PROGRAMS = (
    "filters/both_parts serial",
    "filters/large_ones chain",
    "filters/large_ones count_write",
    "scans/last_that_counts chain",
    "scans/last_that_counts serial",
    "scans/last_that_counts three_phase",
    "segments/from_a_start",
    "segments/segments_of_each_row",
    "segments/segments_of_each_row flat",
    "segments/sums flat",
    "segments/sums rows",
    "sorts/narrow_ones",
    "sorts/unsigned_ones",
    "updates/histogram",
    "updates/histogram sorted",
)


@rd.algorithm
def iterations_of_rows(a: rd.f32["n", "w"]):
    return rd.map(lambda row: rd.loop(9, lambda t, r: r * 2 - 1, row), a)


@rd.algorithm
def iterations_of_elements(a: rd.f32["n"]):
    return rd.loop(9, lambda t, r: r * 2 - 1, a)


@rd.algorithm
def sums_of_columns(a: rd.f32["n", "m"]):
    return rd.sum(a, axis=0)


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return a @ b


@rd.algorithm
def affine_maps(a: rd.i64["n"], b: rd.i64["n"]):
    return rd.reduce(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1, 0), a, b)


@rd.algorithm
def products_of_columns(x: rd.f32["n", "m"]):
    return x.T @ x


@rd.algorithm
def weighted_histogram(i: rd.i32["n"], x: rd.f32["n"]):
    return rd.zeros(64, rd.f32).at[i].add(rd.exp(x))


@dataclass(slots=True)
class Stated:
    """What a schedule says of the loops of one stage, over all variants."""

    label: str
    loops: list[LoopPlan] = field(default_factory=list)  # with those of parts
    own: list[LoopPlan] = field(default_factory=list)
    steps: dict[str, set[int]] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)
    chunks: set[Node] = field(default_factory=set)  # numbers of them, made of sizes
    network: int = 0  # the most keys that a quicksort sorts in lanes by a network, whose columns are its lanes
    tests: set[Node] = field(default_factory=set)
    versions: bool = False

    def of(self, name: str) -> list[LoopPlan]:
        """The plans of the loops of that name."""
        return [loop for loop in self.loops if loop.name == name]


def hidden(schedule: Schedule, nest: Nest) -> set[tuple[str, str]]:
    """Pairs of a kind of stage (its strategy, if it has one) and what its loops do that the completed schedule does not state."""
    variants = schedule.variants()
    stated = _stated(variants)
    branches = {test for each in stated.values() for test in each.tests}  # around what makes a stage
    search = _Search(stated, {variant.test for variant in variants} | branches)
    search.block(nest.body, "")
    return search.found | set(search.made_serial())


def _stated(variants: Iterable[Variant]) -> dict[str, Stated]:
    """What is stated of every stage, and of the parts of strategies, by name."""
    found: dict[str, Stated] = {}
    for variant in variants:
        assert variant.graph is not None
        stages = {stage.name: stage for stage in _stages(variant.graph.stages)}
        for plan in variant.array_loops:
            by_rows = found.setdefault(plan.stage, Stated("array loop"))
            by_rows.loops += plan.loops
            by_rows.steps |= {loop: {step} for loop, step in _steps(plan).items()}
        for plan in variant.plans:
            if plan.stage not in stages:
                continue
            own = found.setdefault(plan.stage, Stated(_label(stages[plan.stage], plan)))
            own.versions |= bool(plan.partition or plan.relations)
            for each in (part for way in (plan, *(b.plan for b in plan.instead)) for part in (way, *way.parts)):
                for stated in {plan.stage: own, each.stage: found.setdefault(each.stage, Stated(own.label))}.values():
                    stated.loops += each.loops
                    stated.loops += _with_names_of_steps(each, stages[plan.stage])
                    stated.own += each.loops if stated is found[each.stage] else ()
                    for loop, step in _steps(each).items():
                        stated.steps.setdefault(loop, set()).add(step)
                    for unrolled in (loop for loop in each.loops if loop.kind == "unroll"):
                        stated.steps.setdefault(unrolled.name, set()).add(unrolled.edge)
            own.numbers |= {relation.factor for relation in plan.relations if isinstance(relation, Split)}
            ways = (plan, *(branch.plan for branch in plan.instead))
            for _, numbers in (way.strategy for way in ways if way.strategy):
                own.numbers |= {value for _, value in numbers if type(value) is int}
                own.chunks |= {value for name, value in numbers if name == "chunks"}  # type: ignore[misc]
                own.network = max(own.network, *(int(str(v)) for name, v in numbers if name == "network"), 0)
            own.tests |= {branch.test for branch in plan.instead}
    return found


def _with_names_of_steps(part: StagePlan, stage: Stage) -> list[LoopPlan]:
    """Loops in lanes that make values of an update's steps bear the names of the loops over steps."""
    lanes = [loop for loop in part.loops if loop.kind == "vector" and part.stage.endswith(PART + "values")]
    return [replace(loop, name=axis.name) for loop in lanes for axis in stage.reduction_axes]


def _stages(stages: Iterable[object]) -> Iterator[Stage]:
    for stage in stages:
        if isinstance(stage, Stage):
            yield stage
        else:
            yield from _stages((*stage.setup, *stage.body, *stage.orelse))  # type: ignore[attr-defined]


def _label(stage: Stage, plan: StagePlan) -> str:
    kinds = {"scan": stage.scan, "update": stage.update, "filter": stage.filter, "sort": stage.sort}
    plain = "segments" if segments_of(stage) is not None else "reduction" if stage.reduction else "map"
    kind = next((name for name, value in kinds.items() if value is not None), plain)
    return f"{kind} {plan.strategy[0]}" if plan.strategy is not None and stage.sort is None else kind


def _steps(plan: StagePlan) -> dict[str, int]:
    """By how much each loop moves, as its splits say."""
    steps: dict[str, int] = {}
    for relation in plan.relations:
        if isinstance(relation, Fuse):
            steps[relation.into] = 1
        else:
            steps[relation.inner] = steps.get(relation.parent, 1)
            steps[relation.outer] = steps[relation.inner] * relation.factor
    return steps


class _Search:
    """Walks a nest, with the stage to which the statements belong."""

    def __init__(self, stated: dict[str, Stated], tests: set[Node | None]) -> None:
        self.stated, self.tests = stated, tests
        self.found: set[tuple[str, str]] = set()
        self.ran: set[tuple[str, str, str]] = set()
        self.of_sizes: set[Node] = set()
        self.chunks: set[Node] = set()  # names of stated numbers of chunks

    def block(self, block: Block, stage: str) -> None:
        for statement in block.statements:
            self.statement(statement, stage)

    def statement(self, s: Statement, stage: str) -> None:
        if isinstance(s, Block):
            self.block(s, stage)
            return
        if isinstance(s, Produce):
            stage = s.stage
        elif isinstance(s, For):
            stage = s.stage or stage
            self.loop(s, stage)
        elif isinstance(s, Let) and ix.constant_value(s.value) == 1:
            self.chunks.add(s.var)
        elif isinstance(s, Let) and self.is_of_sizes(s.value):
            self.of_sizes.add(s.var)
            if self.about(stage).chunks & set(topological(s.value)):
                self.chunks.add(s.var)
            elif self.has_own_limit(s.value, stage):
                self.note(stage, "a number of chunks")
        elif isinstance(s, If) and self.is_fallback(s, stage):
            self.note(stage, "a fallback by sizes")
        for block in blocks_of(s):
            self.block(block, stage)

    def loop(self, loop: For, stage: str) -> None:
        """Compares a loop with what is stated of those of its name."""
        plans = self.about(stage).of(loop.loop)
        same = [plan for plan in plans if plan.kind == loop.kind]
        one = ix.constant_value(loop.high) == 1  # chunk of small arrays, whose sizes are known
        if loop.kind == "parallel" and (one or loop.high in self.chunks):  # for threads, as the strategy says
            return
        self.ran.add((stage, loop.loop, loop.kind))
        if loop.kind in ("parallel", "vector", "unroll") and not same:
            self.note(stage, {"parallel": "threads", "vector": "lanes", "unroll": "unrolling"}[loop.kind])
        elif loop.kind == "vector" and not 0 < loop.lanes <= self.about(stage).network:
            for name in ("lanes", "interleave", "tail"):
                if getattr(loop, name) not in {getattr(plan, name) for plan in same}:
                    self.note(stage, f"{name} of its lanes")
        elif (loop.grain, loop.dynamic) not in {(plan.grain, plan.dynamic) for plan in same} and same:
            self.note(stage, "how threads share its loops")
        if loop.step not in {1, *self.about(stage).steps.get(loop.loop, ()), *self.about(stage).numbers}:
            self.note(stage, "loops in larger steps")

    def made_serial(self) -> Iterator[tuple[str, str]]:
        """Stages whose loops are stated to run on threads or in lanes, and are all in the nest, one by one."""
        for stage, stated in self.stated.items():
            names = {stage, stage.partition(PART)[0]}  # loops over blocks bear the name of the stage
            for plan in stated.own:
                kinds = {kind for owner, loop, kind in self.ran if owner in names and loop == plan.name}
                if plan.kind in ("parallel", "vector") and kinds == {"serial"}:
                    yield stated.label, f"{plan.kind} loops that are serial"

    def about(self, stage: str) -> Stated:
        return self.stated.get(stage) or self.stated.get(stage.partition(PART)[0]) or Stated("the host's plan")

    def note(self, stage: str, what: str) -> None:
        self.found.add((self.about(stage).label, what))

    def is_fallback(self, s: If, stage: str) -> bool:
        """Whether sizes choose between two ways to run a stage, for which no directive asks."""
        tests = self.tests | self.about(stage).tests
        chosen = s.orelse is not None and s.condition not in tests and self.is_of_sizes(s.condition)
        if chosen and self.chunks & set(topological(s.condition)):  # a chunk on its own is no chunk
            return False
        if chosen and isinstance(s.condition, Op):  # a limit that the strategy states
            limits = {ix.constant_value(a) for a in s.condition.args if isinstance(a, Const)}
            chosen = not limits or bool(limits - self.about(stage).numbers)
        return chosen and not self.about(stage).versions

    def is_of_sizes(self, e: NestExpr) -> bool:
        """Whether a value is made of sizes alone, and of at least one."""
        leaves = [node for node in topological(e) if not isinstance(node, (Op, Const))]
        return bool(leaves) and all(isinstance(node, SizeVar) or node in self.of_sizes for node in leaves)

    def has_own_limit(self, e: NestExpr, stage: str) -> bool:
        """Whether a quotient is limited by a constant that is not stated."""
        if not any(isinstance(node, Op) and node.name == "floordiv" for node in topological(e)):
            return False
        for node in topological(e):
            if isinstance(node, Op) and node.name == "minimum":
                limits = {ix.constant_value(a) for a in node.args if isinstance(a, Const)}
                if limits - {0, 1} - self.about(stage).numbers:
                    return True
        return False


def report(programs: Iterable[tuple[str, Schedule]]) -> dict[tuple[str, str], list[str]]:
    """What is hidden, and in which programs."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, schedule in programs:
        complete = schedule.complete(MACHINE)
        for what in hidden(complete, lower(complete.graph, complete.variants())):
            found.setdefault(what, []).append(name)
    return found


def random_ones(seeds: Iterable[int]) -> Iterator[tuple[str, Schedule]]:
    """Random programs under their default schedules."""
    for seed in seeds:
        program = random_program(seed, 3, "whole")
        traced = program.algorithm.trace(*program.arguments)
        yield f"random {seed}", Schedule(form_stages(traced))


def test_nests_do_nothing_that_the_schedule_does_not_state_but_for_what_is_listed() -> None:
    own = (
        *(iterations_of_rows, iterations_of_elements, sums_of_columns, product, affine_maps),
        *(products_of_columns, weighted_histogram),
    )
    plain = [(each.name, Schedule(form_stages(each.trace()))) for each in own]
    found = report([*plain, *((name, scheduled(name)) for name in PROGRAMS)])
    assert found == {}, "these are stated nowhere"


def main() -> None:
    parser = argparse.ArgumentParser(description="What nests do that the completed schedule does not state.")
    parser.add_argument("--programs", type=int, default=100, help="random programs")
    given = parser.parse_args()
    listed = ((name, schedule) for name, _, schedule in scheduled_programs())
    found = report([*listed, *random_ones(range(given.programs))])
    for (stage, what), names in sorted(found.items()):
        print(f"{stage}: {what}   {len(names)} programs, as {', '.join(names[:3])}")


if __name__ == "__main__":
    main()
