"""The interpreter's interface for the rules of forms: values of other nodes, in a frame."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeAlias

from raido.algo.graph.expr import Node
from raido.algo.graph.program import Program
from raido.algo.interpreter.lanes import Bound, Frame

Task: TypeAlias = Generator[Any, Any, Any]


class Machine(Protocol):
    """The interpreter of one program, as its rules see it. Tasks that a rule yields are evaluated first (`interpret.run`)."""

    program: Program

    def values(self, nodes: Sequence[Node], frame: Frame) -> Task:
        """The values of several nodes."""
        ...

    def depends_on(self, node: Node) -> Bound:
        """The variables and loop states that a node mentions and does not bind."""
        ...
