"""Features of nests, against counts by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.autotune.features import FEATURES, VERSION, features_of
from raido.autotune.features.gather import Walk, gather
from raido.schedule.cost.operations import KINDS
from raido.schedule.cost.traffic import Traffic
from raido.schedule.cost.tree import ACCESSES, Loop
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Block, Nest, VectorStore

MACHINE = Machine(vector_bits=512, registers=32, cores=2, l1=32 << 10, l2=1 << 20, l3=32 << 20)


def nest_of(algorithm: Any, sizes: Mapping[str, int], say: Callable[[Any], object]) -> Nest:
    """The scalar nest under a schedule, the rest as by default."""
    schedule = algorithm.schedule()
    say(schedule)
    complete = schedule.complete(MACHINE, sizes)
    return lower(complete.graph, complete.variants())


def tree(algorithm: Any, sizes: Mapping[str, int], say: Callable[[Any], object]) -> tuple[Walk, Traffic]:
    """The walk over the nest, and its costs."""
    walk = gather(nest_of(algorithm, sizes, say), MACHINE, sizes)
    traffic = Traffic(MACHINE, walk.forms.middles, walk.shape_of)
    traffic.analyse(walk.root)
    return walk, traffic


def path(walk: Walk) -> list[Loop]:
    """The first loop, the first one inside it, and so on."""
    loops: list[Loop] = []
    inside = walk.root.loops
    while inside:
        loops.append(inside[0])
        inside = inside[0].loops
    return loops


def value(algorithm: Any, sizes: Mapping[str, int], say: Callable[[Any], object], name: str) -> float:
    """One feature."""
    return float(features_of(nest_of(algorithm, sizes, say), MACHINE, sizes)[FEATURES.index(name)])


@rd.algorithm
def line(a: rd.f32["h", "w"]):
    return (a * 2.0 + 1.0).named("out")


@rd.algorithm
def across(a: rd.f32["h", "w"]):
    return (a.T * 2.0).named("out")


@rd.algorithm
def picked(a: rd.f32["n"], i: rd.i32["k"]):
    return (rd.gather(a, i, mode="clamp") * 2.0).named("out")


@rd.algorithm
def down(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[-1, 0] + p[0, 0] + p[1, 0], a, boundary="valid", name="out")


@rd.algorithm
def clamped(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[-1, 0] + p[1, 0], a, boundary="clamp", name="out")


@rd.algorithm
def total(a: rd.f32["n"]):
    return rd.sum(a, name="out")


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return rd.matmul(a, b).named("out")


@rd.algorithm
def two_steps(a: rd.f32["n"]):
    first = (a + 1.0).named("first")
    return (first * first).named("out")


def test_a_vector_loop_runs_once_for_a_register_of_elements():
    walk, _ = tree(line, {"h": 1024, "w": 2048}, lambda s: s["out"].vectorize("x").parallel("y"))
    rows, vectors = path(walk)
    assert (rows.kind, rows.iterations) == ("parallel", 1024)
    assert (vectors.kind, vectors.lanes, vectors.runs_of_body, vectors.used_lanes) == ("vector", 16, 2048 / 16, 1.0)
    assert vectors.work[KINDS.index("fma")] == 1 and sum(vectors.work) == 1
    assert vectors.loads[ACCESSES.index("vector")] == 1 and vectors.stores[ACCESSES.index("vector")] == 1


def test_lanes_that_a_short_row_leaves_empty_are_counted():
    walk, _ = tree(line, {"h": 8, "w": 20}, lambda s: s["out"].vectorize("x").tail("x", "mask"))
    vectors = path(walk)[-1]
    assert vectors.runs_of_body == 2 and vectors.used_lanes == pytest.approx(20 / 32) and vectors.masked


def test_rounds_of_a_fused_loop_all_count():
    """Its parts are a quotient and a remainder, of which the sum is compared with the end of the axis."""
    fused = tree(line, {"h": 4000, "w": 2048}, lambda s: s["out"].split("y", 2).vectorize("x").fuse("yo", "yi"))[0]
    plain = tree(line, {"h": 4000, "w": 2048}, lambda s: s["out"].vectorize("x"))[0]
    assert path(fused)[0].iterations == 4000 and path(fused)[-1].weight == path(plain)[-1].weight == 1.0
    assert path(fused)[-1].loads[ACCESSES.index("vector")] == 1


def test_side_by_side_gangs_multiply_the_work_of_a_round():
    walk, _ = tree(line, {"h": 8, "w": 640}, lambda s: s["out"].vectorize("x", interleave=4))
    vectors = path(walk)[-1]
    assert vectors.runs_of_body == 640 / 64 and vectors.work[KINDS.index("fma")] == 4


@pytest.mark.parametrize(
    ("algorithm", "sizes", "kind"),
    [
        (line, {"h": 64, "w": 64}, "vector"),
        (across, {"h": 64, "w": 64}, "strided"),
        (picked, {"n": 64, "k": 64}, "gather"),
    ],
    ids=["line", "across", "picked"],
)
def test_reads_are_told_apart_by_how_they_move_with_the_lanes(algorithm: Any, sizes: dict[str, int], kind: str):
    walk, _ = tree(algorithm, sizes, lambda s: s["out"].vectorize("x"))
    assert path(walk)[-1].loads[ACCESSES.index(kind)] == 1


def test_what_does_not_change_in_a_loop_is_read_outside_it():
    walk, _ = tree(product, {"n": 8, "k": 128, "m": 16}, lambda s: s["out"].reorder("y", "r", "x").vectorize("x"))
    rows, along, vectors = multiplying(walk.root.loops[0])
    assert rows.iterations == 8 and along.iterations == 128
    assert along.loads[ACCESSES.index("scalar")] == 1, "a[y, r], once for all x"
    assert vectors.work[KINDS.index("fma")] == 1
    assert vectors.loads[ACCESSES.index("vector")] == 2, "b[r, x], and the sum so far, which is kept in memory"


def multiplying(loop: Loop) -> list[Loop]:
    """Loops inside one another of which the innermost multiplies; [] where there is none."""
    if not loop.loops:
        return [loop] if loop.work[KINDS.index("fma")] else []
    found = next(filter(None, map(multiplying, loop.loops)), [])
    return [loop, *found] if found else []


def test_rows_that_fit_are_brought_in_once_and_rows_that_do_not_three_times():
    """Three rows and one of the result in an iteration: 4 KiB for rows of 256, 1600 KB for rows of 100,000."""
    _, narrow = tree(down, {"h": 102, "w": 256}, lambda s: s["out"].vectorize("x"))
    rows = next(loop for loop in narrow.costs if loop.iterations == 100)
    once = 102 * 256 * 4 + 2 * 100 * 256 * 4  # what is stored is fetched first
    assert narrow.costs[rows].iteration_bytes == 4 * 256 * 4
    assert narrow.costs[rows].bytes == (once, once, once)
    _, wide = tree(down, {"h": 102, "w": 100_000}, lambda s: s["out"].vectorize("x"))
    rows = next(loop for loop in wide.costs if loop.iterations == 100)
    assert wide.costs[rows].bytes[0] == wide.costs[rows].bytes[1] == 100 * (3 + 2) * 100_000 * 4
    assert wide.costs[rows].bytes[2] == 102 * 100_000 * 4 + 2 * 100 * 100_000 * 4, "they fit the third cache"


def test_what_fits_a_cache_as_a_whole_is_there_already():
    _, traffic = tree(down, {"h": 102, "w": 256}, lambda s: s["out"].vectorize("x"))
    root = next(loop for loop in traffic.costs if loop.kind == "root")
    assert traffic.costs[root].bytes[0] > 0 and traffic.costs[root].bytes[1:] == (0, 0)


def test_a_column_moves_a_line_for_each_element():
    _, traffic = tree(across, {"h": 1024, "w": 2048}, lambda s: s["out"].vectorize("x"))
    column = next(loop for loop in traffic.costs if loop.kind == "vector")
    assert traffic.costs[column].bytes[0] == 1024 * 64 + 2 * 1024 * 4


def test_streamed_stores_move_once():
    sizes = {"h": 4096, "w": 4096}
    plain = value(line, sizes, lambda s: s["out"].vectorize("x").parallel("y"), "bytes_to_l3")
    streamed = value(line, sizes, lambda s: s["out"].vectorize("x").parallel("y").stream_stores(), "bytes_to_l3")
    assert plain == pytest.approx(np.log2(1 + 16 * 3 / 2)) and streamed == pytest.approx(np.log2(1 + 16 * 2 / 2))


def test_the_last_chunk_keeps_one_thread_waiting():
    say = lambda s: s["out"].split("r", 1000).parallel("ro").vectorize("ri", interleave=4)
    assert value(total, {"n": 3000}, say, "imbalance") == pytest.approx(4 / 3 - 1)
    assert value(total, {"n": 4000}, say, "imbalance") == 0
    assert value(total, {"n": 4000}, say, "launches") == 1


def test_a_sum_waits_for_the_step_before_and_gangs_side_by_side_hide_it():
    one = lambda s: s["out"].vectorize("r")
    eight = lambda s: s["out"].vectorize("r", interleave=8)
    latency, steady = 4, 3  # a load and an addition take two cycles, the loop itself one
    assert value(total, {"n": 8000}, one, "waiting") == pytest.approx(np.log2(latency / steady), abs=0.01)
    assert value(total, {"n": 8000}, eight, "waiting") == pytest.approx(0, abs=0.01)


def test_the_edges_of_a_stencil_weigh_as_little_as_they_run():
    walk, _ = tree(clamped, {"h": 1000, "w": 640}, lambda s: s["out"].vectorize("x").partition_boundaries())
    rows = walk.root.loops[0]
    shares = {loop.weight for loop in rows.loops}
    assert sum(shares) == pytest.approx(1, abs=2e-3) and max(shares) > 0.99


def test_a_loop_that_is_mostly_empty_counts_by_the_rounds_in_which_it_is_not():
    """Strides of 512 along an axis of 128: three of four iterations of the loop outside begin beyond it."""
    say = lambda s: s["out"].split("x", 512).reorder("xi", "xo", "y").unroll("xi", 4).vectorize("y")
    walk, _ = tree(across, {"h": 128, "w": 64}, say)
    outer, strides = path(walk)[:2]
    assert (outer.iterations, strides.iterations) == (512 / 4, 1)
    assert strides.weight == pytest.approx(0.25, abs=0.01)


def test_memory_taken_in_every_round_is_counted():
    def say(s: Any) -> None:
        s["out"].split("x", 4096).vectorize("xi").parallel("xo")
        s["first"].compute_at("out", "xo").vectorize("x").store(scope="heap")

    walk, _ = tree(two_steps, {"n": 40960}, say)
    assert walk.root.loops[0].allocations == 1 and walk.root.loops[0].allocated == 4096 * 4


def test_known_sizes_and_sizes_of_the_call_give_the_same():
    from raido.algo.passes.specialise import specialise
    from raido.schedule.schedule import Schedule
    from raido.schedule.stages.form_stages import form_stages

    sizes = {"h": 64, "w": 128}
    say = lambda s: s["out"].split("y", 8).vectorize("x").parallel("yo")
    fixed = Schedule(form_stages(specialise(line.trace(), sizes)))
    say(fixed)
    complete = fixed.complete(MACHINE, sizes)
    known = features_of(lower(complete.graph, complete.variants()), MACHINE, {})
    named = features_of(nest_of(line, sizes, say), MACHINE, sizes)
    arithmetic = [FEATURES.index(name) for name in ("index_work", "code")]  # there is less of it for known sizes
    np.testing.assert_allclose(np.delete(known, arithmetic), np.delete(named, arithmetic), atol=0.01)
    assert (known <= named + 0.01).all()


def test_a_tile_that_is_read_again_moves_fewer_bytes():
    sizes = {"n": 512, "k": 512, "m": 512}
    rows = lambda s: s["out"].reorder("y", "r", "x").vectorize("x")
    tiles = lambda s: (
        s["out"].tile(y=8, x=32).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").vectorize("xi", interleave=2)
    )
    assert value(product, sizes, tiles, "bytes_to_l1") < value(product, sizes, rows, "bytes_to_l1") - 1
    assert value(product, sizes, tiles, "estimate") < value(product, sizes, rows, "estimate") - 1


def test_every_form_of_the_language_has_finite_features():
    @rd.algorithm
    def everything(a: rd.f32["n"], i: rd.i64["n"], o: rd.i64["s"]):
        sums = rd.scan(rd.add, 0, a)
        counts = rd.bincount(i, 16)
        kept = rd.filter(lambda x: x > 0.5, sums)
        order = rd.sort(a)
        rows = rd.segmented_reduce(rd.add, 0, a, o)
        grown = rd.loop(3, lambda t, s: rd.stencil(lambda p: p[-1] + p[1], s, boundary="wrap"), a)
        steps = rd.map(lambda v: rd.while_loop(lambda s: s < 9.0, lambda s: s * 2.0 + 1.0, v), a)
        return sums, counts, kept, order, rows, grown, steps

    sizes = {"n": 1000, "s": 11}
    found = features_of(nest_of(everything, sizes, lambda s: None), MACHINE, sizes)
    assert found.shape == (len(FEATURES),) and found.dtype == np.float32 and np.isfinite(found).all()


def test_a_gang_nest_is_refused():
    nest = nest_of(line, {"h": 4, "w": 4}, lambda s: None)
    gang = Nest(nest.name, nest.inputs, nest.sizes, nest.outputs, Block((VectorStore(nest.outputs[0], (), None),)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="scalar nest"):
        features_of(gang, MACHINE, {"h": 4, "w": 4})


def test_every_feature_is_described():
    text = (Path(__file__).resolve().parents[2] / "docs" / "autotuning.md").read_text("utf-8")
    assert [name for name in FEATURES if f"`{name}`" not in text] == []
    assert f"{len(FEATURES)} numbers" in text and f"version {VERSION}" in text
