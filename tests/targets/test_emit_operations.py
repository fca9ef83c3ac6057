"""Every primitive operation, on every type, with and without lanes, gives the bits that `raido.algo.primitives.evaluate` gives."""

import itertools

import numpy as np
import pytest
from emission import array, compile_body, every_cpu, index

from raido.algo.dtypes import DTYPES, bool_, dtype_named, f64, i8, i64
from raido.algo.expr import Const, Op, const, fresh
from raido.algo.primitives import PRIMITIVES, evaluate
from raido.schedule.nest import For, Block, Let, Read, Splat, Store, VectorRead, VectorStore, VectorVar

LANES = 8


def special_values(dtype):
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_float:
        info = np.finfo(dtype.numpy)
        plain = [0.0, 1.0, 1.5, 2.5, 3.0, 0.1, 7.3, float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        plain += [1e-3, 300.7, 1e4, 126.5, 127.5, float("inf")]
        if dtype.bits > 16:
            plain += [2.0**31, 2.0**63, 65504.0, 65519.9, 1e-7, 3e9]
        values = np.array(plain + [-x for x in plain] + [float("nan")])
        return values.astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    values = {0, 1, 2, 3, 5, 7, 8, 15, 31, 32, 63, 64, 100, info.max, info.max - 1, info.max // 3}
    values |= {-v for v in values} | {info.min, info.min + 1}
    return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype.numpy)


def operand_columns(dtype, count):
    """All combinations of the special values (for three operands: a sample), padded to a multiple of the lanes."""
    values = special_values(dtype)
    if count == 3:
        random = np.random.default_rng(1)
        picked = random.choice(values, (1600, 3))
        near = random.standard_normal((800, 3)).astype(dtype.numpy)
        near[:, 2] = -(near[:, 0] * near[:, 1]).astype(dtype.numpy)
        rows = np.concatenate([picked, near])
    else:
        rows = np.array(list(itertools.product(values, repeat=count)), dtype.numpy)
    pad = -len(rows) % LANES
    rows = np.concatenate([rows, np.repeat(rows[:1], pad, axis=0)])
    return [np.ascontiguousarray(rows[:, k]) for k in range(count)]


def operations(dtype):
    """(primitive, result type) for operands of that type, recipes apart."""
    for row in PRIMITIVES.values():
        if (
            row.recipe
            or dtype.kind not in row.kinds
            or row.name in ("select", "clamp_index", "mirror_index", "symmetric_index")
        ):
            continue
        if row.name in ("wrap_index", "mod"):
            continue
        if row.rule in ("compare", "predicate"):
            yield row, bool_
        elif row.rule == "count":
            yield row, i64
        elif row.name == "cast":
            yield from ((row, target) for target in DTYPES)
        elif row.name == "bitcast":
            yield from ((row, target) for target in DTYPES if target.bits == dtype.bits and target is not bool_)
        else:
            yield row, dtype


def same_bits(got, wanted):
    if got.dtype.kind == "f":
        both = np.isnan(got) & np.isnan(wanted)
        return both | (got.view(f"u{got.itemsize}") == wanted.view(f"u{got.itemsize}"))
    return got == wanted


def check(dtype, cpu, lanes, chosen):
    columns = {arity: operand_columns(dtype, arity) for arity in {row.arity for row, _ in chosen}}
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


@pytest.mark.parametrize("name", [dtype.name for dtype in DTYPES])
@every_cpu
def test_vector_operations_give_the_interpreters_bits(name, cpu):
    dtype = dtype_named(name)
    check(dtype, cpu, LANES, list(operations(dtype)))


@pytest.mark.parametrize("name", [dtype.name for dtype in DTYPES])
def test_scalar_operations_give_the_interpreters_bits(name):
    dtype = dtype_named(name)
    check(dtype, "skylake-avx512", 1, list(operations(dtype)))
