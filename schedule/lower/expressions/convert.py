"""Expressions of the graph as expressions of the nest: axes become loop variables, loads become reads of buffers.

This is substitution only, on shared nodes: two unrolled instances that read the same element get the same `Read`. Boundary operations that
are known to be the identity here disappear. Operations that may fail become safe (a predicated read, a divisor that is never 0), and a
`Fault` is recorded beside the node; `emit` turns it into a `Check` where the node is evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, with_inner_ranges
from raido.algo.graph.dtypes import DType, bool_, i32, i64, u32
from raido.algo.graph.expr import (
    Array,
    Checked,
    Const,
    Expr,
    Fill,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    SizeVar,
    Var,
    While,
    conjunction,
    const,
)
from raido.algo.graph.faults import is_never_negative, is_never_zero, unsigned_kind
from raido.algo.graph.limits import array_text, sizes_within
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import children, rebuild, scalar_nodes
from raido.schedule.lower.expressions.index_checks import is_affine, open_below, open_conditions, open_from_zero
from raido.schedule.lower.expressions.loop_states import as_state, with_loop_states
from raido.schedule.lower.expressions.unneeded import Extents, extents_brought_into
from raido.schedule.nest.values import Buffer, NestExpr, Read, converted, new_serial
from raido.schedule.stages.counts import by_name
from raido.schedule.stages.stage import CountedSize

_COMPARISONS = ("lt", "le", "gt", "ge")
_DECIDED = frozenset(  # operations that ranges or literals may simplify or prove safe
    (*ix.BOUNDARY_OPS, *DIVISIONS, *_COMPARISONS, "eq", "ne", "ipow", "select", "logical_and", "logical_or")
)
_QUOTIENTS = {"floordiv": ix.floordiv, "mod": ix.mod, "floormod": ix.mod}

Part = tuple[int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Storage:
    """The layout of an array in a buffer: element `i` of dimension d is at `i − origin[d]`, or at `i mod fold[d]` where that is not 0.

    layout: unless empty, for each dimension of the buffer, a dimension of the array and the constants by which its index is divided or
    reduced in turn (`("floordiv", 32)`, `("mod", 32)`: panels). field: the array's constant index in one more, last dimension of the buffer,
    an array of structures.
    """

    buffer: Buffer
    origin: tuple[Expr | None, ...] = ()
    fold: tuple[int, ...] = ()
    layout: tuple[Part, ...] = ()
    field: int | None = None

    def indices_of(
        self, indices: tuple[Expr, ...], assumptions: Assumptions, known: dict[tuple[Expr, Expr], Expr] | None = None
    ) -> tuple[Expr, ...]:
        """The indices in the buffer of an element; `known` caches differences of indices and origins."""
        known = {} if known is None else known
        if not self.origin and not self.fold and not self.layout:
            return indices
        resolved = []
        for d, i in enumerate(indices):
            origin = self.origin[d] if self.origin else None
            if self.fold and self.fold[d]:
                resolved.append(ix.mod(i, self.fold[d]))
            elif not self.layout and ix.constant_value(self.buffer.shape[d]) == 1:
                resolved.append(ix.as_index(0))
            else:
                if origin is not None and (i, origin) not in known:
                    known[i, origin] = ix.sub(i, origin)
                resolved.append(i if origin is None else known[i, origin])
        if not self.layout:
            return tuple(resolved)
        laid_out = tuple(
            ix.as_index(0) if ix.constant_value(extent) == 1 else _laid_out(resolved[d], divisions, assumptions)
            for (d, divisions), extent in zip(self.layout, self.buffer.shape, strict=self.field is None)
        )
        return laid_out if self.field is None else (*laid_out, ix.as_index(self.field))


def _laid_out(e: Expr, divisions: tuple[tuple[str, int], ...], assumptions: Assumptions) -> Expr:
    for name, k in divisions:
        e = settled(ix.floordiv(e, k) if name == "floordiv" else ix.mod(e, k), assumptions)
    return e


def settled(e: Expr, assumptions: Assumptions) -> Expr:
    """`e` simplified: each quotient and remainder of a number provably in 0 … divisor − 1 is replaced by 0 and by the number."""
    constant, terms = ix.linear(e)
    total: Expr = ix.as_index(constant)
    for atom, c in terms.items():
        part: Expr = atom
        if isinstance(atom, Op) and atom.name in ("floordiv", "mod"):
            k = ix.constant_value(atom.args[1])
            if k and assumptions.nonnegative(atom.args[0]) and assumptions.less(atom.args[0], k):
                part = atom.args[0] if atom.name == "mod" else ix.as_index(0)
        total = ix.add(total, ix.mul(part, c))
    return total


@dataclass(frozen=True, slots=True)
class Fault:
    """A condition to check where a node is evaluated, the kind of fault, the number of its source line, and the values to report."""

    holds: Expr
    kind: str
    site: int
    values: tuple[Expr, ...]


@dataclass(slots=True)
class Sites:
    """The user's source lines that faults can name, numbered in order of first use. gpu: whether the nest is for a GPU, where loops that do
    not end are stopped and named."""

    known: Mapping[Node, Site]
    gpu: bool = False
    used: dict[Site | None, int] = field(default_factory=dict)

    def number(self, node: Node) -> int:
        """The number of a node's source line."""
        return self.of_line(self.known.get(node))

    def of_line(self, site: Site | None, wrong: str = "") -> int:
        """The number of a source line, with the description `wrong` of what is at fault there, if any."""
        site = replace(site or Site("", 0, ""), array=wrong) if wrong else site
        return self.used.setdefault(site, len(self.used))

    def of_loop(self, site: Site | None) -> int:
        """The number of a loop's source line; −1 on a CPU."""
        return self.of_line(site) if self.gpu else -1

    def of_array(self, site: Site | None, dtype: DType, shape: tuple[Expr, ...]) -> int:
        """The number of a source line, with the dtype and shape of an array there whose size may be at fault."""
        sizes = sizes_within(shape)
        text = array_text(dtype, shape)
        if shape != sizes and len(sizes) > 1:
            text += f", of sizes {', '.join(size.name for size in sizes)}"
        return self.used.setdefault(replace(site or Site("", 0, ""), array=text), len(self.used))


class Order:
    """The scalar nodes of some expressions, children first, and those among them that bind variables."""

    __slots__ = ("_depending", "binders", "has_loops", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.binders: list[Node] = [node for node in nodes if isinstance(node, (Loop, While, Reduce, Fill))]
        self.has_loops = any(isinstance(node, (Loop, While)) for node in self.binders)
        self._depending: dict[frozenset[Node], list[Node]] = {}

    def depending_on(self, changed: frozenset[Node]) -> list[Node]:
        """The nodes that have one of `changed` among their descendants, in order."""
        found = self._depending.get(changed)
        if found is None:
            reached = set(changed)
            for node in self.nodes:
                if not reached.isdisjoint(children(node)):
                    reached.add(node)
            found = self._depending[changed] = [node for node in self.nodes if node in reached]
        return found


class Converter:
    """Converts expressions of the graph to expressions of the nest."""

    def __init__(
        self,
        storages: Mapping[Array, Storage],
        sites: Sites,
        counts: tuple[CountedSize, ...],
        inputs: Collection[Array],
    ) -> None:
        self.storages = storages
        self.inputs = inputs
        self.sites = sites
        self.faults: dict[Node, tuple[Fault, ...]] = {}
        self.loops: dict[Node, int] = {}  # source line numbers of loops whose trip count is data-dependent
        self.forward: dict[Node, Expr] = {}
        self.counts = counts
        self._brought_into: dict[Node, Extents] = {}
        self._orders: dict[tuple[Any, ...], Order] = {}
        self._inner: tuple[Assumptions, list[Node], Assumptions] = Assumptions(), [], Assumptions()
        self._filled: tuple[Assumptions, dict[Expr, bool]] = (
            Assumptions(),
            {},
        )  # whether extents are at least 1, under the assumptions of the last query
        self._distances: dict[tuple[Expr, Expr], Expr] = {}
        self.views: dict[tuple[Buffer, tuple[Expr, ...]], Buffer] = {}  # of inputs, with adjacent dimensions flattened

    def shape_of(self, array: Array) -> tuple[Expr, ...]:
        """The extents of an array, with data-dependent sizes by name."""
        return tuple(by_name(extent, self.counts) for extent in array.shape)

    def order(self, roots: tuple[Node, ...], stop: frozenset[Node]) -> Order:
        """The scalar nodes of some expressions, children first (cached); nodes below `stop` are left out."""
        known = self._orders.get((roots, stop))
        if known is None:
            known = self._orders[roots, stop] = Order(scalar_nodes(*roots, stop=stop))
        return known

    def _with_inner_ranges(self, assumptions: Assumptions, binders: list[Node]) -> Assumptions:
        """The assumptions with the ranges of variables that expressions bind; the same object for all unrolled instances."""
        around, of, found = self._inner
        if around is not assumptions or of is not binders:
            found = with_inner_ranges(assumptions, binders)
            self._inner = assumptions, binders, found
        return found

    def convert(
        self,
        roots: Iterable[Expr],
        values: Mapping[Node, Node],
        assumptions: Assumptions,
        identity: frozenset[Node] | set[Node] = frozenset(),
    ) -> tuple[Any, ...]:
        """The expressions with variables replaced by `values`; boundary operations in `identity` are known to be the identity."""
        return self.convert_instances(roots, (values,), assumptions, identity)[0]

    def convert_instances(
        self,
        roots: Iterable[Expr],
        instances: Sequence[Mapping[Node, Node]],
        assumptions: Assumptions,
        identity: frozenset[Node] | set[Node] = frozenset(),
    ) -> list[tuple[Any, ...]]:
        """The expressions as `convert` gives them for several instances of `values`; nodes that do not differ between
        instances are converted once."""
        roots, first = tuple(roots), instances[0]
        order = self.order(roots, frozenset(v for v in first if not isinstance(v, Var)))
        inside = {pair for b in identity for pair in ((b.args[0], None), b.args)}  # type: ignore[attr-defined]
        memo: dict[Node, Node]
        done: dict[Node, Node] = {}
        found = []
        for values in instances:
            known, within = assumptions, {}
            if order.binders:
                known, within = with_loop_states(
                    self._with_inner_ranges(assumptions, order.binders), order.binders, values
                )
            again: Iterable[Node] = order.nodes
            if done and not order.has_loops and values.keys() == first.keys():
                again = order.depending_on(frozenset(v for v, value in values.items() if value is not first[v]))
                memo = {**done, **values}
            else:
                memo = dict(values)
            for node in again:
                if node not in values:
                    memo[node] = self._node(node, memo, within.get(node, known), identity, inside)
            found.append(tuple([memo[root] for root in roots]))
            done = done or memo
        return found

    def _node(
        self, node: Node, memo: dict[Node, Node], assumptions: Assumptions, identity: Any, inside: set[Any]
    ) -> Node:
        if isinstance(node, Op):
            args = tuple([memo[a] for a in node.args])
            if node.name not in _DECIDED:
                return node if all(map(is_, args, node.args)) else Op(node.name, node.dtype, args)
            if node.name in ix.BOUNDARY_OPS:
                return self._boundary(node, args, assumptions, identity)  # type: ignore[arg-type]
            if node.name in DIVISIONS and node.dtype.is_integer:
                return self._division(node, args, assumptions)  # type: ignore[arg-type]
            if node.name == "ipow":
                return self._power(node, args, assumptions)  # type: ignore[arg-type]
            if node.name in _COMPARISONS and node.args[0].dtype is i64:
                settled = self._comparison(node, args, assumptions, inside)  # type: ignore[arg-type]
                if settled is not None:
                    return settled
            elif node.name in ("select", "logical_and", "logical_or"):
                return fold_choice(node, args)  # type: ignore[arg-type]
            elif node.name in ("eq", "ne") and node.args[0].dtype is i64:
                same = _are_equal(args, assumptions)  # type: ignore[arg-type]
                if same is not None:
                    return const(bool_, same == (node.name == "eq"))
            return node if all(map(is_, args, node.args)) else Op(node.name, node.dtype, args)
        if isinstance(node, (Const, SizeVar, Var)):
            return node
        if isinstance(node, Load):
            return self._load(node, tuple(ix.canonical(memo[i]) for i in node.indices), assumptions)  # type: ignore[arg-type]
        if isinstance(node, Checked):
            return self._checked(node, memo, assumptions)
        made = rebuild(node, lambda child: memo.get(child, child))
        if isinstance(node, While) and node in self.sites.known:
            self.loops[made] = self.sites.of_loop(self.sites.known[node])
        return made

    def _needed(self, holds: Expr, parts: Iterable[Any], assumptions: Assumptions) -> Expr:
        """The condition `holds`, or that a value made of these parts is not needed because an extent is 0 (`unneeded`)."""
        for n in self._maybe_empty(parts, assumptions):
            holds = Op("logical_or", bool_, (Op("le", bool_, (n, const(i64, 0))), holds))
        return holds

    def _maybe_empty(self, parts: Iterable[Any], assumptions: Assumptions) -> list[Expr]:
        if self._filled[0] is not assumptions:
            self._filled = assumptions, {}
        filled, empty = self._filled[1], []
        for n in extents_brought_into(parts, self._brought_into):
            if n not in filled:
                filled[n] = assumptions.nonnegative(ix.sub(n, 1))
            if not filled[n]:
                empty.append(n)
        return empty

    def _checked(self, node: Checked, memo: dict[Node, Node], assumptions: Assumptions) -> Node:
        """The value selected where the condition holds, else 0, with a fault recorded for the latter."""
        holds: Any = memo[node.holds]
        value: Any = memo[node.value]
        if isinstance(holds, Const) and holds.value:
            return value
        details: tuple[Any, ...] = tuple(memo[e] for e in node.details[:3])
        shown = tuple(converted(e, i64) for e in details)
        safe = Op("select", node.dtype, (holds, value, const(node.dtype, 0)))
        due = self._needed(holds, (holds, value), assumptions)
        self.faults.setdefault(safe, (Fault(due, node.kind, self.sites.number(node), shown),))
        return safe

    def _boundary(self, node: Op, args: tuple[Expr, Expr], assumptions: Assumptions, identity: Any) -> Node:
        e, extent = ix.canonical(args[0]), args[1]
        if node in identity or (is_affine(e) and assumptions.nonnegative(e) and assumptions.less(e, extent)):
            return e
        return Op(node.name, i64, (e, extent))

    def _comparison(self, node: Op, args: tuple[Expr, Expr], assumptions: Assumptions, inside: set[Any]) -> Expr | None:
        """The value of a comparison of indices, None if unknown: `e >= 0` and `e < n` hold in the interior of a boundary operation at e."""
        a, b = node.args
        if (node.name == "ge" and ix.constant_value(b) == 0 and (a, None) in inside) or (
            node.name == "lt" and (a, b) in inside
        ):
            return const(bool_, True)
        a, b = (as_state(ix.canonical(e)) for e in args)
        if not (is_affine(a) and is_affine(b)):
            return self._decided(node, a, b, assumptions)
        gap, strict = (
            (ix.sub(b, a), node.name == "lt") if node.name in ("le", "lt") else (ix.sub(a, b), node.name == "gt")
        )
        if assumptions.nonnegative(ix.sub(gap, 1) if strict else gap):
            return const(bool_, True)
        if assumptions.nonnegative(ix.mul(gap, -1) if strict else ix.sub(-1, gap)):
            return const(bool_, False)
        return None

    def _decided(self, node: Op, a: Expr, b: Expr, assumptions: Assumptions) -> Expr | None:
        """The conjunction of the conditions left to check of `a >= 0` or `a < b` for data-dependent integers;
        None for other comparisons."""
        if node.name == "ge" and ix.constant_value(b) == 0:
            parts = open_from_zero(a, assumptions)
        elif node.name == "lt":
            parts = open_below(a, b, assumptions)
        else:
            return None
        return conjunction(parts)

    def _load(self, node: Load, indices: tuple[Expr, ...], assumptions: Assumptions) -> Node:
        storage = self.storages[node.array]
        predicate: NestExpr | None = None
        faults = []
        if node.checked:
            for d, (i, n) in enumerate(zip(indices, self.shape_of(node.array), strict=True)):
                parts = open_conditions(i, n, assumptions) if open_conditions(as_state(i), n, assumptions) else []
                if parts:
                    if _is_narrow(i):
                        parts = [_narrow_inside(i, n)]
                    holds = conjunction(parts)
                    values = (const(i64, d), i, n)
                    due = self._needed(holds, indices, assumptions)
                    kind = unsigned_kind("index", node.indices[d])
                    faults.append(Fault(due, kind, self.sites.number(node), values))
                    predicate = holds if predicate is None else conjunction((predicate, holds))
        empty = self._maybe_empty(indices, assumptions)
        if empty:
            some = [Op("gt", bool_, (n, const(i64, 0))) for n in empty]
            predicate = conjunction(some if predicate is None else (*some, predicate))
        buffer, coordinates = storage.buffer, storage.indices_of(indices, assumptions, self._distances)
        if node.array in self.inputs:
            buffer, coordinates = self._flattened(buffer, indices)
        read: Read = Read(buffer, coordinates, predicate)
        if faults:
            self.faults.setdefault(read, tuple(faults))
        return self.forward.get(read, read)

    def _flattened(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """An input and indices, or a flattened view of it with one index where the indices are quotient and remainder of that index."""
        coordinates, shape = ix.flattened(indices, buffer.shape)
        if len(shape) == len(buffer.shape) or buffer.strides:
            return buffer, indices
        key = buffer, shape
        if key not in self.views:
            self.views[key] = Buffer(
                f"{buffer.name}_flat", buffer.dtype, key[1], "parameter", new_serial(), (), 1, None
            )
        return self.views[key], coordinates

    def _division(self, node: Op, args: tuple[Expr, Expr], assumptions: Assumptions) -> Node:
        a, b = args
        value = ix.constant_value(b)
        if value and value > 0 and node.dtype is i64 and node.name in _QUOTIENTS and is_affine(a):
            exact = _QUOTIENTS[node.name](a, value)
            if not any(isinstance(e, Op) and e.name in DIVISIONS for e in scalar_nodes(exact)):
                return exact  # in unrolled loops that start at multiples
        if value or is_never_zero(b) or (b.dtype is i64 and is_affine(b) and assumptions.nonnegative(ix.sub(b, 1))):
            return Op(node.name, node.dtype, args)
        if node not in self.sites.known and b.dtype is i64 and is_affine(b):
            return Op(
                node.name, node.dtype, (a, ix.maximum(b, 1))
            )  # of an index move: the divisor is 0 in an empty array alone, whose elements are not needed
        holds = Op("ne", bool_, (b, const(b.dtype, 0)))
        safe = Op(node.name, node.dtype, (a, Op("select", b.dtype, (holds, b, const(b.dtype, 1)))))
        kind = "unsigned_division" if a.dtype.kind == "u" and a.dtype.bits == 64 else "division"
        shown = converted(a, i64)
        due = self._needed(holds, args, assumptions)
        self.faults.setdefault(safe, (Fault(due, kind, self.sites.number(node), (shown,)),))
        return safe

    def _power(self, node: Op, args: tuple[Expr, Expr], assumptions: Assumptions) -> Node:
        a, b = args
        if node.dtype.kind == "u" or is_never_negative(b):
            return Op(node.name, node.dtype, args)
        zero = const(b.dtype, 0)
        holds = Op("ge", bool_, (b, zero))
        safe = Op(node.name, node.dtype, (a, Op("select", b.dtype, (holds, b, zero))))
        shown = converted(b, i64)
        due = self._needed(holds, args, assumptions)
        self.faults.setdefault(safe, (Fault(due, "power", self.sites.number(node), (shown,)),))
        return safe


def _are_equal(sides: tuple[Expr, Expr], assumptions: Assumptions) -> bool | None:
    """Whether two indices are equal; None if neither is provable."""
    a, b = (as_state(ix.canonical(e)) for e in sides)
    if a is b:
        return True
    apart = is_affine(a) and is_affine(b) and (assumptions.less(a, b) or assumptions.less(b, a))
    return False if apart else None


def fold_choice(node: Op, args: tuple[Expr, ...]) -> Node:
    """A selection, conjunction or disjunction with literal operands folded."""
    if node.name == "select":
        if isinstance(args[0], Const):
            return args[1] if args[0].value else args[2]
    else:
        for one, other in (args, args[::-1]):
            if isinstance(one, Const):
                return other if bool(one.value) == (node.name == "logical_and") else one
    return node if all(a is b for a, b in zip(args, node.args, strict=True)) else Op(node.name, node.dtype, args)


def _is_narrow(i: Expr) -> bool:
    """Whether an index is a cast of an integer that a signed 32-bit integer can hold."""
    narrow = i.args[0].dtype if isinstance(i, Op) and i.name == "cast" else i64
    return narrow.is_integer and (narrow.bits < 32 or narrow is i32)


def _narrow_inside(i: Expr, n: Expr) -> Expr:
    """0 <= i < n as one unsigned comparison in 32 bits, twice as many lanes in a register: negative numbers become large ones."""
    assert isinstance(i, Op)
    bound = Op("cast", u32, (ix.minimum(n, 1 << 31),))
    return Op("lt", bool_, (Op("cast", u32, i.args), bound))
