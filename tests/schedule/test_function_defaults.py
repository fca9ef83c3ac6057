"""The default schedule of stages inside mapped functions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from default_schedules import default_of

import raido as rd


def nearest(points: rd.f32["n", "d"], centres: rd.f32["m", "d"]):
    return rd.map(
        lambda p: rd.argmin(rd.map(lambda c: rd.sum((p - c) ** 2), centres).named("far")).named("out"), points
    )


def test_products_inside_functions_are_computed_for_row_tiles():
    """As products of one row each they gathered the right factor: four to fifteen times as long."""
    assert (
        default_of(nearest)
        == """s["out"].root().split("x", 24).parallel("xo").vectorize("r", interleave=4)
s["far"].compute_at("out", "xo").tile(y=12, x=32).reorder("xo", "yo", "r", "yi", "xi").unroll("yi")
s["far"].vectorize("xi", interleave=2).cache("centres", "far", None, layout=("xo", "r", "xi"))
s["centres_copy"].split("r", 16).reorder("xo", "ro", "xi", "ri").unroll("ri").vectorize("xi", 16)
s["centres_copy"].parallel("ro", grain=64)"""
    )
    assert "tile" not in default_of(nearest, n=5) and "tile" not in default_of(nearest, m=7)
    assert 'split("x", 12)' in default_of(nearest, m=20_000)  # 24 rows would be more than half of L2


def test_each_product_of_a_function_has_row_tiles_and_the_rest_goes_row_by_row():
    def scores(x: rd.f32["n", "k"], w: rd.f32["k", "m"], v: rd.f32["k", "l"]):
        def one(row):
            row = (row / rd.sqrt(rd.sum(row * row).named("norm"))).named("row")
            return (rd.sum(rd.maximum(rd.matmul(row, w).named("a"), 0.0)) + rd.max(rd.matmul(row, v).named("b"))).named(
                "out"
            )

        return rd.map(one, x)

    text = default_of(scores)
    assert 's["a"].compute_at("out", "xo")' in text and 's["b"].compute_at("out", "xo")' in text
    rng = np.random.default_rng(0)
    x, w, v = (rng.random(shape, dtype=np.float32) for shape in ((27, 40), (40, 33), (40, 65)))
    rows = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    expected = np.maximum(rows @ w, 0).sum(axis=1) + (rows @ v).max(axis=1)
    np.testing.assert_allclose(rd.algorithm(scores)(x, w, v), expected, rtol=1e-4)


def test_a_fold_of_long_folds_reads_them_from_memory():
    """The outer fold had a single chunk, and threads nothing to share."""

    def farthest(points: rd.f32["n", "d"], centres: rd.f32["m", "d"]):
        return rd.max(nearest_distance(points, centres)).named("out")

    def nearest_distance(points, centres):
        return rd.map(lambda p: rd.min(rd.map(lambda c: rd.sum((p - c) ** 2), centres)).named("least"), points)

    assert 's["least"].root().split("x", 24).parallel("xo")' in default_of(farthest)


def test_a_fold_that_a_function_needs_twice_is_one_stage():
    """The mean was a stage of the variance and another of the result."""

    def normalised(a: rd.f32["n", "m"]):
        def one(row):
            return (row - rd.mean(row)) / rd.sqrt(rd.mean((row - rd.mean(row)) ** 2))

        return rd.map(one, a).named("out")

    schedule = rd.algorithm(normalised).schedule()
    assert sorted(schedule.stages) == ["elementwise_1", "out", "reduce_1", "reduce_2"]
    a = np.random.default_rng(0).random((9, 33), dtype=np.float32)
    expected = (a - a.mean(axis=1, keepdims=True)) / a.std(axis=1, keepdims=True)
    np.testing.assert_allclose(rd.algorithm(normalised)(a), expected, rtol=1e-4, atol=1e-5)


def test_arrays_of_a_function_are_computed_row_by_row_however_far_from_its_result():
    """Arrays that the result reads through two other stages were computed whole, in memory."""

    def attention_of_a_unit(a: rd.f32["n", "m"]):
        def one(row):
            unit = (row / rd.sqrt(rd.sum(row * row).named("square"))).named("unit")
            weights = rd.exp(unit - rd.max(unit).named("most")).named("weights")
            return weights / rd.sum(weights).named("total")

        return rd.map(one, a).named("out")

    text = default_of(attention_of_a_unit)
    for name in ("total", "weights", "most", "unit", "square"):
        assert f's["{name}"].compute_at("out", "y")' in text


def test_masked_products_of_a_function_are_products_too():
    def causal(q: rd.f32["n", "d"], k: rd.f32["n", "d"]):
        def one(x, i):
            scores = rd.where(rd.iota(k.shape[0]) <= i, rd.matmul(k, x), -1e9).named("scores")
            weights = rd.exp(scores - rd.max(scores))
            return weights / rd.sum(weights)

        return rd.map(one, q, rd.iota(q.shape[0])).named("out")

    text = default_of(causal)
    assert 's["scores"].compute_at("out", "yo").tile(y=12, x=32)' in text and 's["out"].root().split("y", 24)' in text


def test_functions_of_images_have_row_tiles_as_images_have():
    """An image was the task of one thread, and what its pipeline computes between was a whole image."""

    def smooth(image):
        for k in range(3):
            taps = lambda p: (p[-1, 0] + p[1, 0] + p[0, -1] + p[0, 1]) * 0.25
            image = rd.stencil(taps, image, boundary="clamp", name=f"s{k}")
        return image

    def batch(images: rd.f32["b", "h", "w"]):
        return rd.map(smooth, images)

    text = default_of(batch)
    assert '.fuse("z", "yo").parallel("zyo")' in text and 's["s1"].compute_at("s2", "zyo")' in text
    images = np.random.default_rng(0).random((3, 41, 37), dtype=np.float32)
    apart = rd.algorithm(lambda image: smooth(image))
    expected = np.stack([apart(image) for image in images])
    np.testing.assert_array_equal(rd.algorithm(batch)(images), expected)


def test_products_that_a_function_folds_down_their_columns_are_tiled():
    """Each element of x @ y was a sum of its own: eleven times as long."""

    def columns(a: rd.f32["b", "n", "k"], c: rd.f32["b", "k", "m"]):
        return rd.map(lambda x, y: rd.sum(rd.maximum(rd.matmul(x, y), 1.0) ** 2, axis=0), a, c).named("out")

    assert 's["reduce_1"].compute_at("out", "yxo").tile(y=12, x=32)' in default_of(columns)
    rng = np.random.default_rng(0)
    a, c = rng.random((3, 25, 17), dtype=np.float32), rng.random((3, 17, 35), dtype=np.float32)
    expected = (np.maximum(a @ c, 1) ** 2).sum(axis=1)
    np.testing.assert_allclose(rd.algorithm(columns)(a, c), expected, rtol=1e-4)


def test_products_and_what_follows_them_are_computed_for_each_element_of_a_function():
    def attention(q: rd.f32["h", "n", "d"], k: rd.f32["h", "m", "d"], v: rd.f32["h", "m", "e"]):
        def softmax(row):
            weights = rd.exp(row - rd.max(row)).named("weights")
            return weights / rd.sum(weights)

        def head(q, k, v):
            return rd.matmul(rd.map(softmax, rd.matmul(q, k.T).named("scores")).named("shares"), v)

        return rd.map(head, q, k, v).named("out")

    text = default_of(attention)
    assert 's["weights"].compute_at("shares", "y")' in text
    assert 's["scores"].compute_at("shares", "z").split("y", 12)' in text


def test_folds_of_few_candidates_have_lanes_of_their_own():
    """Lanes across 17 displacements fill two registers in part, and those across a flat array of them gather."""

    def search(size, flat):
        def least(a: rd.f32["16*h", "16*w"], b: rd.f32["16*h + 16", "16*w + 16"]):
            def block(i, j):
                def cost(dy, dx):
                    term = lambda y, x: (a[16 * i + y, 16 * j + x] - b[16 * i + dy + y, 16 * j + dx + x]) ** 2
                    return rd.sum(rd.tabulate((16, 16), term))

                costs = rd.tabulate((17, size), cost)
                return rd.argmin(costs.flatten() if flat else costs)

            return rd.tabulate((a.shape[0] // 16, a.shape[1] // 16), block, name="out")

        return default_of(least).splitlines()

    for flat in (False, True):
        assert ".vectorize" not in search(17, flat)[0] and '.vectorize("rx"' in search(17, flat)[-1]
    assert '.vectorize("rx"' in search(16, False)[0] and ".vectorize" not in search(16, False)[-1]


def test_a_fold_that_two_results_of_a_function_need_is_one_stage():
    """The scales of quantised blocks were folded once for the blocks, and again, in gathers, for the scales."""

    def quantised(x: rd.f32["n"]):
        def block(b):
            scale = rd.max(rd.abs(b)) / 127
            return b / scale, scale

        return rd.map(block, x.reshape(-1, 32))

    def scaled(x: rd.f32["n", "m"]):
        return rd.map(lambda row: (row / rd.sum(row), rd.sum(row)), x)

    for program in (quantised, scaled):
        stages = rd.algorithm(program).schedule().complete().nest_text().split("produce ")[1:]
        assert sum("fold " in stage for stage in stages) == 1
    x = np.random.default_rng(0).random((5, 32), dtype=np.float32)
    blocks, scales = rd.algorithm(quantised)(x.reshape(-1))
    np.testing.assert_allclose(scales, x.max(axis=1) / 127, rtol=1e-6)
    np.testing.assert_allclose(blocks, x / scales[:, None], rtol=1e-6)
    np.testing.assert_allclose(rd.algorithm(scaled)(x)[1], x.sum(axis=1), rtol=1e-5)


def test_folds_of_known_length_that_fit_a_chunk_have_no_partial_results():
    """Threads for one chunk cost more than the fold, where an array loop runs it in every iteration."""

    def normalised(x: rd.f32[40]):
        return x / rd.sum(x).named("out")

    def product(x: rd.f32[40], w: rd.f32[40, 100]):
        return rd.matmul(x, w).named("out")

    assert default_of(normalised).splitlines()[-1] == 's["out"].root().vectorize("r", interleave=4)'
    assert default_of(product) == (
        's["out"].root().split("r", 8).reorder("ro", "x", "ri").unroll("ri").vectorize("x", interleave=2)'
    )


def test_sums_that_stand_side_by_side_are_interleaved_only_as_far_as_registers_hold_them():
    """Nine sums of four gangs were spilled, and rows of 28 had no whole group of gangs."""

    def gradient(x: rd.f32["c", "n", "h + 2", "w + 2"], g: rd.f32["n", "h", "w"]):
        def tap(c, dy, dx):
            return rd.sum(rd.tabulate(g.shape, lambda i, y, z: x[c, i, y + dy, z + dx] * g[i, y, z]))

        return rd.tabulate((x.shape[0], 3, 3), tap).named("out")

    assert 'vectorize("rx")' in default_of(gradient) and 'unroll("dx")' in default_of(gradient)


def test_ragged_folds_of_a_row_are_not_folded_again_for_each_of_its_elements():
    """A softmax over the neighbours of a node took time quadratic in their number, for each element of the result."""

    def attention(h: rd.f32["e", "d"], score: rd.f32["e"], first: rd.i64["n + 1"]):
        def node(i):
            s = score[first[i] : first[i + 1]]
            weights = rd.exp(s - rd.max(s, initial=-1e30))
            return (weights / rd.maximum(rd.sum(weights), 1e-9)) @ h[first[i] : first[i + 1]]

        return rd.map(node, rd.iota(first.shape[0] - 1)).named("out")

    algorithm = rd.algorithm(attention)
    assert {"reduce_1", "reduce_2"} <= {*algorithm.schedule().stages}
    first = np.array([0, 3, 3, 8])
    h, score = np.random.default_rng(0).random((8, 5), dtype=np.float32), np.arange(8, dtype=np.float32)
    expected = np.zeros((3, 5), np.float32)
    for i, (a, b) in enumerate(pairwise(first)):
        weights = np.exp(score[a:b] - score[a:b].max(initial=-1e30))
        expected[i] = weights / max(weights.sum(), 1e-9) @ h[a:b]
    np.testing.assert_allclose(algorithm(h, score, first), expected, rtol=1e-5)


def test_folds_without_results_have_defaults():
    counted = rd.algorithm(lambda a: rd.broadcast_to(rd.bincount(a, 0), (2, rd.bincount(a, 0).shape[0])), a="i32[0]")
    assert counted(np.zeros(0, np.int32)).shape == (2, 0)
