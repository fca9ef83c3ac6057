"""Operators that mix the elements of a row, in bins and in segments: small rows as scalars, larger ones in order."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import agree

import raido as rd

rng = np.random.default_rng(3)
INDEX = np.array([0, 1, 1, 5, 0, -1])
OFFSETS = np.array([0, 2, 2, 5])


def both_ways(program: Any, want: Any, *arguments: Any) -> None:
    agree(program.interpret(*arguments), want)
    agree(program(*arguments), want)


def longer(a, b):
    return rd.where(rd.sum(a * a) >= rd.sum(b * b), a, b)


def longest(dest: np.ndarray, places: list[tuple[int, ...]], rows: np.ndarray) -> np.ndarray:
    out = dest.copy()
    for place, row in zip(places, rows, strict=True):
        inside = all(0 <= p < n for p, n in zip(place, dest.shape, strict=False))
        if inside and (row * row).sum() > (out[place] * out[place]).sum():
            out[place] = row
    return out


@pytest.mark.parametrize("shape", [(3,), (2, 2), (20,), (5, 5)])
def test_the_longest_row_of_each_bin(shape: tuple[int, ...]) -> None:
    row = ", ".join(map(str, shape))
    program = rd.algorithm(d=f"f64[b, {row}]", v=f"f64[n, {row}]")(
        lambda d, i, v: rd.reduce_by_index(d, longer, 0.0, i, v)
    )
    for bins in (0, 2):
        dest, rows = np.full((bins, *shape), 0.3), rng.random((6, *shape))
        both_ways(program, longest(dest, [(i,) for i in INDEX], rows), dest, INDEX, rows)


@pytest.mark.parametrize("length", [3, 20])
def test_bins_of_two_dimensions(length: int) -> None:
    program = rd.algorithm(d=f"f64[b, c, {length}]")(lambda d, i, j, v: rd.reduce_by_index(d, longer, 0.0, (i, j), v))
    dest, rows, i, j = (
        np.zeros((2, 2, length)),
        rng.random((2, 3, length)),
        INDEX.reshape(2, 3),
        np.abs(INDEX).reshape(2, 3) % 2,
    )
    want = longest(dest, list(zip(i.ravel(), j.ravel(), strict=True)), rows.reshape(6, length))
    both_ways(program, want, dest, i, j, rows)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_products_of_matrices_by_segments(size: int) -> None:
    m = rng.random((6, size, size))
    eye = np.eye(size)
    products = [np.linalg.multi_dot([eye, eye, *m[a:b]]) for a, b in itertools.pairwise(OFFSETS)]
    prefixes = m.copy()
    for k in (1, 3, 4):
        prefixes[k] = prefixes[k - 1] @ m[k]
    prefixes[5] = eye  # in no segment
    multiply = lambda a, b: a @ b
    types = {"m": f"f64[n, {size}, {size}]"}
    reduced = rd.algorithm(**types)(lambda m, o: rd.segmented_reduce(multiply, rd.array(eye), m, o))
    scanned = rd.algorithm(**types)(lambda m, o: rd.segmented_scan(multiply, rd.array(eye), m, o))
    both_ways(reduced, np.array(products), m, OFFSETS)
    both_ways(scanned, prefixes, m, OFFSETS)


@pytest.mark.parametrize("size", [2, 5])
def test_a_histogram_of_rows_in_every_row(size: int) -> None:
    dest, rows = np.zeros((2, size, size)), rng.random((3, 6, size, size))
    types = {"d": f"f64[b, {size}, {size}]", "v": f"f64[n, k, {size}, {size}]"}
    program = rd.algorithm(**types)(lambda d, i, v: rd.map(lambda r: rd.reduce_by_index(d, longer, 0.0, i, r), v))
    want = np.array([longest(dest, [(i,) for i in INDEX], r) for r in rows])
    both_ways(program, want, dest, INDEX, rows)


@pytest.mark.parametrize("size", [3, 5])
def test_wrong_offsets_fault(size: int) -> None:
    m = rng.random((6, size, size))
    program = rd.algorithm(m=f"f64[n, {size}, {size}]")(lambda m, o: rd.segmented_reduce(lambda a, b: a @ b, 0.0, m, o))
    for run in (program.interpret, program):
        with pytest.raises(rd.IndexOutOfRange, match="offsets 4, 2 must not decrease"):
            run(m, np.array([0, 4, 2]))
