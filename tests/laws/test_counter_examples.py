"""Programs and schedules that once gave wrong results, as small as they could be made; each says what was wrong. Also: those of empty
arrays, of sizes that data decides, and of reductions whose order matters.
"""

from __future__ import annotations

import numpy as np
import pytest
from counter_examples import agrees
from law import CPUS

import raido as rd
from raido.schedule.schedule import Schedule

# Memory


def test_one_element_in_a_layout_of_its_own_is_a_register() -> None:
    """The only index of a dimension is 0, whatever the layout says that it is made of."""

    @rd.algorithm
    def moved(a: rd.f32["n", 3]):
        doubled = rd.elementwise(lambda x: x * 2.0, a, name="doubled")
        return rd.stencil(lambda p: p[0, -2] + 1.0, doubled, boundary="clamp", name="moved")

    def said(s: Schedule) -> None:
        s["doubled"].compute_at("moved", "y").store(layout=("x", "y"))
        s["moved"].reorder("x", "y")

    agrees(moved, np.arange(12, dtype=np.float32).reshape(4, 3), said=said)


def test_a_loop_without_lanes_indexes_registers_by_constants() -> None:
    """A vector loop that ends up scalar, over accumulators in registers, is written out."""

    @rd.algorithm
    def sums(a: rd.i32[7, "k"]):
        return rd.sum(a, axis=1).named("sums")

    def said(s: Schedule) -> None:
        s["sums"].vectorize("x", 1).reorder("r", "x")

    agrees(sums, np.arange(35, dtype=np.int32).reshape(7, 5), said=said)


def test_the_last_tile_of_a_loop_of_one_lane_indexes_memory() -> None:
    """No mask turns lanes off where there is one: what is left of the rows is a loop of so many iterations."""

    @rd.algorithm
    def sums(a: rd.i32["n", "k"]):
        return rd.sum(a, axis=1).named("sums")

    agrees(
        sums, np.arange(35, dtype=np.int32).reshape(7, 5), said=lambda s: s["sums"].tile(x=2, r=8).vectorize("xi", 1)
    )


def test_masked_groups_of_a_loop_that_ends_before_it_begins_write_nothing() -> None:
    """The last parts of a split part begin behind its end."""

    @rd.algorithm
    def more(a: rd.i64["n", 3]):
        return rd.elementwise(lambda x: x + 1, a, name="more")

    def said(s: Schedule) -> None:
        stage = s["more"].split("y", 3).split("yo", 3).tile(yoo=2, yoi=8).split("yooi", 4).unroll("yooo", 4)
        stage.vectorize("yi", interleave=3)

    agrees(more, np.arange(3).reshape(1, 3), said=said)


def test_rows_that_are_sorted_in_lanes_go_one_after_the_other() -> None:
    """Parts of a sort are appended, and lanes have no arrays of their own to append to."""

    @rd.algorithm
    def greatest(a: rd.i64["n", "m"]):
        return rd.flip(rd.sort(a, axis=1, name="sorted"), axis=1)[:, :2].named("greatest")

    def said(s: Schedule) -> None:
        s["sorted"].strategy("quicksort", ranked=3, network=1)
        s["greatest"].vectorize("y", 2)
        s["sorted"].compute_at("greatest", "y")

    agrees(greatest, np.arange(35).reshape(5, 7) * 11 % 13, said=said)


def test_accumulators_of_loops_that_are_not_written_out_are_memory() -> None:
    """The indices left of a fused loop may be constant where the iterations of the unrolled loop inside it are not."""

    @rd.algorithm
    def largest(a: rd.i32["m", 3]):
        return rd.argmax(a, axis=0).named("largest")

    def said(s: Schedule) -> None:
        stage = s["largest"].split("x", 8).reorder("xi", "xo", "r").fuse("xi", "xo")
        stage.split("xixo", 8).unroll("xixoi", 2)

    agrees(largest, np.arange(12, dtype=np.int32).reshape(4, 3) % 5, said=said)


def test_accumulators_of_lanes_over_fused_loops_are_memory() -> None:
    """The coordinates are a quotient and a remainder of the lane's index."""

    @rd.algorithm
    def product(a: rd.i64[2, 3]):
        return (a @ rd.reshape(a, (3, 2))).named("product")

    def said(s: Schedule) -> None:
        s["product"].fuse("y", "x").reorder("r", "yx").vectorize("yx")

    agrees(product, np.arange(6).reshape(2, 3), said=said)


# Loops and indices


def test_rounds_of_a_fused_loop_are_not_the_indices_of_its_axis() -> None:
    """A loop over both halves of a split counts rounds in another order: no boundary begins at a certain one, and no row."""

    @rd.algorithm
    def longer(b: rd.i64["k"]):
        return rd.pad(b, (0, 3), mode="symmetric").named("longer")

    def said(s: Schedule) -> None:
        s["longer"].split("x", 2).partition_boundaries("x").reorder("xi", "xo").fuse("xi", "xo")

    agrees(longer, np.arange(3), said=said)

    @rd.algorithm
    def flat(a: rd.i64["n", "m"]):
        return (rd.flatten(a) + 1).named("flat")

    def fused(s: Schedule) -> None:
        s["flat"].split("x", 2).reorder("xi", "xo").fuse("xi", "xo")

    agrees(flat, np.arange(40 * 7).reshape(7, 40), said=fused)


def test_boundaries_under_a_fold_of_one_row_are_judged_over_all_of_it() -> None:
    """Whether to keep a row is a fold over it, whose index is no axis of the stage and stands in no test outside."""

    @rd.algorithm
    def bright(a: rd.u8["h", "w"]):
        ahead = rd.stencil(lambda p: p[0, 0] + p[0, 1], a, boundary=rd.constant(7), name="ahead")
        return rd.filter(lambda row: rd.sum(row) > 100, ahead, name="kept")

    def said(s: Schedule) -> None:
        s["ahead"].inline()
        s["kept"].vectorize("x", 8)

    agrees(bright, np.arange(9 * 17, dtype=np.uint8).reshape(9, 17), said=said, cpus=CPUS[1:2])


def test_what_has_a_size_runs_after_what_decides_it() -> None:
    """A fold that decides a size may share the loops of a stage further down: both come first."""

    @rd.algorithm
    def counted(a: rd.i64["n"]):
        total = rd.sum(a, name="total")
        up = rd.map(lambda i: i * 2, rd.iota(total)).named("up")
        return up, rd.elementwise(lambda x: x * 2, a).named("double")

    agrees(counted, np.arange(5), said=lambda s: s["total"].compute_with("double", "x"))


def test_an_index_below_zero_is_cast_to_an_unsigned_type() -> None:
    """TIR's analysis follows bounds of indices through casts, and stops at one that the type does not hold."""

    @rd.algorithm
    def far(a: rd.i32["n", "n"]):
        return rd.tabulate((a.shape[0], a.shape[1]), lambda y, x: rd.u64(rd.i64(x) - 100) & 2).named("far")

    agrees(far, np.ones((5, 5), np.int32), said=lambda s: s["far"].unroll("x", 4))


# Lanes


def test_lanes_of_indices_are_negated() -> None:
    @rd.algorithm
    def down(a: rd.f32[3, "n"]):
        return rd.tabulate((a.shape[0], a.shape[1]), lambda y, x: -(rd.i64(x) % 5) + 7).named("down")

    agrees(down, np.ones((3, 16), np.float32), said=lambda s: s["down"].split("x", 8192).vectorize("xi").unroll("y"))


def test_more_lanes_than_fill_a_register_keep_elements() -> None:
    """The instruction that moves lanes to the front is there for registers of 512 bits, on machines that have them."""

    @rd.algorithm
    def kept(a: rd.f32["n"]):
        return rd.filter(lambda x: x > 2, a, name="kept")

    agrees(kept, np.arange(40, dtype=np.float32) % 5, said=lambda s: s["kept"].vectorize("x", 16))


# Faults


def test_a_loop_ends_where_a_check_fails() -> None:
    """After a fault the safe value may keep a condition true for ever: 5 // 0, taken as 5 // 1, stays above 0."""

    @rd.algorithm
    def halved(a: rd.i64["n"], by: rd.i64["n"]):
        return rd.elementwise(lambda x, d: rd.while_loop(lambda s: s > 0, lambda s: s // d, x), a, by)

    agrees(halved, np.array([5, 0, 7, 9, 2]), np.array([2, 0, 3, 2, 2]))
    agrees(halved, np.array([5, 0, 7, 9, 2]), np.array([2, 2, 3, 0, 2]))
    agrees(halved, np.array([5, 0, 7, 9, 2]), np.array([2, 2, 3, 0, 2]), said=lambda s: s[s.stages[0]].parallel("x"))


@pytest.mark.parametrize("way", ["cache", "clone"])
def test_what_reads_a_copy_divides_as_before(way: str) -> None:
    """Expressions that read a copy have the lines of those they replace, and are no moves of indices."""

    @rd.algorithm
    def divided(b: rd.i64["n"]):
        plain = rd.elementwise(lambda x: x + 1, b, name="plain")
        return rd.elementwise(lambda y: y // (y - 5), plain, name="divided"), plain

    def said(s: Schedule) -> None:
        if way == "cache":
            s["divided"].cache("plain", "divided", None, name="copy")
        else:
            s["plain"].clone("divided", name="copy")
        s["divided"].compute_with("copy", "x")

    agrees(divided, np.array([1, 3, 2]), said=said)
    agrees(divided, np.array([1, 4, 2]), said=said)
    schedule = divided.schedule()
    said(schedule)
    with pytest.raises(rd.ArithmeticFault, match="test_counter_examples"):
        divided.compile(schedule=schedule)(np.array([1, 4, 2]))


# Filters


@pytest.mark.parametrize("strategy", ["serial", "chain", "count_write"])
@pytest.mark.parametrize("what", ["cache", "stage"])
def test_what_rows_are_made_of_is_no_part_of_the_choice(strategy: str, what: str) -> None:
    """What a filter keeps is decided once for each row, outside the loops in which the values of rows are made."""

    @rd.algorithm
    def kept(a: rd.f32["n", "m"], mask: rd.bool_["n"]):
        doubled = rd.elementwise(lambda x: x * 2, a, name="doubled")
        return doubled[mask].named("kept")

    def said(s: Schedule) -> None:
        s["kept"].strategy(strategy)
        if what == "cache":
            s["kept"].cache("doubled", "kept", "x")
        else:
            s["doubled"].compute_at("kept", "x")

    agrees(kept, np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(3) % 2 == 0, said=said, cpus=CPUS[1:2])


# Defaults


def test_stages_share_loops_behind_a_product_that_packs_its_factors() -> None:
    """Packing adds stages, and what is read where is found anew: which stages share loops has been settled by then."""

    @rd.algorithm
    def behind(a: rd.f32["m", "m"], b: rd.i32["m", "m"]):
        product = (a @ b.astype(rd.f32)).named("product")
        whole = rd.floor(product).named("whole")
        return whole, rd.sqrt(whole).named("root")

    agrees(behind, np.eye(40, dtype=np.float32), np.ones((40, 40), np.int32), cpus=CPUS[1:2])


@pytest.mark.parametrize("update", ["scatter", "reduce_by_index"])
def test_what_a_row_keeps_is_updated_by_row(update: str) -> None:
    """An update of an array of the row's own, that is an update itself, reads what becomes of that array."""

    @rd.algorithm
    def totals(a: rd.i32["n", "m"]):
        def total(row):
            kept = rd.filter(lambda e: e > 0, row)
            if update == "scatter":
                return rd.sum(rd.scatter(kept, kept % 7, kept * 2))
            return rd.sum(rd.reduce_by_index(kept, rd.add, 0, kept % 7, kept * 2))

        return rd.map(total, a)

    agrees(totals, np.arange(12, dtype=np.int32).reshape(2, 6) % 4)


# Registers and scopes


def test_accumulators_that_lanes_choose_are_no_registers() -> None:
    """Inside a loop in lanes over the inner part of an axis, an unrolled one over the outer part begins with the lane."""

    @rd.algorithm
    def most(c: rd.i16["k", 3]):
        return rd.reduce(rd.maximum, np.iinfo(np.int16).min, c, axis=0)

    def said(s: Schedule) -> None:
        s["reduce_1"].tile(x=3, r=5).vectorize("xi").unroll("xo", 2)

    agrees(most, np.arange(24, dtype=np.int16).reshape(8, 3), said=said)


def test_offsets_that_the_loops_of_a_row_make_are_not_looked_at_before() -> None:
    """Where there are no segments a lone offset is checked beside the loops, if it is there by then."""

    @rd.algorithm
    def sums(a: rd.u8["n", "n"]):
        return rd.map(
            lambda row: rd.segmented_reduce(
                rd.add, 0, row, rd.scan(rd.maximum, 0, row.astype(rd.i64) % 14).named("offsets")
            ),
            a,
        ).named("sums")

    def said(s: Schedule) -> None:
        s["offsets"].compute_at("sums", "y")

    agrees(sums, (np.arange(169) % 13).astype(np.uint8).reshape(13, 13), said=said, cpus=CPUS[:1])


def test_what_an_accumulator_held_before_a_step_is_not_what_it_holds_after() -> None:
    """Where the loop of a fold has one iteration, the names given before its only step stand where its result is read."""

    @rd.algorithm
    def product(a: rd.i64["m", 3]):
        pairs = rd.bincount(a % 2, 1)
        grown = rd.map(lambda v: rd.reshape(rd.array([v, rd.i64(1), rd.i64(1), rd.i64(0)]), (2, 2)), pairs)
        return rd.reduce(lambda p, q: p @ q, np.eye(2, dtype=np.int64), grown)[0]

    agrees(product, np.arange(99).reshape(33, 3), said=lambda s: s["reduce_1"].unroll("r", 2), cpus=CPUS[:1])


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_an_index_along_repeated_elements_is_checked(rows: int) -> None:
    """A move that is read at a checked index repeats its elements along that axis: no element of what it repeats is read by it."""

    @rd.algorithm
    def repeated(b: rd.f64["n"], i: rd.u8["m"]):
        return rd.replicate(3, b)[i], rd.map(lambda j: rd.replicate(3, b)[j], i)

    for last in (2, 3):
        agrees(repeated, np.arange(float(rows)), np.array([0, 1, last], np.uint8), cpus=CPUS[:1])


def test_lanes_with_blocks_of_their_own_are_not_cut_at_boundaries() -> None:
    """An operator that does not commute is folded in order: where one array ends and the next begins, lanes do not begin anew."""

    @rd.algorithm
    def carried(b: rd.i64["n"]):
        twice = rd.concat([b, b])
        combine = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])
        return rd.reduce(combine, (1, 0), twice, twice, axis=0)[1]

    def said(s: Schedule) -> None:
        s["reduce_1"].tail("r", "scalar").unroll("r", 4).vectorize("ro", 8)

    agrees(carried, np.arange(13) % 5 - 2, said=said)
    agrees(carried, np.arange(13) % 5 - 2, said=lambda s: s["reduce_1"].vectorize("r", 8))


@pytest.mark.parametrize("kind", ["while", "loop", "fold"])
def test_what_is_known_of_a_loop_is_not_taken_for_known_of_its_copy(kind: str) -> None:
    """A stage with a loop, made where it is read at two indices: both loops had one state, so that one was never below the other, and one
    range of indices."""

    def first(a, v):
        return rd.while_loop(lambda k: (k < 8) & (a[rd.minimum(k, 8)] != v), lambda k: k + 1, 0)

    def counted(a, v):
        return rd.loop(v, lambda i, total: total + a[i], 0)

    def summed(a, v):
        return rd.sum(rd.map(lambda i: a[i], rd.iota(v)))

    @rd.algorithm
    def compared(a: rd.i64["m"]):
        made = {"while": first, "loop": counted, "fold": summed}[kind]
        t = rd.map(lambda v: made(a, v), a).named("t")
        return t[:, None] < t[None]

    agrees(compared, np.arange(9), said=lambda s: s["t"].inline(), cpus=CPUS[:1])
