"""Integers made of neighbours in memory, bits of comparisons or bytes, are read as they lie there."""

import numpy as np
import pytest
from emission import assembly_of

import raido as rd

rng = np.random.default_rng(6)


@rd.algorithm
def bits(x: rd.bool_["n"], y: rd.u8["n"]):
    return rd.packbits(x), rd.packbits(y > 100), rd.packbits(y, bitorder="little")


def word(parts, dtype=rd.u32):
    total = dtype(0)
    for k, part in enumerate(parts):
        total = total | part.astype(dtype) << (8 * k)
    return total


@rd.algorithm
def words(x: rd.u8["n"]):
    ascending = rd.tabulate((x.shape[0] // 4,), lambda i: word([x[4 * i + k] for k in range(4)]))
    descending = rd.tabulate((x.shape[0] // 4,), lambda i: word([x[4 * i + 3 - k] for k in range(4)]))
    return ascending, descending


@rd.algorithm
def others(x: rd.u8["n"], y: rd.u8["n"]):
    """Bytes of two arrays, with a gap, and one cut off."""
    a = word([x, y, x, x + y])
    b = x.astype(rd.u32) | y.astype(rd.u32) << 16
    c = (x.astype(rd.u16) << 12) | y.astype(rd.u16)
    d = word([x, y, y, x, x + y, x, y, x], rd.u64)
    return a, b, c, d


@pytest.mark.parametrize("hidden", [(), ("avx512f", "avx_vnni"), ("avx2", "avx512f")])
def test_integers_of_neighbours_are_numpys(hidden):
    target = rd.Target("llvm", hidden=hidden)
    of_bits, of_bytes, of_others = (f.compile(target) for f in (bits, words, others))
    for n in (0, 1, 7, 8, 100, 515, 4099):
        x, y = rng.integers(0, 2, n).astype(bool), rng.integers(0, 256, n).astype(np.uint8)
        for got, want in zip(of_bits(x, y), (x, y > 100, y), strict=True):
            np.testing.assert_array_equal(got, np.packbits(want, bitorder="little" if want is y else "big"))
        whole = y[: n // 4 * 4]
        for got, order in zip(of_bytes(y), "<>", strict=True):
            np.testing.assert_array_equal(got, whole.view(f"{order}u4"))
        z = rng.integers(0, 256, n).astype(np.uint8)
        a, b, c, d = of_others(y, z)
        np.testing.assert_array_equal(d, np.stack([y, z, z, y, y + z, y, z, y], 1).view("<u8")[:, 0])
        p, q, r = (v.astype(np.uint32) for v in (y, z, y + z))
        np.testing.assert_array_equal(a, p | q << 8 | p << 16 | r << 24)
        np.testing.assert_array_equal(b, p | q << 16)
        np.testing.assert_array_equal(c, (p << 12 | q).astype(np.uint16))


def test_bits_of_comparisons_are_a_mask():
    assert "kmovq" in (assembly := assembly_of(bits, "skylake-avx512", n=1 << 12)) and "gather" not in assembly


def test_bits_are_unpacked_in_lanes_along_bytes():
    text = rd.algorithm(lambda x: rd.unpackbits(x), x="u8[n]").compile().source("gang")
    assert "gather" not in text and " by 8" in text, text
