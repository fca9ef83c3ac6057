"""The scopes of forms: the whole-array loops and branches around each.

A form's scope contains all its readers, but is no deeper than needed: a loop-invariant form comes before the loop, a loop included, unless
it can fail and has no guard for the loop's first iteration (`guard.py`).
"""

from __future__ import annotations

from collections.abc import Container

from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayForm,
    ArrayLoop,
    ArrayWhile,
    Count,
    Generate,
    Load,
    Node,
    Op,
    Result,
)
from raido.algo.graph.faults import risky
from raido.algo.graph.primitives import CAN_FAULT
from raido.algo.graph.rewrite import children, scalar_nodes, topological
from raido.schedule.stages.dependent import DEPENDENT
from raido.schedule.stages.tables import FORMS
from raido.schedule.stages.uses import loops_around

Path = tuple[tuple[Node, str], ...]


def locations(roots: tuple[Array, ...], hoistable: Container[Node]) -> dict[Node, Path]:
    """Returns the scope of every form: the whole-array loops and branches around all its readers, without those it is invariant to.

    `hoistable`: the forms that can fail but are always evaluated, or are guarded.
    """
    nodes = topological(*roots)
    unsafe = risky(nodes)
    homes = loops_around(nodes)
    paths: dict[Node, Path] = {root.form: () for root in roots if isinstance(root, Result)}
    for form in reversed([node for node in nodes if isinstance(node, FORMS)]):
        here = paths.get(form, ())
        if form in hoistable or not _may_fail(form, unsafe):
            here = _hoisted(form, here, homes)
        paths[form] = here
        for section, parts in sections_of(form):
            inside = here if section == "" else (*here, (form, section))
            for below in _forms_read(parts):
                paths[below] = _common(paths[below], inside) if below in paths else inside
    return paths


def sections_of(form: Node) -> list[tuple[str, tuple[Node, ...]]]:
    if isinstance(form, ArrayLoop):
        return [("", (form.count, *form.init)), ("body", form.results)]
    if isinstance(form, ArrayWhile):
        return [("", form.init), ("setup", (form.condition,)), ("body", form.results)]
    if isinstance(form, ArrayCond):
        return [("", (form.predicate,)), ("then", form.then), ("else", form.orelse)]
    return [("", tuple(children(form)))]


def _forms_read(roots: tuple[Node, ...]) -> list[ArrayForm]:
    """Returns the forms that these expressions and arrays mention directly."""
    within = [n for root in roots if not isinstance(root, Result) for n in scalar_nodes(root)]
    arrays = [n.array for n in within if isinstance(n, (Load, Count))]
    found = {array.form: None for array in arrays if isinstance(array, Result)}
    found |= {root.form: None for root in roots if isinstance(root, Result)}
    return list(found)


def _common(a: Path, b: Path) -> Path:
    shared: list[tuple[Node, str]] = []
    for (form, section), (other, its) in zip(a, b, strict=False):
        if form is not other:
            break
        if section != its:
            if {section, its} == {"setup", "body"}:
                shared.append((form, "setup"))
            break
        shared.append((form, section))
    return tuple(shared)


def _hoisted(form: Node, path: Path, homes: dict[Node, frozenset[Node]]) -> Path:
    """Returns a scope without the innermost loops that the form does not depend on."""
    while path and path[-1][1] in ("body", "setup") and path[-1][0] not in homes[form]:
        path = path[:-1]
    return path


def _may_fail(form: Node, unsafe: Container[Node]) -> bool:
    """Whether the form itself may fail, so that it must not be evaluated for a loop without iterations."""
    if not isinstance(form, (Generate, *DEPENDENT)):
        return form in unsafe
    return any(
        (isinstance(n, Load) and n.checked) or (isinstance(n, Op) and n.dtype.is_integer and n.name in CAN_FAULT)
        for n in scalar_nodes(*(form.bodies if isinstance(form, Generate) else children(form)))
    )
