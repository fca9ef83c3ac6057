"""Common folds of forms: a form that would fold the same values again loads the result of the form that does.

    total = sum(w);  [w / total];  log(sum(w))      →      total = sum(w);  [w / total];  log(total)

A sum by which all elements of an array are divided is lifted out of the elements, and so is one by which all elements of a row are divided
in a mapped function; other uses of it would otherwise be folds of their own. Folds of rows that follow from one another, as a variance from
a mean, stay where their rows are in the cache: shared, each would be a pass over all rows.
"""

from __future__ import annotations

from typing import Any

from raido.algo.graph.expr import Array, Generate, Item, Load, Node, Reduce, Result
from raido.algo.graph.rewrite import loads_in, rewritten, scalar_nodes, topological
from raido.algo.passes.share import structure
from raido.schedule.stages.tables import Tables


def share_folds(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes unnamed forms load the folds, over equal axes, that have forms of their own."""
    nodes = topological(*roots)
    forms = sorted(
        (node for node in nodes if isinstance(node, Generate)), key=lambda form: form in tables.names
    )  # named ones last
    follow = _follow(nodes, tables)
    alone = {
        _fold_over(form, fold): form for form in forms if form not in follow and (fold := _only_fold(form)) is not None
    }
    if not alone:
        return roots
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(nodes, memo):
        if not isinstance(node, Generate) or tables.names.get(node):
            continue
        read = {e.form for e in scalar_nodes(*node.bodies) if isinstance(e, Item) and isinstance(e.form, Reduce)}
        there = {fold: form for fold in read if (form := alone.get(_fold_over(node, fold), node)) is not node}
        if there:
            indices = tuple(axis.var for axis in node.axes)
            instead: dict[Node, Node] = {
                memo.get(e, e): Load(Result(memo.get(there[e.form], there[e.form]), e.index), indices, False)  # type: ignore[index,arg-type]
                for e in scalar_nodes(*node.bodies)
                if isinstance(e, Item) and e.form in there
            }
            bodies = tables.rewrite(new.bodies, lambda e: e, instead)
            memo[node] = Generate(new.axes, bodies)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _follow(nodes: list[Node], tables: Tables) -> set[Node]:
    """Returns the folds over axes that read others through arrays of their mapped function, and those that they read."""
    read: dict[Node, set[Node]] = {}
    found: set[Node] = set()
    for form in nodes:
        if isinstance(form, Generate):
            made = {load.array.form for load in loads_in(*form.bodies) if isinstance(load.array, Result)}
            made = {each for each in made if tables.outer.get(each)}
            read[form] = made.union(*(read.get(each, set()) for each in made))
            folds = {each for each in read[form] if isinstance(each, Generate) and _only_fold(each) is not None}
            if folds and any(isinstance(e, Reduce) for e in scalar_nodes(*form.bodies)):
                found |= {form, *folds}
    return found


def _fold_over(form: Generate, fold: Reduce) -> Any:
    """Returns a fold over the axes of a form up to the names of all bound variables, for comparison."""
    return structure(Generate(form.axes, tuple(Item(fold, k) for k in range(len(fold.values)))), named=False)


def _only_fold(form: Generate) -> Reduce | None:
    """Returns the fold that is the whole of a form; None for other forms."""
    folds = {body.form if isinstance(body, Item) else None for body in form.bodies}
    (fold,) = folds if len(folds) == 1 else (None,)
    whole = isinstance(fold, Reduce) and [body.index for body in form.bodies] == list(range(len(fold.values)))  # type: ignore[union-attr]
    return fold if whole else None  # type: ignore[return-value]
