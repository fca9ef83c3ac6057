"""Look-ups in tables: small ones are permuted in registers, and all give what NumPy gives."""

import numpy as np
import pytest
from emission import assembly_of, every_cpu
from processors import lacking
from test_emit_assembly import loops

import raido as rd

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("cpu, width", [("haswell", 256), ("skylake-avx512", 512)])
@pytest.mark.parametrize("kind, index", [("f4", "i32"), ("i4", "i64"), ("f8", "i32")])
def test_tables_of_every_size(cpu, width, kind, index):
    if lacking(cpu):
        pytest.skip(lacking(cpu))
    lanes = width // 8 // np.dtype(kind).itemsize
    sizes = (1, lanes, lanes + 1, 3 * lanes + 1, 4 * lanes, 4 * lanes + 1)
    tables = [RANDOM.integers(-100, 100, size).astype(kind) for size in sizes]

    @rd.algorithm(places=f"{index}[{len(sizes)}, n]")
    def program(places):
        return tuple(rd.array(table)[places[k]] for k, table in enumerate(tables))

    exe = program.compile(rd.Target("llvm", cpu=cpu))
    places = np.stack([RANDOM.integers(0, size, 77) for size in sizes]).astype(f"i{int(index[1:]) // 8}")
    for got, table, where in zip(exe(places), tables, places, strict=True):
        np.testing.assert_array_equal(got, table[where])
    for k, size in enumerate(sizes):
        for wrong in (-1, size):
            bad = places.copy()
            bad[k, 40] = wrong
            with pytest.raises(rd.IndexOutOfRange, match=f"index {wrong} is out of range"):
                exe(bad)


@every_cpu
@pytest.mark.parametrize("kind", ["u8", "i16", "f32"])
def test_rows_of_known_length_that_are_given(cpu, kind):
    sizes, dtype = (1, 15, 33, 256, 512, 800), kind[0] + str(int(kind[1:]) // 8)
    tables = [RANDOM.integers(0, 100, (2, size)).astype(dtype) for size in sizes]

    @rd.algorithm(places="u8[n]", **{name: f"{kind}[2, {size}]" for name, size in zip("abcdef", sizes, strict=True)})
    def program(places, a, b, c, d, e, f):
        at = [rd.minimum(places.astype(rd.i32) * 3, size - 1) for size in sizes]
        return tuple(table[1, where] for table, where in zip((a, b, c, d, e, f), at, strict=True))

    exe = program.compile(rd.Target("llvm", cpu=cpu))
    for n in (5, 333):
        places = RANDOM.integers(0, 256, n).astype("u1")
        for got, table in zip(exe(places, *tables), tables, strict=True):
            np.testing.assert_array_equal(got, table[1][np.minimum(places.astype(int) * 3, table.shape[1] - 1)])


@pytest.mark.parametrize("cpu, permute, count", [("haswell", "vpshufb", 4), ("icelake-server", "vpermb", 1)])
def test_bytes_are_looked_up_in_registers(cpu, permute, count):
    @rd.algorithm
    def look_up(places: rd.u8["n"], table: rd.u8[64]):
        return table[places & 63]

    bodies = loops(assembly_of(look_up, cpu))
    whole = min((body for body in bodies if any(i.startswith(permute) for i in body)), key=len)
    assert sum(i.startswith(permute) for i in whole) % count == 0
    assert not any(i.startswith(("vpinsr", "vpextr", "vpgather")) for i in whole)


@every_cpu
def test_rows_that_masked_lanes_do_not_have_are_not_loaded(cpu):
    """The row of a gather with a constant for indices out of range was loaded whether or not there is one."""

    @rd.algorithm
    def rows(table: rd.u8["q", 16], places: rd.u8["n", "m"], k: rd.i64["n"]):
        where = (places & 15).astype(rd.i64)
        return rd.tabulate(places.shape, lambda y, x: rd.gather(table, (k[y], where[y, x]), mode=rd.constant(7)))

    exe = rows.compile(rd.Target("llvm", cpu=cpu))
    places, k = RANDOM.integers(0, 256, (3, 100)).astype("u1"), np.array([0, 10**14, 1])
    table = RANDOM.integers(0, 100, (2, 16)).astype("u1")
    expected = np.where(k[:, None] < 2, table[np.minimum(k, 1)[:, None], places & 15], 7)
    np.testing.assert_array_equal(exe(table, places, k), expected)
    assert (exe(table[:0], places, k) == 7).all()


def test_tables_of_two_dimensions():
    @rd.algorithm
    def look_up(i: rd.i32["n"], j: rd.i32["n"], table: rd.f32[2, 4, 4]):
        return table[1, i & 3, j & 3]

    assert "vperm" in (text := assembly_of(look_up, "skylake-avx512")) and "vgather" not in text
    i, j, table = (*RANDOM.integers(0, 99, (2, 70)).astype("i4"), RANDOM.random((2, 4, 4)).astype("f4"))
    np.testing.assert_array_equal(look_up.compile()(i, j, table), table[1, i & 3, j & 3])


@pytest.mark.parametrize("entries, permutes", [(16, 1), (64, 2)])
def test_small_tables_are_permuted(entries, permutes):
    @rd.algorithm
    def look_up(places: rd.i32["n"]):
        return rd.array(np.arange(entries, dtype="f4"))[places]

    bodies = loops(assembly_of(look_up, "skylake-avx512"))
    whole = min((body for body in bodies if any(i.startswith("vperm") for i in body)), key=len)
    assert sum(i.startswith("vperm") for i in whole) == permutes
    assert not any(i.startswith("vgather") for i in whole)
