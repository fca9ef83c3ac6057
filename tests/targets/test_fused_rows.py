"""Fused loops over threads divide once for each chunk."""

import re

import numpy as np
import pytest
from emission import assembly_of

import raido as rd


@rd.algorithm
def products(a: rd.f32["b", "n", "m"], u: rd.f32["b", "m"]):
    return rd.map(lambda x, y: rd.map(lambda row: rd.sum(row * y), x), a, u).named("out")


@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_of_a_fused_loop_are_counted(dynamic):
    """A product of a row of 40 took 24 cycles, of which a division was ten."""
    s = products.schedule()
    s["out"].fuse("y", "x").parallel("yx", grain=4, dynamic=dynamic).vectorize("r")
    lines = [line.split("#")[0].strip() for line in assembly_of(products, "skylake-avx512", s).splitlines()]
    labels = {line[:-1]: k for k, line in enumerate(lines) if re.match(r"\.LBB\w+:$", line)}
    jumps = [(labels.get(line.split()[-1], k), k) for k, line in enumerate(lines) if re.match(r"j\w+\s+\.LBB", line)]
    rows = [lines[k : end + 1] for k, end in jumps if k < end]
    products_of_rows = [body for body in rows if any("fmadd" in line for line in body)]
    assert products_of_rows and not re.search(r"\bi?div", "\n".join(min(products_of_rows, key=len)))
    if not dynamic:
        assert not any(re.match(r"i?div", line) for body in products_of_rows for line in body)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (0, 3, 2), (4, 0, 3), (7, 13, 33), (2, 1, 5), (1, 9, 0)])
def test_any_chunk_of_a_fused_loop_has_all_its_iterations(shape):
    rng = np.random.default_rng(0)
    b, n, m = shape
    a, u = rng.random((b, n, m), dtype=np.float32), rng.random((b, m), dtype=np.float32)
    for dynamic in (False, True):
        s = products.schedule()
        s["out"].fuse("y", "x").parallel("yx", grain=2, dynamic=dynamic).vectorize("r")
        found = products.compile(rd.Target("llvm", threads=2), schedule=s)(a, u)
        np.testing.assert_allclose(found, np.einsum("bnm,bm->bn", a, u), rtol=1e-5)
