"""Tracing: signatures, promotion, names, sharing, contraction, inlining; and a traced program has NumPy's meaning."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import Generate, Load, Op
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological


def count(program: Program, name: str) -> int:
    return sum(isinstance(n, Op) and n.name == name for n in topological(*program.results))


def names(program: Program) -> list[tuple[str, ...]]:
    return [program.names.get(form, ()) for form in program.order]


def traced(function: Any, *types: Any, **options: Any) -> Program:
    return rd.algorithm(**options)(function).trace(*types)


F = rd.f32["n"]


def test_both_forms_of_a_signature_say_the_same() -> None:
    @rd.algorithm
    def one(a: rd.f32["h", "w"]):
        return a + 1

    @rd.algorithm(a="f32[h, w]")
    def two(a: rd.Array) -> rd.Array:
        return a + 1

    assert one.trace().parameters[0].shape == two.trace().parameters[0].shape
    assert [s.name for s in two.trace().sizes] == ["h", "w"]


def test_programs_are_cached_for_each_signature_and_static_value() -> None:
    @rd.algorithm
    def scaled(a: rd.f32["n"], *, by=2):
        return a * by

    assert scaled.trace() is scaled.trace(by=2)
    assert scaled.trace() is not scaled.trace(by=3)
    assert rd.capture(scaled, by=3).interpret(np.float32([1]))[0] == 3


def test_untyped_parameters_take_dtype_and_rank_from_the_argument() -> None:
    @rd.algorithm
    def product(a, b):
        return a @ b

    assert product.interpret(np.ones((2, 3)), np.ones(3)).tolist() == [3, 3]
    assert product.interpret(np.ones(3, np.int32), np.ones(3, np.int32)).dtype == np.int32


def test_tuples_sizes_and_scalars_are_arguments() -> None:
    @rd.algorithm(ab="(f32[n], i32[n])", k="size", s="f32")
    def mixed(ab, k, s):
        return ab[0] * k + s, ab[1]

    assert mixed.trace().input_tree == {"tuple": [{"tuple": [0, 1]}, {"size": "k"}, 2]}
    a, b = mixed.interpret((np.ones(2, np.float32), np.arange(2, dtype=np.int32)), 4, 0.5)
    assert a.tolist() == [4.5, 4.5] and b.tolist() == [0, 1]


def test_named_tuples_come_back() -> None:
    class Pair(NamedTuple):
        low: Any
        high: Any

    both = rd.algorithm(lambda a: Pair(rd.min(a), rd.max(a)))
    result = both.interpret(np.float32([3, 1, 2]))
    assert isinstance(result, Pair) and result.low == 1 and isinstance(result.high, np.float32)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x * 2, rd.f32),
        (lambda x: x * 2.5, rd.f32),
        (lambda x: rd.iota(x.shape[0]) * x, rd.f32),
        (lambda x: rd.iota(x.shape[0]) * 2.5, rd.f64),
        (lambda x: x * x.shape[0], rd.f32),
        (lambda x: x.astype(rd.i8) + 1, rd.i8),
        (lambda x: x.astype(rd.i8) + rd.iota(x.shape[0]), rd.i64),
        (lambda x: x.astype(rd.i8) + np.int16(1), rd.i16),
        (lambda x: x * np.float64(2), rd.f64),
        (lambda x: x.astype(rd.i16) * x.astype(rd.f16), rd.f32),
        (lambda x: x.astype(rd.i8) / x.astype(rd.i8), rd.f64),
        (lambda x: x.astype(rd.u8) << x.astype(rd.i64), rd.u8),
        (lambda x: (x > 0) + 1, rd.i64),
        (lambda x: rd.exp(x.astype(rd.i16)), rd.f32),
        (lambda x: rd.sum(x.astype(rd.u8)), rd.u64),
        (lambda x: rd.sum(x > 0), rd.i64),
        (lambda x: rd.mean(x.astype(rd.i8)), rd.f64),
        (lambda x: rd.popcount(x.astype(rd.i32)), rd.u8),
    ],
)
def test_types_are_promoted_as_the_contract_says(function: Any, dtype: rd.Array) -> None:
    assert traced(function, F).results[0].dtype is dtype


def test_a_product_written_with_a_sum_is_contracted_once() -> None:
    def three(a, b, c):
        return a * b + c, c - a * b, a * c - b

    program = traced(three, F, F, F)
    assert (count(program, "fma"), count(program, "mul")) == (3, 0)
    assert count(traced(three, F, F, F, contract=False), "fma") == 0
    elements = traced(lambda a, b, c: rd.map(lambda x, y, z: x * y + z, a, b, c), F, F, F)
    assert count(elements, "fma") == 1


def test_of_two_products_the_one_that_a_loop_carries_on_is_contracted() -> None:
    """The next iteration waits for a multiply-add, not for a product and a sum; what no loop carries goes by the left operand."""

    def smoothed(x, a):
        step = lambda i, s: (a * x[i] + (1 - a) * s[0], s[1].at[i].set(s[0]))
        return rd.loop(x.shape[0], step, (rd.f32(0), x))

    def in_map(x, a):
        return rd.map(lambda v: rd.loop(9, lambda k, y: a * v + (1 - a) * y, rd.f32(0)), x)

    def by_elements(x, a):
        return rd.loop(x.shape[0] - 1, lambda i, z: z.at[i + 1].set(a * x[i] + (1 - a) * z[i]), x)

    for function in (smoothed, in_map, by_elements):
        program = traced(function, F, rd.f32)
        (fused,) = (node for node in topological(*program.results) if isinstance(node, Op) and node.name == "fma")
        assert isinstance(fused.args[2], Op) and fused.args[2].name == "mul", function
        x, a = np.float32([1, 2, 4]), np.float32(0.3)
        assert not any(isinstance(n, Op) and n.name == "sub" for n in topological(fused.args[2])), function
        rd.algorithm(function).interpret(x, a)
    plain = traced(lambda a, b: a * a + 3 * b, F, F)
    (fused,) = (node for node in topological(*plain.results) if isinstance(node, Op) and node.name == "fma")
    assert fused.args[0] is fused.args[1]


def test_a_product_with_a_name_or_another_use_is_not_contracted() -> None:
    def kept(a, b, c):
        named, used = (a * b).named("m"), a * c
        return named + c, used + b, used

    assert count(traced(kept, F, F, F), "fma") == 0
    assert count(traced(lambda i: i * i + i, rd.i32["n"]), "fma") == 0


def test_equal_expressions_are_one_stage_with_all_names() -> None:
    def twice(a):
        shift = lambda name: rd.stencil(lambda p: p[-1] + p[1], a, name=name)
        return shift("u") + shift("v")

    assert ("u", "v") in names(traced(twice, F))


def test_an_inlined_algorithm_stands_under_its_name() -> None:
    @rd.algorithm
    def inner(a: rd.f32["n"], *, k=2):
        return (a * k).named("s")

    @rd.algorithm
    def outer(m: rd.f32["h", "n"], v: rd.f32["h"]):
        return inner(v, name="pre"), inner(v, k=3), rd.map(lambda row: rd.sum(inner(row, k=5)), m)

    program = outer.trace()
    assert {n for found in names(program) for n in found} == {"pre/s", "inner/s"}
    m = np.ones((2, 3), np.float32)
    assert outer.interpret(m, m[:, 0])[2].tolist() == [15, 15]


def test_axes_are_named_by_position_or_by_the_function() -> None:
    program = traced(lambda a: rd.tabulate((a.shape[0], 3), lambda row, k: a[row] * k), F)
    assert [axis.name for axis in program.results[0].form.axes] == ["row", "k"]  # type: ignore[union-attr]
    program = traced(lambda a: rd.map(lambda r: r * 2, a), rd.f32["h", "w"])
    assert [axis.name for axis in program.results[0].form.axes] == ["y", "x"]  # type: ignore[union-attr]


def test_only_what_may_be_outside_is_checked() -> None:
    def checked(function: Any, *types: Any) -> int:
        program = traced(function, *types)
        loads = [n for n in topological(*program.results) if isinstance(n, Load) and n.checked]
        assert all(load in program.sites for load in loads)
        return len(loads)

    assert checked(lambda a: rd.tabulate(a.shape[0], lambda i: a[i]), F) == 0
    assert checked(lambda a: rd.tabulate(a.shape[0], lambda i: a[i + 1]), F) == 1
    assert checked(lambda a: rd.tabulate(a.shape[0], lambda i: a[a.shape[0] - 1 - i]), F) == 0
    assert checked(lambda a, i: a[i], F, rd.i64["m"]) == 1
    assert checked(lambda a: a[2], rd.f32[5]) == 0


def test_a_tap_that_does_not_move_has_no_boundary() -> None:
    program = traced(lambda a: rd.stencil(lambda p: p[-1, 0] + p[1, 0], a), rd.f32["h", "w"])
    form = program.results[0].form  # type: ignore[union-attr]
    assert isinstance(form, Generate)
    clamps = [n for n in topological(form) if isinstance(n, Op) and n.name == "clamp_index"]
    assert len(clamps) == 2 and all(c.args[1].name == "h" for c in clamps)  # type: ignore[union-attr]


def test_fingerprints_do_not_depend_on_the_process_or_on_what_was_traced_before() -> None:
    script = """
import raido as rd
from raido.schedule.fingerprint import fingerprint
@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: p[0, -1] + p[0, 1], img, name="rows")
    return rd.map(lambda r: rd.sum(r) * r, rows)
first = blur.trace()
def again(img): ...
print(fingerprint(first), fingerprint(rd.algorithm(blur.function).trace()))
"""
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in "ab"]
    assert len({word for run in runs for word in run.stdout.split()}) == 1


def test_many_operations_in_a_row_do_not_meet_a_recursion_limit() -> None:
    def long(a):
        for _ in range(1500):
            a = a * 1.5 + 0.5
        return rd.map(lambda x: _many(x), a)

    def _many(x):
        for _ in range(1500):
            x = x * 1.5 + 0.5
        return x

    assert len(traced(long, F).order) > 1
