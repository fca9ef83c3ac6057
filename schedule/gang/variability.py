"""Variability between the lanes of a vector loop, by fixpoint iteration over data and control (Karrenberg & Hack's vectorisation analysis).

A variable is *varying* when its value depends on the lane; a buffer allocated inside the loop when a stored value, or its index, varies, or
when it is stored under divergent control that it does not itself live under (lanes that are off keep their value). Everything else is
*uniform*: computed once for all lanes, as a scalar. A serial loop with a uniform start has a uniform variable even where its end varies:
the lanes that still run agree on it. Outer buffers are memory; a read of them at a uniform index is uniform.
"""

from __future__ import annotations

from raido.algo.graph.expr import Node, Op, Var
from raido.algo.graph.rewrite import children
from raido.schedule.nest.nodes import Alloc, Append, Block, Fold, For, If, Let, Produce, Statement, Store, While
from raido.schedule.nest.values import Buffer, Read


class Variability:
    """The varying variables and buffers of one vector loop."""

    __slots__ = ("_memo", "_region", "buffers", "private", "variables")

    def __init__(self, loop: For) -> None:
        self.variables: set[Var] = {loop.var}
        self.buffers: set[Buffer] = set()
        self.private: set[Buffer] = set()
        self._region: dict[Buffer, int] = {}
        self._memo: dict[Node, bool] = {}
        size = -1
        while size != len(self.variables) + len(self.buffers):
            size = len(self.variables) + len(self.buffers)
            self._memo.clear()
            self._block(loop.body, 0)
        self._memo.clear()

    def varies(self, *expressions: Node | None) -> bool:
        """Whether any of the expressions differs between lanes."""
        memo = self._memo
        for e in expressions:
            if e is not None:
                known = memo.get(e)
                if known or (known is None and self._varies(e)):
                    return True
        return False

    def _varies(self, root: Node) -> bool:
        memo = self._memo
        stack = [root]
        while stack:
            e = stack[-1]
            if e in memo:
                stack.pop()
            elif isinstance(e, Var):
                memo[e] = e in self.variables
            elif isinstance(e, Buffer):
                memo[e] = e in self.buffers
            elif isinstance(e, (Op, Read)):
                rest = [child for child in children(e) if child not in memo]
                if rest:
                    stack.extend(rest)
                else:
                    memo[e] = any(memo[child] for child in children(e))
            else:
                memo[e] = False
        return memo[root]

    def _add(self, var: Var) -> None:
        if var not in self.variables:
            self.variables.add(var)
            self._memo.clear()

    def _store(self, buffer: Buffer, region: int, varying: bool) -> None:
        if buffer in self.private and buffer not in self.buffers and (varying or region != self._region[buffer]):
            self.buffers.add(buffer)
            self._memo.clear()

    def _block(self, block: Block, region: int) -> None:
        for statement in block.statements:
            self._statement(statement, region)

    def _statement(self, s: Statement, region: int) -> None:
        if isinstance(s, Let):
            if self.varies(s.value):
                self._add(s.var)  # type: ignore[arg-type]
        elif isinstance(s, Alloc):
            self.private.add(s.buffer)
            self._region[s.buffer] = region
        elif isinstance(s, Store):
            self._store(s.buffer, region, self.varies(s.value, s.predicate, *s.indices))
        elif isinstance(s, Fold):
            for buffer, *names in zip(s.buffers, s.left, s.right, *filter(None, (s.before, s.after)), strict=True):
                if buffer in self.buffers or buffer not in self.private:
                    for var in names:
                        self._add(var)
            varying = self.varies(*s.values, *s.step, *s.indices)
            for buffer in s.buffers:
                self._store(buffer, region, varying)
        elif isinstance(s, Append):
            self._store(s.position, region, self.varies(s.predicate))
        elif isinstance(s, For):
            if self.varies(s.low):
                self._add(s.var)
            self._block(s.body, id(s) if self.varies(s.low, s.high) else region)
        elif isinstance(s, If):
            varying = self.varies(s.condition)
            self._block(s.then, id(s.then) if varying else region)
            if s.orelse is not None:
                self._block(s.orelse, id(s.orelse) if varying else region)
        elif isinstance(s, While):
            inner = id(s) if self.varies(s.condition) else region
            self._block(s.setup, inner)
            self._block(s.body, inner)
        elif isinstance(s, Produce):
            self._block(s.body, region)
        elif isinstance(s, Block):
            self._block(s, region)
