"""Statements of TIR as instructions: loops, branches, allocations, stores; and which axis of the launch a variable is."""

from __future__ import annotations

import math
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import u32
from raido.targets.devices import tir
from raido.targets.vulkan.spirv import memory
from raido.targets.vulkan.spirv.body import Body
from raido.targets.vulkan.spirv.expressions import Expressions, consecutive
from raido.targets.vulkan.spirv.grammar import BuiltIn, Op, Storage
from raido.targets.vulkan.spirv.memory import Array
from raido.targets.vulkan.spirv.operations import convert

_UNROLLED = 3
_AXES = ("x", "y", "z")


class Statements:
    """Writes statements into a body, and collects what they say of the launch: threads of a block, bytes of shared memory."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.expressions = Expressions(body)
        self.block = [1, 1, 1]
        self.shared = 0

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
        self.expressions.variables[node.var] = self.expressions.lanes(node.value)

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
        if (start := consecutive(index)) is not None:
            memory.store_consecutive(self.body, array, self.expressions.one(start), tir.type_of(index)[0], values)
            return
        for at, value in zip(self.expressions.lanes(index), values, strict=True):
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
        start = self.expressions.one(node.min)
        stop = self.expressions.one(node.extent)
        if not (tir.kind(node.min) == "IntImm" and int(node.min.value) == 0):
            stop = self.body.compute(Op.IAdd, dtype, start, stop)
        step = self.body.module.constant(dtype, 1) if node.step is None else self.expressions.one(node.step)

        def run(index: int) -> None:
            self.expressions.variables[node.loop_var] = (index,)
            self.write(node.body)

        self.body.loop_over(dtype, start, stop, step, run, unroll=int(node.kind) == _UNROLLED)

    def _While(self, node: Any) -> None:
        self.body.loop_while(lambda: self.expressions.one(node.condition), lambda: self.write(node.body))

    # --- the launch

    def _AttrStmt(self, node: Any) -> None:
        if node.attr_key == "thread_extent":
            self._bind_axis(node)
        self.write(node.body)

    def _bind_axis(self, node: Any) -> None:
        """Gives the variable of a launch's axis its value: of blocks, or of the threads of a block, whose number is a constant."""
        where, _, axis = str(node.node.thread_tag).partition(".")
        if where not in ("blockIdx", "threadIdx") or axis not in _AXES:
            raise CompileError(f"a launch has blockIdx and threadIdx along x, y and z, not {node.node.thread_tag}")
        module, dimension = self.body.module, _AXES.index(axis)
        which = BuiltIn.WorkgroupId if where == "blockIdx" else BuiltIn.LocalInvocationId
        if which is BuiltIn.LocalInvocationId:
            self.block[dimension] = int(node.value.value)
        three = module.vector(module.compute(u32), 3)
        coordinates = self.body.value(Op.Load, three, module.built_in(which))
        number = self.body.compute(Op.CompositeExtract, u32, coordinates, dimension)
        dtype, _ = tir.type_of(node.node.var)
        self.expressions.variables[node.node.var] = (convert(self.body, u32, dtype, number),)
