"""The cost of expressions, counted in the loops of the walk around them.

A value, or a read, is counted once per block in the innermost loop that its operands depend on; a store in the loop where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Node, Op
from raido.algo.graph.rewrite import post_order
from raido.autotune.features.ends import Ends
from raido.autotune.features.forms import Forms
from raido.schedule.cost.affine import Form, opaque
from raido.schedule.cost.operations import cost_of, index_cost
from raido.schedule.cost.tree import ACCESSES, Loop
from raido.schedule.machine import Machine
from raido.schedule.nest.values import Buffer, NestExpr, Read

SCALAR, UNIFORM, VECTOR, STRIDED, GATHER = range(len(ACCESSES))


class Values:
    """The loops around the current statement, innermost last, and the analysis of names in scope."""

    def __init__(self, machine: Machine, sizes: Mapping[str, int], ends: Mapping[Buffer, Ends]) -> None:
        self.machine = machine
        self.forms = Forms(sizes, ends, self._mask_of_read)
        self.forms.middles.append(0.0)
        self.root = Loop(0, "root", None, host=True)
        self.stack = [self.root]
        self.weights = [1.0]
        self.vector: Loop | None = None
        self.private: dict[Buffer, int] = {}
        self.allocated_in: dict[Buffer, int] = {}
        self.live: dict[Node, None] = {}
        self.chained: dict[Node, float] = {}

    def values(self, roots: Sequence[NestExpr], bound: Sequence[Node] = ()) -> None:
        """Counts the operations of expressions, in the loops where they are computed, except values that the block already has."""
        inner = opaque(self.stack[-1].bit)
        for variable in bound:
            self.forms.variables[variable] = inner
        for node in post_order(roots, self._below):
            if node in self.live or not isinstance(node, (Op, Read)):
                continue
            self.live[node] = None
            form = self.forms.of(node)
            if isinstance(node, Read):
                self.access(node.buffer, node.indices, form.mask, 1.0, stored=False)
                if any(node.buffer in loop.written for loop in self.stack):
                    self.chained[node] = 0.0
                continue
            cost = cost_of(node.name, node.dtype, node.args[0].dtype if node.args else node.dtype)
            carried = [self.chained[a] for a in node.args if a in self.chained]
            if carried:
                self.chained[node] = max(carried) + cost.latency
            stepping = node.dtype is i64 and not form.rough
            self.spend(index_cost() if stepping else cost, 0 if stepping else node.dtype.bits, form.mask)

    def _below(self, node: Node) -> Sequence[Any]:
        if node in self.live:
            return ()
        if isinstance(node, Op):
            return node.args
        if isinstance(node, Read):
            return node.indices if node.predicate is None else (*node.indices, node.predicate)
        return ()

    def spend(self, cost: Any, bits: int, mask: int, times: float = 1.0) -> None:
        """Counts an operation in the innermost loop that its operands depend on."""
        loop, weight = self._home(mask)
        vector = self.vector
        if bits and vector is not None and mask & vector.bit:
            units = max(1.0, vector.lanes * max(bits, 8) / self.machine.vector_bits) * vector.interleave * times
            cycles = units * cost.vector * self.machine.vector_bits / 256
            loop.vector_cycles += weight * cycles
        else:
            units, cycles = times, times * cost.scalar
        loop.work[cost.kind] += weight * units
        loop.cycles += weight * cycles
        loop.code += units

    def _home(self, mask: int) -> tuple[Loop, float]:
        """The innermost loop that a value depends on, and the executions per iteration of it."""
        for loop, weight in zip(reversed(self.stack), reversed(self.weights), strict=True):
            if mask & loop.bit:
                return loop, weight
        return self.root, 1.0

    def _mask_of_read(self, read: Read, mask: int) -> int:
        buffer = read.buffer
        mask |= self.private.get(buffer, 0)
        for loop in self.stack[1:]:
            if buffer in loop.written:
                mask |= loop.bit if loop is not self.vector else 0
        return mask

    def access(
        self,
        buffer: Buffer,
        indices: Sequence[NestExpr],
        mask: int,
        chance: float,
        *,
        stored: bool,
        streamed: bool = False,
    ) -> None:
        """Counts a read (in the loop that its indices depend on) or a store (in the current loop)."""
        if buffer.scope == "register":
            return
        forms = tuple(map(self.forms.of, indices))
        index_mask = 0
        for form in forms:
            index_mask |= form.mask
        loop, weight = (self.stack[-1], self.weights[-1]) if stored else self._home(mask)
        weight *= chance
        kind, units = self._access_kind(buffer, forms, mask | index_mask)
        machine, size = self.machine, buffer.dtype.itemsize
        interleave = self.vector.interleave if self.vector is not None and kind > UNIFORM else 1
        lanes = self.vector.lanes if self.vector is not None else 1
        if kind == VECTOR:
            cycles = units * (1.0 if stored else 0.5) * machine.vector_bits / 256
        elif kind in (STRIDED, GATHER):
            cycles = lanes * (1.5 if stored else 1.0) * (0.75 if kind == STRIDED else 1.0)
        else:
            cycles = 1.0 if stored else 0.5
        counted = loop.stores if stored else loop.loads
        counted[kind] += weight * units * interleave
        loop.cycles += weight * cycles * interleave
        if kind > UNIFORM:
            loop.vector_cycles += weight * cycles * interleave
        loop.code += units * interleave
        if size and forms:
            loop.add_access(buffer, size, forms, weight, stored, streamed)

    def _access_kind(self, buffer: Buffer, forms: Sequence[Form], mask: int) -> tuple[int, float]:
        """The kind of access, by how the address depends on the lanes, and the number of registers moved."""
        vector = self.vector
        if vector is None or not mask & vector.bit:
            return (SCALAR if vector is None else UNIFORM), 1.0
        units = max(1.0, vector.lanes * buffer.dtype.itemsize * 8 / self.machine.vector_bits)
        if any(form.rough & vector.bit for form in forms):
            return GATHER, units
        slopes = [form.terms.get(vector.number, 0.0) for form in forms]
        if not any(slopes):
            return (VECTOR, units) if buffer in self.private else (UNIFORM, 1.0)
        if any(slopes[:-1]) and not buffer.strides and buffer not in self.private:
            return STRIDED, units
        return (VECTOR, units) if abs(slopes[-1]) == 1.0 or buffer in self.private else (STRIDED, units)

    def carry(self, buffer: Buffer, indices: Sequence[NestExpr], latency: float | None) -> None:
        """Records a dependence chain: an update that waits for the previous one, along every loop that its index does not depend on."""
        if latency is None:
            return
        index_mask = 0
        for index in indices:
            index_mask |= self.forms.of(index).mask
        key = (buffer, *indices)
        for loop in self.stack[self.allocated_in.get(buffer, 1) :]:
            if not loop.bit & index_mask:
                loop.chains[key] = loop.chains.get(key, 0.0) + latency
