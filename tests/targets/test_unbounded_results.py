"""Results whose size has no bound before the program runs: allocated by the program, and owned by its caller afterwards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import raido as rd
from raido.targets.export import load
from raido.targets.native import runtime_library

MAIN = r"""
#include "expand.h"
#include <stdio.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { printf("failed: %s, line %d: %s\n", #x, __LINE__, expand_message()); return 1; } } while (0)
int main(void) {
  double a[3] = {1, 2, 3}, *out = a, total;
  int64_t counts[3] = {2, 0, 3}, n = -1;
  MUST(expand(a, counts, 3, &out, &total, &n) == EXPAND_OK);
  MUST(n == 5 && total == 11 && out != a && out[0] == 1 && out[1] == 1 && out[2] == 3 && out[4] == 3);
  expand_free(out);
  counts[1] = -1;
  MUST(expand(a, counts, 3, &out, &total, &n) == EXPAND_FAULT && !out);
  MUST(strstr(expand_message(), "a count of repeat must not be negative") || strstr(expand_message(), "-1"));
  MUST(expand(a, counts, 3, 0, &total, &n) == EXPAND_NULL_POINTER && !strcmp(expand_message(), "expand: result_0 is NULL"));
  MUST(expand(0, 0, 0, &out, &total, &n) == EXPAND_OK && n == 0);
  expand_free(out);
  expand_free(0);
  puts("ok");
  return 0;
}
"""


@rd.algorithm
def expand(a: rd.f64["n"], counts: rd.i64["n"]):
    long = rd.repeat(a, counts)
    return long, rd.sum(long)


def test_the_caller_owns_them() -> None:
    exe = expand.compile()
    a = np.arange(1000.0)
    counts = np.full(1000, 1000)
    before = runtime_library().rd_cached_bytes()
    kept = [exe(a, counts)[0] for _ in range(3)]
    for result in kept:
        np.testing.assert_array_equal(result, np.repeat(a, counts))
    addresses = {result.__array_interface__["data"][0] for result in kept}
    assert len(addresses) == 3
    kept.clear()
    del result
    assert runtime_library().rd_cached_bytes() >= before
    assert "result[0]: f64" not in repr(exe) and "count_1" in repr(exe)


def test_runs_can_be_timed() -> None:
    exe = expand.compile()
    timing = exe.time(np.arange(5.0), np.arange(5), repeat=3)
    assert len(timing.runs) == 3


def test_an_array_for_them_cannot_be_given() -> None:
    total = np.empty(())
    with pytest.raises(rd.ArgumentError, match="size is known only after the run"):
        expand.compile()(np.arange(3.0), np.array([1, 1, 1]), out=(np.empty(3), total))
    long, given = expand.compile()(np.arange(3.0), np.array([1, 0, 2]), out=(None, total))
    assert long.tolist() == [0, 2, 2] and given is total and total == 4


def test_arrays_returned_twice_and_those_of_loops() -> None:
    @rd.algorithm
    def doubled(a: rd.i64["n"], k: rd.i64):
        x, y = rd.loop(k, lambda t, s: (rd.concat([s[0], s[1]]), s[1]), (a, a + 1))
        return x, x, x[1:], y, rd.iota(k)

    exe = doubled.compile()
    for k in range(4):
        x = np.arange(3)
        for _ in range(k):
            x = np.concatenate([x, np.arange(3) + 1])
        expected = (x, x, x[1:], np.arange(3) + 1, np.arange(k))
        results = exe(np.arange(3), np.int64(k))
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(got, want)
        assert not np.shares_memory(results[0], results[1])


def test_a_fault_leaves_nothing_behind() -> None:
    exe = expand.compile()
    for _ in range(3):
        with pytest.raises(rd.SizeMismatch, match="-1"):
            exe(np.arange(3.0), np.array([1, -1, 2]))


def test_from_c_and_loaded_back(tmp_path: Path) -> None:
    library = expand.compile().export(tmp_path / "libexpand.so")
    header = (tmp_path / "expand.h").read_text()
    assert "double** result_0" in header and "output, allocated here, float64[count_1]" in header
    assert "output: the number of elements of result_0\n" in header
    (tmp_path / "main.c").write_text(MAIN)
    build = [
        "gcc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "main.c",
        "./libexpand.so",
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "main",
    ]
    subprocess.run(build, cwd=tmp_path, check=True)
    run = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout == "ok\n"
    loaded = load(library)
    for counts in ([1, 2, 3], [0, 0, 0]):
        long, total = loaded(np.arange(3.0), np.array(counts))
        np.testing.assert_array_equal(long, np.repeat(np.arange(3.0), counts))
        assert total == long.sum()


def test_results_that_nothing_bounds_take_the_plan_of_ordinary_calls():
    """Also several of them, rows of known length, and sizes beside them; memory is freed with the arrays, and where a run fails."""

    @rd.algorithm
    def several(a: rd.f64["n"], rows: rd.i32["n", 3], counts: rd.i64["n"]):
        long = rd.repeat(a, counts)
        return long, {"rows": rd.repeat(rows, counts, axis=0), "kept": rd.filter(lambda x: x > 0.5, a)}, rd.sum(long)

    compiled = several.compile()
    assert compiled._plan is not None
    random = np.random.default_rng(0)
    for n in (0, 1, 3, 500, 40_000):
        a, rows = random.random(n), random.integers(0, 99, (n, 3)).astype(np.int32)
        counts = random.integers(0, 9, n)
        for _ in range(3):
            long, others, total = compiled(a, rows, counts)
            np.testing.assert_array_equal(long, np.repeat(a, counts))
            np.testing.assert_array_equal(others["rows"], np.repeat(rows, counts, axis=0))
            np.testing.assert_array_equal(others["kept"], a[a > 0.5])
            assert np.isclose(total, long.sum())
        if n:
            counts[-1] = -1
            with pytest.raises(rd.SizeMismatch):
                compiled(a, rows, counts)


def test_a_result_whose_other_sizes_are_those_of_arguments_takes_the_complete_way():
    @rd.algorithm
    def spread(rows: rd.f32["n", "m"], counts: rd.i64["n"]):
        return rd.repeat(rows, counts, axis=0)

    assert spread.compile()._plan is None
    rows, counts = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, 0, 1, 3])
    np.testing.assert_array_equal(spread(rows, counts), np.repeat(rows, counts, axis=0))


@rd.algorithm
def repeated_by_sizes(x: rd.f32["n"], counts: rd.i64["k"], s: rd.size):
    return rd.repeat(x, counts[0] + 0 * s)


@pytest.mark.parametrize("size", [1 << 62, 1 << 63, -1])
def test_sizes_that_no_array_has_are_refused_where_the_program_allocates_the_result(size):
    run, x = repeated_by_sizes.compile(), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(x, np.array([2]), 1), np.repeat(x, 2))
    for _ in range(2):
        with pytest.raises((rd.SizeMismatch, rd.ArgumentError), match='"s"'):
            run(x, np.array([2]), size)
