"""Values that are used outside of the function which they were traced in: of another algorithm, or of the body of a loop, a mapped
function or another function of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raido.algo.errors import TraceError, explain
from raido.algo.graph.expr import ARRAY_FORMS, Array, ArrayLoop, ArrayWhile, Node, Parameter
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import children, free_variables, topological

_INSIDE = "it has a value for each element, or for each iteration, while the function runs, and none outside"


def refuse_leaks(name: str, outputs: Sequence[Array], own: Sequence[Parameter], sites: Mapping[Node, Site]) -> None:
    """TraceError where results depend on what was kept outside of the function that it belongs to. `own`: the algorithm's parameters."""
    nodes = topological(*outputs)
    parameters = [node for node in nodes if isinstance(node, Parameter) and node not in own]
    foreign = next((node for node in parameters if not node.serial), None)
    if foreign is not None:
        labelled = {
            "why": f"it was made of {foreign.name!r}, a parameter of that one, and means nothing outside of its trace",
            "try": "pass arrays as arguments, and return what another algorithm needs",
        }
        raise TraceError(explain(f"{name} uses a traced value of another algorithm", **labelled))
    loose: dict[Node, set[Node]] = {}  # the states of loops that each node needs from outside
    for node in nodes if parameters else ():
        found = {node} if node in parameters else set().union(*(loose[child] for child in children(node)))
        loose[node] = found - set(node.state) if isinstance(node, (ArrayLoop, ArrayWhile)) else found
    if not any(free_variables(output) or loose.get(output) for output in outputs):
        return
    used = (n for n in reversed(nodes) if isinstance(n, ARRAY_FORMS) and (free_variables(n) or loose.get(n)))
    labelled = {
        "algorithm": next((str(sites[form]) for form in used if form in sites), None),
        "why": _INSIDE,
        "try": "return it from the function: rd.map gives those of all elements, a loop the last ones, as a part of its state",
    }
    head = f"{name} uses a value of a loop's body, or of another function of elements, outside of it"
    raise TraceError(explain(head, **labelled))
