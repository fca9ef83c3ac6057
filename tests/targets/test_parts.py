"""The parts of strategies: they take directives, which are printed, kept in JSON and shown in the nest, and change no result."""

from __future__ import annotations

import re

import numpy as np
import pytest

import raido as rd

N = 5000


@rd.algorithm
def prefixes(a: rd.i64["n"]):
    return rd.scan(rd.add, 3, a, name="out")


@rd.algorithm
def kept(a: rd.i64["n"]):
    return rd.filter(lambda x: x > 2, a, name="out")


@rd.algorithm
def parted(a: rd.i64["n"]):
    return rd.partition(lambda x: x > 2, a, name="out")


@rd.algorithm
def sums(a: rd.i64["n"]):
    ends = rd.tabulate(a.shape[0] // 7 + 1, lambda i: rd.minimum(i * i, a.shape[0]))
    return rd.segmented_reduce(rd.add, 1, a, ends, name="out")


def threads_and_lanes(part):
    part.parallel("xo", dynamic=True).vectorize("xi", lanes=4, interleave=3)


def lanes(part):
    part.vectorize("xi", lanes=8)


CASES = {
    "totals of blocks": (
        prefixes,
        "three_phase",
        {"totals": threads_and_lanes},
        "for x in .* by vector 4, interleave 3",
    ),
    "a total before a scan": (prefixes, "chain", {"totals": lanes}, "for x in .* by vector 8"),
    "counts of blocks": (kept, "count_write", {"count": threads_and_lanes}, "by vector 4, interleave 3"),
    "a count before a block is written": (kept, "chain", {"count": lanes}, "for x in .* by vector 8"),
    "counts of a partition": (parted, "chain", {"count": threads_and_lanes}, "parallel xo in 0..n step 64 dynamic"),
    "segments in blocks": (
        sums,
        "flat",
        {
            "check": lambda part: part.split("s", 8).unroll("si").parallel("so"),
            "search": lambda part: part.tile(block=16).vectorize("blocki", lanes=4),
            "fold": lambda part: part.parallel("block", grain=2).vectorize("value", lanes=4, interleave=1),
            "join": lambda part: part.parallel("block"),
        },
        r"parallel so in .* step 8[\s\S]*for blocki in .* by vector 4[\s\S]*parallel block in 0..blocks grain 2",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_take_directives(name: str) -> None:
    algorithm, strategy, parts, structure = CASES[name]
    schedule = algorithm.schedule()
    schedule["out"].strategy(strategy, block=64)
    assert tuple(parts) == schedule["out"].strategies()[strategy].parts
    for part, say in parts.items():
        assert schedule["out"].part(part).legal()
        say(schedule["out"].part(part))
        assert f's["out"].part("{part}")' in str(schedule)
    assert rd.Schedule.from_json(schedule.to_json(), algorithm) == schedule
    executable = algorithm.compile(schedule=schedule)
    assert re.search(structure, executable.source("nest"))
    for n in (0, 1, 63, 64, 65, N):
        values = np.random.default_rng(n).integers(0, 9, n)
        for got, want in zip(leaves(executable(values)), leaves(algorithm.interpret(values)), strict=True):
            np.testing.assert_array_equal(got, want)


def leaves(answer):
    return answer if isinstance(answer, tuple) else (answer,)


@pytest.mark.parametrize("name", CASES)
def test_default_loops_of_parts_are_written_out(name: str) -> None:
    """Completing twice changes nothing; what was said of one part leaves the others to the defaults."""
    algorithm, strategy, parts, _ = CASES[name]
    schedule = algorithm.schedule()
    schedule["out"].strategy(strategy, block=64)
    complete = schedule.complete()
    assert complete.complete() == complete
    for part in parts.keys() - {"join"}:  # on a CPU one block after the other
        assert f's["out"].part("{part}")' in str(complete)
    last, say = list(parts.items())[-1]
    say(schedule["out"].part(last))
    directives = [directive for directive in schedule.complete().directives if directive.stage == f"out::{last}"]
    assert directives == [directive for directive in schedule.directives if directive.stage == f"out::{last}"]
