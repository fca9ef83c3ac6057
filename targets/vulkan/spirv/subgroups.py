"""Shuffles between the threads of a subgroup, all of which are active (the pipeline requires full subgroups).

Vulkan does not define which threads of a block form a subgroup. So where values are exchanged, a thread's index in its block is computed
from its subgroup's index and its index there; neighbours along x are neighbours in a subgroup.
"""

from __future__ import annotations

from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, u32
from raido.targets.devices import tir
from raido.targets.vulkan.spirv import grammar
from raido.targets.vulkan.spirv.body import Body
from raido.targets.vulkan.spirv.grammar import BuiltIn, Capability, Op

Block = tuple[int, int, int]


def threads_of(function: Any) -> tuple[int, Block]:
    """The subgroup width of a function (0: no thread exchanges values), and the threads of its block."""
    width, block = 0, [1, 1, 1]
    for node in tir.walk(function.body):
        if tir.kind(node) == "Call" and tir.callee(node)[0] == "raido_exchange":
            width = int(tir.callee(node)[1][2].value)
        elif tir.kind(node) == "AttrStmt" and node.attr_key == "thread_extent":
            where, _, axis = str(node.node.thread_tag).partition(".")
            if where == "threadIdx":
                block["xyz".index(axis)] = int(node.value.value)
    return width, (block[0], block[1], block[2])


class Subgroups:
    """The subgroups of a block, of `width` threads each, which divides the threads along x."""

    def __init__(self, body: Body, width: int, block: Block) -> None:
        self.body, self.width, self.block = body, width, block
        if width != body.module.device.subgroup or block[0] % width:
            raise CompileError(f"internal: threads of a block {block} exchange values in subgroups of {width}")
        self._number = 0

    def thread_index(self, axis: int) -> int:
        """The thread's index along an axis."""
        module, (width, height, _) = self.body.module, self.block
        module.require(Capability.GroupNonUniform, "a number of subgroups")
        number = self._number or self._number_in_block()
        if axis:
            number = self.body.compute(Op.UDiv, u32, number, module.constant(u32, (width, width * height)[axis - 1]))
        if axis == 2 or (self.block[axis + 1 :] == (1,) * (2 - axis)):
            return number
        return self.body.compute(Op.UMod, u32, number, module.constant(u32, self.block[axis]))

    def _number_in_block(self) -> int:
        body, size = self.body, self.body.module.constant(u32, self.width)
        first = body.compute(Op.IMul, u32, body.built_in(BuiltIn.SubgroupId), size)
        self._number = body.compute(Op.IAdd, u32, first, body.built_in(BuiltIn.SubgroupLocalInvocationId))
        return self._number


def exchange(body: Body, dtype: DType, value: int, distance: int) -> int:
    """The value of the thread `distance` places later (earlier, if negative) in the subgroup."""
    module = body.module
    for capability in (Capability.GroupNonUniform, Capability.GroupNonUniformShuffleRelative):
        module.require(capability, "a value of another thread")
    scope, by = module.constant(u32, grammar.SCOPE_SUBGROUP), module.constant(u32, abs(distance))
    shuffle = Op.GroupNonUniformShuffleUp if distance < 0 else Op.GroupNonUniformShuffleDown
    if dtype.bits == 32:
        return body.value(shuffle, module.compute(dtype), scope, value, by)
    pair = module.vector(module.compute(u32), dtype.bits // 32)
    words = body.value(Op.Bitcast, pair, value)
    return body.value(Op.Bitcast, module.compute(dtype), body.value(shuffle, pair, scope, words, by))
