"""Sizes are checked arithmetic: an overflow is one error that names the sizes and the user's line; in C, a code and a message."""

from __future__ import annotations

import ctypes
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd

BIG = 1 << 30
HUGE = 1 << 32


@rd.algorithm
def repeated(x: rd.f32["n"], counts: rd.i64["n"]):
    return rd.repeat(x, counts)


@rd.algorithm
def repeated_bytes(x: rd.u8["n"], counts: rd.i64["n"]):
    return rd.repeat(x, counts)


@rd.algorithm
def counted_iota(x: rd.i64["n"]):
    return rd.iota(x[0])


@rd.algorithm
def replicated(x: rd.i64["n"]):
    return rd.replicate(x[0], 1.0)


@rd.algorithm
def table(x: rd.i64["n"]):
    return rd.tabulate((x[0], x[1]), lambda i, j: i + j)


@rd.algorithm
def sorted_table(n: rd.size, m: rd.size):
    return rd.sum(rd.sort(rd.flatten(rd.tabulate((n, m), lambda i, j: i ^ j))))


@rd.algorithm
def scanned_table(n: rd.size, m: rd.size):
    return rd.scan(rd.add, 0, rd.flatten(rd.tabulate((n, m), lambda i, j: i ^ j)))[-1]


@rd.algorithm
def histogram(n: rd.size, m: rd.size):
    keys = rd.flatten(rd.tabulate((n, m), lambda i, j: (i ^ j) % 8))
    return rd.reduce_by_index(rd.replicate(8, rd.i64(0)), rd.add, 0, keys, rd.flatten(rd.replicate((n, m), 1)))


@rd.algorithm
def element(n: rd.size, m: rd.size, i: rd.i64):
    return rd.reshape(rd.iota(n * m), (n, m))[i, i]


@rd.algorithm
def wide_border(x: rd.f32["n"], n2: rd.size):
    return rd.concat([x, rd.replicate(n2 * n2, rd.f32(0)), rd.replicate(n2 * n2 * n2, rd.f32(1))])


@rd.algorithm
def doubled(x: rd.u8["n", "m"], times: rd.i64):
    return rd.loop(times, lambda i, state: rd.concat([state, state]), x)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@rd.algorithm
def number(t: rd.size):
    return rd.iota(t * 2**20).shape[0]


@rd.algorithm
def number_among_others(x: rd.i64["n"], t: rd.size):
    return x[0] + rd.iota(t * 2**20).shape[0] * 3


@rd.algorithm
def number_of_data(x: rd.i64["n"]):
    return rd.concat([rd.iota(x[0])] * 9).shape[0]


@rd.algorithm
def cube(t: rd.size):
    return rd.iota(t**3).shape[0]


FOUR = np.arange(4, dtype=np.float32)
CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "a count of repeat": (repeated, (FOUR, i64(1 << 61, 0, 0, 1)), f"a size of {1 << 61} makes"),
    "counts that wrap to none": (repeated_bytes, (FOUR.astype("u1"), i64(*[1 << 62] * 4)), f"a size of {1 << 62}"),
    "a sum of counts": (repeated_bytes, (np.zeros(16, "u1"), i64(*[1 << 60] * 16)), "counts that add up to"),
    "rd.iota": (counted_iota, (i64((1 << 61) + 1),), f"a size of {(1 << 61) + 1}"),
    "rd.replicate": (replicated, (i64((1 << 61) + 1),), f"a size of {(1 << 61) + 1}"),
    "rd.tabulate": (table, (i64(HUGE, HUGE),), f"sizes of {HUGE} and {HUGE} make"),
    "rd.tabulate, of a product of 2**65": (table, (i64(HUGE, 2 * HUGE),), f"sizes of {HUGE} and {2 * HUGE} make"),
    "a sort": (sorted_table, (BIG, BIG), f"sizes of {BIG} and {BIG} make"),
    "a sort of a product of 2**64": (sorted_table, (HUGE, HUGE), f"sizes of {HUGE} and {HUGE} make"),
    "a scan": (scanned_table, (BIG, BIG), f"sizes of {BIG} and {BIG} make"),
    "reduce_by_index": (histogram, (BIG, BIG), f"sizes of {BIG} and {BIG} make"),
    "an array that is never made": (element, (1 << 40, 1 << 40, 3), f"sizes of {1 << 40} and {1 << 40} make"),
    "sums of products": (wide_border, (FOUR, 1 << 31), "makes? an array larger than any can be"),
    "an array that doubles": (doubled, (np.zeros((1, 0), "u1"), 62), f"a size of {1 << 60} makes"),
    "a number": (number, (1 << 60,), f"a size of {1 << 60} makes"),
    "a number among others": (number_among_others, (i64(1), 1 << 59), f"a size of {1 << 59} makes"),
    "a cube": (cube, (1 << 22,), f"a size of {1 << 22} makes"),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_overflow_are_one_error_that_names_them_and_the_line(name: str) -> None:
    algorithm, arguments, words = CASES[name]
    lines, start = inspect.getsourcelines(algorithm.function)
    for run in (algorithm, algorithm.interpret):
        with pytest.raises(rd.SizeMismatch, match=words) as caught:
            run(*arguments)
        line = str(caught.value).split("algorithm ", 1)[1].split("   ")[0].strip()
        file, _, number = line.rpartition(":")
        assert file == __file__ and start <= int(number) < start + len(lines), str(caught.value)


def test_arrays_below_the_limit_that_there_is_no_memory_for_are_memory_errors() -> None:
    for algorithm, arguments in (
        (repeated_bytes, (FOUR.astype("u1"), i64(*[1 << 57] * 4))),
        (counted_iota, (i64(1 << 57),)),
        (replicated, (i64(1 << 50),)),
        (table, (i64(1 << 25, 1 << 25),)),
        (sorted_table, (1 << 25, 1 << 25)),
    ):
        with pytest.raises(MemoryError, match=r"(?s)cannot allocate [\d,]+ bytes.*algorithm .*test_size_limits.py"):
            algorithm(*arguments)
        with pytest.raises(MemoryError, match=r"(?s)Unable to allocate.*algorithm .*test_size_limits.py"):
            algorithm.interpret(*arguments)


def test_the_same_programs_compute_what_fits() -> None:
    assert repeated(FOUR, i64(0, 2, 0, 1)).tolist() == [1, 1, 3]
    assert table(i64(2, 3)).tolist() == [[0, 1, 2], [1, 2, 3]]
    assert table(i64(1 << 59, 0)).shape == (1 << 59, 0)
    for algorithm, arguments in ((sorted_table, (30, 7)), (scanned_table, (5, 7)), (element, (1 << 10, 1 << 10, 999))):
        assert algorithm(*arguments) == algorithm.interpret(*arguments)
    assert histogram(5, 7).tolist() == histogram.interpret(5, 7).tolist()
    assert doubled(np.zeros((1, 0), "u1"), 60).shape == (1 << 60, 0)
    assert doubled(np.ones((3, 1), "u1"), 3).tolist() == [[1]] * 24


def test_numbers_made_of_sizes_are_computed_where_they_fit() -> None:
    for run in (lambda f, *a: f(*a), lambda f, *a: f.interpret(*a)):
        assert (run(number, 5), run(cube, 3)) == (5 << 20, 27)
        assert run(number_among_others, i64(1), 5) == 1 + (15 << 20)
        assert run(number_of_data, i64(5)) == 45
        with pytest.raises(rd.SizeMismatch, match=f"a size of {1 << 60} makes"):
            run(number_of_data, i64(1 << 60))


def test_a_size_of_an_empty_array_is_an_array_s(tmp_path: Path) -> None:
    @rd.algorithm
    def total(x: rd.u8["n", "m"]):
        return rd.sum(x)

    for shape in ((1 << 62, 0), ((1 << 63) - 1, 0), (0, 1 << 62)):
        with pytest.raises(rd.SizeMismatch, match=f"a size of {max(shape)} makes"):
            total(np.empty(shape, np.uint8))


def test_literals_larger_than_any_array_are_refused_while_tracing() -> None:
    for make in (
        lambda x: rd.iota(1 << 61),
        lambda x: rd.iota(1 << 64),
        lambda x: rd.pad(x, 1 << 64),
        lambda x: rd.iota(x.shape[0] * (1 << 62) * 4),
    ):
        with pytest.raises(rd.ShapeError, match="larger than any array can be"):
            rd.algorithm(make).trace(rd.f32["n"])
    ends = rd.algorithm(lambda x: (x[: 1 << 64], x[-(1 << 70) :], x[1 << 64 :], x[:: 1 << 64]))
    assert [part.tolist() for part in ends(FOUR)] == [[0, 1, 2, 3], [0, 1, 2, 3], [], [0]]


def test_exported_functions_return_codes(tmp_path: Path) -> None:
    codes = {"BAD_SIZE": 2, "NO_MEMORY": 5}
    size, pointer = ctypes.c_int64, lambda array: array.ctypes.data_as(ctypes.c_void_p)
    out, count = ctypes.c_void_p(), size()

    def load(algorithm: Any) -> Any:
        path = algorithm.compile().export(tmp_path / f"lib{algorithm.name}.so")
        library = ctypes.CDLL(str(path))
        message = getattr(library, f"{algorithm.name}_message")
        message.restype = ctypes.c_char_p
        return getattr(library, algorithm.name), message

    function, message = load(number)
    result = size(-7)
    assert function(size(1 << 60), ctypes.byref(result)) == codes["BAD_SIZE"] and b"t * 2**20" in message()
    assert function(size(3), ctypes.byref(result)) == 0 and result.value == 3 << 20
    wrong = 0
    for algorithm, before, cases in (
        (sorted_table, (), (((BIG, BIG), "BAD_SIZE"), ((HUGE, HUGE), "BAD_SIZE"), ((1 << 61, 0), "BAD_SIZE"))),
        (sorted_table, (), (((1 << 28, 1 << 14), "NO_MEMORY"), ((1 << 59, 1), "NO_MEMORY"))),
    ):
        function, message = load(algorithm)
        for sizes, code in cases:
            result = size(-7)
            assert function(*before, *map(size, sizes), ctypes.byref(result)) == codes[code]
            assert "sizes" in message().decode() or "size n" in message().decode() or code == "NO_MEMORY"
            assert result.value == -7
            wrong += 1
    function, message = load(repeated)
    for counts, code in (((1 << 61, 0, 0, 1), "BAD_SIZE"), ((1 << 57, 0, 0, 1), "NO_MEMORY")):
        given = i64(*counts)
        assert function(pointer(FOUR), pointer(given), size(4), ctypes.byref(out), ctypes.byref(count)) == codes[code]
        assert not out.value and b"repeat(x, counts)" in message()
        wrong += 1
    assert wrong == 7
