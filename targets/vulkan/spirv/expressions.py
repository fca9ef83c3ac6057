"""Expressions of TIR as instructions: TIR's nodes, and calls of operations (`raido_<name>`), native or primitives.

`if_then_else`, and the right side of a conjunction, are evaluated only where needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, i32, i64
from raido.targets.devices import tir
from raido.targets.vulkan.spirv import memory
from raido.targets.vulkan.spirv.body import Body, Lanes
from raido.targets.vulkan.spirv.grammar import Op
from raido.targets.vulkan.spirv.memory import Array
from raido.targets.vulkan.spirv.narrow import Narrow
from raido.targets.vulkan.spirv.operations import (
    BITWISE,
    COMPARISONS,
    LOGICAL,
    arithmetic,
    compare,
    convert,
    extreme,
    remainder,
    shift_right,
    write_native,
)
from raido.targets.vulkan.spirv.recipes import write_operation
from raido.targets.vulkan.spirv.subgroups import exchange

PREFIX = "raido_"
ATOMIC = PREFIX + "atomic_"
EXCHANGE = PREFIX + "exchange"
_ARITHMETIC = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
_BITS = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}


class Expressions:
    """Writes expressions into a body. `variables` and `arrays` map TIR's names to values; `narrow`, if not None, writes i64 arithmetic in
    32 bits where possible."""

    def __init__(self, body: Body, narrow: bool = False) -> None:
        self.body = body
        self.variables: dict[Any, Lanes] = {}
        self.arrays: dict[Any, Array] = {}
        self.narrow = Narrow(self) if narrow else None

    def one(self, node: Any) -> int:
        """The value of a scalar."""
        (value,) = self.lanes(node)
        return value

    def lanes(self, node: Any) -> Lanes:
        """The values of an expression, one per lane."""
        if self.narrow is not None and self.narrow.applies(node):
            return (convert(self.body, i32, i64, self.narrow.low(node)),)
        return self.written(node)

    def written(self, node: Any) -> Lanes:
        """The values of an expression, computed in its own type, not in 32 bits."""
        write = getattr(self, f"_{tir.kind(node)}", None)
        if write is None:
            raise CompileError(
                f'kernel "{self.body.module.kernel}" has a {tir.kind(node)}, which SPIR-V is not made from: {node}'
            )
        return write(node)

    def index(self, node: Any) -> tuple[DType, int]:
        """An element's index, or the first of several: its type and value."""
        dtype, _ = tir.type_of(node)
        if self.narrow is not None and dtype is i64:
            return i32, self.narrow.low(node)
        return dtype, self.one(node)

    def element(self, access: Any) -> tuple[Array, Any]:
        """The array of a load or store, and the index in it."""
        (index,) = access.indices
        return self.arrays[tir.buffer_of(access)], index

    # --- leaves

    def _Var(self, node: Any) -> Lanes:
        return self.variables[node]

    def _IntImm(self, node: Any) -> Lanes:
        return (self.body.module.constant(tir.type_of(node)[0], int(node.value)),)

    def _FloatImm(self, node: Any) -> Lanes:
        return (self.body.module.constant(tir.type_of(node)[0], float(node.value)),)

    def _BufferLoad(self, node: Any) -> Lanes:
        array, index = self.element(node)
        _, lanes = tir.type_of(index)
        if (start := tir.consecutive(index)) is not None:
            dtype, first = self.index(start)
            return memory.load_consecutive(self.body, array, first, dtype, lanes)
        indices = (self.index(index)[1],) if lanes == 1 else self.lanes(index)
        return tuple(memory.load(self.body, array, at) for at in indices)

    # --- vectors

    def _Ramp(self, node: Any) -> Lanes:
        dtype, lanes = tir.type_of(node)
        base, stride, module = self.one(node.base), self.one(node.stride), self.body.module
        far = [arithmetic(self.body, "mul", dtype, stride, module.constant(dtype, k)) for k in range(1, lanes)]
        return (base, *(arithmetic(self.body, "add", dtype, base, distance) for distance in far))

    def _Broadcast(self, node: Any) -> Lanes:
        return self.lanes(node.value) * tir.type_of(node)[1]

    def _Shuffle(self, node: Any) -> Lanes:
        pool = [value for vector in node.vectors for value in self.lanes(vector)]
        return tuple(pool[int(index.value)] for index in node.indices)

    # --- operators

    def _binary(self, node: Any, write: Callable[[DType, int, int], int]) -> Lanes:
        dtype, _ = tir.type_of(node.a)
        left, right = self.lanes(node.a), self.lanes(node.b)
        return tuple(write(dtype, x, y) for x, y in zip(left, right, strict=True))

    def _arithmetic(self, node: Any) -> Lanes:
        name = _ARITHMETIC[tir.kind(node)]
        return self._binary(node, lambda dtype, x, y: arithmetic(self.body, name, dtype, x, y))

    _Add = _Sub = _Mul = _Div = _arithmetic

    def _Mod(self, node: Any) -> Lanes:
        return self._binary(node, lambda dtype, x, y: remainder(self.body, dtype, x, y))

    def _comparison(self, node: Any) -> Lanes:
        name = tir.kind(node).lower()
        if self.narrow is not None and self.narrow.compares(node.a, node.b):
            return (self._compare_narrow(name, node.a, node.b),)
        return self._binary(node, lambda dtype, x, y: compare(self.body, name, dtype, x, y))

    def _compare_narrow(self, name: str, *operands: Any) -> int:
        assert self.narrow is not None
        return compare(self.body, name, i32, *(self.narrow.low(operand) for operand in operands))

    _LT = _LE = _GT = _GE = _EQ = _NE = _comparison

    def _bitwise(self, node: Any) -> Lanes:
        name = _BITS[tir.kind(node)]

        def write(dtype: DType, x: int, y: int) -> int:
            return self.body.compute((LOGICAL if dtype is bool_ else BITWISE)[name], dtype, x, y)

        return self._binary(node, write)

    _BitwiseAnd = _BitwiseOr = _BitwiseXor = _bitwise

    def _BitwiseNot(self, node: Any) -> Lanes:
        dtype, _ = tir.type_of(node)
        return tuple(self.body.compute(Op.Not, dtype, x) for x in self.lanes(node.a))

    def _LShift(self, node: Any) -> Lanes:
        return self._binary(node, lambda dtype, x, y: self.body.compute(Op.ShiftLeftLogical, dtype, x, y))

    def _RShift(self, node: Any) -> Lanes:
        return self._binary(node, lambda dtype, x, y: shift_right(self.body, dtype, x, y))

    def _extreme(self, node: Any) -> Lanes:
        test = {"Min": "lt", "Max": "gt"}[tir.kind(node)]
        return self._binary(node, lambda dtype, x, y: extreme(self.body, test, dtype, x, y))

    _Min = _Max = _extreme

    def _junction(self, node: Any) -> Lanes:
        wanted = tir.kind(node) == "And"
        if tir.type_of(node)[1] > 1:
            op = Op.LogicalAnd if wanted else Op.LogicalOr
            return self._binary(node, lambda _, x, y: self.body.test(op, x, y))
        return (self.body.lazy(self.one(node.a), lambda: self.one(node.b), wanted),)

    _And = _Or = _junction

    def _Not(self, node: Any) -> Lanes:
        return tuple(self.body.test(Op.LogicalNot, x) for x in self.lanes(node.a))

    def _Cast(self, node: Any) -> Lanes:
        source, dtype = tir.type_of(node.value)[0], tir.type_of(node)[0]
        if tir.type_of(node)[1] == 1:
            return (self._converted(node.value, dtype),)
        return tuple(convert(self.body, source, dtype, x) for x in self.lanes(node.value))

    def _Select(self, node: Any) -> Lanes:
        dtype, lanes = tir.type_of(node)
        condition, yes, no = (self.lanes(part) for part in (node.condition, node.true_value, node.false_value))
        condition = condition * (lanes // len(condition))
        return tuple(self.body.select(c, dtype, x, y) for c, x, y in zip(condition, yes, no, strict=True))

    def _Let(self, node: Any) -> Lanes:
        self.variables[node.var] = self.lanes(node.value)
        return self.lanes(node.body)

    def _converted(self, value: Any, dtype: DType) -> int:
        """A scalar converted to another type; an i64 is converted from its lower half where that suffices."""
        source, _ = tir.type_of(value)
        if self.narrow is not None and source is i64 and dtype is not bool_:
            truncated = not dtype.is_float and dtype.bits <= i32.bits
            if truncated or self.narrow.bounds.fit(value):
                return convert(self.body, i32, dtype, self.narrow.low(value))
        return convert(self.body, source, dtype, self.one(value))

    # --- calls

    def _Call(self, node: Any) -> Lanes:
        name, arguments = tir.callee(node)
        if name.startswith(ATOMIC):
            array, index = self.element(arguments[0].args[0])
            values = tuple(self.one(argument) for argument in arguments[1:])
            return memory.update(self.body, name.removeprefix(ATOMIC), array, self.index(index)[1], values)
        if name == "tvm_storage_sync":
            if (scope := str(arguments[0].value)) != "shared":
                raise CompileError(f'SPIR-V has a barrier for the threads of a block ("shared"), not for "{scope}"')
            memory.synchronize(self.body)
            return ()
        dtype, _ = tir.type_of(node)
        if name == EXCHANGE:
            return (exchange(self.body, dtype, self.one(arguments[0]), int(arguments[1].value)),)
        if name == "if_then_else":
            condition, yes, no = arguments
            return self.body.choose(self.one(condition), dtype, lambda: self.lanes(yes), lambda: self.lanes(no))
        if name == "likely":
            return self.lanes(arguments[0])
        if name == PREFIX + "convert" and tir.type_of(node)[1] == 1:
            return (self._converted(arguments[0], dtype),)
        compared = name.removeprefix(PREFIX) in COMPARISONS
        if compared and self.narrow is not None and self.narrow.compares(*arguments):
            return (self._compare_narrow(name.removeprefix(PREFIX), *arguments),)
        operands = [(tir.type_of(argument)[0], self.lanes(argument)) for argument in arguments]
        each = [
            [(of, x) for of, x in zip([of for of, _ in operands], row, strict=True)]
            for row in zip(*(v for _, v in operands), strict=True)
        ]
        return tuple(self._operation(node, name, dtype, row) for row in each)

    def _operation(self, node: Any, name: str, dtype: DType, operands: list[tuple[DType, int]]) -> int:
        """An operation on one lane, named by TIR or by raido."""
        body = self.body
        if name.startswith(PREFIX):
            return write_operation(body, name.removeprefix(PREFIX), dtype, operands)
        if name == "reinterpret":
            return write_native(body, "bitcast", dtype, operands)
        raise CompileError(f'kernel "{body.module.kernel}" calls {name}, which SPIR-V is not made from: {node}')
