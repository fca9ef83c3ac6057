"""Memory access in kernels: buffers of the device, arrays of a block, arrays of a thread; loads, stores and atomic accesses.

A buffer is reached through its address (`PhysicalStorageBuffer`) or as a descriptor (`StorageBuffer`). Booleans are bytes in buffers and
booleans elsewhere. Consecutive elements behind an address move up to 16 bytes at a time: as in CUDA C, the first of them must then be
aligned to that size. Indices have any integer type, so arrays may be larger than 2³¹ bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, u8, u32
from raido.schedule.machine import WIDEST_ACCESS
from raido.targets.vulkan.spirv import grammar
from raido.targets.vulkan.spirv.body import Body, Lanes
from raido.targets.vulkan.spirv.grammar import Capability, Op, Storage
from raido.targets.vulkan.spirv.operations import convert

_ATOMIC = {
    "add": (Op.AtomicIAdd, Op.AtomicIAdd),
    "min": (Op.AtomicSMin, Op.AtomicUMin),
    "max": (Op.AtomicSMax, Op.AtomicUMax),
    "and": (Op.AtomicAnd, Op.AtomicAnd),
    "or": (Op.AtomicOr, Op.AtomicOr),
    "xor": (Op.AtomicXor, Op.AtomicXor),
    "exchange": (Op.AtomicExchange, Op.AtomicExchange),
}
_FLOAT_ADD = {32: Capability.AtomicFloat32AddEXT, 64: Capability.AtomicFloat64AddEXT}


@dataclass(frozen=True, slots=True)
class Array:
    """An array in memory: a pointer to it, and the dtype of its elements."""

    storage: Storage
    base: int
    dtype: DType

    @property
    def in_buffer(self) -> bool:
        return self.storage in (Storage.PhysicalStorageBuffer, Storage.StorageBuffer)


def load(b: Body, array: Array, index: int) -> int:
    """The element at an index."""
    dtype, made_of = array.dtype, _element_type(b, array)
    value = b.value(Op.Load, made_of, _element(b, array, index), *_alignment(array, dtype.itemsize))
    return _from_byte(b, value) if array.in_buffer and dtype is bool_ else value


def store(b: Body, array: Array, index: int, value: int) -> None:
    """Stores an element. A literal 0 stored to a thread's array, as the initial value of a fold, is hidden, since it meets the first value."""
    _element_type(b, array)
    if array.storage is Storage.Function:
        value = b.without_zero(array.dtype, value)
    stored = _to_byte(b, value) if array.in_buffer and array.dtype is bool_ else value
    b.effect(Op.Store, _element(b, array, index), stored, *_alignment(array, array.dtype.itemsize))


def load_consecutive(b: Body, array: Array, start: int, index: DType, lanes: int) -> Lanes:
    """`lanes` elements from `start` on, an integer of dtype `index`."""
    found: list[int] = []
    for offset, count in _accesses(b, array, lanes):
        at = _advance(b, start, index, offset)
        if count == 1:
            found.append(load(b, array, at))
            continue
        pointer, made_of, size = _wide(b, array, at, count)
        whole = b.value(Op.Load, made_of, pointer, *_alignment(array, size))
        found += _split(b, array.dtype, whole, count)
    return tuple(found)


def store_consecutive(b: Body, array: Array, start: int, index: DType, values: Lanes) -> None:
    """Stores elements from `start` on, an integer of dtype `index`."""
    for offset, count in _accesses(b, array, len(values)):
        at, part = _advance(b, start, index, offset), values[offset : offset + count]
        if count == 1:
            store(b, array, at, part[0])
            continue
        pointer, made_of, size = _wide(b, array, at, count)
        b.effect(Op.Store, pointer, _join(b, array.dtype, part, made_of), *_alignment(array, size))


def update(b: Body, name: str, array: Array, index: int, values: Lanes) -> Lanes:
    """An atomic access: "load", "store", "compare_exchange" (expected, desired), or an update, whose result is the element before it."""
    dtype, module = array.dtype, b.module
    if dtype.bits < 32 or (dtype.is_float and name != "add"):
        raise CompileError(f"SPIR-V has no atomic {name} of {dtype}")
    capability = _FLOAT_ADD[dtype.bits] if dtype.is_float else Capability.Int64Atomics if dtype.bits == 64 else None
    if capability is not None:
        where = "device" if array.in_buffer else "shared"
        offered = module.device.buffer_atomics if array.in_buffer else module.device.shared_atomics
        module.require(capability, f"an atomic {name} of {dtype} in {where} memory", capability not in offered)
    made_of, pointer = _element_type(b, array), _element(b, array, index)
    scope = module.constant(u32, grammar.SCOPE_DEVICE if array.in_buffer else grammar.SCOPE_WORKGROUP)
    relaxed = module.constant(u32, 0)
    if name == "load":
        return (b.value(Op.AtomicLoad, made_of, pointer, scope, relaxed),)
    if name == "store":
        b.effect(Op.AtomicStore, pointer, scope, relaxed, *values)
        return ()
    if name == "compare_exchange":
        expected, desired = values
        return (b.value(Op.AtomicCompareExchange, made_of, pointer, scope, relaxed, relaxed, desired, expected),)
    op = Op.AtomicFAddEXT if dtype.is_float else _ATOMIC[name][dtype.kind == "u"]
    return (b.value(op, made_of, pointer, scope, relaxed, *values),)


def synchronize(b: Body) -> None:
    """A barrier: the threads of a block wait for each other, and see earlier writes."""
    scope = b.module.constant(u32, grammar.SCOPE_WORKGROUP)
    order = grammar.ACQUIRE_RELEASE | grammar.UNIFORM_MEMORY | grammar.WORKGROUP_MEMORY
    b.effect(Op.ControlBarrier, scope, scope, b.module.constant(u32, order))


# --- one element


def _element_type(b: Body, array: Array) -> int:
    return b.module.in_buffer(array.dtype) if array.in_buffer else b.module.compute(array.dtype)


def _element(b: Body, array: Array, index: int) -> int:
    """A pointer to an element."""
    pointer = b.module.pointer(array.storage, _element_type(b, array))
    path = (b.module.constant(u32, 0), index) if array.in_buffer else (index,)
    return b.value(Op.AccessChain, pointer, array.base, *path)


def _alignment(array: Array, size: int) -> tuple[int, ...]:
    return (grammar.ALIGNED, size) if array.storage is Storage.PhysicalStorageBuffer else ()


def _from_byte(b: Body, value: int) -> int:
    return convert(b, u32, bool_, convert(b, u8, u32, value))


def _to_byte(b: Body, value: int) -> int:
    return convert(b, u32, u8, convert(b, bool_, u32, value))


# --- several elements at once


def _accesses(b: Body, array: Array, lanes: int) -> list[tuple[int, int]]:
    """Splits a move of `lanes` elements into accesses: (first element, number of elements) of each."""
    width = array.dtype.itemsize
    together = b.module.can_compute(u8 if array.dtype is bool_ else array.dtype)
    widest = WIDEST_ACCESS // width if array.storage is Storage.PhysicalStorageBuffer and together else 1
    found, done = [], 0
    while done < lanes:
        count = min(widest, 1 << (lanes - done).bit_length() - 1)
        count = 1 if count * width < 4 else count
        found.append((done, count))
        done += count
    return found


def _advance(b: Body, start: int, index: DType, offset: int) -> int:
    return b.compute(Op.IAdd, index, start, b.module.constant(index, offset)) if offset else start


def _wide(b: Body, array: Array, index: int, count: int) -> tuple[int, int, int]:
    """A pointer to `count` elements as one value, that value's type, and its size in bytes."""
    size = count * array.dtype.itemsize
    made_of = _wide_type(b, array.dtype, count)
    pointer = b.module.pointer(array.storage, made_of)
    return b.value(Op.Bitcast, pointer, _element(b, array, index)), made_of, size


def _wide_type(b: Body, dtype: DType, count: int) -> int:
    """The type of `count` elements as one value: a vector of elements, or of 32-bit words for smaller ones."""
    words = count if dtype.itemsize >= 4 else count * dtype.itemsize // 4
    element = b.module.compute(dtype if dtype.itemsize >= 4 else u32)
    return element if words == 1 else b.module.vector(element, words)


def _split(b: Body, dtype: DType, whole: int, count: int) -> Lanes:
    """The elements of one wide value."""
    if dtype.itemsize >= 4:
        return tuple(b.value(Op.CompositeExtract, b.module.compute(dtype), whole, k) for k in range(count))
    kept = u8 if dtype is bool_ else dtype
    each, words = 4 // kept.itemsize, count * kept.itemsize // 4
    element, found = b.module.compute(kept), []
    for k in range(words):
        word = whole if words == 1 else b.value(Op.CompositeExtract, b.module.compute(u32), whole, k)
        parts = b.value(Op.Bitcast, b.module.vector(element, each), word)
        found += [b.value(Op.CompositeExtract, element, parts, j) for j in range(each)]
    return tuple(_from_byte(b, x) for x in found) if dtype is bool_ else tuple(found)


def _join(b: Body, dtype: DType, values: Lanes, made_of: int) -> int:
    """One wide value of elements."""
    if dtype.itemsize >= 4:
        return b.value(Op.CompositeConstruct, made_of, *values)
    kept = u8 if dtype is bool_ else dtype
    values = tuple(_to_byte(b, x) for x in values) if dtype is bool_ else values
    each = 4 // kept.itemsize
    packed = b.module.vector(b.module.compute(kept), each)
    words = [
        b.value(Op.Bitcast, b.module.compute(u32), b.value(Op.CompositeConstruct, packed, *values[k : k + each]))
        for k in range(0, len(values), each)
    ]
    return words[0] if len(words) == 1 else b.value(Op.CompositeConstruct, made_of, *words)
