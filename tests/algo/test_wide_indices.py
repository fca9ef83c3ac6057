"""Indices, sizes and counts at the limits of every integer dtype keep their value, u64 of 2**63 and more included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd

N = 7
A = np.arange(10, 10 + N)
LIMITS = {
    "uint64": [0, 6, 7, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 3, 2**64 - 6, 2**64 - 1],
    "int64": [0, 6, 7, -1, -8, 2**32, -(2**31), 2**63 - 1, -(2**63) + 1, -(2**63)],
    "uint32": [0, 6, 7, 2**31, 2**31 + 5, 2**32 - 1],
    "int32": [0, 6, -1, 2**31 - 1, -(2**31)],
    "uint16": [0, 2**15, 2**16 - 1],
    "uint8": [0, 6, 128, 255],
    "int8": [0, 6, 127, -128],
}
WIDE = [2**63, 2**63 + 3, 2**64 - 6, 2**64 - 1]


def mirrored(e: int) -> int:
    return min(e % (2 * N - 2), 2 * N - 2 - e % (2 * N - 2))


def symmetric(e: int) -> int:
    return min(e % (2 * N), 2 * N - 1 - e % (2 * N))


MODES: dict[str, Callable[[int], int]] = {
    "clamp": lambda e: min(max(e, 0), N - 1),
    "wrap": lambda e: e % N,
    "mirror": mirrored,
    "symmetric": symmetric,
}


def inside(e: int) -> bool:
    return 0 <= e < N


def hold(program: Any, expected: Any, *arguments: Any) -> None:
    """Interpreted and compiled, a program gives the value, or raises what a pair of an error and words says."""
    algorithm = program if isinstance(program, rd.Algorithm) else rd.algorithm(program)
    for run in (algorithm.interpret, algorithm):
        if isinstance(expected, tuple):
            with pytest.raises(expected[0], match=expected[1]):
                run(*arguments)
        else:
            np.testing.assert_array_equal(run(*arguments), expected)


@pytest.mark.parametrize("dtype", LIMITS)
def test_boundaries_bring_in_the_number_itself(dtype: str) -> None:
    index = np.array(LIMITS[dtype], dtype)
    modes = {mode: [A[bring(e)] for e in LIMITS[dtype]] for mode, bring in MODES.items()}
    program = rd.algorithm(lambda a, i: tuple(rd.gather(a, i, mode=mode) for mode in modes))
    for run in (program.interpret, program):
        for mode, result in zip(modes, run(A, index), strict=True):
            np.testing.assert_array_equal(result, modes[mode], mode)
    constant = [A[e] if inside(e) else -5 for e in LIMITS[dtype]]
    hold(lambda a, i: rd.gather(a, i, mode=rd.constant(-5)), constant, A, index)


@pytest.mark.parametrize("dtype", LIMITS)
def test_updates_ignore_what_is_out_of_range(dtype: str) -> None:
    values = LIMITS[dtype]
    index = np.array(values, dtype)
    hold(lambda a, i: rd.scatter(a, i, 0), [0 if k in values else A[k] for k in range(N)], A, index)
    hold(lambda a, i: rd.reduce_by_index(a, rd.add, 0, i, 1), [A[k] + values.count(k) for k in range(N)], A, index)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], Any]]] = {
    "a[i]": (lambda a, i: a[i[0]], lambda e: A[e]),
    "a[idx]": (lambda a, i: a[i], lambda e: [A[e]]),
    "a[:, idx]": (lambda a, i: rd.stack([a, a])[:, i][1], lambda e: [A[e]]),
    "in a map": (lambda a, i: rd.map(lambda k: a[k] * 2, i), lambda e: [A[e] * 2]),
    "at[i].set": (lambda a, i: a.at[i[0]].set(0), lambda e: np.where(np.arange(N) == e, 0, A)),
    "at[idx].add": (lambda a, i: a.at[i].add(1), lambda e: A + (np.arange(N) == e)),
}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("case", PROGRAMS)
def test_checked_indices_are_named_as_they_are(case: str, dtype: str) -> None:
    program, reference = PROGRAMS[case]
    algorithm = rd.algorithm(program)
    for e in LIMITS[dtype]:
        message = (rd.IndexOutOfRange, f"index {e} is out of range for dimension [01] of size {N}")
        hold(algorithm, reference(e) if inside(e) else message, A, np.array([e], dtype))


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint8"])
def test_slices_between_traced_bounds(dtype: str) -> None:
    first, last = rd.algorithm(lambda a, i: a[i:]), rd.algorithm(lambda a, i: a[:i])
    for e in LIMITS[dtype]:
        scalar = np.dtype(dtype).type(e)
        lower = A[e:] if 0 <= e <= N else (rd.IndexOutOfRange, f"slice {e}:{N} leaves a dimension")
        upper = A[:e] if 0 <= e <= N else (rd.IndexOutOfRange, f"slice 0:{e} leaves a dimension")
        hold(first, lower, A, scalar)
        hold(last, upper, A, scalar)


COUNTS: dict[str, Callable[..., Any]] = {
    "repeat": lambda n: rd.repeat(rd.iota(1), n).shape[0],
    "iota": lambda n: rd.iota(n[0]).shape[0],
    "replicate": lambda n: rd.replicate(n[0], 1).shape[0],
    "loop": lambda n: rd.loop(n[0], lambda i, s: s + 1, 0),
    "loop in a map": lambda n: rd.map(lambda k: rd.loop(k, lambda i, s: s + 1, 0), n)[0],
}


@pytest.mark.parametrize("case", COUNTS)
def test_counts_of_2_to_the_63_and_more_are_refused(case: str) -> None:
    algorithm = rd.algorithm(COUNTS[case])
    hold(algorithm, 5, np.array([5], np.uint64))
    for e in WIDE:
        hold(algorithm, (rd.SizeMismatch, f"{e} is larger than any size"), np.array([e], np.uint64))


def test_offsets_of_2_to_the_63_and_more_are_refused() -> None:
    algorithm = rd.algorithm(lambda a, o: rd.segmented_reduce(rd.add, 0, a, o))
    hold(algorithm, [A[:3].sum()], A, np.array([0, 3], np.uint64))
    for e in WIDE:
        hold(algorithm, (rd.IndexOutOfRange, f"offset {e} is larger than any size"), A, np.array([0, e], np.uint64))


@pytest.mark.parametrize("dtype", LIMITS)
def test_moves_by_traced_offsets(dtype: str) -> None:
    roll, shift = rd.algorithm(lambda a, i: rd.roll(a, i)), rd.algorithm(lambda a, i: rd.shift(a, i, fill=-1))
    for e in LIMITS[dtype]:
        scalar = np.dtype(dtype).type(e)
        hold(roll, [A[(k - e) % N] for k in range(N)], A, scalar)
        hold(shift, [A[k - e] if inside(k - e) else -1 for k in range(N)], A, scalar)


@pytest.mark.parametrize("e", [2**63, 2**64, 2**64 + 2, -(2**63) - 1, 2**70])
def test_literals_beyond_64_bits(e: int) -> None:
    """2**64 is not 0."""
    hold(lambda a: a[e:], A[e:], A)
    hold(lambda a: a[:e], A[:e], A)
    hold(lambda a: a[e::-1], A[e::-1], A)
    for program in (lambda a: a[e], lambda a: a.at[e].set(0), lambda a: rd.roll(a, e)):
        with pytest.raises((rd.IndexOutOfRange, rd.ShapeError), match=str(e)):
            rd.algorithm(program).interpret(A)


def test_numpys_scalars_and_arrays_are_the_numbers_that_they_are() -> None:
    e = np.uint64(2**63 + 1)
    for mode, bring in MODES.items():
        hold(lambda a, *, mode=mode: rd.gather(a, e, mode=mode), A[bring(int(e))], A)
        hold(lambda a, *, mode=mode: rd.gather(a, np.array([e]), mode=mode), [A[bring(int(e))]], A)
    for key in (e, np.array([e])):
        with pytest.raises(rd.IndexOutOfRange, match=f"index {e} is out of range"):
            rd.algorithm(lambda a, *, key=key: a[key]).interpret(A)
