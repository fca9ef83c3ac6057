"""CUDA C of kernels run thread by thread on the CPU, in shuffled order: it has NumPy's bits and the interpreter's."""

from __future__ import annotations

from typing import Any

import hand_made_kernels as kernels
import numpy as np
import pytest
from cuda_twin import Twin
from kernel_vocabulary import (
    Case,
    at,
    atomic,
    barrier,
    blocks,
    integer,
    kernel,
    memory,
    native,
    number,
    put,
    ramp,
    when,
)
from operands import operand_columns, operations, same_bits

from raido.algo.errors import CompileError, TargetError
from raido.algo.graph.dtypes import DTYPES, DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8
from raido.algo.graph.primitives import PRIMITIVES, evaluate
from raido.algo.recipes.native import NATIVE
from raido.targets import tvm_corner as T
from raido.targets.cuda.source.generate import Interface, Source, generate_source
from raido.targets.cuda.source.operations import native_operations
from raido.targets.cuda.source.values import literal, memory_type
from raido.targets.devices.kernel import Argument

CASES = {case.name: case for case in kernels.cases()}


def text_of(*functions: Any) -> str:
    return generate_source(functions).body


@pytest.fixture(scope="module")
def twin() -> Twin:
    """All kernels of this file in one text, but those of operations."""
    functions = [*(case.function for case in CASES.values()), RACY, LARGE, TOTAL, NAMED, LAZY, HALVES]
    parts = [generate_source(functions), literals_kernel(), SHUFFLES]
    return Twin(Source("\n".join(part.body for part in parts), tuple(k for part in parts for k in part.kernels)))


def run(twin: Twin, case: Case, **options: int) -> dict[int, np.ndarray]:
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments]
    twin.launch(case.name, case.grid, given, **options)
    return {k: given[k] for k in case.expected}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_results_are_numpys(twin: Twin, case: Case) -> None:
    for seed, workers in ((1, 1), (2, 3)):
        for k, result in run(twin, case, seed=seed, workers=workers).items():
            expected = case.expected[k]
            assert result.tobytes() == expected.tobytes(), (case.name, k, np.flatnonzero(result != expected)[:8])


# --- operations


def operations_kernel(name: str, dtype: DType, rows: list[tuple[str, DType]], arity: int) -> Any:
    """out[k][i] = the k-th operation on the i-th operands."""

    def make(x: Any, *given: Any) -> list[Any]:
        operands = [at(a, x.i) for a in given[:arity]]
        outs = given[arity:-1]
        stores = [put(o, x.i, native(row, of, *operands)) for o, (row, of) in zip(outs, rows, strict=True)]
        return [when(x.i < given[-1], *stores)]

    return kernel(name, (*[dtype] * arity, *(target for _, target in rows), "int64"), make)


def primitives_of(dtype: DType) -> dict[int, list[tuple[str, DType]]]:
    """The primitives of operands of a type by their arity; of bf16 TIR knows only the bits."""
    functions = [(row, dtype) for row in PRIMITIVES.values() if row.function and dtype.is_float]
    found: dict[int, list[tuple[str, DType]]] = {}
    for row, target in [*operations(dtype), *functions]:
        if target is not bf16:
            found.setdefault(row.arity, []).append((row.name, target))
    return found


COMPUTED = [dtype for dtype in DTYPES if dtype is not bf16]


def test_every_primitive_has_the_interpreters_bits() -> None:
    rows = {(dtype, arity): found for dtype in COMPUTED for arity, found in primitives_of(dtype).items()}
    made = generate_source([operations_kernel(f"k_{d}_{n}", d, found, n) for (d, n), found in rows.items()])
    twin = Twin(made)
    for (dtype, arity), found in rows.items():
        columns = operand_columns(dtype, arity)
        if any(PRIMITIVES[name].function for name, _ in found):
            columns = [np.ascontiguousarray(column[:: 1 if arity == 1 else 5]) for column in columns]
        results = [np.empty(len(columns[0]), target.numpy) for _, target in found]
        twin.launch(f"k_{dtype}_{arity}", blocks(len(columns[0])), [*columns, *results, len(columns[0])])
        for (name, target), got in zip(found, results, strict=True):
            want = evaluate(name, target, columns)
            bad = np.flatnonzero(~same_bits(got, want))
            shown = [([c[k] for c in columns], got[k], want[k]) for k in bad[:3]]
            assert not len(bad), f"{name} of {dtype} to {target}: {len(bad)} of {len(got)} wrong, {shown}"


def test_every_native_operation_has_a_writer() -> None:
    assert set(NATIVE) == set(native_operations())


def test_a_recipe_is_one_function_however_often_it_is_called() -> None:
    def make(x: Any, a: Any, b: Any) -> list[Any]:
        twice = native("exp", f32, native("exp", f32, at(a, x.i)))
        return [put(b, x.i, twice + native("floormod", f32, at(a, x.i), twice))]

    text = text_of(kernel("one", (f32, f32), make), kernel("other", (f32, f32), make))
    assert text.count("f32 raido_exp_f32(f32 x0) {") == text.count("f32 raido_floormod_f32_f32(f32 x0") == 1
    assert text.count("raido_exp_f32(raido_exp_f32(p0[") == 8  # of two kernels with two codes each


def written_by_hand(
    name: str, arrays: list[tuple[str, DType]], block: tuple[int, int, int], lines: list[str]
) -> Source:
    """A kernel whose text is given, and whose parameters are arrays."""
    given = ", ".join(f"{memory_type(dtype)}* {array}" for array, dtype in arrays)
    body = "\n".join([f'extern "C" __global__ void {name}({given}) {{', *lines, "}"])
    arguments = tuple(Argument(array, dtype, True, 8 * k) for k, (array, dtype) in enumerate(arrays))
    return Source(body, (Interface(name, arguments, 8 * len(arrays), block, 0),))


LITERALS = {dtype: operand_columns(dtype, 1)[0] for dtype in COMPUTED}


def literals_kernel() -> Source:
    """Stores all special values of every type, as literals."""
    lines = [
        f"  out_{dtype}[{k}] = {literal(dtype, value)};"
        for dtype, column in LITERALS.items()
        for k, value in enumerate(column)
    ]
    return written_by_hand("literals", [(f"out_{dtype}", dtype) for dtype in LITERALS], (1, 1, 1), lines)


def test_literals_have_their_bits(twin: Twin) -> None:
    results = [np.empty_like(column) for column in LITERALS.values()]
    twin.launch("literals", (1, 1, 1), results)
    for column, got in zip(LITERALS.values(), results, strict=True):
        assert same_bits(got, column).all()


# --- what a text is


def racy(x: Any, a: Any, out: Any) -> list[Any]:
    kept, t = memory("kept", f32, 64, "shared"), x.t[0]
    return [T.AllocBuffer(kept), put(kept, t, at(a, t)), put(out, t, at(kept, integer(63) - t))]


RACY = kernel("racy", (f32, f32), racy)


def test_a_missing_barrier_is_a_wrong_answer(twin: Twin) -> None:
    a, out = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    twin.launch("racy", (1, 1, 1), [a, out])
    assert (out != a[::-1]).sum() > 10


WARPS = """
  i32 t = (i32)threadIdx.x, i = (i32)blockIdx.x * 64 + t;
  f32 total = a[i], running = a[i];
  for (i32 d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
  for (i32 d = 1; d < 32; d *= 2) {
    f32 other = __shfl_up_sync(~0u, running, d);
    if (t % 32 >= d) running += other;
  }
  before[i] = running;
  next[i] = __shfl_down_sync(~0u, a[i], 1);
  first[i] = __shfl_sync(~0u, total, 0);
"""
SHUFFLES = written_by_hand("warps", [(name, f32) for name in ("a", "before", "next", "first")], (64, 1, 1), [WARPS])


def test_shuffles_move_values_within_a_warp(twin: Twin) -> None:
    a = np.arange(128, dtype="f4")
    before, following, first = (np.zeros(128, "f4") for _ in range(3))
    twin.launch("warps", (2, 1, 1), [a, before, following, first])
    warps = a.reshape(4, 32)
    np.testing.assert_array_equal(first, np.repeat(warps.sum(1), 32))
    np.testing.assert_array_equal(before, warps.cumsum(1).reshape(-1))
    np.testing.assert_array_equal(following, np.concatenate([warps[:, 1:], warps[:, -1:]], 1).reshape(-1))


def test_arrays_that_nothing_stores_to_are_constant() -> None:
    text = text_of(CASES["exchange_in_place"].function, CASES["histogram"].function)
    assert "exchange_in_place(i32* __restrict__ p0, i32* __restrict__ p1)" in text
    assert "histogram(const u8* __restrict__ p0, i32* __restrict__ p1, i64 s2)" in text


def test_sixteen_bytes_move_at_once() -> None:
    for name, made_of in (("vectors_f32", "f32, 4"), ("vectors_u8", "u8, 16"), ("vectors_f64", "f64, 2")):
        text = text_of(CASES[name].function)
        codes = text.count("__global__")
        assert (
            text.count(f"raido_load<{made_of}>") == 2 * codes and text.count("raido_store(") == codes
        )  # v + v is two loads


def large(x: Any, a: Any) -> list[Any]:
    first, second = memory("first", f64, 4096, "shared"), memory("second", u8, 40_001, "shared")
    return [
        *(T.AllocBuffer(first), T.AllocBuffer(second)),
        put(first, x.t[0], at(a, x.i)),
        put(second, x.t[0], T.Cast("uint8", x.t[0])),
        barrier(),
        put(a, x.i, at(first, integer(63) - x.t[0]) + T.Cast("float64", at(second, x.t[0]))),
    ]


LARGE = kernel("large", (f64,), large)


def test_a_block_with_much_shared_memory_is_given_it_by_the_launch(twin: Twin) -> None:
    made = generate_source([LARGE])
    assert made.kernels[0].shared_bytes == 32768 + 40_001 and "raido_shared + 32768" in made.body
    a = np.arange(128.0)
    given = a.copy()
    twin.launch("large", (2, 1, 1), [given])
    np.testing.assert_array_equal(given, a.reshape(2, 64)[:, ::-1].reshape(-1) + np.tile(np.arange(64), 2))


def total(x: Any, a: Any) -> list[Any]:
    sums = memory("sums", i64, 1, "shared")
    add = T.Evaluate(atomic("add", i64, at(sums, integer(0)), at(a, x.i)))
    first = put(sums, integer(0), integer(0, "int64"))
    return [T.AllocBuffer(sums), first, barrier(), add, barrier(), put(a, x.i, at(sums, integer(0)))]


TOTAL = kernel("total", (i64,), total)


def test_shared_integers_of_two_words_are_added_word_by_word(twin: Twin) -> None:
    """Devices compare and exchange them in a loop otherwise. A low word that overflows carries, in any order of the threads."""
    text = generate_source([TOTAL]).body
    assert "raido_atomic_add_in_words(&" in text and "raido_atomic_add(&" not in text
    a = np.random.default_rng(3).integers(-(1 << 62), 1 << 62, 128)
    a[::3], a[1::3] = -1, (1 << 32) - 1
    given = a.copy()
    twin.launch("total", (2, 1, 1), [given])
    np.testing.assert_array_equal(given, np.repeat(a.reshape(2, 64).sum(1), 64))


def named(x: Any, a: Any) -> list[Any]:
    bound = [T.Var(name, "float32") for name in ("class", "threadIdx", "x.1", "x 1", "f32", "raido_exp", "class")]
    binds = [T.Bind(v, at(a, x.i) + number(f32, k)) for k, v in enumerate(bound)]
    total = bound[0]
    for variable in bound[1:]:
        total = total + variable
    return [*binds, put(a, x.i, total)]


NAMED = kernel("named", (f32,), named)


def test_names_of_programs_are_no_words_of_the_language(twin: Twin) -> None:
    text = text_of(NAMED)
    for name in ("class_", "threadIdx_2", "x_1", "x_1_2", "f32_2", "raido_exp_", "class__2"):
        assert f"const f32 {name} = " in text
    a = np.ones(64, "f4")
    twin.launch("named", (1, 1, 1), [a])
    assert (a == 28).all()


def lazy(x: Any, a: Any, b: Any, n: Any) -> list[Any]:
    """Loads of vectors, and updates, that only a true condition allows; a loop whose condition makes one."""
    inside, four = x.i < n, ramp(x.i * 4, 4)
    chosen = T.tirx.if_then_else(inside, at(a, four), T.Broadcast(number(f32, -1.0), 4))
    ticket = atomic("add", i32, at(b, integer(0)), integer(1))
    claim = T.tirx.And(inside, ticket < integer(1000))
    first = T.tirx.And(T.EQ(x.t[0], integer(0)), T.EQ(x.b[0], integer(0)))
    drain = atomic("add", i32, at(b, integer(1)), integer(-1))
    count = T.While(integer(0) < drain, put(b, integer(2), at(b, integer(2)) + 1))
    return [when(claim, put(a, four, chosen + T.Broadcast(number(f32, 1.0), 4))), when(first, count)]


LAZY = kernel("lazy", (f32, i32, "int64"), lazy)


def test_laziness_reaches_what_needs_statements(twin: Twin) -> None:
    a, b = np.arange(40, dtype="f4"), np.array([0, 5, 0], "i4")
    twin.launch("lazy", (2, 1, 1), [a, b, 10])
    np.testing.assert_array_equal(a, np.arange(40) + 1)
    assert b.tolist() == [10, -1, 5]


def halves(x: Any, a: Any, b: Any) -> list[Any]:
    """Nodes of TIR on f16: each rounds once."""
    p, q = at(a, x.i), at(b, x.i)
    return [put(a, x.i, (p + q) * (p - q) / T.Max(p, q)), put(b, x.i, T.Select(p < q, p, q))]


HALVES = kernel("halves", (f16, f16), halves)


def test_nodes_of_f16_round_each_time(twin: Twin) -> None:
    a, b = (np.random.default_rng(k).random(64).astype("f2") + np.float16(0.5) for k in range(2))
    given = [a.copy(), b.copy()]
    twin.launch("halves", (1, 1, 1), given)
    quotient = (a + b) * (a - b) / np.maximum(a, b)
    assert (
        given[0].tobytes() == quotient.tobytes() and given[1].tobytes() == np.where(quotient < b, quotient, b).tobytes()
    )


def test_code_that_is_not_generated_is_an_error() -> None:
    division = kernel("k", (i32,), lambda x, a: [put(a, x.i, T.tirx.FloorDiv(at(a, x.i), integer(2)))])
    call = kernel("k", (f32,), lambda x, a: [put(a, x.i, T.call("expf", "float32", at(a, x.i)))])
    absent = kernel("k", (f64,), lambda x, a: [put(a, x.i, native("expo", f64, at(a, x.i)))])
    updating = kernel("k", (f32,), lambda x, a: [T.Evaluate(atomic("max", f32, at(a, x.i), at(a, x.i)))])
    named = kernel("k.1", (i8, bool_), lambda x, a, b: [put(a, x.i, T.Cast("int8", at(b, x.i)))])
    for functions, message in (
        ([division], 'kernel "k" has a FloorDiv, which CUDA C is not made from'),
        ([call], 'kernel "k" calls expf, which CUDA C is not made from'),
        ([absent], 'kernel "k" calls expo is no operation'),
        ([updating], "CUDA C has no atomic max of f32"),
        ([named], '"k.1" is no name for a kernel in CUDA C'),
        ([CASES["loops"].function] * 2, "two kernels of one text have the same name"),
    ):
        with pytest.raises(CompileError, match=message):
            generate_source(functions)


def test_what_no_device_takes_is_refused() -> None:
    store = lambda x, *a: [put(a[0], x.i, x.i)]
    with pytest.raises(TargetError, match="kernel k has blocks of 2048 × 1 × 1 threads"):
        generate_source([kernel("k", (i64,), store, (2048, 1, 1))])
    with pytest.raises(TargetError, match="kernel k has 4,800 bytes of arguments, and a launch carries 4,096"):
        generate_source([kernel("k", (i64,) * 600, store)])
