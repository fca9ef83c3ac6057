"""Common folds of scalar forms: a scalar that would fold the same values again loads the result of the form that does.

    total = sum(w);  [w / total];  log(sum(w))      →      total = sum(w);  [w / total];  log(total)

A sum by which all elements of an array are divided is lifted out of the elements; other uses of it would otherwise be folds of their own.
"""

from __future__ import annotations

from raido.algo.graph.expr import Array, Generate, Item, Load, Node, Reduce, Result
from raido.algo.graph.rewrite import rewritten, scalar_nodes, topological
from raido.schedule.stages.tables import Tables


def share_folds(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes unnamed scalars load the folds that have forms of their own."""
    nodes = topological(*roots)
    alone = {fold: form for form in nodes if isinstance(form, Generate) and (fold := _only_fold(form)) is not None}
    if not alone:
        return roots
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(nodes, memo):
        if not isinstance(node, Generate) or node.axes or tables.names.get(node) or alone.get(_only_fold(node)) is node:  # type: ignore[arg-type]
            continue
        read = [e for e in scalar_nodes(*node.bodies) if isinstance(e, Item) and e.form in alone]
        if read:
            instead: dict[Node, Node] = {
                memo.get(e, e): Load(Result(memo.get(alone[e.form], alone[e.form]), e.index), (), False)  # type: ignore[index,arg-type]
                for e in read
            }
            bodies = tables.rewrite(new.bodies, lambda e: e, instead)
            memo[node] = Generate((), bodies)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _only_fold(form: Generate) -> Reduce | None:
    """Returns the fold that is the whole of a scalar form; None for other forms."""
    folds = {body.form if isinstance(body, Item) else None for body in form.bodies} if not form.axes else set()
    (fold,) = folds if len(folds) == 1 else (None,)
    whole = isinstance(fold, Reduce) and [body.index for body in form.bodies] == list(range(len(fold.values)))  # type: ignore[union-attr]
    return fold if whole else None  # type: ignore[return-value]
