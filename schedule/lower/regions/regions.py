"""The region of a producer that is needed, and an upper bound of its extent.

A region is a box: inclusive bounds for each dimension, in terms of the loop variables around it. It is the bounding box of all
elements that loads can reach while their reader's axes run over the reader's own box (interval analysis of index expressions,
as in Halide's bounds inference). Taps at offsets of one index stay one interval: the bounding box is taken inside the clamp,
which is monotone and never stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from raido.algo.collector import kept_meanwhile
from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, greatest, interval
from raido.algo.graph.expr import Const, Expr, Fill, Load, Loop, Node, Op, Reduce, SizeVar, Var, While
from raido.algo.graph.offsets import offsets_of_zero_segments
from raido.algo.graph.rewrite import free_variables, scalar_nodes, substitute

Box = tuple[tuple[Expr, Expr], ...]


class Reads:
    """The loads of some expressions, by array form, with the ranges of the variables bound inside the expressions.

    Loads of the offsets of zero segments are left out: they are validated separately (`offsets_of_zero_segments.py`).
    """

    def __init__(self, bodies: Sequence[Expr]) -> None:
        self.loads: dict[Node, dict[tuple[Expr, ...], None]] = {}
        self.inner: dict[Var, tuple[Expr, Expr]] = {}
        self.opaque: set[Var] = set()
        for node in scalar_nodes(*bodies, stop=offsets_of_zero_segments(bodies)):
            if isinstance(node, Load):
                form = getattr(node.array, "form", None)
                if form is not None:
                    self.loads.setdefault(form, {})[node.indices] = None
            elif isinstance(node, Loop):
                self.inner[node.index] = (ix.as_index(0), ix.sub(node.count, 1))
                self.opaque |= set(node.state)
            elif isinstance(node, Reduce):
                self.inner |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in node.axes}
                self.opaque |= {*node.left, *node.right}
            elif isinstance(node, Fill):
                self.inner |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in node.axes}
            elif isinstance(node, While):
                self.opaque |= set(node.state)


def region_read(
    reads: Reads, form: Node, shape: Sequence[Expr], ranges: Mapping[Var, tuple[Expr, Expr]], assumptions: Assumptions
) -> list[list[tuple[Expr, Expr] | None]]:
    """For each load of `form`: inclusive bounds of each dimension before clamping; None for a dimension without known bounds."""
    every = {**reads.inner, **ranges}
    return [
        [_reach(i, n, every, reads.opaque, assumptions) for i, n in zip(indices, shape, strict=True)]
        for indices in reads.loads.get(form, ())
    ]


def _reach(
    index: Expr, size: Expr, ranges: Mapping[Var, tuple[Expr, Expr]], opaque: set[Var], assumptions: Assumptions
) -> tuple[Expr, Expr] | None:
    index = ix.canonical(index)
    while isinstance(index, Op) and index.name == "clamp_index" and index.args[1] is size:
        index = index.args[0]
    if not _is_index(index) or not opaque.isdisjoint(free_variables(index)):
        return None
    bounds = interval(index, ranges, assumptions)
    # A trip count read from data is no bound at the place where the region is needed.
    return bounds if bounds is None or all(_is_index(e) for e in bounds) else None


def _is_index(e: Expr) -> bool:
    return all(
        isinstance(n, Const | Var | SizeVar) or (isinstance(n, Op) and n.name in _INDEX_OPS) for n in scalar_nodes(e)
    )


_INDEX_OPS = {"add", "sub", "mul", "neg", "floordiv", "mod", "floormod", "minimum", "maximum", "cast", "select"} | set(
    ix.BOUNDARY_OPS
)


def bounding_box(
    regions: Iterable[Sequence[tuple[Expr, Expr] | None]], shape: Sequence[Expr], assumptions: Assumptions
) -> Box:
    """The bounding box of all regions, clipped to the array."""
    lows: list[list[Expr]] = [[] for _ in shape]
    highs: list[list[Expr]] = [[] for _ in shape]
    whole = [False] * len(shape)
    for region in regions:
        for d, bounds in enumerate(region):
            if bounds is None:
                whole[d] = True
            else:
                lows[d].append(bounds[0])
                highs[d].append(bounds[1])
    box = []
    for d, size in enumerate(shape):
        last = ix.sub(size, 1)
        if whole[d] or not lows[d]:
            box.append((ix.as_index(0), last))
            continue
        lowest = [e if assumptions.nonnegative(e) else ix.maximum(spread(e), 0) for e in _outermost(lows[d], -1)]
        highest = [
            e if assumptions.less_equal(e, last) else ix.minimum(spread(e), last) for e in _outermost(highs[d], 1)
        ]
        low, high = lowest[0], highest[0]
        for e in lowest[1:]:
            low = e if _below(e, low) else low if _below(low, e) else ix.minimum(low, e)
        for e in highest[1:]:
            high = e if _below(high, e) else high if _below(e, high) else ix.maximum(high, e)
        box.append((lowest_index(low, last, assumptions), highest_index(high, last, assumptions)))
    return tuple(box)


def lowest_index(e: Expr, last: Expr, assumptions: Assumptions) -> Expr:
    """`e` clipped to 0 … last as a low bound, 0 where there is no index; clips that the assumptions make superfluous are left out."""
    if not assumptions.nonnegative(e):
        e = ix.maximum(e, 0)
    if ix.constant_value(e) == 0 or assumptions.less_equal(e, last):
        return e
    beyond = ix.difference(e, last)
    e = last if beyond is not None and beyond >= 0 else ix.minimum(e, last)
    return e if assumptions.nonnegative(last) else ix.maximum(e, 0)


def highest_index(e: Expr, last: Expr, assumptions: Assumptions) -> Expr:
    """`e` clipped to 0 … last as a high bound, −1 where there is no index; clips that the assumptions make superfluous are left out."""
    beyond = ix.difference(e, last)
    if beyond is not None and beyond >= 0:
        return last
    if not assumptions.nonnegative(e):
        e = ix.maximum(e, 0)
    return e if assumptions.less_equal(e, last) else ix.minimum(e, last)


def _outermost(bounds: list[Expr], sign: int) -> list[Expr]:
    """The bounds that none of the others exceeds by a constant: the largest ones (sign 1), or the smallest ones (−1)."""
    kept: list[Expr] = []
    for e in bounds:
        for k, other in enumerate(kept):
            gap = ix.difference(e, other)
            if gap is not None:
                kept[k] = e if gap * sign > 0 else other
                break
        else:
            kept.append(e)
    return kept


def _below(a: Expr, b: Expr) -> bool:
    """Whether a <= b provably holds, because they differ by a constant or are minima (maxima) of parts that do."""
    gap = ix.difference(b, a)
    if gap is not None:
        return gap >= 0
    if not (isinstance(a, Op) and isinstance(b, Op) and a.name == b.name and a.name in ("minimum", "maximum")):
        return False
    if a.name == "minimum":
        return all(any(_below(x, y) for x in a.args) for y in b.args)
    return all(any(_below(x, y) for y in b.args) for x in a.args)


@kept_meanwhile
def spread(e: Expr) -> Expr:
    """`min(a, b) + c` distributed as `min(a + c, b + c)`, maxima alike: clamps of a chain of stages then collapse into one."""
    constant, terms = ix.linear(e)
    if constant and len(terms) == 1:
        ((atom, c),) = terms.items()
        if c == 1 and isinstance(atom, Op) and atom.name in ("minimum", "maximum"):
            a, b = (spread(ix.add(arg, constant)) for arg in atom.args)
            return ix.minimum(a, b) if atom.name == "minimum" else ix.maximum(a, b)
    return e


def extent_bound(low: Expr, high: Expr, size: Expr, assumptions: Assumptions, meaning: Mapping[Var, Expr]) -> Expr:
    """An upper bound of high − low + 1: a constant where one is found, else `size`, the extent of the whole dimension.

    meaning: the expressions of variables that only name one.
    """
    if meaning:
        low, high = (ix.canonical(substitute(e, meaning)) for e in (low, high))
    found = [
        most
        for e in dict.fromkeys((ix.sub(without_clamp(high), without_clamp(low)), ix.sub(high, low)))
        if (most := greatest(ix.add(e, 1), assumptions)) is not None
    ]
    if not found:
        return size
    known = ix.constant_value(size)
    return ix.as_index(max(0, min(found if known is None else (*found, known))))


def without_clamp(e: Expr) -> Expr:
    """`x` where `e` is min(max(x, 0), last): clamping both ends of an interval never makes it longer."""
    if isinstance(e, Op) and e.name == "minimum":
        inner = [a for a in e.args if isinstance(a, Op) and a.name == "maximum"]
        if len(inner) == 1:
            e = inner[0]
        else:
            return e
    if isinstance(e, Op) and e.name == "maximum" and any(ix.constant_value(a) == 0 for a in e.args):
        return next(a for a in e.args if ix.constant_value(a) != 0)
    return e
