"""States of scalar loops as memory: a register for a number, an array on the stack for one that is private to the element.

An iteration reads everything that it needs of the states before it changes any of them, so each changes in place: the elements that
`Changed` names one by one, and all of a `Fill`, in temporary memory first where another state reads the old contents. A loop whose state
starts as an array that nothing reads any more takes over its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import (
    Axis,
    Changed,
    Const,
    Element,
    Expr,
    Fill,
    Item,
    Loop,
    Node,
    Private,
    Var,
    While,
    fresh,
)
from raido.algo.graph.rewrite import children, free_variables
from raido.schedule.lower.builder import closed
from raido.schedule.lower.expressions.dag import begun_with, scalar_order
from raido.schedule.lower.expressions.emit_folds import FoldEmitter
from raido.schedule.nest.nodes import For, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read


class PrivateEmitter(FoldEmitter):
    """Emits the states of loops, in registers and private arrays."""

    def _registers(self, names: Sequence[str], dtypes: Sequence[DType]) -> list[Buffer]:
        return [self.builder.alloc(n, d, (), "register") for n, d in zip(names, dtypes, strict=True)]

    def _start(self, registers: Sequence[Buffer], init: Sequence[Expr]) -> None:
        for register, e in zip(registers, init, strict=True):
            value = self._find(e)
            assert value is not None
            self.builder.add(Store(register, (), value))

    @contextmanager
    def _outermost(self, form: Any) -> Iterator[None]:
        """Hoists a loop with private arrays to the outermost scope whose variables it depends on, for the duration of the context."""
        scopes, level = self.builder.scopes, self._level_of_form(form)
        inside = scopes[level + 1 :]
        del scopes[level + 1 :]
        try:
            yield
        finally:
            scopes += inside

    def _level_of_form(self, form: Any) -> int:
        present = len(self.builder.scopes) - 1
        own = any(isinstance(var, Private) for var in getattr(form, "state", ()))
        if not own or len(self._eager) > 1:
            return present
        loops = [scope for scope in self.builder.scopes if scope.var is not None]
        bound = [scope.level for scope, level in zip(loops, self.builder.levels, strict=False) if level]
        first = max(bound, default=next((scope.level for scope in self.builder.scopes if scope.loop), present))
        levels = [first, self.floor, *(scope.level for scope in self.builder.scopes if scope.branch)]
        for node in scalar_order(children(form)):
            found = self._find(node)
            if found is not None:
                levels.append(self._level(found))
            elif isinstance(node, (Read, Var)):
                levels.append(self.builder.level_of.get(node.buffer if isinstance(node, Read) else node, 0))
        return max(levels)

    def _states(self, form: Loop | While) -> list[Buffer]:
        """Memory for the states of a loop, holding their initial values."""
        pairs = list(zip(form.state, form.init, strict=True))
        taken = [self._taken_over(form, init) if isinstance(var, Private) else None for var, init in pairs]
        memory = [found or self._memory(var) for (var, _), found in zip(pairs, taken, strict=True)]
        for (var, init), buffer, found in zip(pairs, memory, taken, strict=True):
            if not isinstance(var, Private):
                self._start([buffer], [init])
            elif found is None:
                self._make(buffer, init, var.shape)
        return memory

    def _memory(self, var: Var) -> Buffer:
        if isinstance(var, Private):
            return self._array(var.name, var.dtype, var.shape)
        return self.builder.alloc(var.name, var.dtype, (), "register")

    def _array(self, name: str, dtype: DType, shape: tuple[Expr, ...]) -> Buffer:
        return self.builder.alloc(name, dtype, shape, "stack")

    def _taken_over(self, form: Loop | While, init: Node) -> Buffer | None:
        """The memory of a state's initial array, if nothing reads the old contents once the loop runs; elements that are still
        needed are read first. Else None."""
        if not isinstance(init, (Private, Item)) or not self._eager:
            return None
        elements = [e for e in self._eager[-1] if isinstance(e, Element) and e.array is init]
        owners = 2 if isinstance(init, Private) else 1  # uses: by the loop whose state it is, and by this one
        if self._uses.get(init, 0) != owners + len(elements):
            return None
        if any(getattr(node, "form", None) is form for node in scalar_order(elements)):
            return None
        for e in elements:
            for needed in self._eager_order([e]):
                self._ensure(needed)
        return self._find(init)  # type: ignore[return-value]

    def _snapshot(self, state: Sequence[Var], memory: Sequence[Buffer]) -> None:
        """Names the values of the states at the start of an iteration."""
        for var, buffer in zip(state, memory, strict=True):
            if isinstance(var, Private):
                self.builder.changes(buffer)
                self._values[-1][var] = buffer
            else:
                self._values[-1][var] = self.builder.name(var.name, Read(buffer, (), None))

    def _finish(self, form: Any, memory: Sequence[Buffer | None]) -> None:
        for k, buffer in enumerate(memory):
            if buffer is not None and Item(form, k) in self._uses:
                value = buffer if buffer.shape else self.builder.name(buffer.name, Read(buffer, (), None))
                self._values[-1][Item(form, k)] = value

    def _next(self, form: Loop | While, memory: Sequence[Buffer]) -> None:
        """Emits the states' values after an iteration."""
        self._block(begun_with(form.body))
        changes = [self._changes_of(e) if isinstance(e, Changed) else [] for e in form.body]
        held: list[Callable[[], None]] = []
        bases = [e.array if isinstance(e, Changed) else e for e in form.body]
        for k, (var, buffer) in enumerate(zip(form.state, memory, strict=True)):
            if not isinstance(var, Private):
                value = self._find(form.body[k])
                held.append(lambda buffer=buffer, value=value: self.builder.add(Store(buffer, (), value)))  # type: ignore[misc]
            elif isinstance(bases[k], Fill) and not _is_read(var, bases, k):
                self._make(buffer, bases[k], var.shape)
            elif isinstance(bases[k], Fill) or self._find(bases[k]) is not buffer:
                made = self._array(var.name, var.dtype, var.shape)
                self._make(made, bases[k], var.shape)
                held.append(lambda buffer=buffer, made=made: self._copy(buffer, made))  # type: ignore[misc]
        for put in held:
            put()
        for buffer, each in zip(memory, changes, strict=True):
            self._put(buffer, each)

    def _make(self, buffer: Buffer, e: Any, shape: tuple[Expr, ...]) -> None:
        """Stores a private array."""
        if isinstance(e, Changed):
            changes = self._changes_of(e)
            self._make(buffer, e.array, shape)
            self._put(buffer, changes)
        elif isinstance(e, Fill):
            own = {axis.var for axis in e.axes}
            for node in self._eager_order([e.body]):  # loop-invariant values are evaluated before the loop
                if own.isdisjoint(free_variables(node)):
                    self._ensure(node)
            self._for_each(e.axes, lambda: self._stored(buffer, e))
        else:
            self._copy(buffer, self._find(e))  # type: ignore[arg-type]

    def _stored(self, buffer: Buffer, fill: Fill) -> None:
        (value,) = self._block([fill.body])
        self.builder.add(Store(buffer, tuple(axis.var for axis in fill.axes), value))

    def _copy(self, buffer: Buffer, source: Buffer) -> None:
        axes = tuple(Axis(fresh("x"), extent) for extent in buffer.shape)
        indices = tuple(axis.var for axis in axes)
        self._for_each(axes, lambda: self.builder.add(Store(buffer, indices, Read(source, indices, None))))

    def _for_each(self, axes: Sequence[Axis], body: Callable[[], None]) -> None:
        """Emits loops over all indices."""
        if not axes:
            body()
            return
        var, extent = axes[0].var, axes[0].extent
        with self._inner(
            loop=True, assumptions=self.builder.assumptions.with_range(var, 0, ix.sub(extent, 1))
        ) as scope:
            self.builder.level_of[var] = scope.level
            self._values[-1][var] = var
            self._for_each(axes[1:], body)
        self.builder.add(For(var, ix.as_index(0), extent, 1, closed(scope)))

    def _changes_of(self, e: Changed) -> list[tuple[NestExpr | None, tuple[NestExpr, ...], NestExpr]]:
        """The changes of elements as (condition, None if always, indices, value), all evaluated."""
        rank = len(e.indices) // len(e.values)
        found: list[tuple[NestExpr | None, tuple[NestExpr, ...], NestExpr]] = []
        for k, (test, value) in enumerate(zip(e.tests, e.values, strict=True)):
            indices: tuple[Any, ...] = tuple(self._find(i) for i in e.indices[k * rank : (k + 1) * rank])
            holds = None if isinstance(test, Const) and test.value else self._find(test)
            found.append((holds, indices, self._find(value)))  # type: ignore[arg-type]
        return found

    def _put(self, buffer: Buffer, changes: Sequence[tuple[NestExpr | None, tuple[NestExpr, ...], NestExpr]]) -> None:
        for holds, indices, value in changes:
            self.builder.add(Store(buffer, indices, value, holds))

    def filled(self, fill: Fill) -> Buffer:
        """Emits the statements that fill a private array, and returns its buffer."""
        made = self._array("made", fill.dtype, tuple(axis.extent for axis in fill.axes))
        self._make(made, fill, made.shape)
        return made


def _is_read(var: Private, bases: Sequence[Any], k: int) -> bool:
    """Whether the old contents of state k, which is filled anew, are read by another state, or by its own fill at other indices."""
    own = tuple(axis.var for axis in bases[k].axes)
    for j, base in enumerate(bases):
        reads = [
            node for node in scalar_order([base]) if node is var or (isinstance(node, Element) and node.array is var)
        ]
        if reads and (j != k or any(isinstance(read, Element) and read.indices != own for read in reads)):
            return True
    return False
