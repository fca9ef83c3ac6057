"""The work of a nest: a run in Python that counts executed operations, for differential tests of work.

A scalar nest counts exactly what its program does: it has no lanes, masks or tails. Operations on values count as in `algo/graph/cost.py`,
reads and writes of memory as one each, an update of a fold in memory as one; index arithmetic (subscripts, bounds of loops, and variables used
in these alone) and registers are free. Memory lives from its `Alloc` to the end of the block; `cache` counts the traffic beyond the last
cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from raido.algo.graph import index as ix
from raido.algo.graph.cost import cost_of
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Op, Var
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import children, topological
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Check,
    Copy,
    Fold,
    For,
    If,
    Let,
    Nest,
    Statement,
    Store,
    While,
)
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.cache import Cache, CachedMemory
from raido.schedule.oracles.interpret import compile_nest, sizes_of
from raido.schedule.oracles.memory import Memory
from raido.schedule.oracles.python_source import PythonSource


@dataclass(slots=True)
class Work:
    """Executed operations on values and memory accesses; bytes of temporary memory alive now, and at most.

    `brought`: bytes fetched into the last cache, where one is simulated.
    """

    operations: int = 0
    accesses: int = 0
    alive: int = 0
    most: int = 0
    brought: int = 0

    @property
    def total(self) -> int:
        """The sum of operations and accesses."""
        return self.operations + self.accesses

    def take(self, memory: Memory) -> None:
        """Records an allocation."""
        self.alive += memory.data.nbytes
        self.most = max(self.most, self.alive)

    def give_back(self, memory: Memory | None) -> None:
        """Records the freeing of memory; None where an output has taken it over."""
        if memory is not None:
            self.alive -= memory.data.nbytes
            if isinstance(memory, CachedMemory):
                memory.give_back()


def count_work(
    nest: Nest, arrays: Sequence[np.ndarray], sizes: Mapping[str, int] | None = None, cache: int = 0, near: int = 0
) -> tuple[Work, list[np.ndarray]]:
    """Returns the work of a scalar nest on these inputs, and its outputs.

    sizes: values of sizes that the shapes do not determine, by name. cache: bytes of the last cache; 0: traffic is not counted. near: bytes
    of temporary memory, at most, into which folding counts no access.
    """
    work, last = Work(), Cache(cache)
    known: dict[str, Any] = {"work": work, "K": Memory, "near": near}
    if cache:
        known["M"] = partial(CachedMemory, last)
    run = compile_nest(nest, CountingSource, known)
    results = run(arrays, sizes_of(nest, arrays, sizes or {}))
    work.brought = last.brought
    return work, results


class CountingSource(PythonSource):
    """Source that reports to `work` each block that is entered, and memory allocated and freed.

    `once`: folds that are the whole body of a loop, into one element, which stays in a register. `free`: variables of index arithmetic that
    no value depends on.
    """

    def __init__(self, nest: Nest) -> None:
        self.once: set[Statement] = set()
        self.free = _names_of_indices(nest)
        self.temporary = {s.buffer for s in statements_within(nest.body) if isinstance(s, Alloc)}
        super().__init__(nest)

    def memory(self, buffer: Buffer) -> str:
        """Returns the constructor of a buffer's memory; registers do not count as memory."""
        return "M" if _is_memory(buffer) else "K"

    def block(self, block: Block) -> None:
        """Appends the lines of a block, which count all its statements, and free its memory at the end."""
        folds = [fold for s in block.statements for fold in _folds_of_one_element(s)]
        self.once.update(folds)
        free = self.free
        rows = [s for s in block.statements if isinstance(s, Fold) and s not in self.once and self.is_temporary(s)]
        apart = {*rows, *self.once}
        counts = [_without_memory(s) if s in apart else counts_of(s) for s in block.statements if s not in free]
        counts += [(0, _folded(fold)) for fold in folds]
        for name, count in zip(("operations", "accesses"), map(sum, zip(*counts, strict=True)), strict=False):
            if count:
                self.line(f"work.{name} += {count}")
        for fold in rows:
            held = " + ".join(f"{self.name(buffer)}.data.nbytes" for buffer in fold.buffers)
            self.line(f"work.accesses += {_folded(fold)} * ({held} > near)")
        super().block(block)
        for statement in block.statements:
            if isinstance(statement, Alloc) and _is_memory(statement.buffer):
                self.line(f"work.give_back({self.name(statement.buffer)})")

    def is_temporary(self, fold: Fold) -> bool:
        """Whether a fold writes memory that the nest allocates, whose accesses count by its size."""
        return all(_is_memory(b) and b in self.temporary for b in fold.buffers)

    def statement(self, s: Statement) -> None:
        """Appends the lines of a statement, and of the memory that it allocates or copies."""
        super().statement(s)
        if isinstance(s, Alloc) and _is_memory(s.buffer):
            self.line(f"work.take({self.name(s.buffer)})")
        elif isinstance(s, Copy):
            self.line(f"work.accesses += 2 * {self.name(s.destination)}.data.size")


def counts_of(s: Statement) -> tuple[int, int]:
    """Returns the operations on values and the memory accesses of one execution of a statement, without those of statements inside it."""
    operations, accesses = _values(_values_of(s), getattr(s, "indices", ()))
    if isinstance(s, (Store, AtomicUpdate)):
        accesses += _is_memory(s.buffer)
    elif isinstance(s, Fold):
        accesses += _folded(s)
    elif isinstance(s, Append):
        accesses += len(s.buffers)
    return operations, accesses


def _values_of(s: Statement) -> list[NestExpr]:
    """Returns the values that a statement computes, without conditions that are index arithmetic."""
    if isinstance(s, Let):
        return [s.value]
    if isinstance(s, Store):
        return [s.value, *_given(s.predicate)]
    if isinstance(s, Fold):
        return [*s.values, *map(_without_count, s.step)]
    if isinstance(s, AtomicUpdate):
        return [s.value, s.combine]
    if isinstance(s, Append):
        return [*s.values, s.predicate]
    conditions = [s.condition] if isinstance(s, (If, While)) else [s.holds] if isinstance(s, Check) else []
    return [e for e in conditions if not _is_index(e)]


def _names_of_indices(nest: Nest) -> set[Statement]:
    """Returns the `Let`s of index arithmetic that only subscripts, bounds of loops, conditions of index arithmetic and other such `Let`s
    use.
    """
    found: set[Statement] = set()
    used: set[Node] = set()
    for s in reversed(list(statements_within(nest.body))):
        if isinstance(s, Let) and s.var not in used and _is_index(s.value):
            found.add(s)
        else:
            used.update(node for node in _evaluated(_values_of(s)) if isinstance(node, Var))
    return found


def _folds_of_one_element(s: Statement) -> list[Fold]:
    """Returns the folds of a loop that has no other statements but `Let`s, into elements that its iterations share."""
    if not isinstance(s, For) or not all(isinstance(inner, (Let, Fold)) for inner in s.body.statements):
        return []
    inner = [fold for fold in s.body.statements if isinstance(fold, Fold)]
    return [fold for fold in inner if s.var not in topological(*fold.indices)]


def _folded(s: Fold) -> int:
    """Returns the accesses to the accumulators of an update of a fold."""
    return sum(map(_is_memory, s.buffers))


def _without_memory(s: Statement) -> tuple[int, int]:
    """Returns the work of an update whose accumulators are in registers."""
    assert isinstance(s, Fold)
    operations, accesses = counts_of(s)
    return operations, accesses - _folded(s)


def _without_count(step: NestExpr) -> NestExpr:
    """Returns the predicate p of a counting fold `left + (1 if p else 0)`, whose addition is as free as an index; other updates unchanged."""
    counted = step.args[1] if isinstance(step, Op) and step.name == "add" else None
    if isinstance(counted, Op) and counted.name == "select" and counted.dtype is i64:
        asked, yes, no = counted.args
        if ix.constant_value(yes) == 1 and ix.constant_value(no) == 0:
            return asked
    return step


def _given(e: NestExpr | None) -> tuple[NestExpr, ...]:
    return () if e is None else (e,)


def _is_memory(buffer: Buffer) -> bool:
    return buffer.scope != "register"


def _is_index(e: NestExpr) -> bool:
    """Whether an expression is arithmetic on loop variables and sizes alone."""
    return not any(isinstance(n, Read) or (isinstance(n, Op) and n.args[0].dtype is not i64) for n in topological(e))


def _values(values: Iterable[NestExpr], subscripts: Iterable[NestExpr] = ()) -> tuple[int, int]:
    """Returns the operations and accesses of values, common subexpressions counted once; of subscripts only their accesses."""
    nodes = list(_evaluated(values))
    reads = {node for node in nodes if isinstance(node, Read)}
    below = [*subscripts, *(e for read in reads for e in read.indices)]
    reads.update(node for node in topological(*below) if isinstance(node, Read))
    return sum(map(cost_of, nodes)), sum(_is_memory(read.buffer) for read in reads)


def _evaluated(values: Iterable[NestExpr]) -> Iterator[Node]:
    """Yields the nodes of values, each once, without subscripts."""
    found: set[Node] = set()
    stack: list[Node] = list(values)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            yield node
            stack += _given(node.predicate) if isinstance(node, Read) else children(node)
