"""The default schedule: the result of its rules for programs of each kind; choices made explicitly are kept."""

from __future__ import annotations

import random
import re
from functools import reduce

import numpy as np
import pytest
import sample_graphs as graphs
from default_schedules import AVX2, AVX512, default_of
from programs import PROGRAMS

import raido as rd
from raido.schedule.machine import Machine
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

EXPECTED = {
    "blur": """
s["cols"].root().split("y", 32).parallel("yo").vectorize("x").partition_boundaries()
s["cols"].stream_stores(above=16777216)
s["rows"].compute_at("cols", "yo").vectorize("x").partition_boundaries()
""",
    "harris": """
s["out"].root().split("y", 16).split("yi", 2).reorder("yio", "x", "yii").unroll("yii")
s["out"].parallel("yo").vectorize("x").partition_boundaries().stream_stores(above=10485760)
s["sxy"].inline()
s["xy"].inline()
s["syy"].inline()
s["yy"].inline()
s["iy"].compute_at("out", "yo").split("y", 2).reorder("yo", "x", "yi").unroll("yi").vectorize("x")
s["iy"].partition_boundaries()
s["sxx"].inline()
s["xx"].inline()
s["ix"].compute_at("out", "yo").vectorize("x").partition_boundaries()
""",
    "stencil3d": """
s["out"].root().parallel("z").vectorize("x").prefetch("a", "y", 4).partition_boundaries()
s["out"].stream_stores(above=16777216)
""",
    "matmul": """
s["c"].root()
sw = s["c"].when("y <= 6 or y * x <= 32768 and r > 2048")
sw.tile(y=4, x=16).split("r", 256).reorder("ro", "yo", "xo", "ri", "yi", "xi").unroll("yi")
sw.vectorize("xi", interleave=2).parallel("ro").prefetch("b", "ri", 8)
s["c"].split("y", 6).split("x", 64).split("xi", 16).reorder("xo", "yo", "xio", "r", "yi", "xii")
s["c"].unroll("yi").vectorize("xii", interleave=2).parallel("yo")
s["c"].cache("b", "c", "xo", layout=("xo", "xio", "r", "xii"))
s["b_copy"].reorder("r", "xio").vectorize("xii").parallel("r", grain=512)
""",
    "row_sums": """
s["s"].root().parallel("x", grain=4).vectorize("r", interleave=4)
""",
    "column_sums": """
s["s"].root()
sw = s["s"].when("x >= 1024 and x <= 2048")
sw.split("r", 256).reorder("ro", "ri", "x").parallel("ro").vectorize("x", interleave=2)
s["s"].split("r", 256).split("ri", 8).reorder("ro", "rio", "x", "rii").unroll("rii").parallel("ro")
s["s"].vectorize("x", interleave=2)
""",
    "mandelbrot": """
s["out"].root().parallel("y", dynamic=True).vectorize("x", interleave=2)
""",
    "argmin": """
s["best"].root().split("r", 65536).parallel("ro").vectorize("ri", 8)
""",
    "jacobi": """
s["steps/life"].root().split("y", 4).reorder("yo", "x", "yi").unroll("yi").parallel("yo")
s["steps/life"].vectorize("x").partition_boundaries().stream_stores(above=16777216)
""",
    "two_reductions": """
s["out"].root().parallel("x", grain=3).vectorize("r", interleave=4)
s["reduce_1"].compute_at("out", "x").vectorize("r", interleave=4)
""",
}


def schedule_of(name: str) -> Schedule:
    return Schedule(form_stages(PROGRAMS[name]()))


@pytest.mark.parametrize("name", EXPECTED)
def test_rules(name):
    assert str(schedule_of(name).complete(AVX2)).partition("\n")[2] == EXPECTED[name].strip("\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_completing_twice_changes_nothing(name):
    s = schedule_of(name).complete(AVX512)
    assert not s.diff(s.complete(AVX512))
    assert Schedule(s.graph, s.directives) == s
    assert all(plan.stage in s.stages for variant in s.variants() for plan in variant.plans)


def test_planes_of_colour_share_strips():
    assert (
        str(Schedule(graphs.unsharp()).complete(AVX2))
        == """s = unsharp.schedule()
s["out"].root().split("y", 32).reorder("yo", "z", "yi").parallel("yo").vectorize("x").unroll("z")
s["out"].partition_boundaries().stream_stores(above=14680064)
s["ratio"].inline()
s["cols"].inline()
s["rows"].compute_at("out", "yo").vectorize("x").partition_boundaries()
s["gray"].inline()"""
    )


def test_small_reductions_are_unrolled_and_share_rows_as_stencils_do():
    assert (
        str(Schedule(graphs.convolution()).complete(AVX2))
        == """s = convolution.schedule()
s["out"].root().split("y", 2).reorder("yo", "x", "yi").unroll("yi").parallel("yo").vectorize("x")
s["out"].unroll("ry").unroll("rx").partition_boundaries().stream_stores(above=16777216)"""
    )


def test_convolutions_of_each_channel_share_neighbours_before_channels():
    """Rows of channels are short: neighbours share loads although planes are read, too. Means of disjoint blocks share none."""

    @rd.algorithm
    def depthwise(x: rd.f32["h", "w", "c"], k: rd.f32["c", 3, 3]):
        h, w, c = x.shape
        taps = lambda y, x_, z: rd.sum(rd.tabulate((3, 3), lambda i, j: k[z, i, j] * x[y + i, x_ + j, z]))
        return rd.tabulate((h - 2, w - 2, c), taps, name="out")

    @rd.algorithm
    def means(x: rd.f32["c", "h", "w"]):
        c, h, w = x.shape
        return rd.mean(x.reshape(c, h // 2, 2, w // 2, 2), axis=(2, 4), name="out")

    assert 'split("x_", 4).reorder("x_o", "z", "x_i").unroll("x_i")' in str(depthwise.schedule().complete(AVX512))
    assert not {"split", "stream_stores"} & {step.name for step in means.schedule().complete(AVX512).directives}


def test_transpositions_turn_squares_in_registers():
    def transposed(a: rd.f32["h", "w"]):
        return (a.T * 2).named("out")

    assert (
        default_of(transposed)
        == """s["out"].root()
sw = s["out"].when("x <= 8")
sw.split("y", 1024).reorder("yo", "x", "yi").vectorize("yi").parallel("yo", grain=4)
s["out"].split("y", 256).split("x", 128).split("yi", 16).reorder("yo", "xo", "yio", "xi", "yii")
s["out"].unroll("yii").vectorize("xi", 16).fuse("yo", "xo").parallel("yoxo")"""
    )
    assert 'split("yi", 8)' in default_of(transposed, AVX2)
    assert "parallel" not in default_of(transposed, h=40, w=50)
    assert "unroll" not in default_of(transposed, h=4000, w=15)


def test_planes_are_tasks_of_transpositions_too():
    def planes(a: rd.f64["d", "h", "w"], b: rd.f64["d", "w", "h"]):
        return (rd.transpose(a, (0, 2, 1)) + b).named("out")

    assert 'unroll("yii").vectorize("xi", 8)' in default_of(planes)
    assert 'fuse("zyo", "xo").parallel("zyoxo", grain=2)' in default_of(planes).replace('\ns["out"]', "")


def test_strips_that_make_rows_twice_are_no_lower_than_sixteen():
    def stages(down: str):
        weighted = lambda p, *at: p[at] * 2 + rd.exp(p[0, 0])

        def chained(a: rd.f32["h", "w"]):
            first = rd.stencil(lambda p: weighted(p, 1, 0) if down == "first" else weighted(p, 0, 1), a, name="b")
            then = lambda p: p[-1, 0] + p[1, 0] if down == "last" else p[0, -1] + p[0, 1]
            return rd.stencil(then, first, boundary="clamp", name="out")

        return default_of(chained, h=9000, w=20000)

    assert 'split("y", 8)' in stages("first") and 'split("y", 16)' in stages("last")


def test_pieces_of_segments_are_folded_by_one_gang():
    def sums(offsets: rd.i64["m"], values: rd.f32["k"]):
        return rd.segmented_reduce(rd.add, 0, values, offsets, name="s")

    def gathered(offsets: rd.i64["m"], values: rd.f32["k"], places: rd.i32["j"]):
        return rd.segmented_reduce(rd.add, 0, values[places], offsets, name="s")

    alone = 's["s"].part("fold").parallel("block", dynamic=True)'
    in_lanes = alone + '.vectorize("value")'
    assert all(in_lanes in default_of(sums, machine).splitlines() for machine in (AVX2, AVX512))
    assert in_lanes in default_of(gathered, AVX512).splitlines()
    assert alone in default_of(gathered, AVX2).splitlines()

    def slices(ptr: rd.i64["n + 1"], places: rd.i32["k"], a: rd.f32["k"], x: rd.f32["m"]):
        return rd.map(lambda b, e: rd.sum(a[b:e] * x[places[b:e]]), ptr[:-1], ptr[1:])

    assert "vectorize" in default_of(slices, AVX512) and "vectorize" not in default_of(slices, AVX2)


def derivatives(shift: int):
    """Both derivatives of an image, of which the second is read `shift` columns further on: half of what they read is the same."""

    def edges(a: rd.f32["h", "w"]):
        corners = lambda p: p[1, 1] + p[-1, -1]
        along = rd.stencil(lambda p: corners(p) + p[0, 1] - p[0, -1], a, boundary="clamp", name="along")
        down = rd.stencil(lambda p: corners(p) + p[1, 0] - p[-1, 0], a, boundary="clamp", name="down")
        square = lambda p, q: rd.sqrt(p[0, 1] * p[0, -1] + q[0, 1 + shift] * q[0, -1 + shift])
        return rd.stencil(square, along, down, boundary="clamp", name="out")

    return edges


def test_long_arrays_are_sorted_by_digits_where_few_keys_fill_a_vector():
    def strategy(dtype, machine, rank=1, **sizes):
        def ordered(k):
            return rd.argsort(k, axis=-1)

        ordered.__annotations__["k"] = dtype["n"] if rank == 1 else dtype["rows", "n"]
        outside_branches = [line for line in default_of(ordered, machine, **sizes).splitlines() if line[:2] != "sw"]
        return "".join(outside_branches).partition('strategy("')[2].partition('"')[0]

    sse = Machine(vector_bits=128, registers=16)
    for machine, by_digits in ((AVX512, [rd.u16]), (AVX2, [rd.u16]), (sse, [rd.u16, rd.i32, rd.f32])):
        found = [dtype for dtype in (rd.u16, rd.i32, rd.f32, rd.i64, rd.f64) if strategy(dtype, machine) == "radix"]
        assert found == by_digits
    assert strategy(rd.i32, sse, n=1000) == strategy(rd.i32, sse, rank=2) == "quicksort"


def test_elements_with_loops_of_lengths_of_their_own_have_lanes_where_those_save_more_than_gathers_cost():
    def rows_of_a_matrix(ptr: rd.i64["n + 1"], column: rd.i32["k"], a: rd.f64["k"], x: rd.f64["n"]):
        def row(begin, end):
            step = lambda k, s: s + a[begin + k] * x[column[begin + k]]
            return rd.loop(end - begin, step, 0.0)

        return rd.map(row, ptr[:-1], ptr[1:])

    def common_elements(ptr: rd.i64["n + 1"], x: rd.i32["k"]):
        def merged(a, b):
            def step(s):
                i, j, found = s
                return rd.where(x[i] <= x[j], i + 1, i), rd.where(x[j] <= x[i], j + 1, j), found + rd.i64(x[i] == x[j])

            return rd.while_loop(lambda s: (s[0] < b) & (s[1] < b), step, (a, a + 1, 0))[2]

        return rd.sum(rd.map(merged, ptr[:-1], ptr[1:]))

    def searches(x: rd.i64["n"], keys: rd.i64["m"]):
        def search(key):
            def half(s):
                middle = (s[0] + s[1]) // 2
                less = x[middle] < key
                return rd.where(less, middle + 1, s[0]), rd.where(less, s[1], middle)

            return rd.while_loop(lambda s: s[0] < s[1], half, (0, x.shape[0]))[0]

        return rd.map(search, keys)

    def roots(x: rd.f64["n"]):
        step = lambda v, y: 0.5 * (y + v / y)
        return rd.map(lambda v: rd.while_loop(lambda y: y * y - v > 1e-9, lambda y: step(v, y), v + 1), x)

    def same_length(x: rd.f64["n"], y: rd.f64["m"], steps: rd.size):
        return rd.map(lambda i: rd.loop(steps, lambda k, s: s + y[rd.i64(x[i]) + k], 0.0), rd.iota(x.shape[0]))

    for machine in (AVX2, AVX512):
        alone = [default_of(f, machine) for f in (rows_of_a_matrix, common_elements)]
        assert all("vectorize" not in schedule for schedule in alone), alone
        in_lanes = [default_of(f, machine) for f in (searches, roots, same_length)]
        assert all("vectorize" in schedule for schedule in in_lanes), in_lanes


def test_stencils_that_read_the_same_and_are_read_alike_are_made_in_one_pass():
    assert 's["down"].compute_with("along", "yi")' in default_of(derivatives(0))
    assert "compute_with" not in default_of(derivatives(2))


def test_blocks_of_scans_segments_and_filters_fit_half_of_the_second_level_cache_and_all_of_it_where_filters_have_many():
    def kept(a: rd.f32["n"]):
        return rd.filter(lambda x: x > 0, a, name="s")

    def running(a: rd.f32["n"]):
        return rd.scan(rd.add, 0.0, a, name="s")

    def sums(a: rd.f32["n"], offsets: rd.i64["m"]):
        return rd.segmented_reduce(rd.add, 0.0, a, offsets, name="s")

    for l2 in (4 << 10, 256 << 10, 1 << 20, 2 << 20):
        machine, block = Machine(l2=l2), l2 // 2 // 4
        assert all(f"block={block})" in default_of(each, machine) for each in (kept, running, sums))
        assert f"block={block})" in default_of(kept, machine, n=128 * block - 1)
        assert f"block={2 * block})" in default_of(kept, machine, n=128 * block)
    assert "block=131072)" in default_of(kept, Machine(l2=1280 << 10))  # a power of two


def test_blocks_that_one_thread_alone_totals_or_makes_something_for_have_parts_that_the_first_level_cache_holds():
    def sums(a: rd.f32["n"]):
        return rd.scan(rd.add, 0.0, a, name="s")

    def counts(a: rd.i32["n"]):
        return rd.scan(rd.add, 0, a, name="s")

    def highest(a: rd.f32["n"]):
        return rd.scan(rd.maximum, 0.0, rd.exp(a), name="s")

    def kept(a: rd.f32["n"]):
        return rd.filter(lambda x: x > 2, rd.exp(a), name="s")

    def large(a: rd.f32["n"]):
        return rd.filter(lambda x: x > 2, a, name="s")

    for l1, part in ((32 << 10, 2048), (48 << 10, 2048), (64 << 10, 4096)):
        for function, split in ((sums, True), (counts, False), (highest, True), (kept, True), (large, False)):
            assert (f'.split("xi", {part})' in default_of(function, Machine(l1=l1))) == split
    assert ".split(" not in default_of(sums, Machine(l2=8 << 10)), "blocks are as short as parts would be"


def test_counts_run_six_gangs_at_a_time_where_the_predicate_is_short():
    def cheap(a: rd.f32["n"]):
        return rd.filter(lambda x: x > 0, a, name="s")

    def long(a: rd.f32["n"]):
        return rd.filter(lambda x: rd.exp(x) > 2, a, name="s")

    assert 'part("count").vectorize("xi", interleave=6)' in default_of(cheap)
    assert 'part("count").vectorize("xi", interleave=4)' in default_of(long)


def test_what_a_scan_reads_is_made_once_for_each_block_unless_it_is_cheaper_to_make_it_twice():
    def costly(a: rd.f32["n"]):
        return rd.scan(rd.add, 0.0, rd.exp(a).named("made"), name="s")

    def cheap(a: rd.f32["n"]):
        return rd.scan(rd.add, 0.0, (2 * a).named("made"), name="s")

    def phases(a: rd.f32["n"]):
        return rd.scan(rd.add, 0.0, rd.exp(a).named("made"), name="s")

    assert 's["made"].compute_at("s", "xo")' in default_of(costly)
    assert 's["made"].inline()' in default_of(cheap)
    schedule = Schedule(form_stages(rd.algorithm(phases).trace()))
    schedule["s"].strategy("three_phase")
    assert 's["made"].root()' in str(schedule.complete(AVX512, {}))


def test_what_a_function_makes_is_placed_by_the_loops_that_decide_it():
    """Products with one matrix for each row of another are a product of matrices, of which no row is made on its own."""

    def products(ys: rd.f32["m", "n"], b: rd.f32["k", "n"], a: rd.f32["k", "k"], x: rd.f32["p", "k"]):
        return rd.map(lambda y: x @ (a @ (b @ y)), ys)

    schedule = default_of(products)
    assert all(f's["matmul_{k}"].root()' in schedule for k in (1, 2))

    def sums(x: rd.f32["n"], v: rd.f32["d"]):
        return rd.sum(rd.map(lambda a: rd.scan(rd.add, 0.0, v * a)[2], x))

    assert 's["scan_1"].compute_at("reduce_1", "ri")' in default_of(sums)

    def filtered(a: rd.f32["n", "m"]):
        rows = rd.map(lambda row: rd.cond(rd.exp(row)[0] > rd.exp(-row)[1], lambda: row[0], lambda: rd.max(row)), a)
        return rd.filter(lambda v: v > 0, rows, name="kept")

    text = default_of(filtered)
    assert 's["map_1"].compute_at("kept", "xo")' in text and text.count('.compute_at("map_1", "x")') == 2


def test_chains_are_cut_where_strips_would_make_more_than_half_of_their_rows_again():
    def chain(img: rd.f32["h", "w"]):
        for k in range(12):
            img = rd.stencil(lambda p: p[-2, 0] + p[0, 1] + p[2, 0], img, boundary="clamp", name=f"s{k}")
        return img

    def heads(**sizes: int) -> list[str]:
        return [part.split('"')[-2] for part in default_of(chain, **sizes).split("].root()")[:-1]]

    assert heads(w=256) == [
        "s11",
        "s6",
        "s1",
    ]  # strips of 32 rows: four stages of four rows more each are half as many again
    assert heads(w=2048) == ["s11", "s8", "s5", "s2"]  # of 16 rows, which caches hold


def test_chunks_of_columns_are_shorter_where_there_would_be_few():
    sums = lambda h: str(schedule_of("column_sums").complete(AVX512, {"h": h}))
    assert 'split("r", 256)' in sums(2048) and 'split("r", 128)' in sums(2047)


def test_long_sums_for_each_element_are_handed_out_in_small_chunks():
    """The chain behind an element counts, functions mapped in it included: here a sum of sines for each of some points."""

    def waves(x: rd.f64["n"], k: rd.f64["m"]):
        turn = lambda at: rd.sum(rd.map(lambda wave: rd.exp(1j * wave * at), k))
        return rd.map(turn, x)

    assert '.split("y", 16).parallel("yo")' in default_of(waves)

    def smoothed(a: rd.f32["n"]):
        once = rd.stencil(lambda p: p[-1] / 3 + p[1], a, boundary="clamp", name="once")
        return rd.stencil(lambda p: p[-1] / 3 + p[1], once, boundary="clamp", name="out")

    assert 'split("x", 4096)' in default_of(smoothed)


def test_bytes_are_turned_sixteen_at_a_time():
    def turned(a: rd.u8["h", "w"]):
        return (a.T + 1).named("out")

    assert 'split("yi", 16)' in default_of(turned) and 'vectorize("xi", 16)' in default_of(turned)


def test_reads_at_the_border_are_not_turned():
    def shifted(a: rd.f32["h", "w"]):
        return rd.stencil(lambda p: p[0, 0] + p[0, 1], a.T, boundary="clamp", name="out")

    assert "unroll" not in default_of(shifted)


def test_only_what_was_not_asked_is_answered():
    s = Schedule(graphs.blur())
    s["cols"].split("y", 64).vectorize("x")
    c = s.complete(AVX2)
    assert c.directives[: len(s.directives)] == s.directives
    assert c["cols"].axes == ("yo", "yi", "x") and [p.kind for p in c.state.plans["cols"].loops] == [
        "serial",
        "serial",
        "vector",
    ]
    assert str(c.state.plans["rows"].compute) == "At(stage='cols', loop='yo')"


def test_loops_without_strips_leave_producers_whole():
    s = Schedule(graphs.blur())
    s["cols"].parallel("y").vectorize("x")
    assert 's["rows"].root()' in str(s.complete(AVX2))


def test_prefixes_are_not_made_again_for_every_block_that_reads_them():
    def program(x: rd.i64["n"], counts: rd.i64["n"]):
        return rd.filter(lambda v: v > 0, x[rd.scan(rd.add, 0, counts, name="prefixes")])

    complete = Schedule(form_stages(rd.algorithm(program).trace())).complete(AVX2)
    assert 's["prefixes"].root()' in str(complete)


def test_known_sizes_decide():
    small = Schedule(graphs.blur()).complete(AVX2, {"h": 64, "w": 64})
    large = Schedule(graphs.blur()).complete(AVX2, {"h": 1 << 14, "w": 1 << 14})
    assert "stream" not in str(small)
    assert "partition_boundaries().stream_stores()" in str(large)


def test_rows_slide_where_a_strip_does_not_fit():
    wide = str(schedule_of("harris").complete(AVX2, {"w": 1 << 17}))
    assert 's["ix"].compute_at("out", "yi").store_at("out", "yo").vectorize("x")' in wide
    assert "unroll" not in wide


def test_a_cheap_pass_along_rows_is_made_again_in_registers():
    short = Schedule(graphs.blur()).complete(AVX512)
    assert 's["cols"].root().split("y", 4).reorder("yo", "x", "yi").unroll("yi")' in str(short)
    assert str(short.state.plan("rows").compute) == "Inline()"

    def divided(a: rd.f32["h", "w"]):
        rows = rd.stencil(lambda p: (p[0, -1] + p[0, 1]) / 3, a, boundary="clamp", name="rows")
        return rd.stencil(lambda p: p[-1, 0] + p[1, 0], rows, boundary="clamp", name="cols")

    assert 's["rows"].compute_at("cols", "yo")' in str(
        Schedule(form_stages(rd.algorithm(divided).trace())).complete(AVX512)
    )


def test_gangs_side_by_side_are_as_many_as_registers_hold():
    s = schedule_of("mandelbrot")
    assert 'vectorize("x", interleave=2)' in str(s.complete(AVX2))
    assert 'vectorize("x", interleave=4)' in str(s.complete(AVX512))


def test_long_sums_of_neighbours_have_gangs_side_by_side():
    def weighted(taps: int, machine: Machine, sizes: dict[str, int]):
        def program(a: rd.f32["h", "w"]):
            sum_ = lambda p: sum((p[k // 9 - 4, k % 9 - 4] * (k + 1) for k in range(1, taps)), p[-4, -4])
            return rd.stencil(sum_, a, boundary="clamp", name="out")

        return str(Schedule(form_stages(rd.algorithm(program).trace())).complete(machine, sizes))

    in_pairs = weighted(81, AVX512, {})
    assert 'split("y", 2)' in in_pairs and 'vectorize("x", 32, interleave=4).partition_boundaries("x")' in in_pairs
    for one_row in weighted(81, AVX2, {}), weighted(81, AVX512, {"w": 500}):
        assert 'vectorize("x", interleave=4).partition_boundaries()' in one_row and "split" not in one_row
    assert "interleave" not in weighted(9, AVX512, {})


def test_rows_of_a_chain_stand_side_by_side_where_their_values_fit_registers():
    assert 'split("yi", 2).reorder("yio", "x", "yii")' in str(schedule_of("harris").complete(AVX512))


def test_long_elements_of_functions_have_gangs_side_by_side():
    def program(functions: int):
        def composed(a: rd.f32["n"]):
            return rd.map(lambda x: reduce(lambda y, _: rd.exp(-y), range(functions), x), a, name="out")

        return str(Schedule(form_stages(rd.algorithm(composed).trace())).complete(AVX512))

    assert "interleave" not in program(3)
    assert 'vectorize("xi", interleave=4)' in program(5)


def test_branches_are_completed_too():
    s = Schedule(graphs.blur())
    s.when("w > 4096")["rows"].root()
    c = s.complete(AVX2)
    first, general = c.variants()
    assert str(first.plan("rows").compute) == "Root()" and str(general.plan("rows").compute) != "Root()"
    assert not c.diff(c.complete(AVX2))


@pytest.mark.parametrize("seed", range(12))
def test_random_legal_schedules_complete(seed):
    choice = random.Random(seed)
    s = schedule_of(choice.choice(list(PROGRAMS)))
    for _ in range(choice.randrange(1, 6)):
        steps = s[choice.choice(s.stages)].legal()
        if steps:
            s.accept(choice.choice(steps))
    c = s.complete(AVX2)
    assert not c.diff(c.complete(AVX2))
    again = Schedule.from_json(c.to_json(), c.graph)
    assert again == c and again.state.plans == c.state.plans


@pytest.mark.parametrize(
    "width, rows",
    [
        (10_000, 12),
        (8_320, 8),  # nine rows on, a row lies where the first one does in its page
        (6_400, 4),  # four rows on
        (8_192, 3),  # all rows do: eight lines, five that are read and three that are stored, are the ways of a set
        (9_001, 12),  # rows do not begin with a line of the cache: none is streamed beside another
    ],
)
def test_streamed_rows_lie_apart_in_their_pages(width, rows):
    def cross(a: rd.f32["h", "w"]):
        return rd.stencil(lambda p: p[-1, 0] + p[0, -1] + p[0, 1] + p[1, 0], a, boundary="clamp", name="out")

    s = Schedule(form_stages(rd.algorithm(cross).trace()))
    of_size = lambda machine, **sizes: str(s.complete(machine, sizes))
    assert f'split("y", {rows})' in of_size(AVX512, h=10_000, w=width)
    assert 'split("y", 4)' in of_size(AVX512)
    assert int(re.search(r'split\("y", (\d+)\)', of_size(AVX512, h=64, w=width))[1]) <= 4  # the caches hold it


def test_planes_of_short_rows_are_streamed_line_by_line_or_fetched_ahead():
    def star(a: rd.f32["d", "h", "w"]):
        taps = lambda p: p[0, 0, -1] + p[0, 0, 1] + p[0, -1, 0] + p[0, 1, 0] + p[-1, 0, 0] + p[1, 0, 0]
        return rd.stencil(taps, a, boundary="clamp", name="out")

    s = Schedule(form_stages(rd.algorithm(star).trace()))
    of_width = lambda w, machine=AVX512: str(s.complete(machine, {"d": 4096, "h": 512, "w": w}))
    for width in (64, 512):
        assert "stream_stores()" in of_width(width) and "prefetch" not in of_width(width)
        assert "stream" not in of_width(width, AVX2)  # a vector is half of a line
    for width in (48, 500):
        assert "stream" not in of_width(width) and 'prefetch("a", "y", 4)' in of_width(width)


def test_rows_written_out_have_lanes_across_them_where_arithmetic_costs_more_than_shuffles():
    """As the inverses of many matrices of 2 × 4 numbers, by few products or by many divisions."""

    def rows(function):
        made = lambda m: rd.stack([rd.stack([function(m[i, j], m[0, 0]) for j in range(4)]) for i in range(2)])
        return lambda a: rd.map(made, a, name="out")

    scaled = rd.algorithm(a=rd.f32["n", 2, 4])(rows(lambda x, y: x * y + x))
    divided = rd.algorithm(a=rd.f32["n", 2, 4])(rows(lambda x, y: rd.sqrt(x / y) / (x + y)))
    for machine in (AVX2, AVX512):
        few, many = (str(Schedule(form_stages(each.trace())).complete(machine)) for each in (scaled, divided))
        assert 'vectorize("x", 4)' in few and 'vectorize("zi")' in many
    a = np.random.default_rng(0).random((37, 2, 4), dtype="f4")
    assert np.allclose(divided(a), np.sqrt(a / a[:, :1, :1]) / (a + a[:, :1, :1]))


def test_stacks_have_lanes_across_rows_where_stores_are_shuffled_or_a_loop_is_shared():
    """As blocks of bytes that a cipher makes: lanes along a block would each go through its loop."""

    def stacked(count, steps):
        made = lambda v: rd.loop(steps, lambda k, s: s * v + k, v) if steps else v
        row = lambda v: (lambda s: rd.stack([s * k + 1 for k in range(count)]))(made(v))
        return rd.algorithm(x=rd.f32["n"])(lambda x: rd.map(row, x, name="out"))

    x = np.random.default_rng(0).random(37, dtype="f4")
    for count, steps, across in ((8, 0, True), (16, 0, False), (16, 20, True)):
        algorithm = stacked(count, steps)
        assert ('unroll("x")' in str(Schedule(form_stages(algorithm.trace())).complete(AVX2))) == across
        assert (algorithm(x) == algorithm.interpret(x)).all()


def test_roots_read_at_several_places_are_made_once():
    """As the magnitude of a gradient where its ridges are looked for: one unit makes roots, one after the other."""

    @rd.algorithm
    def ridges(x: rd.f32["h", "w"], y: rd.f32["h", "w"]):
        size = rd.sqrt(x * x + y * y)
        return rd.where((size[:, 1:-1] >= size[:, 2:]) & (size[:, 1:-1] >= size[:, :-2]), size[:, 1:-1], 0.0)

    @rd.algorithm
    def products(x: rd.f32["h", "w"], y: rd.f32["h", "w"]):
        size = x * x + y * y
        return rd.where((size[:, 1:-1] >= size[:, 2:]) & (size[:, 1:-1] >= size[:, :-2]), size[:, 1:-1], 0.0)

    assert 's["elementwise_1"].inline()' not in str(ridges.schedule().complete())
    assert 's["elementwise_1"].inline()' in str(products.schedule().complete())


def test_states_of_a_loop_that_share_neighbours_and_a_quotient_are_made_in_one_pass():
    """What both need is cheap enough to be made twice, and yet made once, in the rows that both make at a time."""

    @rd.algorithm
    def flow(u: rd.f32["h", "w"], v: rd.f32["h", "w"], force: rd.f32["h", "w"]):
        def step(_, state):
            around = lambda p: (p[-1, 0] + p[1, 0] + p[0, -1] + p[0, 1]) / 4
            a, b = (rd.stencil(around, each, boundary="clamp") for each in state)
            both = (a + b) * force
            return (a - both).named("a"), (b - both).named("b")

        return rd.loop(9, step, (u, v))

    text = str(flow.schedule().complete(AVX512))
    assert re.search(r's\["loop_1/b"\]\.compute_with\("loop_1/a", "yi"\)', text)
    rng = np.random.default_rng(0)
    fields = [rng.random((13, 37), dtype=np.float32) for _ in range(3)]
    for made, wanted in zip(flow(*fields), flow.interpret(*fields), strict=True):
        np.testing.assert_array_equal(made, wanted)


def test_folds_down_columns_go_row_by_row_beside_numbers_of_the_rows():
    def weighted(x: rd.f32["n", "m"], mean: rd.f32["n"], weight: rd.f32["n", 1]):
        return rd.sum((x - mean[:, None]) * weight, 0).named("out")

    assert 'reorder("ro", "rio", "x", "rii")' in default_of(weighted)


def test_new_values_of_an_update_that_reads_its_rows_are_made_in_a_row():
    """As the values of many option lattices: the iterations of a row then follow one another while a cache holds it."""

    def lattice(row):
        n = row.shape[0]
        step = lambda k, v: v.at[: n - 1 - k].set(0.5 * v[: n - 1 - k] + 0.25 * v[1 : n - k])
        return rd.loop(n - 1, step, row)

    rows = rd.algorithm(v=rd.f64["h", "w"])(lambda v: rd.map(lattice, v))
    complete = rows.schedule().complete()
    assert 'compute_at("loop_1/update_1", "y")' in str(complete), complete
    assert complete.nest_text().index("parallel y") < complete.nest_text().index("for k")
    v = np.random.default_rng(0).random((5, 37))
    for part in (v, v[:, :1], v[:0]):
        np.testing.assert_array_equal(rows(part), rows.interpret(part))

    def neighbours(k, v):
        return v.at[:, :20].set(0.5 * v[:, :20] + rd.roll(v, 1, axis=0)[:, 1:21])

    columns = rd.algorithm(v=rd.f64["h", 37])(lambda v: rd.loop(3, neighbours, v))
    assert "compute_at" not in str(columns.schedule().complete())
    np.testing.assert_array_equal(columns(v), columns.interpret(v))
