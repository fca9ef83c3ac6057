"""The default schedule of products and of other stages with reuse between their results."""

from __future__ import annotations

import re

import numpy as np
import pytest
from default_schedules import AVX2, AVX512, default_of, filtered
from programs import PROGRAMS

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages


def test_products_of_rows_have_the_right_factor_in_panels_but_for_few_rows():
    def product(a: rd.f32["n", "k"], b: rd.f32["m", "k"]):
        return rd.matmul(a, b.T).named("out")

    assert (
        default_of(product)
        == """s["out"].root()
sw = s["out"].when("y <= 12 and r > 64")
sw.tile(y=4, x=4).reorder("xo", "yo", "r", "yi", "xi").unroll("yi", edge=2).unroll("xi")
sw.vectorize("r").parallel("xo")
s["out"].split("y", 12).split("x", 128).split("xi", 32).reorder("xo", "yo", "xio", "r", "yi", "xii")
s["out"].unroll("yi").vectorize("xii", interleave=2).parallel("yo")
s["out"].cache("b", "out", "xo", layout=("xo", "xio", "r", "xii"))
s["b_copy"].split("r", 16).reorder("xio", "ro", "xii", "ri").unroll("ri").vectorize("xii", 16)
s["b_copy"].parallel("ro", grain=64)"""
    )
    assert (
        default_of(product, n=20)
        == """s["out"].root().tile(y=4, x=4).reorder("xo", "yo", "r", "yi", "xi").unroll("yi", edge=2)
s["out"].unroll("xi").vectorize("r").parallel("xo")"""
    )
    assert "tile(y=2, x=4)" in default_of(product, AVX2, n=8)


def test_long_products_with_few_results_are_chunks_of_their_reduction():
    def product(a: rd.f32["n", 30], b: rd.f32["n", 40]):
        return rd.matmul(a.T, b).named("out")

    text = default_of(product)
    assert """tile(y=10, x=32).split("r", 64).reorder("ro", "yo", "xo", "ri", "yi", "xi")""" in text
    assert """parallel("ro")""" in text and "cache" not in text
    assert "split" not in default_of(product, n=400)


def test_tiles_have_as_many_rows_whatever_the_elements_and_are_of_one_height():
    def product(a: rd.f64["n", "k"], b: rd.f64["k", "m"]):
        return rd.matmul(a, b).named("out")

    assert 'split("y", 12).split("x", 64).split("xi", 16)' in default_of(product)
    assert 'split("y", 9)' in default_of(product, n=27)  # three tiles of one height


def test_a_block_of_columns_is_what_half_of_the_second_level_cache_holds_of_the_right_factor():
    def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
        return rd.matmul(a, b).named("out")

    assert 'split("x", 256).split("xi", 32)' in default_of(product, k=1024)
    assert 'split("x", 32)' in default_of(product, k=1 << 20)  # a panel, whatever it takes
    assert 'split("x", 320).split("xi", 32)' in default_of(product, k=512, m=300)  # all of it


def test_products_of_few_rows_read_the_right_factor_where_it_is():
    def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
        return rd.matmul(a, b).named("out")

    assert "cache" in default_of(product, n=13) and "when" not in default_of(product, n=13)
    for rows in (1, 12):
        assert "cache" not in default_of(product, n=rows) and 'parallel("ro")' in default_of(product, n=rows)


def test_factors_that_all_of_many_products_share_are_packed_once_for_them():
    def shared(a: rd.f32["b", "n", 512], b: rd.f32[512, "m"]):
        return rd.matmul(a, b).named("out")

    def own(a: rd.f32["b", "n", 512], b: rd.f32["b", 512, "m"]):
        return rd.matmul(a, b).named("out")

    assert 'reorder("xo", "z", "yo"' in default_of(shared) and 'fuse("z", "yo").parallel("zyo")' in default_of(shared)
    assert 'reorder("z", "xo", "yo"' in default_of(own) and 'parallel("z")' in default_of(own)


def test_products_of_many_small_matrices_have_lanes_along_their_rows():
    def product(a: rd.f32["n", 4, 4], b: rd.f32["n", 4, 4]):
        return rd.matmul(a, b).named("out")

    assert 'vectorize("x", 4).unroll("y").unroll("r")' in default_of(product), "no lane is off"

    def pairs(a: rd.f32["n", 2, 2], b: rd.f32["n", 2, 2]):
        return rd.matmul(a, b).named("out")

    assert 'vectorize("x")' not in default_of(pairs)


def test_convolutions_make_several_channels_at_a_time():
    assert (
        default_of(filtered)
        == """s["out"].root().split("o", 8).reorder("y", "oo", "x", "rz", "ry", "rx", "oi").unroll("oi")
s["out"].vectorize("x", interleave=2).parallel("y")"""
    )
    assert 'split("o", 4)' in default_of(filtered, AVX2)
    assert 'split("o", 5)' in default_of(filtered, o=5)


def test_sums_that_share_functions_of_a_round_make_four_rows_at_a_time():
    def rays(along):
        def traced(angles: rd.f32["a"], weights: rd.f32["a"]):
            sums = lambda y, x: rd.sum(rd.map(lambda angle, weight: weight * along(y, x, angle), angles, weights))
            return rd.tabulate((100, 300), sums, name="s")

        return default_of(traced)

    side_by_side = 'split("y", 4).reorder("yo", "x", "r", "yi").unroll("yi").vectorize("x", interleave=2)'
    assert side_by_side in rays(lambda y, x, angle: rd.f32(x) * rd.cos(angle) + rd.f32(y))
    assert "split" not in rays(lambda y, x, angle: rd.cos(rd.f32(x) * angle + rd.f32(y)))
    assert 'vectorize("x"' not in rays(lambda y, x, angle: rd.f32(x) * angle + rd.f32(y))


def test_small_factors_are_not_packed():
    product = Schedule(form_stages(PROGRAMS["matmul"]()))
    names = {d.name for p in product.graph.program.parameters for d in p.shape}
    assert "cache" not in str(product.complete(AVX512, dict.fromkeys(names, 64)))
    assert "cache" in str(product.complete(AVX512, dict.fromkeys(names, 1024)))


def test_a_product_may_read_a_number_beside_its_factors():
    @rd.algorithm
    def of_small_ones(a: rd.f32["n", "k"], b: rd.f32["k", "m"], v: rd.f32["n"]):
        most = rd.max(v)
        factor = lambda i, j: lambda r: rd.where(a[i, r] < most, a[i, r] * b[r, j], 0.0)
        return rd.tabulate(
            (a.shape[0], b.shape[1]), lambda i, j: rd.sum(rd.tabulate(a.shape[1], factor(i, j))), name="c"
        )

    assert 'cache("b", "c", "jo", layout=("jo", "jio", "r", "jii"))' in str(of_small_ones.schedule().complete(AVX512))


def test_products_of_rows_are_made_whole_before_what_is_done_with_them():
    @rd.algorithm
    def similar(u: rd.f32["n", "d"]):
        return rd.where(rd.eye(u.shape[0], dtype=rd.bool_), -1, u @ u.T)

    assert 's["matmul_1"].root()' in str(similar.schedule().complete(AVX512))


@pytest.mark.parametrize("machine", (AVX2, AVX512))
def test_parts_of_complex_numbers_are_packed_for_products(machine):
    @rd.algorithm
    def product(a: rd.complex64["n", "k"], b: rd.complex64["k", "m"]):
        return a @ b

    text = str(Schedule(form_stages(product.trace())).complete(machine))
    assert text.count('layout=("xo", "xio", "d2", "r", "xii")') == 4
    assert len(re.findall(r'_copy\S*"\].reorder\("r", "xio"\).vectorize\("xii"\)', text)) == 4
    rng = np.random.default_rng(0)
    a, b = ((rng.random(s) + 1j * rng.random(s)).astype(np.complex64) for s in ((23, 37), (37, 41)))
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_an_array_times_itself_is_packed_where_it_is_the_right_factor(machine):
    @rd.algorithm
    def gram(x: rd.f64["n", "k"]):
        return x @ x.T, x.T @ x

    text = str(Schedule(form_stages(gram.trace())).complete(machine))
    assert (
        text.count('layout=("xo", "xio", "r", "xii")') == text.count('layout=("xo", "xio", "xiio", "r", "xiii")') == 1
    )
    x = np.random.default_rng(0).random((37, 53))
    rows, columns = gram(x)
    np.testing.assert_allclose(rows, x @ x.T)
    np.testing.assert_allclose(columns, x.T @ x)


@pytest.mark.parametrize("factors", ["a b", "aT b", "a bT"])
@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_the_panels_of_a_block_of_columns_have_no_loop_over_blocks(machine, factors):
    turned = lambda x, name: x.T if f"{name}T" in factors else x

    @rd.algorithm
    def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
        return rd.matmul(turned(a, "a"), turned(b, "b"))

    algorithm = product if factors == "a b" else rd.algorithm(a=rd.f32["n", "n"], b=rd.f32["n", "n"])(product.function)
    complete = Schedule(form_stages(algorithm.trace())).complete(machine)
    text = print_nest(lower(complete.graph, complete.variants(), machine))
    assert re.search(r"\w+_copy: f32\[1, \d+, ", text)  # one block
    blocks = re.findall(r"for (xo\S*) in", text)
    assert blocks and set(blocks) == ({"xo", "xo_2"} if factors == "aT b" else {"xo"})  # and no loop over one block


@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_packed_factors_are_stored_and_read_by_vectors(machine):
    """Of unknown sizes, too, panels are rows of memory: neither their copies nor the sums move elements one by one."""
    product = rd.algorithm(a=rd.f32["n", "k"], b=rd.f32["k", "m"])(lambda a, b: a @ b)
    graph = form_stages(product.trace())
    complete = Schedule(graph).complete(machine)
    text = print_nest(form_gangs(lower(complete.graph, complete.variants()), machine.vector_bits))
    assert "y_copy" in text or "b_copy" in text
    assert "scatter" not in text and "gather" not in text


def test_a_product_of_rows_may_be_divided_by_norms_of_both():
    def cosines(a: rd.f32["n", "d"], b: rd.f32["m", "d"]):
        norm = lambda x: rd.sqrt(rd.sum(x * x))
        return rd.map(lambda x: rd.map(lambda y: rd.sum(x * y) / (norm(x) * norm(y)), b), a).named("out")

    text = default_of(cosines)
    assert 's["out"].split("y", 12).split("x", 128)' in text and 's["out"].cache("b", "out", "xo"' in text
