"""Reductions along the threads of a block, and across blocks: partial results in shared memory, and a tree."""

from __future__ import annotations

import re

import pytest
from block_schedules import Directives, Levels, bound, hold
from programs import PROGRAMS

from raido.algo.errors import ScheduleError
from raido.schedule.lower.threads.thread_folds import levels_of_tree
from raido.schedule.nest.printer import print_nest

ROW_A_BLOCK: Directives = [
    ("s", "split", {"axis": "r", "factor": 4}),
    ("s", "reorder", {"axes": ("x", "ri", "ro")}),
]
ROWS_A_BLOCK: Directives = [
    ("s", "split", {"axis": "r", "factor": 4}),
    ("s", "split", {"axis": "x", "factor": 3}),
    ("s", "reorder", {"axes": ("xo", "ri", "xi", "ro")}),
]
PIECES: Directives = [
    ("best", "split", {"axis": "r", "factor": 6}),
    ("best", "split", {"axis": "ri", "factor": 2}),
]
COLUMNS: Directives = [
    ("s", "split", {"axis": "r", "factor": 8}),
    ("s", "split", {"axis": "ri", "factor": 3}),
    ("s", "split", {"axis": "x", "factor": 4}),
    ("s", "reorder", {"axes": ("xo", "ro", "rii", "xi", "rio")}),
]
SQUARES: Directives = [
    ("c", "split", {"axis": "r", "factor": 3}),
    ("c", "split", {"axis": "y", "factor": 2}),
    ("c", "split", {"axis": "x", "factor": 2}),
    ("c", "reorder", {"axes": ("yo", "xo", "ri", "ro", "yi", "xi")}),
    ("c", "unroll", {"axis": "yi"}),
    ("c", "unroll", {"axis": "xi"}),
]
CASES: dict[str, tuple[str, Directives, Levels]] = {
    "a block folds a row": ("row_sums", ROW_A_BLOCK, {"s": {"x": "block.x", "ri": "thread.x"}}),
    "a block folds rows": ("row_sums", ROWS_A_BLOCK, {"s": {"xo": "block.x", "ri": "thread.x", "xi": "thread.y"}}),
    "threads fold an element each, in order": ("argmin", PIECES[:1], {"best": {"ri": "thread.x"}}),
    "threads fold pieces, in order": ("argmin", PIECES, {"best": {"ro": "block.x", "rio": "thread.x"}}),
    "blocks fold pieces of columns": (
        "column_sums",
        COLUMNS,
        {"s": {"xo": "block.x", "rii": "thread.y", "xi": "thread.x"}},
    ),
    "a square of sums for each thread": (
        "matmul",
        SQUARES,
        {"c": {"yo": "block.y", "xo": "block.x", "ri": "thread.x"}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_threads_fold_what_the_program_says(case: str) -> None:
    name, steps, levels = CASES[case]
    program = PROGRAMS[name]()
    nest = bound(program, steps, levels)
    assert "shared" in print_nest(nest)
    for seed in range(8):
        hold(nest, program, seed)


@pytest.mark.parametrize("threads", [*range(1, 14), 21, 37])
@pytest.mark.parametrize("commutative", (False, True))
def test_a_tree_takes_each_part_once(threads: int, commutative: bool) -> None:
    from raido.algo.graph import index as ix

    for live in range(1, threads + 1):
        parts = [[k] for k in range(live)]
        for each in levels_of_tree(ix.as_index(live), threads, commutative):
            for t in range(ix.constant_value(each.count) or 0):
                for a, b, limit in each.pairs:
                    if t * each.stride + b < (ix.constant_value(limit) or 0):
                        parts[t * each.stride + a] += parts[t * each.stride + b]
        assert (sorted(parts[0]) if commutative else parts[0]) == list(range(live))


def test_threads_take_neighbouring_elements() -> None:
    _, steps, levels = CASES["a block folds a row"]
    text = print_nest(bound(PROGRAMS["row_sums"](), steps, levels))
    assert re.search(r"thread\.x t in 0\.\.live:\n.*\n.*\n\s+for ro in t\.\.w step 4:", text), text


def test_a_thread_folds_what_blocks_have_of_an_element() -> None:
    steps: Directives = [("s", "split", {"axis": "x", "factor": 5}), ("s", "unroll", {"axis": "xo", "factor": 3})]
    levels: Levels = {"s": {"r": "block.y", "xi": "thread.x"}}
    order: Directives = [("s", "reorder", {"axes": ("xoo", "r", "xi", "xoi")})]
    program = PROGRAMS["row_sums"]()
    nest = bound(program, [*steps, *order], levels)
    for seed in range(8):
        hold(nest, program, seed)
    assert "parallel xi in 0..5:" in print_nest(nest)


def test_a_fold_in_the_loops_of_another_stage_is_not_dealt_out() -> None:
    steps: Directives = [
        ("y", "split", {"axis": "x", "factor": 8}),
        ("sum", "compute_with", {"stage": "y", "axis": "xi"}),
    ]
    with pytest.raises(ScheduleError, match='"sum" would be folded in "xi" of "y", whose threads'):
        bound(PROGRAMS["map_and_sum"](), steps, {"y": {"xo": "block.x", "xi": "thread.x"}})
