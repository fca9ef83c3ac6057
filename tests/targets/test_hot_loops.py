"""The inner loops of whole programs under their default schedules: registers, no calls, no gathers, no tests but the loop's own."""

import itertools

import numpy as np
import pytest
from emission import assembly_of
from test_emit_assembly import is_clean, loops

import raido as rd
from raido.targets.compile import Compilation

CPU = "skylake-avx512"


@rd.algorithm
def jacobi(a: rd.f32["h", "w"]):
    taps = lambda p: (p[0, 0] + p[0, -1] + p[0, 1] + p[-1, 0] + p[1, 0]) * 0.2
    return rd.stencil(taps, a, boundary="clamp", name="out")


@rd.algorithm
def volume(a: rd.f32["d", "h", "w"]):
    taps = lambda p: (p[0, 0, 0] + p[0, 0, -1] + p[0, 0, 1] + p[0, -1, 0] + p[0, 1, 0] + p[-1, 0, 0] + p[1, 0, 0]) / 7
    return rd.stencil(taps, a, boundary="clamp", name="out")


@rd.algorithm
def edges(a: rd.f32["h", "w"]):
    gx = rd.stencil(lambda p: p[0, 1] - p[0, -1], a, boundary="clamp", name="gx")
    gy = rd.stencil(lambda p: p[1, 0] - p[-1, 0], a, boundary="clamp", name="gy")
    taps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    product = lambda p, q: sum((p[t] * q[t] for t in taps), rd.f32(0))
    return rd.stencil(product, gx, gy, boundary="clamp", name="out")


@rd.algorithm
def column_sums(a: rd.f32["h", "w"]):
    return rd.sum(a, axis=0)


@rd.algorithm
def row_sums(a: rd.f32["h", "w"]):
    return rd.sum(a, axis=1)


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return a @ b


def assembly_loops(algorithm, **sizes):
    return loops(assembly_of(algorithm, CPU, **sizes))


def nest_of(algorithm):
    return Compilation(algorithm.trace(), rd.Target("llvm", cpu=CPU), None, {}).source("nest")


def busiest(found, instruction):
    """The loop with most of an instruction, of those with no test but their own, nothing on the stack, no calls and no gathers."""
    straight = [body for body in found if sum(i.startswith("j") for i in body) == 1 and is_clean(body)]
    count = lambda body: sum(i.startswith(instruction) for i in body)
    body = max(straight, key=count)
    assert count(body), f"no straight loop contains {instruction}"
    return body, count(body)


def test_a_stencil_makes_four_rows_at_once_and_streams_them():
    body, stores = busiest(assembly_loops(jacobi), "vmovnt")
    assert stores == 4
    assert sum("(%r" in i and not i.startswith("vmovnt") for i in body) <= 17  # 20 without sharing


def test_planes_are_walked_one_row_at_a_time():
    body, adds = busiest(assembly_loops(volume), "vaddps")
    assert adds == 6 * sum(i.startswith("vdivps") for i in body)


def test_chains_are_read_from_the_strip():
    """Two rows at a time where registers hold the eighteen values of one."""
    body, products = busiest(assembly_loops(edges), "vfmadd")
    assert products == 18
    assert sum("(%r" in i and not i.startswith("vmovnt") for i in body) <= 24  # 36 without sharing


def test_sums_of_columns_take_eight_rows_for_one_store():
    body, adds = busiest(assembly_loops(column_sums, h=1024, w=10_000), "vaddps")
    stores = sum(i.startswith("vmov") and i.endswith(")") for i in body)
    assert adds == 16
    assert stores == 2


def test_sums_of_rows_keep_four_accumulators():
    body, adds = busiest(assembly_loops(row_sums), "vaddps")
    targets = {i.split(",")[-1].strip() for i in body if i.startswith("vaddps")}
    assert len(targets) == 4
    assert adds % 4 == 0


def test_products_keep_their_tile_in_registers_also_at_edges():
    found = assembly_loops(product)
    body, products = busiest(found, "vfmadd231ps")
    assert not any(i.startswith("vfmadd") and "ss" in i.split()[0] for each in found for i in each)
    assert products == 24
    assert sum(i.startswith("vbroadcastss") or "{1to16}" in i for i in body) == 12
    assert not any(i.startswith("vmov") and i.endswith(")") for i in body)


@rd.algorithm
def product_of_rows(a: rd.f32["n", "k"], b: rd.f32["m", "k"]):
    return a @ b.T


@rd.algorithm
def filtered(a: rd.f32["c", "h", "w"], k: rd.f32["o", "c", 3, 3]):
    height, width = a.shape[1] - 2, a.shape[2] - 2

    def point(o, y, x):
        return rd.sum(rd.tabulate((a.shape[0], 3, 3), lambda c, dy, dx: a[c, y + dy, x + dx] * k[o, c, dy, dx]))

    return rd.tabulate((k.shape[0], height, width), point)


def test_sixteen_registers_hold_the_sums_of_whole_tiles():
    found = loops(assembly_of(product, "haswell"))
    body = min((each for each in found if sum(i.startswith("vfmadd") for i in each) == 12), key=len)
    assert is_clean(body) and not any("mask" in i for i in body)


def test_products_of_rows_keep_a_tile_of_sums_and_read_panels():
    body, products = busiest(assembly_loops(product_of_rows), "vfmadd231ps")
    sums = {i.split(",")[-1].strip() for i in body if i.startswith("vfmadd")}
    assert len(sums) == 24
    assert products % 24 == 0
    assert sum("(%r" in i for i in body) < products  # two vectors of the panel and an element of each row serve 24


def test_convolutions_keep_sixteen_sums_in_registers():
    body, products = busiest(assembly_loops(filtered), "vfmadd231ps")
    sums = {i.split(",")[-1].strip() for i in body if i.startswith("vfmadd")}
    assert len(sums) == 16
    assert (
        sum(i.startswith("v") and "(%r" in i for i in body) <= products * 10 // 16
    )  # two pieces of the image, eight numbers of the filters


@rd.algorithm
def transposed(a: rd.f32["h", "w"]):
    return a.T * 2


def test_transpositions_shuffle_registers():
    """Sixteen rows, sixteen columns: a vector each, and sixty-four shuffles of one instruction."""
    turning = min((body for body in assembly_loops(transposed) if any("unpck" in i for i in body)), key=len)
    assert not any(i.startswith("call") or "gather" in i or ("(%rsp)" in i and "zmm" in i) for i in turning)
    assert sum(i.startswith(("vunpck", "vshuf", "vperm")) for i in turning) == 64
    assert sum(i.startswith("vmov") and "zmm" in i for i in turning) == 32


@rd.algorithm
def call_and_put(spot: rd.f32["n"], strike: rd.f32["n"]):
    discounted = strike * rd.exp(spot - strike)
    call = spot * rd.sqrt(strike) - discounted * rd.log(spot)
    return call, call - spot + discounted


@rd.algorithm
def polar(r: rd.f32["h", "w"], angle: rd.f32["h", "w"]):
    turned = rd.exp(angle) * r
    return turned * rd.sin(angle), turned * rd.cos(angle), rd.sum(turned)


def test_pointwise_results_share_their_loops_and_what_both_need():
    nest = nest_of(call_and_put)
    assert nest.count("parallel") == 1
    assert nest.count("exp(") <= 2  # named once, or written where each reads it: LLVM sees one
    random = np.random.default_rng(0)
    spot, strike = (random.random(100_000, dtype="f4") + 1 for _ in range(2))
    discounted = strike * np.exp(spot - strike)
    call = spot * np.sqrt(strike) - discounted * np.log(spot)
    for got, want in zip(call_and_put(spot, strike), (call, call - spot + discounted), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_sum_beside_pointwise_results_keeps_what_it_reads():
    random = np.random.default_rng(0)
    r, angle = (random.random((300, 70), dtype="f4") for _ in range(2))
    turned = np.exp(angle) * r
    for got, want in zip(polar(r, angle), (turned * np.sin(angle), turned * np.cos(angle), turned.sum()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_interiors_have_no_clamp():
    lines = nest_of(jacobi).splitlines()
    vector = next(k for k, line in enumerate(lines) if "by vector" in line)
    body = [line for line in lines[vector + 1 : vector + 7] if "out[" in line or "a_" in line]
    assert body
    assert not any("clamp" in line for line in body)


@rd.algorithm
def sparse_product(offsets: rd.i64["m"], columns: rd.i32["k"], values: rd.f32["k"], x: rd.f32["n"]):
    return rd.segmented_reduce(rd.add, 0, values * x[columns], offsets)


def test_a_sparse_product_gathers_in_its_segments():
    assert nest_of(sparse_product).count("produce") == 1  # the gather, checked, has no loops of its own
    gathering = [body for body in assembly_loops(sparse_product) if any("gather" in i for i in body)]
    # the mask of a tail is one comparison, indices are taken as they are, faults are recorded without a call
    assert not any(i.startswith(("call", "vpunpck", "vpmovsx")) for body in gathering for i in body)
    whole = min((body for body in gathering if sum("gather" in i for i in body) == 1), key=len)
    assert not any("zmm" in i and "(%rsp)" in i for i in whole)
    assert sum(i.startswith("vpcmp") for i in whole) == 1
    offsets = np.array([0, 3, 3, 60, 100])
    columns, values, x = np.arange(100, dtype="i4") % 7, np.ones(100, "f4"), np.arange(7, dtype="f4")
    want = [x[columns][a:b].sum() for a, b in itertools.pairwise(offsets)]
    np.testing.assert_array_equal(sparse_product(offsets, columns, values, x), want)
    for wrong in (-1, 7, -(2**31)):
        columns[70] = wrong
        with pytest.raises(rd.IndexOutOfRange, match=f"index {wrong} is out of range"):
            sparse_product(offsets, columns, values, x)


def matrices(fold, side):
    """Products of matrices of four or sixteen numbers, folded or scanned."""
    n = range(side)

    def product(p, q):
        return tuple(sum((p[i * side + k] * q[k * side + j] for k in n), rd.f32(0)) for i in n for j in n)

    def program(a: rd.f32["n"]):
        one = tuple(rd.f32(i == j) for i in n for j in n)
        return fold(product, one, *(a * (k + 1) for k in range(side * side)))

    return rd.algorithm(program)


@pytest.mark.parametrize("side", [2, 4])
def test_products_of_small_matrices_stay_in_registers(side):
    """Each lane folds a block of its own, read by one gather. Of sixteen sums and sixteen numbers one goes to the stack and back."""
    straight = [body for body in assembly_loops(matrices(rd.reduce, side)) if sum(i.startswith("j") for i in body) == 1]
    gathering = [body for body in straight if any("gather" in i for i in body)]
    steps = side * side * (side - 1)
    (body,) = (each for each in gathering if sum(i.startswith("vfmadd") for i in each) >= steps)
    assert not any(i.startswith("call") for i in body)
    assert sum("(%rsp)" in i for i in body) <= (0 if side == 2 else 3)  # and where the next values lie
    assert sum("gather" in i for i in body) == 1
    if side == 2:
        _, steps = busiest(assembly_loops(matrices(rd.scan, side)), "vfmadd")
        assert steps >= 24


def test_a_product_of_small_arrays_is_folded_once():
    product = rd.algorithm(
        lambda a: rd.reduce(lambda p, q: p @ q, rd.tabulate((4, 4), lambda i, j: rd.f32(i == j)), a), a="f32[n, 4, 4]"
    )
    folds = [stage.reduction for stage in product.schedule().graph.stages if stage.reduction is not None]
    assert folds
    assert all(len(fold.left) <= 17 for fold in folds)  # the numbers, and whether there are any yet
    _, products = busiest(assembly_loops(product), "vfmadd")
    assert products == 64


def test_casts_to_integers_stay_in_lanes():
    @rd.algorithm
    def levels(a: rd.f32["n"]):
        return rd.u8(rd.clip(a * 255, 0, 255)), rd.i32(a), rd.u32(a * 7)

    for loop in assembly_loops(levels):
        lines = "\n".join(loop)
        assert not ("vcvttps2" in lines and "vcvttss2si" in lines)
    assert any("vcvttps2dq" in line for loop in assembly_loops(levels) for line in loop)


def test_bytes_are_gathered_by_words_and_clipped_indices_are_checked_once():
    @rd.algorithm
    def nearest(a: rd.u8["h", "w"], size: rd.size):
        h, w = a.shape
        place = lambda k, n: rd.clip(rd.i32(rd.floor((rd.f32(k) + 0.5) * 0.7)), 0, n - 1)
        return rd.tabulate((size, size), lambda y, x: a[place(y, h), place(x, w)])

    checks = [line.strip() for line in nest_of(nearest).splitlines() if "check" in line and "limit" not in line]
    assert [check.split(" else")[0] for check in checks] == ["check h - 1 >= 0", "check w - 1 >= 0"]
    found = assembly_loops(nearest)
    assert any("vpgatherdd" in line and "zmm" in line for loop in found for line in loop)  # 16 at once
    assert not any("vpinsrb" in line or "vpgatherqd" in line for loop in found for line in loop)


@pytest.mark.parametrize("dtype", ["u8", "i16"])
def test_narrow_elements_of_a_table_are_gathered_sixteen_at_once(dtype):
    @rd.algorithm(x="i32[n]", table=f"{dtype}[m]")
    def looked_up(x, table):
        return table[x]

    gathers = [line for loop in assembly_loops(looked_up) for line in loop if line.startswith("vpgather")]
    assert gathers and all(line.startswith("vpgatherdd") and "zmm" in line for line in gathers)
    table = np.arange(1001).astype(dtype.replace("u", "uint").replace("i1", "int1"))
    for begin in range(5):  # wherever the table begins in a word
        x = np.random.default_rng(begin).integers(0, 1001 - begin, 333).astype(np.int32)
        assert (looked_up(x, table[begin:]) == table[begin:][x]).all()


@pytest.mark.parametrize("dtype", ["i16", "i32", "i64"])
def test_floors_of_quotients_by_powers_of_two_are_shifts(dtype):
    @rd.algorithm(x=f"{dtype}[n]")
    def floors(x):
        return x // 64, x % 64

    loop = max(assembly_loops(floors), key=lambda loop: sum("vpsra" in line for line in loop))
    kinds = {line[:5] for line in loop}
    assert "vpsra" in kinds and kinds.isdisjoint({"vpsrl", "vpadd", "vpsub", "vpmul"}), loop
    x = np.arange(-300, 300).astype(f"int{dtype[1:]}")
    for got, wanted in zip(floors(x), (x // 64, x % 64), strict=True):
        assert (got == wanted).all()


@pytest.mark.parametrize("fold", [rd.max, rd.argmax])
def test_extremes_of_short_rows_are_folded_in_lanes_across_rows(fold):
    extreme = rd.algorithm(lambda a: fold(a, axis=1), a="f32[n, 16]")
    body, _ = busiest(assembly_loops(extreme), "vunpck")
    assert not any(i.split()[0].endswith("ss") for i in body)  # no step of one lane
    assert "by vector" not in nest_of(extreme).split("for r in")[-1].splitlines()[0]
