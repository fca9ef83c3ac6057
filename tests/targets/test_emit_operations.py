"""Every primitive operation, on every dtype, with and without lanes, gives the bits of `raido.algo.graph.primitives.evaluate`."""

import itertools

import numpy as np
import pytest
from emission import WIDEST, array, compile_body, every_cpu, index
from operands import LANES, operand_columns, operations, same_bits

from raido.algo.graph.dtypes import DTYPES, bf16, dtype_named, f16, f64, i64
from raido.algo.graph.expr import Const, Op, const, fresh
from raido.algo.graph.narrow import widen
from raido.algo.graph.primitives import PRIMITIVES, evaluate
from raido.algo.recipes.native import NATIVE
from raido.schedule.nest.nodes import Alloc, Block, For, Let, Store, VectorStore
from raido.schedule.nest.values import Read, Splat, VectorRead, VectorVar
from raido.targets.llvm import fused
from raido.targets.llvm import operations as of_llvm


def check(dtype, cpu, lanes, chosen, columns=None):
    columns = columns or {arity: operand_columns(dtype, arity) for arity in {row.arity for row, _ in chosen}}
    inputs, outputs, statements, given, wanted = [], [], [], [], []
    sources = {}
    for arity, data in columns.items():
        sources[arity] = [array(f"in{arity}_{k}", dtype, len(data[0])) for k in range(arity)]
        inputs += sources[arity]
        given += data
    for arity in columns:
        x = fresh("x")
        body = []
        reads = []
        for k, source in enumerate(sources[arity]):
            value = VectorRead(source, (x,), 1, lanes, None) if lanes > 1 else Read(source, (x,), None)
            var = VectorVar(f"v{k}", dtype, lanes, fresh("v").serial) if lanes > 1 else fresh(f"v{k}", dtype)
            body.append(Let(var, value))
            reads.append(var)
        for row, target in chosen:
            if row.arity != arity:
                continue
            out = array(f"{row.name}_{target.name}", target, len(columns[arity][0]))
            outputs.append(out)
            wanted.append((f"{row.name} -> {target.name}", evaluate(row.name, target, columns[arity]), columns[arity]))
            value = Op(row.name, target, tuple(reads))
            body.append(VectorStore(out, (x,), value) if lanes > 1 else Store(out, (x,), value))
        statements.append(For(x, index(0), index(len(columns[arity][0])), lanes, Block(tuple(body))))
    compiled = compile_body(statements, inputs, outputs, (), cpu)
    results = [np.empty(out.shape[0].value, out.dtype.numpy) for out in outputs]
    compiled(given, (), results)
    for (name, right, operands), got in zip(wanted, results, strict=True):
        good = same_bits(got, right)
        bad = np.flatnonzero(~good)[:5]
        shown = [([o[i] for o in operands], got[i], right[i]) for i in bad]
        assert good.all(), f"{name} on {dtype}, {lanes} lanes, {cpu}: {len(np.flatnonzero(~good))} wrong, {shown}"


def test_every_native_operation_has_a_writer():
    assert set(NATIVE) <= {*of_llvm._NATIVE, *of_llvm._BETTER}


@pytest.mark.parametrize("name", [dtype.name for dtype in DTYPES])
@every_cpu
def test_vector_operations_give_the_interpreters_bits(name, cpu):
    dtype = dtype_named(name)
    check(dtype, cpu, LANES, list(operations(dtype)))


@pytest.mark.parametrize("name", [dtype.name for dtype in DTYPES])
def test_scalar_operations_give_the_interpreters_bits(name):
    dtype = dtype_named(name)
    check(dtype, WIDEST, 1, list(operations(dtype)))


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@every_cpu
def test_math_functions_give_the_interpreters_bits(name, cpu):
    """Recipes run the same operations in compiled code, their rare paths included."""
    dtype = dtype_named(name)
    recipes = [(row, dtype) for row in PRIMITIVES.values() if row.function]
    check(dtype, cpu, LANES, recipes)


def test_every_bf16_has_the_interpreters_bits():
    """Under each operation of one operand, functions of mathematics among them, and under each cast."""
    every = np.arange(1 << 16, dtype=np.uint16).view(bf16.numpy)
    recipes = [(PRIMITIVES[name], bf16) for name in ("exp", "sin", "log1p")]
    chosen = [(row, target) for row, target in operations(bf16) if row.arity == 1]
    check(bf16, WIDEST, LANES, chosen + recipes, {1: [every]})


@every_cpu
@pytest.mark.parametrize("name", ["f32", "f64", "i64", "u64"])
def test_numbers_are_rounded_once_to_narrow_floats(name, cpu):
    """Ties of bf16 and f16, and the numbers next to them, which f32 or f64 do not tell apart."""
    dtype, random = dtype_named(name), np.random.default_rng(0)
    if dtype.is_float:
        ties = np.ldexp(2.0 * random.integers(64, 1024, 4000) + 1, random.integers(-150, 130, 4000))
        values = ties * (1 + np.ldexp(random.integers(-1, 2, 4000), -random.integers(20, 52, 4000)).astype(float))
        with np.errstate(over="ignore"):
            values = np.concatenate([values, -values]).astype(dtype.numpy)
    else:
        shifts = random.integers(0, dtype.bits - 10, 4000)
        ties = (2 * random.integers(128, 256, 4000) + 1) << shifts
        values = (ties + random.integers(-1, 2, 4000)).astype(dtype.numpy)
        values = np.concatenate([values, -values])
    values = values[: len(values) // LANES * LANES]
    check(dtype, cpu, LANES, [(PRIMITIVES["cast"], bf16), (PRIMITIVES["cast"], f16)], {1: [values]})


def test_math_functions_have_the_same_bits_without_lanes():
    recipes = [(row, f64) for row in PRIMITIVES.values() if row.function]
    check(f64, WIDEST, 1, recipes)


@pytest.mark.parametrize("lanes", [1, LANES])
def test_boundary_indices_are_the_interpreters(lanes):
    rules = [(PRIMITIVES[name], i64) for name in ("clamp_index", "wrap_index", "mirror_index", "symmetric_index")]
    pairs = np.array([(e, size) for size in (1, 2, 3, 7) for e in range(-20, 20)])
    columns = [np.ascontiguousarray(pairs[:, k]) for k in range(2)]
    check(i64, WIDEST, lanes, rules, {2: columns})


@pytest.mark.parametrize(
    "name, divisor", [*itertools.product(["i32", "i64", "u8"], [1, 2, 7, 16]), ("i32", -3), ("i64", -3)]
)
def test_division_by_a_constant_is_division(name, divisor):
    dtype = dtype_named(name)
    (values,) = operand_columns(dtype, 1)
    source, x = array("a", dtype, len(values)), fresh("x")
    names = ("floordiv", "floormod", "truncdiv", "truncrem", "shl", "shr")
    outputs = [array(op, dtype, len(values)) for op in names]
    read = VectorRead(source, (x,), 1, LANES, None)
    body = [
        VectorStore(out, (x,), Op(op, dtype, (read, Splat(const(dtype, divisor), LANES))))
        for op, out in zip(names, outputs, strict=True)
    ]
    loop = For(x, index(0), index(len(values)), LANES, Block(tuple(body)))
    results = [np.empty_like(values) for _ in names]
    compile_body([loop], [source], outputs, ())([values], [], results)
    for op, got in zip(names, results, strict=True):
        np.testing.assert_array_equal(got, evaluate(op, dtype, [values, dtype.numpy.type(divisor)]), op)


def test_products_are_not_fused_with_sums_unless_told():
    """a * b + c rounds twice, through names and registers too; fma rounds once."""
    a, b, c = (array(name, f64, 64) for name in "abc")
    plain, once, kept = (
        array("plain", f64, 64),
        array("fused", f64, 64),
        array("kept", f64, scope="register", lanes=LANES),
    )
    x = fresh("x")
    reads = [VectorRead(source, (x,), 1, LANES, None) for source in (a, b, c)]
    product = Op("mul", f64, tuple(reads[:2]))
    name = VectorVar("p", f64, LANES, fresh("p").serial)
    statements = [
        Let(name, product),
        Alloc(kept),
        Store(kept, (), name),
        VectorStore(plain, (x,), Op("sub", f64, (Read(kept, (), None), Op("neg", f64, (reads[2],))))),
        VectorStore(once, (x,), Op("fma", f64, tuple(reads))),
    ]
    random = np.random.default_rng(5)
    data = [random.standard_normal(64) for _ in range(3)]
    results = [np.empty(64), np.empty(64)]
    loop = For(x, index(0), index(64), LANES, Block(tuple(statements)))
    compile_body([loop], [a, b, c], [plain, once], ())(data, [], results)
    np.testing.assert_array_equal(results[0], data[0] * data[1] + data[2])
    np.testing.assert_array_equal(results[1], evaluate("fma", f64, data))
    assert not np.array_equal(results[0], results[1])


def test_every_literal_arrives_with_its_bits():
    patterns = {
        "f32": [0x7FC00001, 0xFFC00000, 0x80000000, 1, 0x7F800000, 0x3DCCCCCD],
        "f16": [0x7E01, 0x8000, 1, 0x7C00, 0x3C01],
        "bf16": [0x7FC1, 0x8000, 1, 0x7F80, 0x3F81],
        "f64": [0x7FF8000000000001, 1 << 63, 1, 0x3FB999999999999A],
        "u64": [(1 << 64) - 1, 1 << 63, 5],
        "i64": [-(1 << 63), (1 << 63) - 1],
        "u32": [(1 << 32) - 1],
        "i8": [-128],
    }
    statements, outputs = [], []
    for name, values in patterns.items():
        dtype = dtype_named(name)
        outputs.append(array(name, dtype, len(values)))
        statements += [Store(outputs[-1], (index(k),), Const(dtype, bits)) for k, bits in enumerate(values)]
    results = [np.zeros(len(values), dtype_named(name).numpy) for name, values in patterns.items()]
    compile_body(statements, [], outputs, ())([], [], results)
    for (name, values), got in zip(patterns.items(), results, strict=True):
        dtype = dtype_named(name)
        view = got.view(f"u{got.itemsize}") if dtype.is_float else got
        assert [int(v) for v in view] == values, name


@pytest.mark.parametrize("quick", ["false", "true"], ids=["emulated", "library"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_fma_is_exact_where_no_instruction_is(name, quick, monkeypatch):
    """Special values, cancellation, and products and sums over the whole range of exponents."""
    monkeypatch.setattr(fused, "_library_is_quick", lambda b: quick)
    dtype = dtype_named(name)
    special, random = operand_columns(dtype, 3), np.random.default_rng(3)
    reach = {"f16": 14, "bf16": 126, "f32": 126, "f64": 1022}[name]
    size, count = random.integers(-reach, reach, (3, 4000)), 4000
    size[2, ::2] = np.clip(size[0, ::2] + size[1, ::2] + random.integers(-120, 120, count // 2), -reach, reach)
    numbers = np.ldexp(random.uniform(-2, 2, (3, count)), size).astype(dtype.numpy)
    data = [np.ascontiguousarray(np.concatenate([a, b])) for a, b in zip(special, numbers, strict=True)]
    arrays, x = [array(n, dtype, len(data[0])) for n in "abco"], fresh("x")
    reads = tuple(VectorRead(a, (x,), 1, LANES, None) for a in arrays[:3])
    loop = For(x, index(0), index(len(data[0])), LANES, Block((VectorStore(arrays[3], (x,), Op("fma", dtype, reads)),)))
    result = np.empty_like(data[0])
    compile_body([loop], arrays[:3], arrays[3:], (), "x86-64-v2")(data, [], [result])
    result, wanted = widen(result), widen(evaluate("fma", dtype, data))
    np.testing.assert_array_equal(result, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(wanted[numbers]))
