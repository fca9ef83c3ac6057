"""The final passes over a traced program, in order: drop unused results, contract products into sums, start reductions from neutral
elements, reduce arrays of private size where they are made, share equal expressions, compute regrouped outputs in the shape of what they
regroup; then drop dead rows of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from raido.algo.graph.expr import Node
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological
from raido.algo.passes.contract import contract_products
from raido.algo.passes.private_sizes import reduce_private_arrays
from raido.algo.passes.regroup import regroup_outputs
from raido.algo.passes.share import share_equal
from raido.algo.passes.starts import start_neutral
from raido.algo.passes.unused import drop_unused

PASSES = (drop_unused, contract_products, start_neutral, reduce_private_arrays, share_equal, regroup_outputs)


def finish_program(program: Program) -> Program:
    """The program as every later layer sees it."""
    for rewrite in PASSES:
        program = rewrite(program)
    return _live(program)


def _live(program: Program) -> Program:
    """Removes forms that the results do not need from the tables."""
    alive = set(topological(*program.results))
    for check in program.size_checks:
        alive.update(topological(check.left, check.right))

    def living(table: Mapping[Any, Any]) -> dict[Any, Any]:
        return {node: value for node, value in table.items() if node in alive}

    return replace(
        program,
        order=tuple(form for form in program.order if form in alive),
        names={form: names for form, names in living(program.names).items() if names},
        kinds=living(program.kinds),
        sites=living(program.sites),
    )


def follow_tables(program: Program, memo: Mapping[Node, Node], results: Any) -> Program:
    """The program with these results, and its tables updated for a rewrite that replaced nodes one for one."""

    def moved(node: Any) -> Any:
        return memo.get(node, node)

    names: dict[Any, tuple[str, ...]] = {}
    for form, given in program.names.items():
        new = moved(form)
        names[new] = names.get(new, ()) + tuple(n for n in given if n not in names.get(new, ()))
    return replace(
        program,
        results=tuple(results),
        order=tuple(dict.fromkeys(moved(form) for form in program.order)),
        names=names,
        kinds=_first_rows((moved(form), kind) for form, kind in program.kinds.items()),
        sites=_first_rows((moved(node), site) for node, site in program.sites.items()),
    )


def _first_rows(rows: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for node, value in rows:
        table.setdefault(node, value)
    return table
