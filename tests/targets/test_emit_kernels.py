"""Kernels of nests as TIR: atomic updates of every dtype, checks, loops that data ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

from raido.algo.graph.dtypes import DTYPES, DType, bf16, bool_, f16, i64
from raido.algo.graph.expr import Op, SizeVar, const, fresh
from raido.algo.graph.index import add, as_index, mul
from raido.schedule.kernels.kernel import Kernel
from raido.schedule.nest.nodes import AtomicUpdate, Block, Check, If, Statement, Store, While
from raido.schedule.nest.values import Buffer, Read
from raido.targets.devices.runtime import LoadedKernel, Memory, OpenDevice
from raido.targets.faults import FAULT_CODES
from raido.targets.kernels.kernel import emit_kernel
from raido.targets.native import Fault
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.runtime import VulkanDevice
from raido.targets.vulkan.spirv.generate import generate_kernel

THREADS = 32
BLOCKS = (fresh("bx", i64), fresh("by", i64), fresh("bz", i64))
PLACES = (fresh("tx", i64), fresh("ty", i64), fresh("tz", i64))
N = SizeVar("n")
INDEX = add(mul(BLOCKS[0], THREADS), PLACES[0])


@pytest.fixture(scope="module")
def opened() -> Iterator[OpenDevice]:
    with VulkanDevice(validated_device(), validate=True) as device:
        yield device
    assert validation_messages() == (0, "")


def array(name: str, dtype: DType, size: Any = N) -> Buffer:
    return Buffer(name, dtype, (as_index(size),), "parameter", 0, (), 1, None)


def run(
    opened: OpenDevice, arrays: dict[Buffer, np.ndarray], body: Sequence[Statement], count: int, faults: bool = False
) -> Fault:
    """Runs statements for every index below `count`; what is left on the fault record."""
    inside = Op("lt", bool_, (INDEX, N))
    kernel = Kernel(
        "made", tuple(arrays), (N,), BLOCKS, PLACES, (THREADS, 1, 1), Block((If(inside, Block(tuple(body))),)), faults
    )
    loaded = LoadedKernel(opened, generate_kernel(emit_kernel(kernel, 1000), opened.device))  # type: ignore[arg-type]
    memories = []
    for given in arrays.values():
        memories.append(Memory(opened, -(-max(given.nbytes, 4) // 4) * 4))
        memories[-1].write(given)
    record = Memory(opened, 40)
    record.write(np.zeros(10, np.int32))
    loaded.launch((-(-count // THREADS), 1, 1), [*memories, count, *([record] if faults else [])])
    for given, memory in zip(arrays.values(), memories, strict=True):
        memory.read(given)
    return Fault.from_buffer_copy(record.read(np.zeros(10, np.int32)).tobytes())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_atomic_updates_lose_nothing(opened: OpenDevice, dtype: DType) -> None:
    """Neighbours share a word where elements are narrow; sums of small whole numbers are exact in every dtype."""
    name = "logical_xor" if dtype is bool_ else "add"
    bins, values = array("bins", dtype, 3), array("values", dtype)
    left, right = fresh("left", dtype), fresh("right", dtype)
    place = Op("mod", i64, (INDEX, const(i64, 3)))
    update = AtomicUpdate(
        bins, (place,), Read(values, (INDEX,), None), left, right, Op(name, dtype, (left, right)), name
    )
    given = (np.arange(75) % 2).astype(dtype.numpy)
    found = np.zeros(3, dtype.numpy)
    run(opened, {bins: found, values: given}, [update], 75)
    want = [int(given[k::3].astype(np.int64).sum()) for k in range(3)]
    assert found.astype(np.int64).tolist() == [w % 2 if dtype is bool_ else w for w in want]


@pytest.mark.parametrize("dtype", (f16, bf16), ids=str)
def test_narrow_floats_have_the_interpreters_bits(opened: OpenDevice, dtype: DType) -> None:
    from raido.algo.graph.primitives import evaluate

    x, y, out = (array(name, dtype) for name in ("x", "y", "out"))
    a, b = (Read(buffer, (INDEX,), None) for buffer in (x, y))
    random = np.random.default_rng(5)
    given = [(random.standard_normal(64) * 3).astype(dtype.numpy) for _ in range(2)]
    for name in ("add", "mul", "div", "minimum", "floordiv"):
        found = np.zeros(64, dtype.numpy)
        run(opened, {x: given[0], y: given[1], out: found}, [Store(out, (INDEX,), Op(name, dtype, (a, b)))], 64)
        assert found.tobytes() == np.asarray(evaluate(name, dtype, given)).tobytes(), name


def test_a_check_that_fails_claims_the_record(opened: OpenDevice) -> None:
    x = array("x", i64)
    value = Read(x, (INDEX,), None)
    body = [Check(Op("lt", bool_, (value, const(i64, 10))), "index", 3, (const(i64, 0), value, const(i64, -(1 << 40))))]
    given = np.arange(100) % 10
    assert run(opened, {x: given}, body, 100, faults=True).kind == 0
    given[37] = 1 << 35
    fault = run(opened, {x: given}, body, 100, faults=True)
    assert (fault.kind, fault.site, list(fault.values)) == (FAULT_CODES["index"], 3, [0, 1 << 35, -(1 << 40), 0])


@pytest.mark.parametrize("limit", [999, 1001])
def test_a_loop_that_goes_on_is_stopped_and_said(opened: OpenDevice, limit: int) -> None:
    x = array("x", i64)
    value = Read(x, (INDEX,), None)
    below = Op("lt", bool_, (value, const(i64, limit)))
    loop = While(Block(()), below, Block((Store(x, (INDEX,), add(value, 1)),)), site=7)
    given = np.zeros(3, np.int64)
    fault = run(opened, {x: given}, [loop], 3, faults=True)
    assert (fault.kind, fault.site) == ((0, 0) if limit == 999 else (FAULT_CODES["steps"], 7))
    assert given.tolist() == [min(limit, 1000)] * 3
