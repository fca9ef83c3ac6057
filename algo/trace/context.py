"""The running trace: the tables that accompany the graph, the assumptions about indices, and the nesting depth.

Each call of `Algorithm.trace` has one `Trace`; combinators reach it through `current()`. `depth` counts the enclosing functions of
elements: at depth 0 values are whole arrays and control flow runs over arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.bind_sizes import rank_remedy
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    Array,
    ArrayForm,
    Axis,
    Count,
    Expr,
    Generate,
    Load,
    Node,
    Op,
    Parameter,
    Result,
    Var,
    fresh,
)
from raido.algo.graph.program import Site, SizeCheck
from raido.algo.graph.read_sizes import read_extent
from raido.algo.graph.rewrite import topological
from raido.algo.graph.scopes import substitute_variables
from raido.algo.graph.stage_names import RULE, is_stage_name
from raido.algo.trace.locations import complaint, user_site
from raido.algo.trace.types import describe

_running = threading.local()


class Trace:
    """The state of the trace of one algorithm.

    While an error is being located, `note` is called with every value that is made, and with `given=True` for arguments of functions.
    """

    def __init__(self, contract: bool, algorithm: str) -> None:
        self.contract = contract
        self.algorithm = algorithm
        self.order: dict[ArrayForm, None] = {}
        self.names: dict[ArrayForm, tuple[str, ...]] = {}
        self.kinds: dict[ArrayForm, str] = {}
        self.sites: dict[Node, Site] = {}
        self.checks: dict[tuple[Expr, Expr], SizeCheck] = {}
        self.named_axes: set[Var] = set()
        self.assumptions = Assumptions()
        self.depth = 0
        self.level = 0  # nesting level of the running user function: one more than that of its combinator's caller
        self.prefix: tuple[str, ...] = ()
        self.note: Callable[..., None] | None = None

    def form(self, form: ArrayForm, kind: str, name: str | None = None) -> None:
        """Enters an array form into the tables."""
        self.order.setdefault(form, None)
        self.kinds.setdefault(form, kind)
        self.sites.setdefault(form, user_site())
        if name is not None:
            self.name(form, name)

    def name(self, form: ArrayForm, name: str) -> None:
        """Adds a name to a form, below the prefix of the algorithm that is being inlined."""
        if not is_stage_name(name):
            raise TraceError(complaint(f"{RULE}, not {name!r}"))
        path = "/".join((*self.prefix, name))
        known = self.names.get(form, ())
        if path not in known:
            self.names[form] = (*known, path)

    def site(self, node: Node) -> None:
        """Records the user's line for a node that may fault, or for a loop that may never end."""
        self.sites.setdefault(node, user_site())

    def axis(self, name: str, extent: Expr) -> Axis:
        """Returns a new axis and assumes the range of its variable."""
        var = fresh(name)
        self.range(var, extent)
        return Axis(var, extent)

    def range(self, var: Var, extent: Expr) -> None:
        """Assumes 0 <= var < extent from now on."""
        self.assumptions.ranges[var] = (index.as_index(0), index.sub(extent, 1))

    def inside(self, e: Expr, extent: Expr) -> bool:
        """Whether 0 <= e < extent is provable."""
        return self.assumptions.nonnegative(e) and self.assumptions.less(e, extent)

    def substitute(self, root: Any, values: Mapping[Any, Any]) -> Any:
        """Returns `root` with variables replaced and indices in canonical form; the tables follow the changed nodes."""
        memo: dict[Node, Node] = {}
        new = substitute_variables(root, values, canonical_indices, memo)
        self.follow(memo)
        return new

    def follow(self, memo: Mapping[Node, Node]) -> None:
        """Transfers names, kinds, order and sites from the nodes of a rewrite to their replacements."""
        for old, new in memo.items():
            if old is new:
                continue
            if old in self.sites:
                self.sites.setdefault(new, self.sites[old])
            if isinstance(old, Axis) and isinstance(new, Axis):
                self.range(new.var, new.extent)
            if isinstance(old, ARRAY_FORMS) and isinstance(new, ARRAY_FORMS) and old in self.order:
                self.kinds.setdefault(new, self.kinds[old])
                names = self.names.get(new, ())
                self.names[new] = names + tuple(n for n in self.names.get(old, ()) if n not in names)
        moved: dict[Any, Any] = {old: new for old, new in memo.items() if old is not new and old in self.order}
        if moved:
            self.order = {f: None for form in self.order for f in (form, moved.get(form, form))}

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """A context manager that increments `depth` while a function of elements runs."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def snapshot(self) -> tuple[Any, ...]:
        """Returns copies of the tables, with which `restore` undoes an attempt."""
        return tuple(dict(t) for t in (self.order, self.names, self.kinds, self.sites, self.checks))

    def restore(self, tables: tuple[Any, ...]) -> None:
        """Resets the tables to a snapshot."""
        self.order, self.names, self.kinds, self.sites, self.checks = tables

    def equal_sizes(self, a: Expr, b: Expr, owner_a: str, owner_b: str, shapes: str = "") -> None:
        """Requires a = b: proven, refused with `ShapeError`, or entered as a check of each call."""
        if self.assumptions.equal(a, b):
            return
        self.refuse_different(a, b, owner_a, owner_b, shapes)
        if any(isinstance(node, Count) for node in topological(a, b)):
            head = f"sizes that data decides may differ: {owner_a} and {owner_b}"
            raise ShapeError(complaint(head, why=shapes or None, remedy="arrays of one rd.filter have one size"))
        self.checks.setdefault((a, b), SizeCheck(a, b, owner_a, owner_b, user_site()))

    def refuse_different(self, a: Expr, b: Expr, owner_a: str, owner_b: str, shapes: str = "") -> None:
        """Raises `ShapeError` where a and b provably differ."""
        if different(a, b, self.assumptions):
            head = f"sizes differ: {owner_a} is {read_extent(a)}, {owner_b} is {read_extent(b)}"
            raise ShapeError(complaint(head, why=shapes or None, remedy=rank_remedy(owner_a, owner_b)))

    def at_least_one(self, extent: Expr, owner: str) -> None:
        """Requires extent >= 1: proven, refused with `ShapeError`, or entered as a check of each call (as max(extent, 1) = extent)."""
        if self.assumptions.less_equal(1, extent):
            return
        if index.constant_value(extent) == 0:
            raise ShapeError(complaint(f"{owner} is empty"))
        if any(isinstance(node, Count) for node in topological(extent)):
            raise ShapeError(complaint(f"{owner} may be empty: its size is decided by data"))
        self.checks.setdefault(
            (index.maximum(extent, 1), extent),
            SizeCheck(index.maximum(extent, 1), extent, "", owner, user_site()),
        )


def different(a: Expr, b: Expr, assumptions: Assumptions) -> bool:
    """Whether a and b provably differ for all values of the size variables."""
    return assumptions.less(a, b) or assumptions.less(b, a)


def current() -> Trace:
    """Returns the running trace; raises `TraceError` outside of one."""
    trace = running()
    if trace is None:
        raise TraceError(
            complaint(
                "raido's array operations work inside an algorithm",
                remedy="write it in a function under @rd.algorithm, and call that with NumPy arrays; NumPy itself outside",
            )
        )
    return trace


def running() -> Trace | None:
    """Returns the running trace of this thread, or None."""
    return getattr(_running, "trace", None)


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """A context manager in which `trace` is the running trace of this thread."""
    before = running()
    _running.trace = trace
    try:
        yield trace
    finally:
        _running.trace = before


def canonical_indices(node: Node) -> Node:
    """Returns a load or boundary operation with its index expressions in canonical form, after variables have been replaced."""
    if isinstance(node, Load):
        indices = tuple(index.canonical(e) for e in node.indices)
        return Load(node.array, indices, node.checked)
    if isinstance(node, Op) and node.name in index.BOUNDARY_OPS:
        return Op(node.name, node.dtype, tuple(index.canonical(e) for e in node.args))
    return node


def load(array: Array, indices: tuple[Expr, ...], checked: bool = False) -> Expr:
    """Returns the load of an element. A load of an unnamed move becomes a load of the moved array, where the range check keeps its meaning."""
    trace = current()
    site: Site | None = None
    while isinstance(array, Result) and isinstance(array.form, Generate):
        form = array.form
        body = form.bodies[array.index]
        if trace.kinds.get(form) != "move" or trace.names.get(form) or not isinstance(body, Load):
            break
        if checked and not _keeps_range(form, body):
            break
        substitution = dict(zip((axis.var for axis in form.axes), indices, strict=True))
        indices = tuple(index.canonical(trace.substitute(e, substitution)) for e in body.indices)
        array, site = body.array, trace.sites.get(body, site)
        checked = checked or body.checked
    result = Load(array, indices, checked)
    if checked:
        trace.sites.setdefault(result, site or _site_of(array))
    return result


def _site_of(array: Array) -> Site:
    """Returns the user's current line, with the array's name and type where it is a parameter of the algorithm."""
    site = user_site()
    if isinstance(array, Parameter) and not array.serial:
        return replace(site, array=f"{array.name}: {describe(array.dtype, array.shape)}")
    return site


def load_chosen(array: Array, indices: tuple[Expr, ...]) -> Expr:
    """Returns the load of an element that a selection uses only where it exists; of an empty moved array, it may read another element.

    Where the load of that other element could be out of range itself, the move is not inlined: an empty array is never read.
    """
    trace = current()
    element = load(array, indices)
    if not isinstance(element, Load) or element.array is array:
        return element
    if all(trace.assumptions.less_equal(1, extent) for extent in array.shape):
        return element
    if element.checked:
        return Load(array, indices, False)
    coordinates = [  # bounds of an index clamped to an array do not hold for an empty array
        Op("clamp_index", i64, (e, extent)) if _brought_in(e) else e
        for e, extent in zip(element.indices, element.array.shape, strict=True)
    ]
    return Load(element.array, tuple(coordinates), False)


def _brought_in(e: Expr) -> bool:
    return isinstance(e, Op) and (e.name in index.BOUNDARY_OPS or any(_brought_in(arg) for arg in e.args))


def _keeps_range(form: Generate, body: Load) -> bool:
    """Whether the indices into the moved array are out of range exactly when the indices of the move are."""
    seen: set[Var] = set()
    variables = {axis.var: axis.extent for axis in form.axes}
    for e, extent in zip(body.indices, body.array.shape, strict=True):
        if isinstance(e, Var) and e in variables:
            if e in seen or variables[e] is not extent:
                return False
            seen.add(e)
        elif any(node in variables for node in topological(e)):
            return False
    return len(seen) == len(variables)
