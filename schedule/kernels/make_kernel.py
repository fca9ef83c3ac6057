"""A kernel from the code of a thread: names of its surroundings become its arrays and numbers, or are computed at its entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Node, SizeVar, Var, fresh
from raido.schedule.kernels.host_plan import Number
from raido.schedule.kernels.kernel import Kernel
from raido.schedule.nest.alike import KeyRows
from raido.schedule.nest.nodes import Block, Let
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer, NestExpr, Read


@dataclass(slots=True)
class Known:
    """Names in scope: arrays of the device and numbers of the plan by their names in it, values in memory, and values
    computed from all these alone."""

    arrays: dict[Buffer, str]
    numbers: dict[Node, str]
    cells: dict[Node, Buffer]
    pure: dict[Node, NestExpr]

    def copy(self) -> Known:
        """A copy, to be extended."""
        return Known(dict(self.arrays), dict(self.numbers), dict(self.cells), dict(self.pure))


def _axes(name: str) -> tuple[Var, Var, Var]:
    return (fresh(f"{name}_x"), fresh(f"{name}_y"), fresh(f"{name}_z"))


@dataclass(frozen=True, slots=True)
class IndexVariables:
    """The variables of a thread's place in a launch."""

    blocks: tuple[Var, Var, Var] = field(default_factory=lambda: _axes("block"))
    threads: tuple[Var, Var, Var] = field(default_factory=lambda: _axes("thread"))


def make_kernel(
    code: Block,
    extent: tuple[int, int, int],
    index_variables: IndexVariables,
    known: Known,
    given: Mapping[Node, Number],
    faults: bool,
) -> Kernel:
    """The kernel, without a name. given: numbers that belong to the launch alone. faults: whether a fault may
    have been recorded when it ends."""
    own = {*index_variables.blocks, *index_variables.threads}
    entry: list[Let] = []
    while True:
        uses = Uses(Block((*entry, *code.statements)))
        missing = [v for v in uses.variables if v not in own and v not in given and not _is_number(v, known)]
        if not missing:
            break
        named = [s for s in entry if s.var not in missing]  # a value that another one needs comes before it
        entry = [*(Let(v, _value(v, known)) for v in missing), *named]  # type: ignore[arg-type]
    numbers = tuple(v for v in uses.variables if v not in own)
    body = Block((*entry, *code.statements)) if entry else code
    return Kernel(
        "", tuple(uses.buffers), numbers, index_variables.blocks, index_variables.threads, extent, body, faults
    )


def _is_number(v: Node, known: Known) -> bool:
    return v in known.numbers and (isinstance(v, SizeVar) or v.dtype is i64)  # type: ignore[attr-defined]


def _value(v: Node, known: Known) -> NestExpr:
    """The definition of a variable that is no number of the plan."""
    if v in known.pure:
        return known.pure[v]
    return Read(known.cells[v], (), None)


def kernel_key(kernel: Kernel) -> tuple[Any, ...]:
    """The key of a kernel, equal for kernels that do the same with arguments in the same order."""
    rows = KeyRows()
    rows.statement(kernel.body)
    for node in (*kernel.arrays, *kernel.numbers, *kernel.blocks, *kernel.threads):
        rows.add(rows.expression(node))
    return (*rows.rows, kernel.extent, kernel.faults)


def clean_name(name: str) -> str:
    """The name with characters other than ASCII letters and digits replaced by "_"."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
