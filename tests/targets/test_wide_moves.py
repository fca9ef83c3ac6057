"""Vectorised loops inside threads: 16-byte accesses where aligned, on devices of either kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

import raido as rd
from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, f32
from raido.algo.graph.expr import Op, const, fresh
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.kernels.wide_moves import move_wide
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Block, For, If, Store
from raido.schedule.nest.values import Buffer, new_serial
from raido.schedule.oracles.interpret_kernels import interpret_program


@rd.algorithm(a="f32[n]", b="f32[n]")
def sums(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.map(lambda x, y: x + 2 * y, a, b, name="out")


@rd.algorithm(a="f32[h, w]")
def rows(a: rd.Array) -> rd.Array:
    return rd.elementwise(lambda x: x * 2, a, name="out")


@rd.algorithm(a="i16[n]", index="i64[n]")
def picks(a: rd.Array, index: rd.Array) -> rd.Array:
    return rd.map(lambda i: a[i], index, name="out")


@rd.algorithm(a="f32[n]")
def total(a: rd.Array) -> rd.Array:
    return rd.sum(a).named("out")


def _completed(algorithm: Any) -> tuple[Any, Any]:
    s = algorithm.schedule(target="vulkan:lavapipe").complete("vulkan:lavapipe")
    return s.graph, s.variants()


def vectorised(algorithm: Any, axis: str = "x", lanes: int = 4) -> rd.Schedule:
    s = algorithm.schedule(target="vulkan:lavapipe")
    stage = s["out"].split(axis, 16 * lanes).split(axis + "i", lanes).bind(axis + "o", "block.x")
    stage.bind(axis + "io", "thread.x").vectorize(axis + "ii")
    return s


def kernels(algorithm: Any, schedule: rd.Schedule, target: str | rd.Target = "vulkan:lavapipe", **options: Any) -> str:
    return algorithm.compile(target, schedule=schedule, **options).source("kernels")


def test_whole_vectors_move_at_once_and_a_tail_does_not() -> None:
    text = kernels(sums, vectorised(sums))
    assert "a_4[0 +: 4] = a[xio +: 4]" in text
    assert "b_4[0 +: 4] = b[xio +: 4]" in text
    assert "out[xio +: 4] = out_4[0 +: 4]" in text
    tail = text[text.index("else:") :]
    assert "for xii in xio..min(n, xio + 4):" in tail and "unroll" not in tail
    assert "out[xii] = a[xii] + 2.0*b[xii]" in tail or "fma" in tail


def test_a_tail_is_written_out_where_a_branch_costs_one_side() -> None:
    text = kernels(sums, vectorised(sums), rd.Target("cuda", arch="sm_90"))
    tail = text[text.index("else:") :]
    assert "unroll lane in 0..3:" in tail and "if xii < n:" in tail


def test_a_loop_over_vectors_tests_none_that_is_whole() -> None:
    """The last of a sum may not be: it follows behind a test, since there is one at most."""
    text = kernels(total, total.schedule(target="vulkan:lavapipe"))
    (first, _, rest) = text.partition("a_4[0 +: 4] = a[rio +: 4]")
    whole, _, last = rest.partition("\n  rio = ")
    assert last and "if" not in whole and first.rstrip().endswith("a_4: f32[4] register")
    assert first.count("for rio in ") == text.count("for rio in ") == 1 and "if rio < " in last


def test_a_block_that_no_array_ends_in_makes_iterations_whose_number_is_known() -> None:
    """Where a branch that all its threads take costs them one side."""
    text = kernels(total, total.schedule(target=rd.Target("cuda", arch="sm_90")), rd.Target("cuda", arch="sm_90"))
    _, _, part = text.partition("  if ro + 8192 <= n:\n")
    whole, _, rest = part.partition("  else:\n")
    assert whole.lstrip().startswith("for k in 0..8:") and "a_4[0 +: 4] = a[rio +: 4]" in whole and "if" not in whole
    assert rest.lstrip().startswith("for rio in ro + 4*t..min(n, ro + 8192) step 1024:") and "if rio + 4 <= " in rest


@pytest.mark.parametrize("n", [0, 1, 8191, 8192, 8193, 1024 * 3 + 5])
def test_sums_by_vectors_give_what_the_program_gives(n: int) -> None:
    nest = lower(*_completed(total), rd.Target("vulkan", device="lavapipe").machine)
    a = np.arange(n, dtype=np.float32) % 5
    for branches in (False, True):
        made = outline_kernels(nest, Limits(branches=branches))
        (got,) = interpret_program(made, [a], {"n": n}, nest.shapes, seed=n)
        np.testing.assert_array_equal(got, total.interpret(a))


def in_rows() -> rd.Schedule:
    s = rows.schedule(target="vulkan:lavapipe")
    s["out"].split("x", 64).split("xi", 4).reorder("xo", "y", "xio", "xii").bind("xo", "block.x")
    s["out"].bind("xio", "thread.x").vectorize("xii")
    return s


@pytest.mark.parametrize(("width", "wide"), [(64, True), (66, False), (72, True)])
def test_rows_are_aligned_if_their_length_is_a_multiple(width: int, wide: bool) -> None:
    text = kernels(rows, in_rows(), sizes={"w": width})
    assert ("a_4[0 +: 4]" in text) == wide
    assert "w%4" not in text


def test_a_launch_is_asked_for_lengths_of_rows_that_nobody_else_knows() -> None:
    text = kernels(rows, in_rows())
    assert text.count("if w%4 == 0:") == text.count("a_4[0 +: 4] = a[y, xio +: 4]") == 1
    otherwise = text[text.index("if w%4 == 0:") :].partition("else:")[2]
    assert "out[y, xii] = a[y, xii] * 2.0" in otherwise and "a_4" not in otherwise


@pytest.mark.parametrize(("h", "w"), [(0, 4), (3, 0), (3, 64), (3, 68), (2, 66), (5, 7)])
def test_rows_of_any_length_give_what_the_program_gives(h: int, w: int) -> None:
    complete = in_rows().complete("vulkan:lavapipe")
    nest = lower(complete.graph, complete.variants(), rd.Target("vulkan", device="lavapipe").machine)
    a = np.arange(h * w, dtype=np.float32).reshape(h, w)
    (got,) = interpret_program(outline_kernels(nest), [a], {"h": h, "w": w}, nest.shapes, seed=w)
    np.testing.assert_array_equal(got, rows.interpret(a))


def through_tiles(pad: int) -> rd.Schedule:
    """Tiles of 16 x 16 elements that go through shared memory, four neighbours at once each way."""
    s = rows.schedule(target="vulkan:lavapipe")
    s["out"].split("y", 16).split("x", 16).reorder("yo", "xo", "yi", "xi").bind("yo", "block.y").bind("xo", "block.x")
    s["out"].split("xi", 4).bind("yi", "thread.y").bind("xio", "thread.x").vectorize("xii")
    s["out"].cache("a", "out", "xo", scope="shared")
    copy = s["a_copy"].split("x", 4).bind("y", "thread.y").bind("xo", "thread.x").vectorize("xi")
    copy.store(pad=pad)
    return s


@pytest.mark.parametrize(("pad", "wide"), [(4, True), (1, False)])
def test_shared_memory_is_moved_at_once_both_ways_where_its_rows_are_aligned(pad: int, wide: bool) -> None:
    text = kernels(rows, through_tiles(pad))
    assert ("a_copy[y - yo, xo_2 - xo +: 4] = a_copy_4[0 +: 4]" in text) == wide
    assert ("a_copy_4[0 +: 4] = a_copy[" in text) == wide


@pytest.mark.parametrize("pad", [1, 4])
@pytest.mark.parametrize(("h", "w"), [(16, 32), (20, 36), (17, 33), (5, 6)])
def test_tiles_in_shared_memory_give_what_the_program_gives(pad: int, h: int, w: int) -> None:
    complete = through_tiles(pad).complete("vulkan:lavapipe")
    nest = lower(complete.graph, complete.variants(), rd.Target("vulkan", device="lavapipe").machine)
    a = np.arange(h * w, dtype=np.float32).reshape(h, w)
    (got,) = interpret_program(outline_kernels(nest), [a], {"h": h, "w": w}, nest.shapes, seed=h)
    np.testing.assert_array_equal(got, rows.interpret(a))


def test_only_what_is_read_in_order_moves_at_once() -> None:
    text = kernels(picks, vectorised(picks, lanes=8))
    assert "index_8[0 +: 8] = index[xio +: 8]" in text
    assert "out[xio +: 8] = out_8[0 +: 8]" in text
    assert "a_8" not in text


@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("lanes", [2, 3, 4, 16])
def test_kernels_with_wide_moves_give_what_the_program_gives(lanes: int, branches: bool) -> None:
    s = vectorised(sums, lanes=lanes)
    complete = s.complete("vulkan:lavapipe")
    nest = lower(complete.graph, complete.variants(), rd.Target("vulkan", device="lavapipe").machine)
    for n in (0, 1, lanes, 16 * lanes, 16 * lanes + lanes + 1):
        a, b = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        made = outline_kernels(nest, Limits(branches=branches))
        (got,) = interpret_program(made, [a, b], {"n": n}, nest.shapes, seed=n)
        np.testing.assert_array_equal(got, sums.interpret(a, b))


def test_devices_load_and_store_16_bytes() -> None:
    spirv = sums.compile("vulkan:lavapipe", schedule=vectorised(sums)).source("spirv")
    assert spirv.count("OpLoad %v4float") >= 2
    cuda = rd.Target("cuda", arch="sm_90")
    text = sums.compile(cuda, schedule=vectorised(sums)).source("cuda")
    loads, stores = text.count("raido_load<f32, 4>(&"), text.count("raido_store(&")
    assert loads == 2 * stores > 0  # in each code of the kernel


def test_wide_moves_run() -> None:
    validated_device()
    chance = np.random.default_rng(0)
    executable = sums.compile("vulkan", schedule=vectorised(sums))
    for n in (0, 3, 64, 1001):
        a, b = chance.random((2, n), dtype=np.float32)
        np.testing.assert_array_equal(executable(a, b), sums.interpret(a, b))


def test_a_test_of_the_program_is_not_taken_for_that_of_a_vector() -> None:
    """A loop whose iterations ask whether they are at most a size, one by one, is cut there, and no vector of none is counted."""
    x, n = fresh("x"), fresh("n")
    out = Buffer("out", f32, (ix.as_index(64),), "heap", new_serial(), (), 1, None)
    below, above = (Block((Store(out, (x,), const(f32, value)),)) for value in (1.0, 2.0))
    asked = If(Op("le", bool_, (x, n)), below, above)
    loop = For(x, ix.as_index(0), ix.minimum(n, 64), 4, Block((asked,)))
    whole, rest = move_wide(Block((loop,)), {}, branches=True).statements
    assert isinstance(whole, For) and whole.body.statements == below.statements and whole.step == 4
    assert (
        isinstance(rest, Block)
        and isinstance(rest.statements[1], If)
        and rest.statements[1].then.statements == above.statements
    )
