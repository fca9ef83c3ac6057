"""Expressions as names and values: shared ones are named, invariant ones move out of loops.

A value used several times becomes a `Let`; one that depends on outer loops only becomes a `Let` in the outermost scope where its variables
are bound, unless that could read out of bounds in a loop with zero iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Const, Element, Expr, Fill, Item, Node, Op, SizeVar, Var
from raido.algo.graph.rewrite import post_order
from raido.schedule.lower.builder import Builder, Scope
from raido.schedule.lower.expressions.convert import Fault
from raido.schedule.lower.expressions.dag import (
    count_uses,
    eager_children,
    in_bounds,
    is_trivial,
    name_of,
)
from raido.schedule.lower.expressions.fold_updates import Operator
from raido.schedule.nest.nodes import Check, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read


class ValueEmitter:
    """Evaluates converted expressions in the current scope of a builder. Forms with several results are left to `form`."""

    def __init__(
        self, builder: Builder, faults: dict[Node, tuple[Fault, ...]], loops: dict[Node, int], contract: bool
    ) -> None:
        self.builder = builder
        self.faults, self.loops = faults, loops
        self.contract = contract
        self.floor = 0
        self._values: list[dict[Node, Any]] = []
        self._eager: list[set[Node]] = []
        self._uses: dict[Node, int] = {}
        self._levels: dict[Node, int] = {}
        self._checked: list[Buffer] = []
        self._operators: dict[tuple[tuple[Expr, ...], ...], Operator] = {}

    def values(self, roots: Iterable[Expr]) -> list[NestExpr]:
        """Emits statements that evaluate the expressions, and returns expressions that name their values."""
        roots = list(roots)
        self._uses, self._levels = count_uses(roots), {}
        self._values, self._eager = [{}], []
        self._block(roots)
        level = len(self.builder.scopes) - 1
        return [self._operand(root, level) for root in roots]

    def _block(self, roots: Sequence[Expr]) -> list[NestExpr]:
        """Evaluates the roots in the current scope, and every node that they evaluate unconditionally."""
        order = self._eager_order(roots)
        self._eager.append(set(order))
        for node in order:
            self._ensure(node)
        self._eager.pop()
        return [self._find(root) for root in roots]  # type: ignore[misc]

    def _find(self, node: Node) -> NestExpr | None:
        found = self._values[-1].get(node)
        if found is not None or len(self._values) == 1:
            return found
        for values in reversed(self._values):
            found = values.get(node)
            if found is not None:
                return found
        return None

    def _eager_order(self, roots: Sequence[Expr]) -> list[Node]:
        known = self._values[0]
        if len(self._values) == 1:
            outermost = [root for root in roots if root not in known]
            return post_order(outermost, lambda node: [e for e in eager_children(node) if e not in known])

        def unknown(nodes: Sequence[Node]) -> list[Node]:
            return [node for node in nodes if self._find(node) is None]

        return post_order(unknown(roots), lambda node: unknown(eager_children(node)))

    def _ensure(self, node: Node) -> None:
        """Evaluates one node whose eager children have values."""
        if self._find(node) is not None:
            return
        values = self._values[-1]
        if isinstance(node, (Const, SizeVar, Var)):
            values[node] = node
            return
        if isinstance(node, Item):
            self.form(node.form)
            return
        if isinstance(node, Fill):
            values[node] = self.filled(node)
            return
        if isinstance(node, Element):  # of memory that changes: the read must not move
            buffer: Any = self._find(node.array)
            indices = tuple(self._find(i) for i in node.indices)
            values[node] = self.builder.name(buffer.name, Read(buffer, indices, None))  # type: ignore[arg-type]
            return
        value: NestExpr
        if isinstance(node, Read):
            below = node.indices if node.predicate is None else (*node.indices, node.predicate)
            parts, level = self._parts(below, self.builder.level_of.get(node.buffer, 0))
            predicate = None if node.predicate is None else parts[-1]
            value = Read(node.buffer, tuple(parts[: len(node.indices)]), predicate)
        else:
            assert isinstance(node, Op), node
            parts, level = self._parts(node.args, 0)
            value = node if all(map(is_, parts, node.args)) else Op(node.name, node.dtype, tuple(parts))
        self._levels[value] = level
        for fault in self.faults.get(node, ()):
            self._check(fault)
        shared = self._uses.get(node, 0) > 1 and not is_trivial(value)
        values[node] = self._name(value, level) if shared else value

    def _parts(self, nodes: Sequence[Node], level: int) -> tuple[list[NestExpr], int]:
        """The values of a node's operands, moved out of the loops that they do not depend on, and the node's level, at least `level`: an
        operand that may not leave its loop keeps the node in there, whatever it depends on."""
        values: list[NestExpr] = [self._find(node) for node in nodes]  # type: ignore[misc]
        levels = [self._level(value) for value in values]
        level = inside = max(level, *levels) if levels else level
        for k, own in enumerate(levels):
            if own < level and not is_trivial(values[k]):
                values[k] = self._moved_out(nodes[k], values[k], own)
                inside = max(inside, self._level(values[k]))
        return values, inside

    def _operand(self, node: Node, level: int) -> NestExpr:
        """The value of an operand, moved out of the loops that it does not depend on."""
        value = self._find(node)
        assert value is not None, node
        own = self._level(value)
        return self._moved_out(node, value, own) if own < level and not is_trivial(value) else value

    def _moved_out(self, node: Node, value: NestExpr, level: int) -> NestExpr:
        """The name of a node's value, bound in the outermost legal scope."""
        name = self._name(value, level)
        self._remember(node, name)
        return name

    def _remember(self, node: Node, name: NestExpr) -> None:
        """Records the name as the node's value in the scope where it is bound and in those inside; enclosing scopes do not see it."""
        found = next(k for k in reversed(range(len(self._values))) if node in self._values[k])
        given = self._level(name) - (len(self.builder.scopes) - len(self._values))
        self._values[max(found, given)][node] = name

    def _level(self, value: NestExpr | None) -> int:
        assert value is not None
        known = self._levels.get(value)
        if known is not None:
            return known
        if isinstance(value, (Const, SizeVar)):
            return 0
        if isinstance(value, (Var, Buffer)):
            return self.builder.level_of.get(value, 0)
        parts = [self._level(c) for c in eager_children(value)]
        if isinstance(value, Read):
            parts.append(self.builder.level_of.get(value.buffer, 0))
        known = self._levels[value] = max(parts, default=0)
        return known

    def _name(self, value: NestExpr, level: int) -> NestExpr:
        """A `Let` for the value in the outermost legal scope, reused if there is one."""
        if isinstance(value, (Const, SizeVar, Var)):
            return value
        builder = self.builder
        present = len(builder.scopes) - 1
        level = max([self.floor, level, *(s.level for s in builder.scopes if s.branch)])
        if level < present and not self._may_hoist(value, level):
            level = present
        for k in range(level, present + 1):
            if value in builder.scopes[k].names:
                return builder.scopes[k].names[value]
        var = builder.name(name_of(value), value, level, lasting=True)
        if isinstance(value, Op) and value.name in ix.BOUNDARY_OPS:
            for scope in builder.scopes[level:]:
                scope.assumptions = scope.assumptions.with_range(var, 0, ix.sub(value.args[1], 1))
        return var

    def _may_hoist(self, value: NestExpr, level: int) -> bool:
        if not any(scope.loop for scope in self.builder.scopes[level + 1 :]) and len(self._eager) <= 1:
            return True
        assumptions = self.builder.scopes[level].assumptions
        stack: list[Node] = [value]
        while stack:
            node = stack.pop()
            if isinstance(node, Read) and not in_bounds(node, assumptions):
                return False
            stack += eager_children(node)
        return True

    def _check(self, fault: Fault) -> None:
        holds, *values = self._nested((fault.holds, *fault.values))
        self.builder.check(Check(holds, fault.kind, fault.site, tuple(values)))
        for sound in self._checked:
            self.builder.add(Store(sound, (), Op("logical_and", bool_, (Read(sound, (), None), holds))))

    def _nested(self, roots: Sequence[Expr]) -> list[NestExpr]:
        """Evaluates more expressions at this point."""
        for node in self._eager_order(roots):
            self._ensure(node)
        return [self._find(root) for root in roots]  # type: ignore[misc]

    def _name_here(self, value: NestExpr) -> NestExpr:
        return value if is_trivial(value) else self.builder.name(name_of(value), value)

    def _inner(self, loop: bool, assumptions: Assumptions | None = None, branch: bool = False) -> Any:
        return _Inner(self, loop, assumptions, branch)

    def form(self, form: Any) -> None:
        """Emits a form with several results, and records the values of its items."""
        raise NotImplementedError

    def filled(self, fill: Fill) -> Buffer:
        """Emits the statements that fill a private array, and returns its buffer."""
        raise NotImplementedError


class _Inner:
    """A nested scope of a builder together with a nested table of values."""

    def __init__(self, emitter: ValueEmitter, loop: bool, assumptions: Assumptions | None, branch: bool) -> None:
        self.emitter = emitter
        self.manager = emitter.builder.block(assumptions, loop, branch)

    def __enter__(self) -> Scope:
        self.emitter._values.append({})
        return self.manager.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.emitter._values.pop()
        self.manager.__exit__(*error)
