"""Expressions as statements: control flow becomes `If`, `For`, `While`.

Nodes in a branch or loop body of the expression are evaluated only there, unless they are needed outside as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Cond, Const, Item, Loop, Node, Op, Reduce, SizeVar, Var, While, const
from raido.algo.graph.reduction import identities_of
from raido.schedule.lower.builder import Scope, closed
from raido.schedule.lower.expressions.dag import (
    CHEAP_TO_SELECT,
    MOST_SELECTED,
    in_bounds,
    lazy_children,
    scalar_order,
)
from raido.schedule.lower.expressions.emit_private import PrivateEmitter
from raido.schedule.lower.expressions.fold_updates import (
    fold_operands,
    replace_neutral,
)
from raido.schedule.nest.nodes import For, If, Store
from raido.schedule.nest.nodes import While as WhileStatement
from raido.schedule.nest.passes.own_counters import counted_loop
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.stages.stage import LaneFold


class Emitter(PrivateEmitter):
    """Evaluates converted expressions: values (`ValueEmitter`), steps of reductions (`FoldEmitter`), array states of loops
    (`PrivateEmitter`), and forms with several results."""

    def form(self, form: Any) -> None:
        """Emits a form with several results, and records the values of its items."""
        with self._outermost(form):
            self._form_here(form)

    def _form_here(self, form: Any) -> None:
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
        """Evaluates, before the form's bodies, the nodes that both these and the enclosing block evaluate."""
        eager = self._eager[-1]
        inside = scalar_order(list(lazy_children(form)))
        shared = [node for node in inside if node in eager and self._find(node) is None]
        for node in shared:
            for needed in self._eager_order([node]):  # type: ignore[list-item]
                self._ensure(needed)

    def _is_cheap(self, form: Cond) -> bool:
        """Whether a conditional becomes a selection: evaluating both branches is cheaper than a branch, cannot
        fault, and reads in bounds."""
        assumptions = self.builder.assumptions
        nodes = [n for n in scalar_order([*form.then, *form.orelse]) if self._find(n) is None]
        for node in nodes:
            if isinstance(node, (Const, SizeVar, Var)):
                continue
            if node in self.faults or not isinstance(node, (Op, Read)):
                return False
            if isinstance(node, Op) and node.name not in CHEAP_TO_SELECT:
                return False
            if isinstance(node, Read) and not in_bounds(node, assumptions):
                return False
        return len(nodes) <= MOST_SELECTED

    def _select(self, form: Cond) -> None:
        predicate = self._find(form.predicate)
        assert predicate is not None
        for k, (a, b) in enumerate(zip(form.then, form.orelse, strict=True)):
            item = Item(form, k)
            if item in self._uses:
                if isinstance(predicate, Const):
                    (value,) = self._nested((a if predicate.value else b,))
                else:
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

    def _loop(self, form: Loop) -> None:
        registers = self._states(form)
        count = self._find(form.count)
        assert count is not None
        assumptions = self.builder.assumptions.with_range(form.index, 0, ix.sub(count, 1))
        with self._inner(loop=True, assumptions=assumptions) as scope:
            self._bind(form.index, scope)
            self._snapshot(form.state, registers)
            self._next(form, registers)
        self.builder.add(For(form.index, ix.as_index(0), count, 1, closed(scope)))
        self._finish(form, registers)

    def _bind(self, var: Var, scope: Scope) -> None:
        self.builder.level_of[var] = scope.level
        self._values[-1][var] = var

    def _while(self, form: While) -> None:
        registers = self._states(form)
        sound = self._sound(form)
        with self._inner(loop=True) as setup:
            self._snapshot(form.state, registers)
            (condition,) = self._block([form.condition])
            if sound is not None:
                condition = Op("logical_and", bool_, (self.builder.name(sound.name, Read(sound, (), None)), condition))
            with self._inner(loop=True) as body:
                self._next(form, registers)
        if sound is not None:
            self._checked.pop()
        made = WhileStatement(closed(setup), condition, closed(body))
        if counted_loop(made, self.builder.scope.statements) is None:  # it may never end
            made = replace(made, site=self.loops.get(form, self.builder.site_of_loop()))
        self.builder.add(made)
        self._finish(form, registers)

    def _sound(self, form: While) -> Buffer | None:
        """A register that records whether all checks in the loop have held; the loop also stops on failure, because it may not terminate on
        faulted data. None if nothing in the loop can fault."""
        if not any(node in self.faults for node in scalar_order([form.condition, *form.body])):
            return None
        (sound,) = self._registers(["sound"], [bool_])
        self.builder.add(Store(sound, (), const(bool_, True)))
        self._checked.append(sound)
        return sound

    def _reduce(self, form: Reduce) -> None:
        registers = self._registers([v.name for v in form.left], [v.dtype for v in form.left])
        self._start(registers, form.neutral)
        scopes: list[tuple[Any, Scope, Any]] = []
        for axis in form.axes:
            extent = self._find(axis.extent)
            assert extent is not None
            manager = self._inner(
                loop=True, assumptions=self.builder.assumptions.with_range(axis.var, 0, ix.sub(extent, 1))
            )
            scope = manager.__enter__()
            self._bind(axis.var, scope)
            scopes.append((manager, scope, (axis.var, extent)))
        in_lanes = isinstance(form, LaneFold)
        fold = replace_neutral(form, identities_of(form)) if in_lanes else form
        self._fold_here(fold, registers, (), self._block(fold_operands(form, self.contract)), self.contract)
        for manager, scope, (var, extent) in reversed(scopes):
            manager.__exit__(None, None, None)
            how: dict[str, Any] = {}
            if in_lanes:
                how = {"kind": "vector", "lanes": form.lanes, "interleave": form.interleave, "tail": "default"}
                how |= {"stage": form.stage, "loop": form.loop}
            self.builder.add(For(var, ix.as_index(0), extent, 1, closed(scope), **how))
        self._finish(form, registers)
