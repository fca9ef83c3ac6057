"""Compression of active lanes: one instruction, or a shuffle looked up by the mask, and nothing through memory."""

import numpy as np
import pytest
from emission import assembly_of, every_cpu
from test_emit_assembly import loops

import raido as rd

DTYPES = {"u8": "u1", "i16": "i2", "f32": "f4", "i64": "i8"}


def kept(dtype):
    @rd.algorithm(a=f"{dtype}[n]")
    def program(a):
        return rd.filter(lambda x: x > 3, a)

    return program


@every_cpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_kept_is_in_order(cpu, dtype):
    exe = kept(dtype).compile(rd.Target("llvm", cpu=cpu))
    for n in (0, 1, 7, 64, 1000, 70_000):
        a = np.random.default_rng(n).integers(0, 8, n).astype(DTYPES[dtype])
        np.testing.assert_array_equal(exe(a), a[a > 3])


@pytest.mark.parametrize("cpu, moves", [("x86-64-v2", "pshufb"), ("haswell", "vpermps")])
def test_the_shuffle_is_looked_up(cpu, moves):
    bodies = loops(assembly_of(kept("f32"), cpu))
    shuffling = [body for body in bodies if any(i.startswith((moves, "vpermd")) for i in body)]
    assert shuffling
    assert not any(
        "(%rsp)" in i and i.split()[0].startswith(("movss", "vmovss", "vextractps")) for i in min(shuffling, key=len)
    )


@pytest.mark.parametrize("cpu, moves", [("haswell", "vpshufb"), ("icelake-server", "vpcompressb")])
def test_bytes_are_compressed_together(cpu, moves):
    bodies = loops(assembly_of(kept("u8"), cpu))
    assert any(i.startswith(moves) for body in bodies for i in body)
