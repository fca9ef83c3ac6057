"""Operands for tests of operations: special values of every dtype, in all combinations."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from raido.algo.graph.dtypes import DTYPES, MANTISSA, bool_, dtype_of, f16, i64
from raido.algo.graph.narrow import widen
from raido.algo.graph.primitives import PRIMITIVES

LANES = 8


def special_values(dtype):
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_float:
        info = ml_dtypes.finfo(dtype.numpy)
        plain = [0.0, 1.0, 1.5, 2.5, 3.0, 0.1, 7.3, float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        plain += [1e-3, 300.7, 1e4, 126.5, 127.5, float("inf")]
        if dtype is not f16:
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
    """(primitive, result type) for operands of that type, functions of mathematics apart."""
    for row in PRIMITIVES.values():
        if (
            row.function
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
    if dtype_of(got.dtype) in MANTISSA:
        both = np.isnan(widen(got)) & np.isnan(widen(wanted))
        return both | (got.view(f"u{got.itemsize}") == wanted.view(f"u{got.itemsize}"))
    return got == wanted
