"""User-written schedules, lowered: their results, and the structure that makes them fast."""

from __future__ import annotations

import random
from typing import Any

import pytest
from programs import PROGRAMS
from random_schedules import check_same, random_arguments, scheduled

from raido.algo.errors import ScheduleError
from raido.algo.graph.expr import Op
from raido.algo.graph.index import BOUNDARY_OPS
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import Alloc, Copy, Fold, For, Nest, Statement, Swap
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import expressions_of, statements_within

Directives = list[tuple[str, str, dict[str, Any]]]


def tile(stage: str, y: int, x: int) -> Directives:
    return [
        (stage, "split", {"axis": "y", "factor": y}),
        (stage, "split", {"axis": "x", "factor": x}),
        (stage, "reorder", {"axes": ("yo", "xo", "yi", "xi")}),
    ]


BLUR: Directives = [
    *tile("cols", 4, 8),
    ("cols", "parallel", {"axis": "yo"}),
    ("cols", "vectorize", {"axis": "xi"}),
    ("cols", "partition_boundaries", {"axes": ()}),
    ("rows", "compute_at", {"stage": "cols", "axis": "yo"}),
    ("rows", "vectorize", {"axis": "x"}),
    ("rows", "partition_boundaries", {"axes": ()}),
]
SGEMM: Directives = [
    ("c", "split", {"axis": "y", "factor": 3}),
    ("c", "split", {"axis": "x", "factor": 8}),
    ("c", "reorder", {"axes": ("yo", "xo", "r", "yi", "xi")}),
    ("c", "unroll", {"axis": "yi"}),
    ("c", "vectorize", {"axis": "xi", "interleave": 2}),
    ("c", "parallel", {"axis": "yo"}),
]
PACKED: Directives = [*SGEMM, ("c", "cache", {"array": "b", "stage": "c", "axis": None, "layout": ("xo", "r", "xi")})]
JACOBI: Directives = [
    ("steps/life", "split", {"axis": "y", "factor": 4}),
    ("steps/life", "reorder", {"axes": ("yo", "x", "yi")}),
    ("steps/life", "unroll", {"axis": "yi"}),
    ("steps/life", "vectorize", {"axis": "x"}),
    ("steps/life", "parallel", {"axis": "yo"}),
    ("steps/life", "partition_boundaries", {"axes": ()}),
    ("steps/life", "stream_stores", {}),
]
GAUSS: Directives = [
    *tile("g2", 4, 8),
    ("g2", "parallel", {"axis": "yo"}),
    ("g2", "vectorize", {"axis": "xi"}),
    ("g2", "partition_boundaries", {"axes": ()}),
    ("g1", "compute_at", {"stage": "g2", "axis": "yi"}),
    ("g1", "store_at", {"stage": "g2", "axis": "xo"}),
    ("g1", "vectorize", {"axis": "x"}),
]
ROW_SUMS: Directives = [("s", "vectorize", {"axis": "r", "interleave": 2}), ("s", "parallel", {"axis": "x"})]
CHUNKS: Directives = [
    ("best", "split", {"axis": "r", "factor": 4}),
    ("best", "parallel", {"axis": "ro"}),
]
MAP_AND_SUM: Directives = [
    ("y", "split", {"axis": "x", "factor": 8}),
    ("y", "parallel", {"axis": "xo"}),
    ("y", "vectorize", {"axis": "xi", "interleave": 2}),
    ("sum", "compute_with", {"stage": "y", "axis": "xi"}),
]

CASES = {
    "blur": ("blur", BLUR),
    "sgemm": ("matmul", SGEMM),
    "packed": ("matmul", PACKED),
    "jacobi": ("jacobi", JACOBI),
    "gauss": ("gauss", GAUSS),
    "row_sums": ("row_sums", ROW_SUMS),
    "chunks": ("argmin", CHUNKS),
    "map_and_sum": ("map_and_sum", MAP_AND_SUM),
}


@pytest.mark.parametrize("name", CASES)
def test_acceptance_schedules_give_the_programs_results(name: str) -> None:
    program_name, steps = CASES[name]
    program = PROGRAMS[program_name]()
    nest = scheduled(program, steps)
    for seed in range(6):
        check_same(nest, program, *random_arguments(program, random.Random(seed)))


def all_statements(nest: Nest) -> list[Statement]:
    return list(statements_within(nest.body))


def vector_loops(nest: Nest, stage: str) -> list[For]:
    return [s for s in all_statements(nest) if isinstance(s, For) and s.kind == "vector" and s.stage == stage]


def boundaries(loop: For) -> int:
    nodes = {n for s in statements_within(loop) for e in expressions_of(s) for n in topological(e)}
    return sum(isinstance(n, Op) and n.name in BOUNDARY_OPS for n in nodes)


def test_the_interior_of_a_partitioned_stencil_clamps_nothing() -> None:
    nest = scheduled(PROGRAMS["blur"](), BLUR)
    assert [boundaries(loop) for loop in vector_loops(nest, "rows")] == [0]
    assert boundaries(vector_loops(nest, "cols")[0]) == 0


def test_a_partitioned_stencil_of_rank_three_has_two_versions() -> None:
    steps: Directives = [("out", "vectorize", {"axis": "x"}), ("out", "partition_boundaries", {"axes": ()})]
    nest = scheduled(PROGRAMS["stencil3d"](), steps)
    loops = vector_loops(nest, "out")
    assert [boundaries(loop) for loop in loops] == [0, 0]  # what is clamped along z and y is settled outside the loop
    assert len([s for s in all_statements(nest) if isinstance(s, For)]) == 2 + 2 * 3


def test_the_interior_of_an_exact_axis_may_have_a_tail() -> None:
    steps: Directives = [("out", "vectorize", {"axis": "x"}), ("out", "tail", {"axis": "x", "kind": "exact"})]
    assert {loop.tail for loop in vector_loops(scheduled(PROGRAMS["stencil3d"](), steps), "out")} == {"default"}


def test_a_register_tile_holds_its_accumulators_and_reads_each_panel_element_once() -> None:
    nest = scheduled(PROGRAMS["matmul"](), SGEMM)
    scopes = [s.buffer.scope for s in all_statements(nest) if isinstance(s, Alloc) and s.buffer.name == "sum"]
    assert set(scopes) == {"register"}
    tile_loop = next(s for s in vector_loops(nest, "c") if any(isinstance(t, Fold) for t in statements_within(s)))
    lets = [s for s in tile_loop.body.statements if type(s).__name__ == "Let"]
    assert len(lets) == 1  # b[r, x], shared by the rows


def test_packed_panels_are_read_without_division() -> None:
    nest = scheduled(PROGRAMS["matmul"](), PACKED)
    assert "//" not in print_nest(nest).split("produce c:")[1].replace("(w + 7)//8", "").replace("(n + 2)//3", "")


def test_a_window_that_slides_is_folded_and_computes_each_row_once() -> None:
    nest = scheduled(PROGRAMS["gauss"](), GAUSS)
    text = print_nest(nest)
    assert "g1: f32[16, 8]" in text
    assert "y_new" in text


def test_time_steps_swap_and_do_not_copy() -> None:
    nest = scheduled(PROGRAMS["jacobi"](), JACOBI)
    iterations = next(s for s in nest.body.statements if isinstance(s, For))
    inside = list(statements_within(iterations))
    assert sum(isinstance(s, Swap) for s in inside) == 1
    assert not any(isinstance(s, Copy) for s in inside)


def test_unrolled_rows_share_what_they_read() -> None:
    nest = scheduled(PROGRAMS["jacobi"](), JACOBI)
    interior = vector_loops(nest, "steps/life")[0]
    assert len(interior.body.statements) == 4 + 2  # four rows; two of what they read is read by two of them


def test_a_matrix_that_is_read_flat_is_read_row_by_row() -> None:
    nest = scheduled(PROGRAMS["flat_sum"](), [("flat", "vectorize", {"axis": "x"})])
    (loop,) = vector_loops(nest, "flat")
    names = {
        n.name
        for s in statements_within(loop.body.statements[0])
        for e in expressions_of(s)
        for n in topological(e)
        if isinstance(n, Op)
    }
    assert not names & {"floordiv", "mod"}


def test_a_scope_that_cannot_hold_what_a_round_needs_is_refused() -> None:
    kept_at = lambda axis, size: [
        *tile("cols", size, size),
        ("rows", "compute_at", {"stage": "cols", "axis": axis}),
        ("rows", "store", {"scope": "stack"}),
    ]
    assert "stack" in print_nest(scheduled(PROGRAMS["blur"](), kept_at("xo", 8)))
    with pytest.raises(ScheduleError, match=r'cannot keep stage "rows" in scope "stack"[^$]*no constant size'):
        scheduled(PROGRAMS["blur"](), kept_at("yo", 8))
    with pytest.raises(ScheduleError, match="more than 256 KiB"):
        scheduled(PROGRAMS["blur"](), kept_at("xo", 512))
