"""`without_checks(program)`: the same program without checks of indices, divisors, exponents and sizes; a former fault is undefined.

Checked loads become plain ones. A divisor that might be 0 becomes 1 where it is, and a negative exponent 0: integer units trap, and
inactive lanes divide too; the selection costs nothing beside the division.
"""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Checked, Load, Op, Update, const
from raido.algo.graph.faults import can_fault
from raido.algo.graph.node import Node, with_fields
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import rebuild, topological
from raido.algo.graph.size_numbers import is_size_arithmetic
from raido.algo.passes.finish import follow_tables


def without_checks(program: Program) -> Program:
    """The program without checks of indices, divisors, exponents, sizes and bounds; the same one when it has none."""
    memo: dict[Node, Node] = {}
    for node in topological(*program.results):
        new: Node = rebuild(node, memo.__getitem__)
        if isinstance(new, Load) and new.checked:
            new = Load(new.array, new.indices, False)
        elif isinstance(new, Checked):
            new = new.value
        elif isinstance(new, Update) and new.checked:
            new = _trusting(new)
        elif isinstance(new, Op) and can_fault(new):
            new = _harmless(new)
        memo[node] = new
    results = tuple(memo[result] for result in program.results)
    program = replace(program, size_checks=()) if program.size_checks else program
    lines = {node: site for node, site in program.sites.items() if not is_size_arithmetic(node)}  # the lines of checks
    program = program if len(lines) == len(program.sites) else replace(program, sites=lines)
    return program if results == program.results else follow_tables(program, memo, results)


def _harmless(node: Op) -> Op:
    """A division or power whose second operand is made safe."""
    a, b = node.args
    if node.name == "ipow":
        return Op(node.name, node.dtype, (a, Op("maximum", b.dtype, (b, const(b.dtype, 0)))))
    nonzero = Op("ne", bool_, (b, const(b.dtype, 0)))
    return Op(node.name, node.dtype, (a, Op("select", b.dtype, (nonzero, b, const(b.dtype, 1)))))


def _trusting(form: Update) -> Update:
    """An update without checks of its indices."""
    return with_fields(form, checked=False)
