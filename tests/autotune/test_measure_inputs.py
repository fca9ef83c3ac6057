"""The inputs of candidates, the comparison of their results, and programs sent to other processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import raido as rd
from raido.autotune.measure.agreement import bounds_of, difference
from raido.autotune.measure.inputs import given_inputs, made_inputs, made_up_inputs
from raido.autotune.measure.programs import pack_program, unpack_program
from raido.schedule.fingerprint import fingerprint
from raido.targets.compile import Compilation
from raido.targets.target import Target

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from real import finance, graphs, grids, sequences, spaces  # noqa: F401
from real.registry import PROGRAMS


@pytest.mark.parametrize("name", [program.name for program in PROGRAMS])
def test_programs_travel_as_data(name: str) -> None:
    real = next(program for program in PROGRAMS if program.name == name)
    program = real.algorithm.trace(*real.arguments[0])
    data, blobs = pack_program(program)
    arrived = unpack_program(json.loads(json.dumps(data)), blobs)
    assert fingerprint(arrived) == fingerprint(program)
    assert {str(site) for site in arrived.sites.values()} == {str(site) for site in program.sites.values()}


Point = rd.record(x=rd.f32, y=rd.f32)


def inputs_of(algorithm: rd.Algorithm, sizes: dict[str, int], **ranges: object) -> list[np.ndarray]:
    program = algorithm.trace()
    signature = Compilation(program, Target(), None, {}).signature
    return made_inputs(made_up_inputs(program, signature, sizes, ranges, seed=3).specs, (), ())  # type: ignore[arg-type]


@rd.algorithm
def gathered(table: rd.f32["m"], at: rd.i32["n"], where: rd.i64["k"], offsets: rd.i64["s + 1"], flags: rd.bool_["n"]):
    counts = rd.bincount(where, 7)
    sums = rd.segmented_reduce(rd.add, 0, rd.map(lambda i: table[i], at), offsets)
    return sums, counts, rd.any(flags)


def test_integers_stay_inside_what_they_index() -> None:
    sizes = {"m": 13, "n": 400, "k": 300, "s": 9}
    table, at, where, offsets, flags = inputs_of(gathered, sizes)
    assert table.min() >= 0 and table.max() < 1 and table.dtype == np.float32
    assert at.min() == 0 and at.max() == 12
    assert where.min() == 0 and where.max() == 6
    assert offsets[0] == 0 and offsets[-1] == 400 and (np.diff(offsets) >= 0).all() and offsets.shape == (10,)
    assert flags.any() and not flags.all()
    gathered(table, at, where, offsets, flags)


def test_inputs_are_the_same_for_a_seed_and_as_ranges_say() -> None:
    sizes = {"m": 13, "n": 400, "k": 300, "s": 9}
    said = inputs_of(gathered, sizes, table=(-2, 2), where=(2, "s - 4"), offsets=("offsets", "n - 100"))
    assert -2 <= said[0].min() < -1 and 1 < said[0].max() < 2
    assert set(said[2]) == {2, 3, 4}
    assert said[3][-1] == 300
    again = inputs_of(gathered, sizes, table=(-2, 2), where=(2, "s - 4"), offsets=("offsets", "n - 100"))
    assert all((a == b).all() for a, b in zip(said, again, strict=True))


@pytest.mark.parametrize(
    ("sizes", "ranges", "message"),
    [
        ({"n": 3}, {}, "needs the size 'm'"),
        ({"n": 3, "m": 3, "k": 3, "s": 3, "x": 3}, {}, "has no size 'x'"),
        ({"n": -1, "m": 3, "k": 3, "s": 3}, {}, "the size n is a whole number, not -1"),
        ({"n": 3, "m": 3, "k": 3, "s": 3}, {"here": (0, 1)}, "has no array 'here'"),
        ({"n": 3, "m": 3, "k": 3, "s": 3}, {"at": 7}, "the range of at is 7"),
        ({"n": 3, "m": 3, "k": 3, "s": 3}, {"at": (0, "q")}, "'q' is neither a number nor a size"),
        ({"n": 3, "m": 3, "k": 3, "s": 3}, {"at": (5, 5)}, "the range of at, int32, is from 5 below 5"),
    ],
)
def test_what_is_missing_or_wrong_is_said(sizes: dict[str, int], ranges: dict[str, object], message: str) -> None:
    with pytest.raises(rd.ArgumentError, match=message):
        inputs_of(gathered, sizes, **ranges)


def test_arrays_of_the_user_are_taken_as_a_call_takes_them() -> None:
    @rd.algorithm
    def norms(points: Point["n"], z: rd.complex64["n"], m: rd.size):
        return points.x + points.y, rd.abs(z), rd.iota(m)

    signature = Compilation(norms.trace(), Target(), None, {}).signature
    x, y = np.ones(4, np.float32), np.full(8, 2, np.float32)[::2]
    given = given_inputs(signature, ({"x": x, "y": y}, np.full(4, 1j, np.complex64), 5))
    arrays = made_inputs(given.specs, [bytearray(blob) for blob in given.blobs], given.places)
    assert given.sizes == {"n": 4, "m": 5}
    assert (arrays[0] == x).all() and (arrays[1] == 2).all() and (arrays[2] == 1j).all()


def test_copies_lie_as_far_behind_the_begin_of_a_page_as_the_arrays_of_the_user() -> None:
    @rd.algorithm
    def doubled(x: rd.f32["n"]):
        return x * 2

    signature = Compilation(doubled.trace(), Target(), None, {}).signature
    memory = np.arange(5000, dtype=np.float32)
    for first in (0, 3, 16, 1001):
        given = given_inputs(signature, (memory[first:],))
        (copy,) = made_inputs(given.specs, [bytearray(blob) for blob in given.blobs], given.places)
        assert copy.ctypes.data % 4096 == memory[first:].ctypes.data % 4096
        assert (copy == memory[first:]).all()


def test_only_what_folds_of_floats_bear_on_may_differ() -> None:
    @rd.algorithm
    def several(a: rd.f32["n"], i: rd.i32["n"]):
        return a * 2, rd.sum(a), rd.max(a), rd.argmax(a), rd.sum(i), rd.scan(rd.add, 0, a), rd.sum(a) > 1

    bounds = bounds_of(several.trace(), {"n": 1 << 20})
    assert [bound > 0 for bound in bounds] == [False, True, False, False, False, True, True]
    assert bounds[1] == pytest.approx(4 * 2**-23 * (16 + 1024))
    assert bounds_of(several.trace(), {"n": 1 << 20}, tolerance=0.25)[1] == 0.25


def test_what_differs_is_found_and_what_may_differ_is_not() -> None:
    want = np.linspace(-1, 1, 2_500_000, dtype=np.float32)
    want[7] = np.nan
    assert difference(want.copy(), want, 0.0) == ""
    got = want * np.float32(1 + 1e-5)
    assert "differ" in difference(got, want, 0.0) and difference(got, want, 1e-4) == ""
    got[2_000_001] += 0.1
    assert difference(got, want, 1e-4).startswith("1 of 2500000 elements differ, first at [2000001]")
    assert difference(want[1:], want, 1.0) == "float32[2499999] instead of float32[2500000]"
    labels = np.zeros(10_000, np.int64)
    other = labels.copy()
    other[:10] = 1
    assert difference(other, labels, 1e-6) == "" and "10 of" in difference(other, labels, 0.0)
    other[:11] = 1
    assert "11 of 10000" in difference(other, labels, 1e-6)
