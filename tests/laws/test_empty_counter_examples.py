"""Programs of empty arrays that once gave wrong results, as small as they could be made; each says what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from counter_examples import agrees
from law import CPUS

import raido as rd

INDICES: dict[str, Callable[[Any, Any], Any]] = {
    "index by an array": lambda x, i: x[i],
    "index in a function": lambda x, i: rd.map(lambda j: x[j], i),
    "index in a stage": lambda x, i: rd.map(lambda j: x[j], i).named("indexed"),
    "division": lambda x, i: rd.map(lambda j: rd.f32(7 // j), i),
    "power": lambda x, i: rd.map(lambda j: rd.f32(2 ** (j - 1)), i),
    "size": lambda x, i: rd.map(lambda j: rd.sum(rd.iota(j - 1)).astype(rd.f32), i),
}


@pytest.mark.parametrize("what", INDICES)
@pytest.mark.parametrize("n", [0, 2])
def test_what_an_empty_part_would_have_computed_does_not_fail(what: str, n: int) -> None:
    @rd.algorithm
    def joined(b: rd.f32["k"], x: rd.f32["m"], i: rd.i64["n"]):
        part = INDICES[what](x, i)
        return rd.concat([b, part]), rd.pad(part, (1, 2), mode="constant"), rd.shift(part, 1)

    agrees(joined, np.ones(3, np.float32), np.ones(n, np.float32), np.ones(n, np.int64), cpus=CPUS[1:2])


@pytest.mark.parametrize("shape", [(19, 0), (0, 0), (0, 3), (2, 3)])
def test_an_empty_row_that_is_joined_is_not_looked_for(shape: tuple[int, int]) -> None:
    @rd.algorithm
    def joined(b: rd.f32["k"], a: rd.f32["n", "m"]):
        return rd.concat([b, a[0, :1]]), rd.pad(a[0, :1], (1, 1), mode="constant"), rd.shift(a[0, 1:], 1)

    agrees(joined, np.ones(3, np.float32), np.ones(shape, np.float32), cpus=CPUS[1:2])


@rd.algorithm
def padded(a: rd.i32["n", "m"]):
    doubled = rd.elementwise(lambda x: x * 2, a, name="doubled")
    return rd.pad(doubled, (2, 1), mode="constant").named("padded")


EMPTY = [(0, 0), (0, 3), (3, 0), (2, 3)]


@pytest.mark.parametrize("shape", EMPTY)
def test_a_pad_reads_nothing_of_an_empty_array(shape: tuple[int, int]) -> None:
    """An index brought into an empty array is no index: the read wants a predicate."""
    agrees(padded, np.ones(shape, np.int32))


@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("loop", ["y", "x"])
def test_no_part_of_an_empty_array_is_computed(shape: tuple[int, int], loop: str) -> None:
    """The part that an iteration needs, brought into the array, is one element where there is none."""
    agrees(padded, np.ones(shape, np.int32), said=lambda s: s["doubled"].compute_at("padded", loop))


@pytest.mark.parametrize("shape", EMPTY)
def test_no_part_of_an_empty_array_is_copied(shape: tuple[int, int]) -> None:
    agrees(padded, np.ones(shape, np.int32), said=lambda s: s["padded"].fuse("y", "x").cache("doubled", "padded", "yx"))


@pytest.mark.parametrize(("n", "m"), EMPTY)
def test_a_concatenation_reads_nothing_of_an_empty_part(n: int, m: int) -> None:
    @rd.algorithm
    def joined(a: rd.f32["n"], b: rd.f32["m"]):
        return rd.concat([a, b, a]) * 2.0

    agrees(joined, np.ones(n, np.float32), np.ones(m, np.float32))


def test_a_guarded_read_leaves_no_loop_that_may_not_run() -> None:
    """A predicate vouches for the indices that it tests: the others must be in range where the read is moved to."""

    @rd.algorithm
    def chosen(a: rd.i32["n", "m"], k: rd.i64):
        return rd.tabulate((a.shape[0], 2), lambda i, j: a[0, rd.minimum(k, 1)] + j)

    agrees(chosen, np.ones((0, 2), np.int32), np.int64(1))


@pytest.mark.parametrize("shape", EMPTY)
def test_moves_of_indices_divide_by_no_empty_dimension(shape: tuple[int, int]) -> None:
    """Flattening divides an index by the rows' length; that is no division of the user's, which faults."""

    @rd.algorithm
    def joined(a: rd.f32["n", "m"], b: rd.f32["k"]):
        return rd.concat([rd.flatten(a), b]), rd.pad(rd.flatten(a), (2, 1), mode="constant")

    agrees(joined, np.ones(shape, np.float32), np.ones(2, np.float32))


def test_a_division_by_an_empty_dimension_faults() -> None:
    @rd.algorithm
    def divided(a: rd.i64["n"], b: rd.f32["m"]):
        return a // b.shape[0]

    agrees(divided, np.ones(3, np.int64), np.ones(0, np.float32))


def test_rules_divide_by_no_empty_dimension() -> None:
    """Chunks of loops are work over the operations of a row: there is at least one row, as far as defaults are concerned."""

    @rd.algorithm
    def emptied(x: rd.f32["n", "m", 5]):
        return x[0:0] + 1, rd.sum(x[0:0] + 1, axis=0), x[:, 0:0] * 2, rd.sum(x[:, :, 0:0], axis=1)

    agrees(emptied, np.ones((3, 4, 5), np.float32))


def test_an_empty_state_is_no_registers() -> None:
    """A loop in a function keeps a few elements as scalars; of an array without elements there is none."""

    @rd.algorithm
    def emptied(a: rd.i64["n"]):
        return rd.map(lambda v: v + rd.sum(rd.loop(2, lambda i, s: s + v, a[0:0])), a)

    agrees(emptied, np.arange(3), cpus=CPUS[1:2])


def test_memory_for_an_empty_result_is_taken() -> None:
    """NumPy gives what it makes of empty arrays strides of 0, which are no overlap."""

    @rd.algorithm
    def doubled(a: rd.f32["n", 3]):
        return a * 2.0

    memory = np.where(np.zeros((0, 3), bool), np.float32(1), np.float32(2))
    assert memory.strides == (0, 0) and doubled.compile()(np.ones((0, 3), np.float32), out=memory) is memory
