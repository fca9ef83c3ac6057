"""Interleaved stores: results with a short last axis are shuffled and stored as whole vectors."""

import numpy as np
import pytest
from emission import assembly_of, every_cpu
from test_emit_assembly import loops

import raido as rd


def planes(count, dtype):
    """Sums of neighbours in the last axis, which turns."""

    @rd.algorithm(a=f"{dtype}[n, {count}]")
    def program(a):
        return rd.tabulate((a.shape[0], count), lambda x, c: a[x, c] + a[x, (c + 1) % count], name="out")

    return program


@every_cpu
@pytest.mark.parametrize("count, dtype", [(2, "f32"), (3, "u8"), (4, "f64")])
def test_what_lies_between_is_stored_together(cpu, count, dtype):
    exe = planes(count, dtype).compile(rd.Target("llvm", cpu=cpu))
    for n in (0, 1, 15, 16, 17, 64, 100):
        a = np.arange(n * count).reshape(n, count).astype({"f32": "f4", "u8": "u1", "f64": "f8"}[dtype])
        np.testing.assert_array_equal(exe(a), a + np.roll(a, -1, axis=1))


def test_no_scatter_is_left():
    @rd.algorithm
    def product(a: rd.complex64["n"], b: rd.complex64["n"]):
        return a * b

    bodies = [
        body
        for body in loops(assembly_of(product, "skylake-avx512"))
        if sum("vfm" in i or "vfnm" in i for i in body) >= 2
    ]
    whole = min(bodies, key=len)
    products = sum("vfm" in i or "vfnm" in i for i in whole)
    assert not any("scatter" in i or "gather" in i for i in whole)
    assert sum(i.startswith("vmovup") and i.endswith(")") for i in whole) == products
