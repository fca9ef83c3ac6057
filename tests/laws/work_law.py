"""The test of asymptotic work ("law of work"): no default schedule does asymptotically more work than the program specifies.

A counting interpreter runs the scalar nests of a program's default schedule and of its baseline (`schedule/oracles/baseline.py`), under a small
machine whose blocks and strips are of sizes that an interpreter can run, for arguments of size n and 4n. The work (operations and
accesses) of the default is at most `MOST_WORK` times the baseline's; where the ratio grows from n to 4n, at 16n as well (stages that go
over blocks twice, as scans and filters do, reach twice the baseline's work gradually). Its temporary memory grows at most `MOST_MEMORY`
times as fast as that of the baseline, the arguments and the results: the memory of a block or a worker does not grow. Its bytes from beyond
the last cache are at most `MOST_BYTES` times those of the baseline, plus the size of a second-level cache.

    python tests/laws/work_law.py --first 0 --programs 1000      prints the programs that exceed these limits
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import numpy as np  # noqa: E402
from calls import of_sizes  # noqa: E402
from nested_programs import nested_program  # noqa: E402
from random_programs import Grammar, RandomProgram, random_program  # noqa: E402

from raido.algo.errors import CompileError, RaidoError  # noqa: E402
from raido.algo.graph.bind_sizes import bind_sizes, evaluate_size  # noqa: E402
from raido.algo.graph.program import Program  # noqa: E402
from raido.schedule.lower import lower  # noqa: E402
from raido.schedule.machine import Machine  # noqa: E402
from raido.schedule.oracles.baseline import baseline  # noqa: E402
from raido.schedule.oracles.count import Work, count_work  # noqa: E402
from raido.schedule.schedule import Schedule  # noqa: E402
from raido.schedule.stages.form_stages import form_stages  # noqa: E402
from raido.schedule.stages.stage import StageGraph  # noqa: E402

Arguments: TypeAlias = "Callable[[int], tuple[Sequence[Any], dict[str, int]]]"
"""Flat arguments of n times a factor, and sizes by name."""

SMALL = Machine(vector_bits=64, registers=16, cores=2, l1=1 << 10, l2=4 << 10, l3=16 << 10, task=1 << 9)
MOST_WORK, GROWTH, MOST_MEMORY, MOST_BYTES = 2.0, 1.1, 1.5, 1.5
"""2 for blocks that are gone over twice."""
CONSTANT = 256  # operations and accesses that do not depend on sizes: the schedule's own glue
MOST_ELEMENTS = 4096  # of an argument at size 4n
FACTOR = 4
REPORTED = 100  # programs
NESTED = (6, 6)  # rows, and numbers in each, of programs with nested arrays


@dataclass(frozen=True)
class Measured:
    """The work of the default schedule and of the baseline for arguments of one size."""

    default: Work
    baseline: Work
    given: int
    """Work that is not held against a schedule: the host's, and some for each element of the results."""
    touched: int
    """Bytes of arguments and results."""

    @property
    def ratio(self) -> float:
        """How much more the default does."""
        return (self.default.total + self.given) / (self.baseline.total + self.given)


class BrokenLaw(AssertionError):
    """A program whose default schedule does more than it says."""


def check_work(program: Program, arguments: Arguments) -> None:
    """Holds the law for a traced program, and compares what both schedules make."""
    graph = form_stages(program)
    first, second = (measure(graph, *arguments(factor)) for factor in (1, FACTOR))
    complaints = []
    if second.ratio > MOST_WORK:
        complaints.append(f"{second.ratio:.2f} times the work of the baseline")
    if second.ratio > GROWTH * max(first.ratio, 1.0):
        third = measure(graph, *arguments(FACTOR * FACTOR))
        if third.ratio > MOST_WORK:
            ratios = ", ".join(f"{each.ratio:.2f}" for each in (first, second, third))
            complaints.append(f"{ratios} times the work of the baseline")
    grown = second.default.most - first.default.most
    may_grow = second.baseline.most - first.baseline.most + second.touched - first.touched
    if grown > MOST_MEMORY * max(0, may_grow) + SMALL.l1:
        complaints.append(f"{grown} bytes more where the baseline, arguments and results have {may_grow}")
    brought, may_bring = second.default.brought, second.baseline.brought
    if brought > MOST_BYTES * may_bring + SMALL.l2:
        complaints.append(f"{brought} bytes from beyond the last cache where the baseline brings {may_bring}")
    if complaints:
        raise BrokenLaw("; ".join(complaints))


def measure(
    graph: StageGraph, arrays: Sequence[Any], sizes: dict[str, int], schedule: Schedule | None = None
) -> Measured:
    """The nests of a schedule (the default one) and of the baseline, run and counted; their results must agree."""
    default, results = count_schedule(schedule or Schedule(graph).complete(SMALL), arrays, sizes)
    plain, wanted = count_schedule(baseline(graph), arrays, sizes)
    for got, want in zip(results, wanted, strict=True):
        if not np.allclose(got, want, rtol=1e-3, atol=1e-2, equal_nan=True):
            raise BrokenLaw(f"the schedule makes\n{got}\nand the baseline\n{want}")
    touched = [np.asarray(array) for array in (*arrays, *results)]
    elements = sum(array.size for array in touched[len(arrays) :])
    return Measured(default, plain, CONSTANT + elements, sum(array.nbytes for array in touched))


def count_schedule(schedule: Schedule, arrays: Sequence[Any], sizes: dict[str, int]) -> tuple[Work, list[np.ndarray]]:
    """The work of a complete schedule, and its results."""
    return count_work(lower(schedule.graph, schedule.variants(), SMALL), arrays, sizes, SMALL.l3, SMALL.l1)


def check(seed: int, statements: int = 2, grammar: Grammar = "whole") -> bool:
    """Holds the law for a random program; whether it could be run (one that faults says nothing of its work)."""
    program = random_program(seed, statements, grammar)
    traced = program.algorithm.trace(*program.arguments)
    try:
        check_work(traced, lambda factor: scaled(program, traced, factor))
    except BrokenLaw as broken:
        raise BrokenLaw(f"{broken}\n{program!r}") from None
    except CompileError:
        raise
    except RaidoError:
        return False
    return True


def check_nested(seed: int) -> bool:
    """Holds the law for a random program with nested arrays, and its default nest and its baseline against the interpreter."""
    program = nested_program(seed)
    traced = program.algorithm.trace(*program.arguments(*NESTED))

    def arguments(factor: int) -> tuple[list[Any], dict[str, int]]:
        return program.arguments(*(factor * size for size in NESTED)), {}

    try:
        check_work(traced, arguments)
    except BrokenLaw as broken:
        raise BrokenLaw(f"{broken}\n{program.source}") from None
    return True


def scaled(program: RandomProgram, traced: Program, factor: int) -> tuple[list[Any], dict[str, int]]:
    """Flat arguments for sizes of `factor` times the largest n for which those at 4n have `MOST_ELEMENTS`; and the sizes."""
    names = [size.name for size in traced.sizes]
    n = 32
    while n > 1 and any(
        prod(evaluate_size(e, dict.fromkeys(names, FACTOR * n)) for e in p.shape) > MOST_ELEMENTS
        for p in traced.parameters
    ):
        n //= 2
    sizes = dict.fromkeys(names, factor * n)
    arguments = of_sizes(program, traced, sizes, Random(program.seed))
    flat, given = program.algorithm.flatten(arguments)
    bind_sizes(
        traced, [np.shape(array) for array in flat], given
    )  # which says where these sizes are none for the program
    return list(flat), {**sizes, **given}


def main(first: int, programs: int, nested: int) -> None:
    """Holds the law for that many programs, and prints those that break it."""
    ran = broken = 0
    for seed in range(first, first + programs):
        try:
            ran += (check_nested if nested else check)(seed)
        except Exception as error:
            broken += 1
            print(f"--- {seed}: {type(error).__name__}: {error}", flush=True)
        done = seed + 1 - first
        if done % REPORTED == 0 or done == programs:
            print(f"{done} programs, up to {seed}: {ran} counted, {broken} broken", flush=True)


if __name__ == "__main__":
    options = dict(zip(sys.argv[1::2], map(int, sys.argv[2::2]), strict=True))
    main(options.get("--first", 0), options.get("--programs", 100), options.get("--nested", 0))
