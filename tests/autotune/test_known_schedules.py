"""Handwritten schedules are in the automatic space: those of the design, and those of every row of the benchmarks."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from space_programs import AVX512, IMAGE, PROGRAMS, jacobi, space_of

import raido as rd
from raido.autotune.space import Space, key_of

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))
from rows import ROWS

ACCEPTANCE: dict[str, tuple[str, Callable[[rd.Schedule], None]]] = {}
OUTSIDE: dict[tuple[str, str], str] = {  # (row, schedule) -> why the space does without it
    ("gauss_separable", "6 rows"): "its factors are powers of two",
    ("ambient_occlusion", "1 x3"): "its factors are powers of two",
}


def acceptance(name: str) -> Callable[[Callable[[rd.Schedule], None]], Callable[[rd.Schedule], None]]:
    """Registers a schedule of a program."""

    def keep(record: Callable[[rd.Schedule], None]) -> Callable[[rd.Schedule], None]:
        ACCEPTANCE[record.__name__] = (name, record)
        return record

    return keep


@acceptance("sgemm")
def panels(s: rd.Schedule) -> None:
    s["c"].tile(y=12, x=32).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").vectorize("xi", interleave=2).parallel(
        "yo"
    )
    s["c"].cache("b", "c", None, layout=("xo", "r", "xi"))


@acceptance("jacobi")
def rows_in_registers(s: rd.Schedule) -> None:
    s["out"].split("y", 4).reorder("yo", "x", "yi").unroll("yi").vectorize("x").parallel("yo").stream_stores()


@acceptance("gauss")
def rolling_rows(s: rd.Schedule) -> None:
    s["g2"].tile(y=64, x=1024).parallel("yo").vectorize("xi").partition_boundaries()
    s["g1"].compute_at("g2", "yi").store_at("g2", "xo").vectorize("x")


@acceptance("map_and_sum")
def kept_and_summed(s: rd.Schedule) -> None:
    s["y"].split("x", 1 << 16).parallel("xo").vectorize("xi", interleave=4)
    s["sum"].compute_with("y", "xi")


@acceptance("running")
def chained(s: rd.Schedule) -> None:
    s["scan"].strategy("chain", block=1 << 17).vectorize("xi", interleave=2).stream_stores()


@pytest.mark.parametrize("name", ACCEPTANCE)
def test_acceptance_schedules_are_points_of_the_space(name: str) -> None:
    program, record = ACCEPTANCE[name]
    algorithm, sizes = PROGRAMS[program]
    schedule = algorithm.schedule()
    record(schedule)
    space = space_of(program)
    found = space.locate(schedule)
    assert found is not None
    assert found.key == key_of(schedule.complete(AVX512, sizes))
    assert space.remake(dict(found.decisions)) == found
    assert space.mutate(found, random.Random(0)).key != found.key


def test_what_is_no_point_of_a_space_is_not_found() -> None:
    odd = jacobi.schedule()
    odd["out"].split("y", 7).vectorize("x")
    assert Space(jacobi.schedule(), AVX512, IMAGE).locate(odd) is None


@pytest.mark.parametrize("name", ROWS)
def test_the_schedules_of_the_benchmarks_are_points_of_the_space(name: str) -> None:
    row = ROWS[name]
    start = row.algorithm.schedule()
    rank = max(len(parameter.shape) for parameter in start.graph.program.parameters)
    sizes = {size.name: 10_000_000 if rank < 2 else 4096 for size in start.graph.program.sizes}
    space = Space(start, AVX512, sizes)
    for label, record in row.hand.items():
        found = space.locate(record(row.algorithm))
        if (name, label) in OUTSIDE:
            assert found is None, f"{label} is in the space: it does not belong in OUTSIDE"
        else:
            assert found is not None, f"{label}: widen a question, or say why not in OUTSIDE"


def test_what_is_outside_the_space_is_a_schedule_of_the_benchmarks() -> None:
    assert set(OUTSIDE) <= {(name, label) for name, row in ROWS.items() for label in row.hand}
