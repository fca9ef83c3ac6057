"""Expressions as statements: shared values get names, invariant ones move out of loops, control flow becomes `If`, `For`, `While`.

A value used several times becomes a `Let`; one that depends on outer loops only becomes a `Let` in the outermost scope where its
variables are bound, unless that could read out of bounds in a loop that takes no round. What stands in a branch or a loop of the
expression is evaluated there, and only there, unless it is needed outside as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Cond, Const, Expr, Item, Loop, Node, Op, Reduce, SizeVar, Var, While, const, fresh
from raido.algo.graph.facts import Facts
from raido.algo.graph.rewrite import post_order, transform
from raido.schedule.atomics import monoids
from raido.schedule.lower.builder import Builder, Scope, closed
from raido.schedule.lower.convert import Fault
from raido.schedule.lower.dag import (
    CHEAP_TO_SELECT,
    MOST_SELECTED,
    count_uses,
    eager_children,
    in_bounds,
    is_trivial,
    lazy_children,
    name_of,
    scalar_order,
)
from raido.schedule.lower.steps import (
    is_arithmetic,
    is_plain_operator,
    known_neutral,
    operand_uses,
    replace_neutral,
    single_monoid,
    step,
    step_operands,
)
from raido.schedule.nest.nodes import AtomicUpdate, Buffer, Check, Fold, For, If, NestExpr, Prefix, Read, Store
from raido.schedule.nest.nodes import While as WhileStatement
from raido.schedule.stages.dependent import is_ragged


class Emitter:
    """Evaluates converted expressions in the present scope of a builder."""

    def __init__(self, builder: Builder, faults: dict[Node, tuple[Fault, ...]], contract: bool) -> None:
        self.builder = builder
        self.faults = faults
        self.contract = contract
        self.floor = 0
        self._values: list[dict[Node, NestExpr]] = []
        self._eager: list[set[Node]] = []
        self._uses: dict[Node, int] = {}
        self._levels: dict[Node, int] = {}
        self._checked: list[Buffer] = []

    def values(self, roots: Iterable[Expr]) -> list[NestExpr]:
        """Statements that evaluate the expressions, and the expressions that then name their values."""
        roots = list(roots)
        self._uses, self._levels = count_uses(roots), {}
        self._values, self._eager = [{}], []
        self._block(roots)
        level = len(self.builder.scopes) - 1
        return [self._operand(root, level) for root in roots]

    def _block(self, roots: Sequence[Expr]) -> list[NestExpr]:
        """Evaluates in the present scope, which is entered whenever this block is."""
        order = self._eager_order(roots)
        self._eager.append(set(order))
        for node in order:
            self._ensure(node)
        self._eager.pop()
        return [self._find(root) for root in roots]  # type: ignore[misc]

    def _find(self, node: Node) -> NestExpr | None:
        for values in reversed(self._values):
            if node in values:
                return values[node]
        return None

    def _eager_order(self, roots: Sequence[Expr]) -> list[Node]:
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
            self._form(node.form)
            return
        level = max((self._level(self._find(c)) for c in eager_children(node)), default=0)
        value: NestExpr
        parts: tuple[NestExpr, ...]
        if isinstance(node, Read):
            level = max(level, self.builder.level_of.get(node.buffer, 0))
            indices = tuple(self._operand(i, level) for i in node.indices)
            predicate = None if node.predicate is None else self._operand(node.predicate, level)
            value = Read(node.buffer, indices, predicate)
            parts = indices if predicate is None else (*indices, predicate)
        else:
            assert isinstance(node, Op), node
            args = tuple(self._operand(a, level) for a in node.args)
            value = (
                node if all(a is b for a, b in zip(args, node.args, strict=True)) else Op(node.name, node.dtype, args)
            )
            parts = args
        # A part that may not leave its loop has been named in there, whatever it depends on.
        level = self._levels[value] = max([level, *(self._level(part) for part in parts)])
        for fault in self.faults.get(node, ()):
            self._check(fault)
        shared = self._uses.get(node, 0) > 1 and not is_trivial(value)
        values[node] = self._name(value, level) if shared else value

    def _operand(self, node: Node, level: int) -> NestExpr:
        """A child's value, moved out of the loops it does not depend on."""
        value = self._find(node)
        assert value is not None, node
        own = self._level(value)
        if own < level and not is_trivial(value):
            value = self._name(value, own)
            self._remember(node, value)
        return value

    def _remember(self, node: Node, name: NestExpr) -> None:
        """The name stands for the node in the scope that it was given in, and inside that; the scopes around do not know it."""
        found = next(k for k in reversed(range(len(self._values))) if node in self._values[k])
        given = self._level(name) - (len(self.builder.scopes) - len(self._values))
        self._values[max(found, given)][node] = name

    def _level(self, value: NestExpr | None) -> int:
        assert value is not None
        if isinstance(value, (Const, SizeVar)):
            return 0
        if isinstance(value, Var):
            return self.builder.level_of.get(value, 0)
        known = self._levels.get(value)
        if known is None:
            parts = [self._level(c) for c in eager_children(value)]
            if isinstance(value, Read):
                parts.append(self.builder.level_of.get(value.buffer, 0))
            known = self._levels[value] = max(parts, default=0)
        return known

    def _name(self, value: NestExpr, level: int) -> NestExpr:
        """A `Let` for the value, as far out as it may stand."""
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
                scope.facts = scope.facts.with_range(var, 0, ix.sub(value.args[1], 1))
        return var

    def _may_hoist(self, value: NestExpr, level: int) -> bool:
        if not any(scope.loop for scope in self.builder.scopes[level + 1 :]) and not self._lazy():
            return True
        facts = self.builder.scopes[level].facts
        stack: list[Node] = [value]
        while stack:
            node = stack.pop()
            if isinstance(node, Read) and not in_bounds(node, facts):
                return False
            stack += eager_children(node)
        return True

    def _lazy(self) -> bool:
        return len(self._eager) > 1

    def _check(self, fault: Fault) -> None:
        holds, *values = self._nested((fault.holds, *fault.values))
        self.builder.add(Check(holds, fault.kind, fault.site, tuple(values)))
        for sound in self._checked:
            self.builder.add(Store(sound, (), Op("logical_and", bool_, (Read(sound, (), None), holds))))

    def _nested(self, roots: Sequence[Expr]) -> list[NestExpr]:
        """Evaluates more expressions at this point."""
        for node in self._eager_order(roots):
            self._ensure(node)
        return [self._find(root) for root in roots]  # type: ignore[misc]

    def _form(self, form: Any) -> None:
        """Statements for a form with several results; its items get values."""
        self._evaluate_shared(form)
        if isinstance(form, Cond) and self._is_cheap(form):
            self._select(form)
        elif isinstance(form, Cond):
            self._cond(form)
        elif isinstance(form, Loop):
            self._loop(form)
        elif isinstance(form, While):
            self._while(form)
        else:
            self._reduce(form)

    def _evaluate_shared(self, form: Node) -> None:
        """What the form's bodies share with the block around them is evaluated before them."""
        eager = self._eager[-1]
        inside = scalar_order(list(lazy_children(form)))
        shared = [node for node in inside if node in eager and self._find(node) is None]
        for node in shared:
            for needed in self._eager_order([node]):  # type: ignore[list-item]
                self._ensure(needed)

    def _registers(self, form: Any, names: Sequence[str], dtypes: Sequence[Any]) -> list[Buffer]:
        return [self.builder.alloc(n, d, (), "register") for n, d in zip(names, dtypes, strict=True)]

    def _finish(self, form: Any, registers: Sequence[Buffer | None]) -> None:
        for k, register in enumerate(registers):
            if register is not None and Item(form, k) in self._uses:
                var = self.builder.name(register.name, Read(register, (), None))
                self._values[-1][Item(form, k)] = var

    def _is_cheap(self, form: Cond) -> bool:
        """Whether evaluating both branches costs less than a branch, and harms nobody."""
        facts = self.builder.facts
        nodes = [n for n in scalar_order([*form.then, *form.orelse]) if self._find(n) is None]
        for node in nodes:
            if isinstance(node, (Const, SizeVar, Var)):
                continue
            if node in self.faults or not isinstance(node, (Op, Read)):
                return False
            if isinstance(node, Op) and node.name not in CHEAP_TO_SELECT:
                return False
            if isinstance(node, Read) and not in_bounds(node, facts):
                return False
        return len(nodes) <= MOST_SELECTED

    def _select(self, form: Cond) -> None:
        predicate = self._find(form.predicate)
        assert predicate is not None
        for k, (a, b) in enumerate(zip(form.then, form.orelse, strict=True)):
            item = Item(form, k)
            if item in self._uses:
                x, y = self._nested((a, b))
                value = x if x is y else Op("select", x.dtype, (predicate, x, y))
                self._values[-1][item] = self.builder.name("chosen", value) if self._uses[item] > 1 else value

    def _cond(self, form: Cond) -> None:
        predicate = self._find(form.predicate)
        needed = [k for k in range(len(form.then)) if Item(form, k) in self._uses]
        registers: list[Buffer | None] = [None] * len(form.then)
        for k in needed:
            registers[k] = self.builder.alloc("chosen", form.then[k].dtype, (), "register")
        blocks = []
        for branch in (form.then, form.orelse):
            with self._inner(loop=False, branch=True) as scope:
                results = self._block([branch[k] for k in needed])
                for k, value in zip(needed, results, strict=True):
                    self.builder.add(Store(registers[k], (), value))  # type: ignore[arg-type]
            blocks.append(closed(scope))
        assert predicate is not None
        self.builder.add(If(predicate, *blocks))
        self._finish(form, registers)

    def _inner(self, loop: bool, facts: Facts | None = None, branch: bool = False) -> Any:
        return _Inner(self, loop, facts, branch)

    def _start(self, registers: Sequence[Buffer], init: Sequence[Expr]) -> None:
        for register, e in zip(registers, init, strict=True):
            value = self._find(e)
            assert value is not None
            self.builder.add(Store(register, (), value))

    def _snapshot(self, state: Sequence[Var], registers: Sequence[Buffer]) -> None:
        for var, register in zip(state, registers, strict=True):
            self._values[-1][var] = self.builder.name(var.name, Read(register, (), None))

    def _update(self, registers: Sequence[Buffer], results: Sequence[NestExpr]) -> None:
        for register, value in zip(registers, results, strict=True):
            self.builder.add(Store(register, (), value))

    def _loop(self, form: Loop) -> None:
        registers = self._registers(form, [v.name for v in form.state], [v.dtype for v in form.state])
        self._start(registers, form.init)
        count = self._find(form.count)
        assert count is not None
        facts = self.builder.facts.with_range(form.index, 0, ix.sub(count, 1))
        with self._inner(loop=True, facts=facts) as scope:
            self._bind(form.index, scope)
            self._snapshot(form.state, registers)
            self._update(registers, self._block(form.body))
        self.builder.add(For(form.index, ix.as_index(0), count, 1, closed(scope)))
        self._finish(form, registers)

    def _bind(self, var: Var, scope: Scope) -> None:
        self.builder.level_of[var] = scope.level
        self._values[-1][var] = var

    def _while(self, form: While) -> None:
        registers = self._registers(form, [v.name for v in form.state], [v.dtype for v in form.state])
        self._start(registers, form.init)
        sound = self._sound(form)
        with self._inner(loop=True) as setup:
            self._snapshot(form.state, registers)
            (condition,) = self._block([form.condition])
            if sound is not None:
                condition = Op("logical_and", bool_, (self.builder.name(sound.name, Read(sound, (), None)), condition))
            with self._inner(loop=True) as body:
                self._update(registers, self._block(form.body))
        if sound is not None:
            self._checked.pop()
        self.builder.add(WhileStatement(closed(setup), condition, closed(body)))
        self._finish(form, registers)

    def _sound(self, form: While) -> Buffer | None:
        """Where a loop remembers that no check in it has failed, if it has any: what follows a fault might never end."""
        if not any(node in self.faults for node in scalar_order([form.condition, *form.body])):
            return None
        (sound,) = self._registers(form, ["sound"], [bool_])
        self.builder.add(Store(sound, (), const(bool_, True)))
        self._checked.append(sound)
        return sound

    def _reduce(self, form: Reduce) -> None:
        registers = self._registers(form, [v.name for v in form.left], [v.dtype for v in form.left])
        self._start(registers, form.neutral)
        scopes: list[tuple[Any, Scope, Any]] = []
        for axis in form.axes:
            extent = self._find(axis.extent)
            assert extent is not None
            manager = self._inner(loop=True, facts=self.builder.facts.with_range(axis.var, 0, ix.sub(extent, 1)))
            scope = manager.__enter__()
            self._bind(axis.var, scope)
            scopes.append((manager, scope, (axis.var, extent)))
        neutral = known_neutral(form) if is_ragged(form) else None
        wide = neutral is not None and len(form.axes) == 1 and is_arithmetic(*form.combine)
        fold = replace_neutral(form, neutral) if wide and neutral is not None else form
        self._fold_here(fold, registers, (), self._block(step_operands(form, self.contract)), self.contract)
        for manager, scope, (var, extent) in reversed(scopes):
            manager.__exit__(None, None, None)
            how: dict[str, Any] = {"kind": "vector", "interleave": 2, "tail": "mask"} if wide else {}
            self.builder.add(For(var, ix.as_index(0), extent, 1, closed(scope), **how))
        self._finish(form, registers)

    def prefixes(
        self, steps: Sequence[tuple[Reduce, Sequence[Buffer], tuple[Expr, ...]]], exclusive: bool
    ) -> list[list[NestExpr]]:
        """One step of each (converted) scan, in order; what the accumulators then hold (`exclusive`: held before)."""
        values = self.values([e for form, _, _ in steps for e in form.values])
        results = []
        for form, buffers, indices in steps:
            own, values = values[: len(form.values)], values[len(form.values) :]
            results.append(self._prefix_here(self._closed(form), buffers, indices, own, exclusive))
        return results

    def _prefix_here(
        self, form: Reduce, buffers: Sequence[Buffer], at: tuple[Expr, ...], values: Sequence[NestExpr], exclusive: bool
    ) -> list[NestExpr]:
        if is_arithmetic(*form.combine) and not self._can_fault(form):
            results = tuple(fresh("prefix", v.dtype) for v in form.left)
            for var in results:
                self.builder.level_of[var] = self.builder.scope.level
            parts = (tuple(buffers), at, tuple(values), form.left, form.right, form.combine, results, exclusive)
            self.builder.add(Prefix(*parts, known_neutral(form) or ()))
            return list(results)
        before = [self.builder.name(v.name, Read(b, at, None)) for v, b in zip(form.left, buffers, strict=True)]
        self.combine_into(form, buffers, at, before, [self._name_here(value) for value in values])
        return before if exclusive else [self.builder.name("prefix", Read(b, at, None)) for b in buffers]  # type: ignore[return-value]

    def folds(
        self, steps: Sequence[tuple[Reduce, Sequence[Buffer], tuple[Expr, ...]]], contract: bool | None = None
    ) -> None:
        """One step of each (converted) reduction into its accumulators at the given indices; values are shared among them.

        `contract`: whether a product that is added is added by a fused multiply-add; as for the whole program unless said.
        """
        contract = self.contract if contract is None else contract
        operands = [step_operands(form, contract) for form, _, _ in steps]
        values = self.values([e for es in operands for e in es])
        for (form, buffers, indices), es in zip(steps, operands, strict=True):
            own, values = values[: len(es)], values[len(es) :]
            self._fold_here(form, buffers, indices, own, contract)

    def atomics(self, form: Reduce, buffers: Sequence[Buffer], indices: tuple[Expr, ...]) -> None:
        """One (converted) step of an update whose values are combined each on its own, in indivisible steps."""
        values = [self._name_here(value) for value in self.values(form.values)]
        form = self._closed(form)
        parts = zip(buffers, values, form.left, form.right, form.combine, monoids(form), strict=True)
        for buffer, value, left, right, combine, monoid in parts:
            self.builder.add(AtomicUpdate(buffer, indices, value, left, right, combine, monoid))

    def _fold_here(
        self,
        form: Reduce,
        buffers: Sequence[Buffer],
        indices: tuple[Expr, ...],
        operands: Sequence[NestExpr],
        contract: bool,
    ) -> None:
        form = self._closed(form)
        if is_plain_operator(form) and not self._can_fault(form):
            named = [
                o if n < 2 else self._name_here(o) for o, n in zip(operands, operand_uses(form, contract), strict=True)
            ]
            taken = tuple(step(form, contract, named))
            if all(a is b for a, b in zip(taken, form.left, strict=True)):
                return
            fold = Fold(
                tuple(buffers), indices, taken, form.left, form.right, form.combine, form.neutral, single_monoid(form)
            )
            self.builder.add(fold)
            return
        before = [self.builder.name(v.name, Read(b, indices, None)) for v, b in zip(form.left, buffers, strict=True)]
        self.combine_into(form, buffers, indices, before, list(operands))

    def _closed(self, form: Reduce) -> Reduce:
        """The reduction with what its operator takes from the expressions around it replaced by its value."""
        own = {*form.left, *form.right}
        around = [n for n in scalar_order([*form.combine, *form.neutral]) if isinstance(n, Var) and n not in own]
        values = {v: found for v in around if (found := self._find(v)) is not None and found is not v}
        if not values:
            return form
        combine, neutral = (tuple(self._applied(es, values)) for es in (form.combine, form.neutral))
        return Reduce(form.axes, form.left, form.right, combine, neutral, form.values, form.commutative, form.monoid)

    def _applied(self, roots: Sequence[Expr], values: Mapping[Any, Any]) -> list[Expr]:
        """Expressions with variables replaced; what may fault in them still may."""
        memo: dict[Node, Node] = dict(values)
        applied = [transform(root, lambda node: node, memo) for root in roots]
        for old, new in list(memo.items()):
            if old is not new and old not in values and old in self.faults:
                parts = [
                    (fault, [transform(e, lambda node: node, memo) for e in (fault.holds, *fault.values)])
                    for fault in self.faults[old]
                ]
                self.faults.setdefault(new, tuple(replace(f, holds=e[0], values=tuple(e[1:])) for f, e in parts))
        return applied

    def _can_fault(self, form: Reduce) -> bool:
        return any(node in self.faults for node in scalar_order(form.combine))

    def _name_here(self, value: NestExpr) -> NestExpr:
        return value if is_trivial(value) else self.builder.name(name_of(value), value)

    def combine_into(
        self,
        form: Reduce,
        buffers: Sequence[Buffer],
        indices: tuple[Expr, ...],
        left: Sequence[NestExpr],
        right: Sequence[NestExpr],
    ) -> None:
        """buffers[indices] = the operator applied to `left` and `right`."""
        combined = self._applied(form.combine, dict(zip((*form.left, *form.right), (*left, *right), strict=True)))
        self._uses = {**self._uses, **count_uses(combined)}
        self._values.append({})
        results = self._block(combined)
        self._values.pop()
        for buffer, value in zip(buffers, results, strict=True):
            self.builder.add(Store(buffer, indices, value))


class _Inner:
    """A nested scope of a builder together with a nested table of values."""

    def __init__(self, emitter: Emitter, loop: bool, facts: Facts | None, branch: bool) -> None:
        self.emitter = emitter
        self.manager = emitter.builder.block(facts, loop, branch)

    def __enter__(self) -> Scope:
        self.emitter._values.append({})
        return self.manager.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.emitter._values.pop()
        self.manager.__exit__(*error)
