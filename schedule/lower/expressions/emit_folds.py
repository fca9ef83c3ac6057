"""Steps of reductions, scans and updates as statements: `Fold` and `AtomicUpdate` where their grammar allows, else
loads, the operator, and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from raido.algo.graph.expr import Expr, Node, Reduce, Var, fresh
from raido.algo.graph.node import with_fields
from raido.algo.graph.reduction import is_arithmetic, monoids
from raido.algo.graph.rewrite import transform
from raido.schedule.lower.expressions.dag import count_uses
from raido.schedule.lower.expressions.emit_values import ValueEmitter
from raido.schedule.lower.expressions.fold_updates import (
    Operator,
    fold_operands,
    fold_update,
    operand_uses,
    operator_of,
    single_monoid,
)
from raido.schedule.nest.nodes import AtomicUpdate, Carry, Collect, Fold
from raido.schedule.nest.values import Buffer, NestExpr, Read


class FoldEmitter(ValueEmitter):
    """Combines values into accumulators."""

    def _operator(self, form: Reduce) -> Operator:
        """The analysed operator of a fold, cached: unrolled instances fold different values by the same operator."""
        key = (form.left, form.right, form.combine, form.neutral)
        found = self._operators.get(key)
        if found is None:
            found = self._operators[key] = operator_of(form)
        return found

    def prefixes(
        self, targets: Sequence[tuple[Reduce, Sequence[Buffer], tuple[Expr, ...]]], exclusive: bool
    ) -> list[list[NestExpr]]:
        """Emits one step of each (converted) scan, in order, and returns the accumulators after it (`exclusive`: before it)."""
        values = self.values([e for form, _, _ in targets for e in form.values])
        results = []
        for form, buffers, indices in targets:
            own, values = values[: len(form.values)], values[len(form.values) :]
            results.append(self._prefix_here(self._closed(form), buffers, indices, own, exclusive))
        return results

    def _prefix_here(
        self, form: Reduce, buffers: Sequence[Buffer], at: tuple[Expr, ...], values: Sequence[NestExpr], exclusive: bool
    ) -> list[NestExpr]:
        if self.is_operator(form):
            results = tuple(fresh("prefix", v.dtype) for v in form.left)
            for var in results:
                self.builder.level_of[var] = self.builder.scope.level
            operator = (form.combine, form.left, form.right, form.combine, form.neutral)
            before, after = (results, ()) if exclusive else ((), results)
            self.builder.add(Fold(tuple(buffers), at, *operator, "", tuple(values), before, after))
            return list(results)
        before = [self.builder.name(v.name, Read(b, at, None)) for v, b in zip(form.left, buffers, strict=True)]
        self.combine_into(form, buffers, at, before, [self._name_here(value) for value in values])
        return before if exclusive else [self.builder.name("prefix", Read(b, at, None)) for b in buffers]  # type: ignore[return-value]

    def folds(
        self, targets: Sequence[tuple[Reduce, Sequence[Buffer], tuple[Expr, ...]]], contract: bool | None = None
    ) -> None:
        """Emits one step of each (converted) reduction into its accumulators at the given indices, with values shared among them.

        contract: whether a product that is added becomes a fused multiply-add; None for the program's setting.
        """
        contract = self.contract if contract is None else contract
        operands = [fold_operands(form, contract) for form, _, _ in targets]
        values = self.values([e for es in operands for e in es])
        for (form, buffers, indices), es in zip(targets, operands, strict=True):
            own, values = values[: len(es)], values[len(es) :]
            self._fold_here(form, buffers, indices, own, contract)

    def atomics(self, form: Reduce, buffers: Sequence[Buffer], indices: tuple[Expr, ...]) -> None:
        """Emits one (converted) step of an update whose components are combined separately, each atomically."""
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
        if self.is_fold_update(form):
            uses = self._operator(form).uses
            named = [
                o if n < 2 else self._name_here(o)
                for o, n in zip(operands, operand_uses(form, contract, uses), strict=True)
            ]
            taken = tuple(fold_update(form, contract, named))
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
        """The reduction with the variables that its operator takes from the enclosing expressions replaced by their values."""
        values = {
            v: found for v in self._operator(form).around if (found := self._find(v)) is not None and found is not v
        }
        if not values:
            return form
        combine, neutral = (tuple(self._applied(es, values)) for es in (form.combine, form.neutral))
        return with_fields(form, combine=combine, neutral=neutral)

    def _applied(self, roots: Sequence[Expr], values: Mapping[Any, Any]) -> list[Expr]:
        """Expressions with variables replaced; faults of their nodes are carried over."""
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

    def collect(
        self,
        form: Reduce,
        buffers: Sequence[Buffer],
        indices: tuple[Expr, ...],
        var: Var,
        count: Expr,
        width: int,
        halves: bool,
        level: str,
        prefix: bool = False,
    ) -> None:
        """Emits a `Collect`: combines the parts of neighbouring threads, numbered by `var`, by the operator of a (converted) reduction that
        `is_fold_update`, or of a scan that `is_operator` (`prefix`: each part becomes the inclusive prefix)."""
        form = self._closed(form)
        operator = (form.left, form.right, tuple(form.combine))
        self.builder.add(Collect(var, count, width, tuple(buffers), indices, *operator, halves, level, prefix))

    def carry(
        self,
        form: Reduce,
        before: Sequence[Buffer],
        index: Expr,
        values: Sequence[NestExpr],
        totals: Sequence[Buffer],
        state: Buffer,
        counts: bool,
    ) -> list[Var]:
        """Emits a `Carry`, which hands on the values of a block by the operator of a (converted) scan that `is_operator`; returns the
        variables with the value of all earlier blocks."""
        form = self._closed(form)
        taken = tuple(fresh("earlier", v.dtype) for v in form.left)
        for var in taken:
            self.builder.level_of[var] = self.builder.scope.level
        operator = (form.left, form.right, tuple(form.combine))
        self.builder.add(Carry(taken, tuple(before), index, tuple(values), *operator, tuple(totals), state, counts))
        return list(taken)

    def is_fold_update(self, form: Reduce) -> bool:
        """Whether the operator of a (converted) reduction, with its neutral element, is arithmetic that a nest
        can express, and cannot fault."""
        return self._operator(form).plain and not self._can_fault(form)

    def is_operator(self, form: Reduce) -> bool:
        """Whether the operator of a (converted) scan is such arithmetic, whatever its initial value."""
        return is_arithmetic(*form.combine) and not self._can_fault(form)

    def _can_fault(self, form: Reduce) -> bool:
        return any(node in self.faults for node in self._operator(form).nodes)

    def combine_into(
        self,
        form: Reduce,
        buffers: Sequence[Buffer],
        indices: tuple[Expr, ...],
        left: Sequence[NestExpr],
        right: Sequence[NestExpr],
    ) -> None:
        """Emits buffers[indices] = the operator applied to `left` and `right`."""
        combined = self._applied(form.combine, dict(zip((*form.left, *form.right), (*left, *right), strict=True)))
        self._uses = {**self._uses, **count_uses(combined)}
        self._values.append({})
        results = self._block(combined)
        self._values.pop()
        self.builder.store(buffers, indices, results)
