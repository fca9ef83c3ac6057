"""A program's fingerprint: a hash of its graph and of the names that schedules use for its stages, equal in every process.

Variables are numbered in the order of their first visit, so that two traces of one function have one fingerprint; source lines are left
out.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Parameter, Var
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological


def fingerprint(program: Program) -> str:
    """Returns the fingerprint of a program, 64 hexadecimal digits."""
    return _by_identity(_Identity(program))


@lru_cache(maxsize=64)
def _by_identity(key: _Identity) -> str:
    return _compute(key.program)


class _Identity:
    """A cache key for a program, compared by identity."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.program is self.program


def nodes_of(program: Program) -> list[Node]:
    """Returns every node of a program, in an order that is the same for all programs of one fingerprint."""
    return topological(*program.parameters, *program.sizes, *program.results, *program.order)


def _compute(program: Program) -> str:
    numbers: dict[Node, int] = {}
    digest = hashlib.sha256()

    def put(*words: Any) -> None:
        digest.update(repr(words).encode() + b"\n")

    put(program.name, program.contract, program.input_tree, program.output_tree)
    put(sorted(program.complex_inputs), sorted(program.complex_outputs))
    roots = (*program.parameters, *program.sizes, *program.results, *program.order)
    for node in nodes_of(program):
        numbers[node] = len(numbers)
        put(
            type(node).__name__, *(_field(getattr(node, name), name, node, numbers) for name in field_names(type(node)))
        )
    put([numbers[root] for root in roots])
    for form in program.order:
        put(program.names.get(form, ()), program.kinds.get(form, ""))
    return digest.hexdigest()


def _field(value: Any, name: str, node: Node, numbers: dict[Node, int]) -> Any:
    if name == "serial" and isinstance(node, (Var, Parameter)):
        return numbers[node] if value else 0
    if isinstance(value, Node):
        return numbers[value]
    if isinstance(value, tuple):
        return tuple(_field(each, "", node, numbers) for each in value)
    if isinstance(value, DType):
        return value.name
    return value.digest if isinstance(value, Data) else value
