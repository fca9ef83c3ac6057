"""What can fail must be computed whole, whoever reads it: whether a reader, as it runs, meets every element of an array.

An array with a name of its own is evaluated as a whole by the program, so that a fault of any element is raised. A stage that stands
where it is read computes only what is read; where that is not all of it, and it can fail, it must not stand there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from raido.algo import index
from raido.algo.expr import Axis, Cond, Expr, Load, Loop, Node, Op, Parameter, Reduce, Result, Var, While
from raido.algo.faults import can_fault
from raido.algo.index import BOUNDARY_OPS
from raido.algo.rewrite import children, scalar_nodes


def can_fail(roots: Iterable[Node]) -> bool:
    """Whether evaluating these expressions may find something wrong."""
    return any(can_fault(node) for node in scalar_nodes(*roots))


def reads_all(roots: Sequence[Node], axes: Sequence[Axis], form: Node, shape: Sequence[Expr]) -> bool:
    """Whether expressions, evaluated for all indices of `axes`, read every element of an array, whatever branches they take."""
    nodes = list(eager_nodes(roots))
    extents: dict[Node, Expr] = {axis.var: axis.extent for axis in axes}
    extents |= {axis.var: axis.extent for node in nodes if isinstance(node, Reduce) for axis in node.axes}
    loads = (node for node in nodes if isinstance(node, Load) and getattr(node.array, "form", None) is form)
    return any(_is_whole(load.indices, extents, shape) for load in loads)


def eager_nodes(roots: Sequence[Node]) -> Iterator[Node]:
    """The scalar nodes that are evaluated in any case: not what stands in branches and loops."""
    seen: set[Node] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node in seen or isinstance(node, Result | Parameter):
            continue
        seen.add(node)
        yield node
        if isinstance(node, Cond):
            todo.append(node.predicate)
        elif isinstance(node, Loop):
            todo += (node.count, *node.init)
        elif isinstance(node, While):
            todo += node.init
        else:
            todo += children(node)


def _is_whole(indices: Sequence[Expr], extents: Mapping[Node, Expr], shape: Sequence[Expr]) -> bool:
    facts, used = index.Facts(), set()
    for e, size in zip(indices, shape, strict=True):
        e = index.canonical(e)
        if isinstance(e, Op) and e.name in BOUNDARY_OPS and isinstance(e.args[0], Var):
            e = e.args[0]
        if e in extents and e not in used and facts.equal(extents[e], size):
            used.add(e)
        elif index.constant_value(e) != 0 or index.constant_value(size) != 1:
            return False
    return True
