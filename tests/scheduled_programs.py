"""Programs under schedules, for tests that inspect the compiler's output and run nothing: the corpus, and every strategy.

Programs of the corpus have their default schedules; those of the tables in tests/laws (scans, filters, sorts, segments, updates) have the
default one, and one for each strategy of their stages. Such a pair is named "scans/running_sum chain".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path += [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent / "laws")]

import filter_programs
import scan_programs
import segment_programs
import sort_programs
import update_programs
from corpus import CASES

from raido.algo.errors import ScheduleError
from raido.algo.graph.program import Program
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

TABLES = {
    "scans": scan_programs.PROGRAMS,
    "filters": filter_programs.PROGRAMS,
    "sorts": sort_programs.PROGRAMS,
    "segments": segment_programs.PROGRAMS,
    "updates": update_programs.PROGRAMS,
}


def corpus_programs() -> Iterator[tuple[str, Program, Schedule]]:
    """Every program of the corpus, and no directives."""
    algorithms = {case.algorithm.name: case for case in CASES}
    for name, case in algorithms.items():
        traced = case.algorithm.trace(*case.arguments)
        yield name, traced, Schedule(form_stages(traced))


def strategy_programs() -> Iterator[tuple[str, Program, Schedule]]:
    """Every program of the laws of strategies, without directives, and with each strategy that one of its stages takes."""
    for table, programs in TABLES.items():
        for name in programs:
            traced = trace(table, name)
            plain = Schedule(form_stages(traced))
            yield f"{table}/{name}", traced, plain
            for strategy in sorted({each for stage in plain.stages for each in plain[stage].strategies()}):
                schedule = with_strategy(traced, strategy)
                if schedule.directives:
                    yield f"{table}/{name} {strategy}", traced, schedule


def scheduled_programs() -> Iterator[tuple[str, Program, Schedule]]:
    """All of them."""
    yield from corpus_programs()
    yield from strategy_programs()


def scheduled(name: str) -> Schedule:
    """The schedule of one program of the laws, by the name that it has above."""
    program, _, strategy = name.partition(" ")
    return with_strategy(trace(*program.split("/")), strategy)


def trace(table: str, name: str) -> Program:
    """One program of the laws."""
    algorithm, inputs = TABLES[table][name]
    return algorithm.trace(*inputs(np.random.default_rng(0), 5, 3))


def with_strategy(program: Program, strategy: str) -> Schedule:
    """A schedule with that strategy for the stages that take it; sums of floats by indivisible steps need not be reproducible."""
    schedule = Schedule(form_stages(program))
    numbers: dict[str, Any] = {"reproducible": False} if strategy == "atomic" else {}
    for stage in schedule.stages:
        if strategy in schedule[stage].strategies():
            try:
                schedule[stage].strategy(strategy, **numbers)
            except ScheduleError:
                continue
    return schedule
