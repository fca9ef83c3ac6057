"""The errors for traced values used outside of the function that they were traced in: another algorithm, the body of a loop, a mapped
function or another function of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raido.algo.errors import RaidoError, TraceError, explain
from raido.algo.graph.expr import ARRAY_FORMS, Array, ArrayLoop, ArrayWhile, Node, Parameter
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import children, free_variables, topological
from raido.algo.trace import value
from raido.algo.trace.context import Trace, current, tracing
from raido.algo.trace.locations import user_site
from raido.algo.trace.types import describe

_INSIDE = "it has a value for each element, or for each iteration, while the function runs, and none outside"
_RETURN = (
    "return it from the function: rd.map gives those of all elements, a loop the last ones, as a part of its state"
)
_PASS = "pass arrays as arguments, and return what another algorithm needs"


def refuse_other_trace(found: value.Array) -> None:
    """Raises `TraceError` for a value that was made in another trace than the running one."""
    assert found.made_in is not None
    own, other = current().algorithm, found.made_in.algorithm
    whose = f"another algorithm, {other}" if other != own else "another algorithm, or of an earlier trace of this one"
    labelled = {
        "algorithm": str(user_site()),
        "why": f"it is {describe(found.dtype, found.extents)}, made while {other} was traced, and means nothing outside of that",
        "try": _PASS,
    }
    raise TraceError(explain(f"{own} uses a traced value of {whose}", **labelled))


def refuse_leaks(outputs: Sequence[Array], own: Sequence[Parameter], again: Callable[[], Sequence[Array]]) -> None:
    """Raises `TraceError` where results depend on a value that was kept outside of the function that made it.

    `own` are the algorithm's parameters; `again` traces the algorithm once more, to locate the lines of the leak.
    """
    trace = current()
    nodes = topological(*outputs)
    parameters = [node for node in nodes if isinstance(node, Parameter) and node not in own]
    foreign = next((node for node in parameters if not node.serial), None)
    if foreign is not None:
        why = f"it was made of {foreign.name!r}, a parameter of that one, and means nothing outside of its trace"
        raise TraceError(
            explain(f"{trace.algorithm} uses a traced value of another algorithm", **{"why": why, "try": _PASS})
        )
    if not any(_is_loose(outputs, parameters)):
        return
    leak = _find_leak(again, trace)
    if leak is None:
        used = (node for node, loose in zip(nodes, _is_loose(nodes, parameters), strict=True) if loose)
        forms = [node for node in used if isinstance(node, ARRAY_FORMS) and node in trace.sites]
        labelled = {"algorithm": str(trace.sites[forms[-1]]) if forms else None}
    else:
        labelled = {"algorithm": str(leak.made), "type": leak.type, "used": str(leak.used or "as a result")}
    head = f"{trace.algorithm} uses a value of a loop's body, or of another function of elements, outside of it"
    raise TraceError(explain(head, **labelled, **{"why": _INSIDE, "try": _RETURN}))


def _is_loose(nodes: Sequence[Node], parameters: Sequence[Parameter]) -> Iterator[bool]:
    """Yields, for each node, whether it depends on variables of functions or on states of loops (`parameters`) outside of these."""
    needed: dict[Node, set[Node]] = {}  # the loop states that are free in each node
    for node in topological(*nodes) if parameters else ():
        found = {node} if node in parameters else set().union(*(needed[child] for child in children(node)))
        needed[node] = found - set(node.state) if isinstance(node, (ArrayLoop, ArrayWhile)) else found
    return (bool(free_variables(node) or needed.get(node)) for node in nodes)


@dataclass(frozen=True, slots=True)
class _Made:
    """The line that first made a value, the level (`Trace.level`) of the function that it is in, and the value's type."""

    line: Site
    level: int
    type: str


@dataclass(frozen=True, slots=True)
class _Leak:
    made: Site
    type: str
    used: Site | None


def _find_leak(again: Callable[[], Sequence[Array]], trace: Trace) -> _Leak | None:
    """Returns the first value of a function that an enclosing function uses; None where the repeated trace shows none."""
    made: dict[Any, _Made] = {}

    def note(found: value.Array, given: bool = False) -> None:
        if given or found.node not in made:
            made[found.node] = _Made(user_site(), second.level, describe(found.dtype, found.extents))

    with tracing(Trace(trace.contract, trace.algorithm)) as second:
        second.note = note
        try:
            outputs = again()
        except RaidoError:
            return None
    parameters = [node for node in topological(*outputs) if isinstance(node, Parameter) and node.serial]
    users = [*made, *(output for output in outputs if output not in made)]
    loose = dict(zip(users, _is_loose(users, parameters), strict=True))
    needed = {*topological(*outputs)}
    for user in users:
        if not loose[user] or user not in needed:
            continue
        own = made.get(user)
        for operand in _operands(user, made):
            leaked = made[operand]
            if loose[operand] and leaked.level > (own.level if own else 0):
                return _Leak(leaked.line, leaked.type, own.line if own else None)
    return None


def _operands(user: Any, made: Mapping[Any, _Made]) -> Iterator[Any]:
    """Yields the nearest recorded values below a node."""
    waiting, seen = [*children(user)], set[Any]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in made:
            yield node
        else:
            waiting.extend(children(node))
