"""Inlining of arrays into their readers, by beta-reduction, so no value changes.

Inlined are index moves, scalars of mapped functions, and unnamed elementwise expressions that one consumer reads once, at its own index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.cost import cost_of_element, is_cheaper_made_twice
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Cond,
    Const,
    Expr,
    Filter,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    Scan,
    SizeVar,
    Sort,
    Var,
    While,
)
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.rewrite import (
    bound_variables,
    children,
    free_variables,
    loads_in,
    post_order,
    rebuild,
    rewritten,
    scalar_nodes,
    topological,
)
from raido.schedule.stages.checks import checked_indices, checked_value
from raido.schedule.stages.tables import Tables, merge_names
from raido.schedule.stages.uses import Uses

SHORT = 8  # elements of an axis below which defaults unroll it
FEW = 16  # elements of a fold, at most, whose values stay in registers


def is_short(extent: Node) -> bool:
    """Whether a size is a constant of a few."""
    known = index.constant_value(extent)  # type: ignore[arg-type]
    return known is not None and known < SHORT


def inline_moves(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Inlines unnamed index moves, maps that only permute axes or copy (as `rd.conj` of reals), and scalars (rank 0) of mapped functions.

    A move that divides indices, as a reshape does, is slower at random indices than in order: a gather from it reads a stored copy, unless
    the copy would be made in every iteration of a loop, or the move is one of a parameter, whose memory is viewed in the other shape. Nor
    are padded arrays that folds read again and again (`_padded_operands`).
    """

    free: dict[Node, bool] = {}
    padded = _padded_operands(roots, tables)

    def is_move(form: Generate) -> bool:
        if form not in free:
            scalar = not form.axes and bool(free_variables(form)) and not _shares_work(form, tables)
            move = tables.kinds.get(form) == "move" and padded.isdisjoint(axis.var for axis in form.axes)
            free[form] = scalar or move or _permutes(form)
        return free[form]

    return _inline_unnamed(roots, is_move, tables)


def _padded_operands(roots: tuple[Array, ...], tables: Tables) -> set[Var]:
    """The axes of moves that choose between sources, as padding does, to be computed once: the folds of a map read them again for each
    index of a long axis, as a convolution does for each channel of its result.

    A choice costs each of these reads more than a stored copy costs in all, and the ends of rows loops of their own. Folds that read an
    element only for its neighbours choose where they read.
    """
    chosen = {
        node: {axis.var for axis in node.axes}
        for node in topological(*roots)
        if isinstance(node, Generate)
        and tables.kinds.get(node) == "move"
        and any(isinstance(e, Cond) or (isinstance(e, Op) and e.name in _CHOICES) for e in scalar_nodes(*node.bodies))
    }
    found: set[Var] = set()
    for form in topological(*roots) if chosen else ():
        if not isinstance(form, Generate) or form in chosen:
            continue
        own = {axis.var for axis in form.axes}
        long = {axis.var for axis in form.axes if not is_short(axis.extent)}
        closed = lambda node, own=own: isinstance(node, Result) and own.isdisjoint(free_variables(node))
        below = post_order(form.bodies, lambda node, closed=closed: () if closed(node) else children(node))
        nested = [node for node in below if isinstance(node, Generate | Reduce) and own & free_variables(node)]
        if not long or not any(isinstance(node, Reduce) for node in nested):
            continue
        folded = {axis.var for node in nested for axis in node.axes}
        for load in loads_in(*below):
            if isinstance(load.array, Result) and load.array.form in chosen:
                used = {var for e in load.indices for var in free_variables(e)}
                if used & folded and long - used:
                    found |= chosen[load.array.form]
    return found


def inline_transpositions(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Inlines unnamed maps that only permute axes or copy."""
    return _inline_unnamed(roots, _permutes, tables)


def _inline_unnamed(roots: tuple[Array, ...], is_move: Callable[[Generate], bool], tables: Tables) -> tuple[Array, ...]:
    """Inlines unnamed moves into their readers."""
    loops = [node for node in topological(*roots) if isinstance(node, (ArrayLoop, ArrayWhile))]
    changing: set[Node] = {state for loop in loops for state in loop.state}

    def change(node: Node) -> Node:
        if not isinstance(node, Load) or not isinstance(node.array, Result):
            return node
        form = node.array.form
        if isinstance(form, Generate) and not tables.names.get(form) and is_move(form):
            if not node.checked or not form.axes:
                return tables.beta(form, node.array.index, node.indices)
            body = form.bodies[node.array.index]
            axes = {axis.var for axis in form.axes}
            if isinstance(body, Load) and len(body.indices) == len(axes) and set(body.indices) == axes:
                moved = tables.beta(form, node.array.index, node.indices)
                assert isinstance(moved, Load)
                return Load(moved.array, moved.indices, True)
            if not _divides(form) or not changing.isdisjoint(topological(form)):
                return _moved_checked(node, form, node.array.index, tables)
        return node

    return tables.rewrite(roots, change)


def _permutes(form: Generate) -> bool:
    """Whether a map copies arrays, or permutes their axes."""
    own = {axis.var for axis in form.axes}
    moves = (isinstance(e, Load) and not e.checked and len(e.indices) == len(own) for e in form.bodies)
    return bool(own) and all(moves) and all(set(e.indices) == own for e in form.bodies if isinstance(e, Load))


def go_down_columns(nodes: Collection[Node], column: Var, but: Collection[Array] = ()) -> bool:
    """Whether `column` occurs in loads as the last index alone; loads of the arrays `but`, the states of the loop itself, do not count."""
    reads = [
        node.indices for node in nodes if isinstance(node, Load) and node.array not in but and len(node.indices) > 1
    ]
    return any(e[-1] is column for e in reads) and not any(column in free_variables(e) for r in reads for e in r[:-1])


def _moved_checked(load: Load, form: Generate, position: int, tables: Tables) -> Expr:
    """Returns the element that a move reads at checked indices, with checks of the indices that it reads by and of those that it broadcasts
    along.
    """
    shape = load.array.shape
    inside = checked_indices(load, load.indices, shape, tables)
    value = tables.beta(form, position, inside)
    used = free_variables(form.bodies[position])
    for d, (axis, e, size) in enumerate(zip(form.axes, load.indices, shape, strict=True)):
        if axis.var not in used:
            value = checked_value(load, value, d, e, size, tables)
    return value


def _divides(form: Generate) -> bool:
    """Whether a form divides indices by a non-constant, apart from views of parameters in the form's shape."""
    roots = [e for body in form.bodies for e in _indices(body)]
    nodes = scalar_nodes(*roots)
    return any(isinstance(n, Op) and n.name in DIVISIONS and not isinstance(n.args[1], Const) for n in nodes)


def _indices(body: Expr) -> tuple[Expr, ...]:
    """Returns the indices into a view of a parameter for a body that reads one; the body itself otherwise."""
    if not (isinstance(body, Load) and isinstance(body.array, Parameter)):
        return (body,)
    return index.flattened(body.indices, body.array.shape)[0]


def _shares_work(form: Generate, tables: Tables) -> bool:
    """Whether a scalar stands for work shared by several readers: the results of one loop or reduction, a guard of branches or a count."""
    if tables.kinds.get(form) in ("condition", "count"):
        return True
    owners = {body.form if isinstance(body, Item) else None for body in form.bodies}
    return len(form.bodies) > 1 and len(owners) == 1 and None not in owners


def inline_elementwise(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Inlines unnamed elementwise expressions, and unnamed arrays of mapped functions, that one consumer reads once.

    So are folds of a few elements, one for each reader: the uses of a sum of colours are not worth a pass of their own. Index arrays
    computed from positions alone are inlined into all their readers.
    """
    uses = Uses(roots)
    inlined: set[Generate] = set()
    positions: set[Generate] = set()
    costs: dict[Node, int] = {}
    folds: dict[Node, int] = {}  # the number of folds of a form, inlined ones included

    def is_kept(form: Generate) -> bool:
        """Whether the reader goes over elements twice, as blocks of scans and filters do, and it costs less to keep them between."""
        (reader,) = uses.readers[form]
        return isinstance(reader, Scan | Filter | Sort) and not is_cheaper_made_twice(costs[form])

    for node in uses.nodes:
        if not isinstance(node, Generate) or node in uses.whole or node not in uses.loads:
            continue
        below = (load.array.form for load in loads_in(*node.bodies) if isinstance(load.array, Result))
        costs[node] = cost_of_element(node.bodies) + sum(costs[form] - 1 for form in below if form in inlined)
        if free_variables(node) - uses.hosts:
            if _inlines_when_open(node, uses, tables, costs[node]):
                inlined.add(node)
        elif is_plain_elementwise(node, tables) and _is_index_arithmetic(node, positions):
            positions.add(node)
        elif _is_plain(node, tables) and uses.pointwise(node) and not is_kept(node):
            (reader,) = uses.readers[node]
            own = folds.setdefault(node, int(_has_reduce(node)))
            if own and not _takes_fold(reader, folds, tables):
                continue
            folds[reader] = folds.get(reader, 0) + own
            inlined.add(node)
    return inline_forms(roots, inlined | positions, tables)


def _is_index_arithmetic(form: Generate, others: set[Generate]) -> bool:
    """Whether a form computes indices from positions, sizes and other such forms as cheaply as loading them, or compares such indices.

    Additions, multiplications, extremes, and remainders by the form's own length are cheap.
    """
    nodes = scalar_nodes(*form.bodies)
    tests = form.bodies[0].dtype is bool_ and is_cheaper_made_twice(cost_of_element(form.bodies))

    def is_cheap(node: Node) -> bool:
        if not isinstance(node, Load | Op | Var | SizeVar | Const):
            return False
        if isinstance(node, Op) and tests and node.name in _TESTS:
            return True
        if node.dtype is not i64:
            return False
        if isinstance(node, Load):
            return isinstance(node.array, Result) and node.array.form in others
        if not isinstance(node, Op):
            return True
        rolled = node.name == "floormod" and node.args[1] in [axis.extent for axis in form.axes]
        return rolled or node.name in _INDEX_ARITHMETIC

    return all(map(is_cheap, nodes))


_CHOICES = ("select", *index.BOUNDARY_OPS)
_TESTS = ("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not")
_INDEX_ARITHMETIC = ("add", "sub", "mul", "neg", "minimum", "maximum")


def _is_plain(form: Generate, tables: Tables) -> bool:
    return is_plain_elementwise(form, tables) or (not tables.names.get(form) and _is_short_fold(form))


def _is_short_fold(form: Generate) -> bool:
    """Whether a form's one value is a fold of at most `FEW` elements along short axes, without branches or loops."""
    nodes = scalar_nodes(*form.bodies)
    folds = [node for node in nodes if isinstance(node, Reduce)]
    if len(form.bodies) != 1 or len(folds) != 1 or any(isinstance(node, Cond | Loop | While) for node in nodes):
        return False
    extents = [axis.extent for axis in folds[0].axes]
    return all(map(is_short, extents)) and 0 < prod(index.constant_value(extent) or 0 for extent in extents) <= FEW


def _takes_fold(reader: Node, folds: dict[Node, int], tables: Tables) -> bool:
    """Whether a fold may be inlined into a reader: a plain elementwise form with no other fold."""
    if not isinstance(reader, Generate) or not reader.axes or folds.get(reader) or _has_reduce(reader):
        return False
    return tables.kinds.get(reader, "elementwise") == "elementwise"


def is_plain_elementwise(form: Generate, tables: Tables, kinds: Collection[str] = ("elementwise",)) -> bool:
    """Whether a form is an unnamed expression of elements, of one of these kinds, without folds."""
    unnamed = not tables.names.get(form)
    return unnamed and tables.kinds.get(form, "elementwise") in kinds and not _has_reduce(form)


def inline_forms(roots: tuple[Array, ...], forms: set[Generate], tables: Tables) -> tuple[Array, ...]:
    """Replaces every load of these forms by the element's expression."""
    marked = set(forms)
    nodes = topological(*roots)
    renamed = _readers_variables(nodes, forms)
    memo: dict[Node, Node] = {**renamed}
    for node in nodes:
        if node in renamed:
            continue
        new = rebuild(node, memo.__getitem__)
        if new is not node:
            tables.carry(node, new)
            if node in marked and isinstance(new, Generate):
                marked.add(new)
        if isinstance(new, Load) and isinstance(new.array, Result) and new.array.form in marked:
            old, new = new, tables.beta(new.array.form, new.array.index, new.indices)
            tables.carry(old, new)
        if isinstance(new, Generate) and (inner := _perfectly_nested(node, marked)):
            tables.names[new] = merge_names(tables.names.get(new, ()), tables.names.get(inner, ()))
            if tables.kinds.get(inner) == "reduce":
                tables.kinds[new] = "reduce"
        memo[node] = new
    return rewritten(roots, memo)


def _readers_variables(nodes: Sequence[Node], forms: set[Generate]) -> dict[Node, Node]:
    """Maps the axis variables of forms that are read at a single index of distinct variables to those variables.

    With them renamed, the body is the element that is read and nothing is substituted, so that a chain of forms takes linear time.
    """
    indices: dict[Node, set[tuple[Expr, ...]]] = {form: set() for form in forms}
    binders = Counter(variable for node in nodes for variable in bound_variables(node))
    for load in nodes:
        if isinstance(load, Load) and isinstance(load.array, Result) and load.array.form in indices:
            indices[load.array.form].add(load.indices)
    renamed: dict[Node, Node] = {}
    for form in reversed(nodes):
        if not (isinstance(form, Generate) and len(indices.get(form, ())) == 1):
            continue
        (index,) = indices[form]
        own = [axis.var for axis in form.axes]
        distinct = len(set(index)) == len(index) and all(isinstance(e, Var) for e in index)
        if distinct and all(binders[variable] == 1 for variable in own):
            renamed |= {variable: renamed.get(e, e) for variable, e in zip(own, index, strict=True)}
    return renamed


def _perfectly_nested(form: Node, inlined: set[Generate]) -> Generate | None:
    """Returns the inlined array that is the whole body of `form`; None without one."""
    if not isinstance(form, Generate):
        return None
    inner = {b.array.form if isinstance(b, Load) and isinstance(b.array, Result) else None for b in form.bodies}
    only = inner.pop()
    return only if not inner and isinstance(only, Generate) and only in inlined else None


def _inlines_when_open(form: Generate, uses: Uses, tables: Tables, cost: int) -> bool:
    reader = next(iter(uses.readers[form]))
    nested = len(uses.readers[form]) == 1 and _perfectly_nested(reader, {form}) is form and uses.once(form) is not None
    if nested and uses.pointwise(form):
        return True
    if tables.names.get(form) or (not form.axes and _shares_work(form, tables)):
        return False
    if uses.once(form) is not None:
        return not uses.again(form) or (is_cheaper_made_twice(cost) and not _has_reduce(form))
    return all(isinstance(e, Const) for at in uses.loads[form] for e in at)


def _has_reduce(form: Generate) -> bool:
    return any(isinstance(node, Reduce) for node in scalar_nodes(*form.bodies))
