"""Statements of TIR as instructions: loops, branches, allocations, stores, and the axes of the launch."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, i32, i64, u32
from raido.targets.devices import tir
from raido.targets.devices.bounds import INT32, Interval, inside
from raido.targets.devices.narrow import MOST, is_arithmetic, limit_of
from raido.targets.devices.strides import Strides
from raido.targets.vulkan.spirv import memory
from raido.targets.vulkan.spirv.body import Body, Lanes
from raido.targets.vulkan.spirv.expressions import Expressions
from raido.targets.vulkan.spirv.grammar import BuiltIn, Op, Storage
from raido.targets.vulkan.spirv.memory import Array
from raido.targets.vulkan.spirv.narrow import Narrow
from raido.targets.vulkan.spirv.operations import compare, convert
from raido.targets.vulkan.spirv.subgroups import Subgroups

_UNROLLED = 3
_AXES = ("x", "y", "z")


class Statements:
    """Writes statements into a body, and collects the launch's properties: threads per block, bytes of shared memory, and `grid`, the
    number of blocks for which narrow code is valid. `strides` are those of `strides_of`; `subgroups`: set where threads exchange values."""

    def __init__(self, body: Body, narrow: bool = False) -> None:
        self.body = body
        self.expressions = Expressions(body, narrow)
        self.block, self.grid = [1, 1, 1], [MOST, MOST, MOST]
        self.subgroups: Subgroups | None = None
        self.strides: Strides = Counter()
        self.shared = 0

    def receive(self, parameter: Any, dtype: DType, value: int) -> None:
        """Binds a scalar parameter to its value."""
        self.expressions.variables[parameter] = (value,)
        if self.expressions.narrow is not None and dtype is i64:
            self._name(parameter, convert(self.body, i64, i32, value), (0, self.limit(parameter)), (value,))

    def limit(self, variable: Any) -> int:
        """The largest value of a number for which narrow code is valid."""
        return limit_of(self.strides, variable)

    def write(self, node: Any) -> None:
        """Appends a statement."""
        write = getattr(self, f"_{tir.kind(node)}", None)
        if write is None:
            raise CompileError(
                f'kernel "{self.body.module.kernel}" has a {tir.kind(node)}, which SPIR-V is not made from'
            )
        write(node)

    def _SeqStmt(self, node: Any) -> None:
        for statement in node.seq:
            self.write(statement)

    def _Evaluate(self, node: Any) -> None:
        if tir.kind(node.value) == "Call":
            if tir.callee(node.value)[0] == "thread_return":
                self.body.stop()
            else:
                self.expressions.lanes(node.value)

    def _Return(self, node: Any) -> None:
        self.body.stop()

    def _Bind(self, node: Any) -> None:
        expressions, narrow = self.expressions, self.expressions.narrow
        if narrow is None or tir.type_of(node.value) != (i64, 1):
            expressions.variables[node.var] = expressions.lanes(node.value)
            return
        bounds = narrow.bounds.of(node.value)
        if inside(bounds, INT32):
            self._name(node.var, narrow.low(node.value), bounds)
            return
        wide = expressions.lanes(node.value)
        low = narrow.low(node.value) if is_arithmetic(node.value) else convert(self.body, i64, i32, wide[0])
        self._name(node.var, low, bounds, wide)

    def _name(self, variable: Any, low: int, bounds: Interval, wide: Lanes | None = None) -> None:
        """Binds an i64 variable by its lower half, and by its full value `wide` where the lower half does not suffice."""
        assert self.expressions.narrow is not None
        self.expressions.narrow.name(variable, low, bounds)
        self.expressions.variables[variable] = wide or (convert(self.body, i32, i64, low),)

    # --- memory

    def _DeclBuffer(self, node: Any) -> None:
        data = node.data.args[0] if tir.kind(node.data) == "Call" else node.data
        self.expressions.arrays[node.buffer] = self.expressions.arrays[data]

    def _AllocBuffer(self, node: Any) -> None:
        buffer, module = node.buffer, self.body.module
        dtype, _ = tir.read_type(str(buffer.dtype))
        length = math.prod(int(extent.value) for extent in buffer.shape)
        made_of = module.array(module.compute(dtype), length)
        if str(buffer.scope()).startswith("shared"):
            self.shared += length * dtype.itemsize
            array = Array(Storage.Workgroup, module.variable(Storage.Workgroup, made_of), dtype)
        else:
            array = Array(Storage.Function, self.body.local(made_of), dtype)
        self.expressions.arrays[buffer] = array

    def _BufferStore(self, node: Any) -> None:
        array, index = self.expressions.element(node)
        values = self.expressions.lanes(node.value)
        if (start := tir.consecutive(index)) is not None:
            dtype, first = self.expressions.index(start)
            memory.store_consecutive(self.body, array, first, dtype, values)
            return
        indices = (self.expressions.index(index)[1],) if len(values) == 1 else self.expressions.lanes(index)
        for at, value in zip(indices, values, strict=True):
            memory.store(self.body, array, at, value)

    # --- control flow

    def _IfThenElse(self, node: Any) -> None:
        otherwise = node.else_case
        self.body.branch(
            self.expressions.one(node.condition),
            lambda: self.write(node.then_case),
            None if otherwise is None else lambda: self.write(otherwise),
        )

    def _For(self, node: Any) -> None:
        dtype, _ = tir.type_of(node.loop_var)
        if self.expressions.narrow is not None and dtype is i64 and self._narrow_for(node, self.expressions.narrow):
            return
        start = self.expressions.one(node.min)
        stop = self.expressions.one(node.extent)
        if not (tir.kind(node.min) == "IntImm" and int(node.min.value) == 0):
            stop = self.body.compute(Op.IAdd, dtype, start, stop)
        step = self.body.module.constant(dtype, 1) if node.step is None else self.expressions.one(node.step)

        def run(index: int) -> None:
            self.expressions.variables[node.loop_var] = (index,)
            self.write(node.body)

        self.body.loop_over(dtype, start, stop, step, run, unroll=int(node.kind) == _UNROLLED)

    def _narrow_for(self, node: Any, narrow: Narrow) -> bool:
        """Writes an i64 loop with a 32-bit index; False where it does not fit."""
        if (indices := narrow.loop_indices(node)) is None:
            return False
        if narrow.bounds.of(node.extent)[1] <= 1:
            self._run_once(node, narrow, indices)
            return True
        start, module = narrow.low(node.min), self.body.module
        stop = self.body.compute(Op.IAdd, i32, start, narrow.low(node.extent))
        by = module.constant(i32, 1) if node.step is None else narrow.low(node.step)

        def run(index: int) -> None:
            self._name(node.loop_var, index, indices)
            self.write(node.body)

        self.body.loop_over(i32, start, stop, by, run, unroll=int(node.kind) == _UNROLLED)
        return True

    def _run_once(self, node: Any, narrow: Narrow, indices: Interval) -> None:
        """Writes a loop of at most one iteration as a branch."""

        def run() -> None:
            self._name(node.loop_var, narrow.low(node.min), indices)
            self.write(node.body)

        if narrow.bounds.of(node.extent) == (1, 1):
            run()
            return
        some = compare(self.body, "gt", i32, narrow.low(node.extent), self.body.module.constant(i32, 0))
        self.body.branch(some, run)

    def _While(self, node: Any) -> None:
        self.body.loop_while(lambda: self.expressions.one(node.condition), lambda: self.write(node.body))

    # --- the launch

    def _AttrStmt(self, node: Any) -> None:
        if node.attr_key == "thread_extent":
            self._bind_axis(node)
        self.write(node.body)

    def _bind_axis(self, node: Any) -> None:
        """Binds the variable of a launch axis: the block's index, or the thread's in its block, whose extent is constant."""
        where, _, axis = str(node.node.thread_tag).partition(".")
        if where not in ("blockIdx", "threadIdx") or axis not in _AXES:
            raise CompileError(f"a launch has blockIdx and threadIdx along x, y and z, not {node.node.thread_tag}")
        dimension = _AXES.index(axis)
        which = BuiltIn.WorkgroupId if where == "blockIdx" else BuiltIn.LocalInvocationId
        if which is BuiltIn.LocalInvocationId:
            self.block[dimension] = int(node.value.value)
        if which is BuiltIn.LocalInvocationId and self.subgroups is not None:
            number = self.subgroups.thread_index(dimension)
        else:
            number = self.body.compute(Op.CompositeExtract, u32, self.body.built_in(which, 3), dimension)
        dtype, _ = tir.type_of(node.node.var)
        self.expressions.variables[node.node.var] = (convert(self.body, u32, dtype, number),)
        if (narrow := self.expressions.narrow) is not None:
            count = self.block[dimension]
            if which is BuiltIn.WorkgroupId:
                count = self.grid[dimension] = max(1, self.limit(node.node.var))
            narrow.name(node.node.var, number, (0, count - 1))
