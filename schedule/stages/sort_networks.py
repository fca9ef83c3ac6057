"""Sorting networks for sorts of a constant, small number of elements: expressions of compare-exchanges, without memory.

    map(i: sort(k: a[i + k] for k in 0..5)[2])      becomes      map(i: the third of five elements, by 9 compare-exchanges)

A network does the same to every row, so that rows are lanes, and where only some results are read, as for a median, the rest of the network
is dead code. Networks are not stable. So a single key without other values is sorted as an integer of its own width, in an order with -0.0
before 0.0, and NaNs by their bits; where zeros of both signs may have been exchanged, a loop over the row, run only by rows that have a
-0.0, restores the signs. Anything else is sorted with its index as the last key, packed into one integer with the key where both fit, and
the values are loaded at the indices.

(Odd–even merge sort: Batcher, Sorting networks and their applications, 1968; Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.cost import cost_of_element
from raido.algo.graph.dtypes import DType, bool_, i8, i16, i32, i64, u32, u64
from raido.algo.graph.expr import (
    Array,
    Checked,
    Cond,
    Const,
    Expr,
    Generate,
    Item,
    Load,
    Node,
    Op,
    Result,
    SizeVar,
    Sort,
    Var,
    axes_like,
    const,
)
from raido.algo.graph.rewrite import children, free_variables, rewritten, scalar_nodes, topological
from raido.schedule.stages.sort_keys import comes_before, sortable, unsigned
from raido.schedule.stages.tables import Tables, fold_constants

MOST = 1200  # operations of a network (some KiB of code): 64 elements by one key, 28 by keys of 64 bits with indices
_SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}
_STRAIGHT = (Op, Load, Checked, Const, SizeVar, Var)


def sort_by_networks(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces sorts of few elements side by side by networks. A single sort, in no map or loop, stays: it has no rows to be lanes."""
    nodes = topological(*roots)
    small = [form for form in nodes if isinstance(form, Sort) and form not in tables.kept_sorts and _is_small(form)]
    wanted = {form: _Wanted() for form in small}
    if not wanted:
        return roots
    for node in nodes:
        for child in children(node):
            if isinstance(child, Result) and child.form in wanted:
                wanted[child.form].read_by(node, child)
    for root in roots:
        if isinstance(root, Result) and root.form in wanted:
            wanted[root.form].whole.add(root.index)
    alone = _only_read_by_sorts(nodes, roots, tables)
    networks: dict[Node, _Sorted] = {}
    memo: dict[Node, Any] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, Sort) and node in wanted:
            networks[node] = _sorted(new, wanted[node], alone, tables)
        elif isinstance(node, Result) and node.form in networks:
            memo[node] = networks[node.form].rows.get(node.index, new)
        elif isinstance(node, Load) and isinstance(node.array, Result) and node.array.form in networks:
            memo[node] = networks[node.array.form].element(new, node.array)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _is_small(form: Sort) -> bool:
    count = ix.constant_value(form.axes[form.along].extent)
    if count is None or not 2 <= count <= MOST or (len(form.axes) == 1 and not free_variables(form)):
        return False
    keys = [unsigned(value.dtype) for value in form.values[: form.keys]]
    one = len(keys) == 1 and (len(form.values) == 1 or _packed(keys[0], count) is not None)
    operations = (
        2 if one else 4 * len(keys) + 3
    )  # a minimum and a maximum; or lexicographic comparisons, and two selections of each key
    return operations * _size(count) <= MOST


def _packed(key: DType, count: int) -> DType | None:
    """Returns the unsigned type that holds a key and an index below `count`; None where 64 bits do not."""
    bits = key.bits + (count - 1).bit_length()
    return u32 if bits <= 32 else u64 if bits <= 64 else None


@functools.cache
def _size(count: int) -> int:
    """Returns the number of compare-exchanges of a network for `count` elements."""
    return sum(1 for _ in exchanges(count))


@dataclass(slots=True)
class _Wanted:
    """The uses of a sort: results that are needed as arrays, and elements (result, place) that are read at a literal index."""

    whole: set[int] = field(default_factory=set)
    elements: dict[tuple[int, int], None] = field(default_factory=dict)

    def read_by(self, reader: Node, array: Result) -> None:
        """Records a reader of a result of the sort."""
        position = _literal_index(reader, array) if isinstance(reader, Load) else None
        if position is None:
            self.whole.add(array.index)
        else:
            self.elements[array.index, position] = None


def _literal_index(load: Load, array: Result) -> int | None:
    """Returns the index along the sorted axis that a load reads, if it is a literal in range; else None."""
    form = array.form
    assert isinstance(form, Sort)
    if load.array is not array:
        return None
    position, count = (ix.constant_value(e) for e in (load.indices[form.along], form.axes[form.along].extent))
    assert count is not None
    return position if position is not None and 0 <= position < count else None


@dataclass(slots=True)
class _Sorted:
    """The network of a sort: `elements`, with one array for each of `positions`, and `rows`, the results that are needed as arrays."""

    form: Sort
    elements: Generate
    positions: dict[tuple[int, int], int]
    rows: dict[int, Result]

    def element(self, load: Load, array: Result) -> Load:
        """Returns a load of the sort as a load of one of its elements, if its index is a literal."""
        position = ix.constant_value(load.indices[self.form.along])
        if (array.index, position) not in self.positions or array.index in self.rows:
            return load
        made = Result(self.elements, self.positions[array.index, position])  # type: ignore[index]
        return Load(made, _without(load.indices, self.form.along), load.checked)


def _without(parts: Sequence[Any], position: int) -> tuple[Any, ...]:
    return (*parts[:position], *parts[position + 1 :])


def _sorted(form: Sort, wanted: _Wanted, alone: set[Node], tables: Tables) -> _Sorted:
    """Returns the network of a sort, and its results as arrays where they are needed."""
    count = ix.constant_value(form.axes[form.along].extent)
    assert count is not None
    positions = {(j, k): None for j in sorted(wanted.whole) for k in range(count)} | wanted.elements
    numbers = {position: number for number, position in enumerate(positions)}
    short = _with_values(form, count, alone, tables)
    bodies = _Network(short, count, tables).elements(list(positions))
    network = Generate(_without(short.axes, form.along), tuple(bodies))
    tables.pass_names(form, network)
    rows: dict[int, Result] = {}
    if wanted.whole:
        tables.names.pop(network, None)
        axes = axes_like(form.axes)
        tables.named_axes.update(
            new.var for old, new in zip(form.axes, axes, strict=True) if old.var in tables.named_axes
        )
        inside = tuple(axis.var for axis in _without(axes, form.along))
        arrays = [[Result(network, numbers[j, k]) for k in range(count)] for j in sorted(wanted.whole)]
        loads = [[Load(array, inside, False) for array in row] for row in arrays]
        joined = Generate(axes, tuple(_chosen(row, axes[form.along].var) for row in loads))
        tables.pass_names(form, joined)
        rows = {j: Result(joined, number) for number, j in enumerate(sorted(wanted.whole))}
    return _Sorted(form, network, numbers, rows)


def _chosen(elements: Sequence[Expr], position: Expr) -> Expr:
    """Returns the element at an index, by selections."""
    result = elements[-1]
    for k in reversed(range(len(elements) - 1)):
        result = Op("select", result.dtype, (Op("lt", bool_, (position, ix.as_index(k + 1))), elements[k], result))
    return result


def _only_read_by_sorts(nodes: Sequence[Node], roots: Sequence[Array], tables: Tables) -> set[Node]:
    """Returns the unnamed forms that only sorts read."""
    found: dict[Node, set[Node]] = {}
    others = {root.form for root in roots if isinstance(root, Result)}
    for node in nodes:
        if isinstance(node, Sort):
            for load in scalar_nodes(*node.values):
                if isinstance(load, Load) and isinstance(load.array, Result):
                    found.setdefault(load.array.form, set()).add(load)
    readers: dict[Node, set[Node]] = {form: set() for form in found}
    for node in nodes:
        for child in children(node):
            if isinstance(child, Result) and child.form in readers:
                readers[child.form].add(node)
    return {
        form
        for form, loads in found.items()
        if form not in others and isinstance(form, Generate) and not tables.names.get(form) and readers[form] <= loads
    }


def _with_values(form: Sort, count: int, alone: set[Node], tables: Tables) -> Sort:
    """Returns the sort with values that are branch-free and no longer than the network; others are computed before it."""
    along = form.axes[form.along].var
    values = []
    for value in form.values:
        while isinstance(value, Load) and isinstance(value.array, Result) and value.array.form in alone:
            made = tables.beta(value.array.form, value.array.index, value.indices)  # type: ignore[arg-type]
            if value.checked or not _is_short(_row(made, along, count, tables)):
                break
            value = made
        values.append(value)
    long = [k for k, e in enumerate(values) if e is not along and not _is_short(_row(e, along, count, tables))]
    if long:
        before = Generate(form.axes, tuple(values[k] for k in long))
        axes = axes_like(form.axes)
        own: dict[Node, Node] = {old.var: new.var for old, new in zip(form.axes, axes, strict=True)}
        kept = tables.rewrite([v for k, v in enumerate(values) if k not in long], fold_constants, own)
        left = iter(kept)
        positions = tuple(axis.var for axis in axes)
        values = [
            Load(Result(before, long.index(k)), positions, False) if k in long else next(left)
            for k in range(len(values))
        ]
        return Sort(axes, form.along, form.keys, tuple(values))
    return Sort(form.axes, form.along, form.keys, tuple(values))


def _row(value: Expr, along: Node, count: int, tables: Tables) -> list[Any]:
    """Returns an expression at each index along the sorted axis."""
    return [tables.rewrite((value,), fold_constants, {along: ix.as_index(k)})[0] for k in range(count)]


def _is_short(row: list[Any]) -> bool:
    """Whether the elements of a row cost no more than the network, and have no loops or branches."""
    straight = all(isinstance(node, _STRAIGHT) for node in scalar_nodes(*row))
    return straight and sum(cost_of_element((value,)) for value in row) <= 2 * _size(len(row))


def exchanges(count: int) -> Iterator[tuple[int, int]]:
    """Yields the pairs of indices that the network for `count` elements compares, in order (Batcher's odd–even merge sort)."""
    half = 1
    while half < count:
        distance = half
        while distance >= 1:
            for begin in range(distance % half, count - distance, 2 * distance):
                for i in range(begin, min(begin + distance, count - distance)):
                    if i // (2 * half) == (i + distance) // (2 * half):
                        yield i, i + distance
            distance //= 2
        half *= 2


def ordered(elements: list[Any], exchange: Callable[[Any, Any], tuple[Any, Any]]) -> list[Any]:
    """Returns the elements sorted by the network; `exchange` returns a pair in order."""
    for i, j in exchanges(len(elements)):
        elements[i], elements[j] = exchange(elements[i], elements[j])
    return elements


class _Network:
    """The network of a sort of `count` elements."""

    def __init__(self, form: Sort, count: int, tables: Tables) -> None:
        self.form, self.count, self.tables = form, count, tables
        self.along = form.axes[form.along].var

    def elements(self, positions: Sequence[tuple[int, int]]) -> list[Expr]:
        """Returns the elements at some places, each the number of a value and an index in the sorted order."""
        if self.form.keys == 1 and all(j == 0 for j, _ in positions):
            return self._by_key([k for _, k in positions])
        return self._by_index(positions)

    def _row(self, e: Expr) -> list[Any]:
        return _row(e, self.along, self.count, self.tables)

    # One key alone

    def _by_key(self, positions: Sequence[int]) -> list[Expr]:
        value = self.form.values[0]
        dtype = value.dtype
        if not dtype.is_float:
            names = ("logical_and", "logical_or") if dtype is bool_ else ("minimum", "maximum")
            row = ordered(self._row(value), lambda a, b: tuple(Op(name, dtype, (a, b)) for name in names))
            return [row[k] for k in positions]
        keys, kind = self._row(_total_key(value)), unsigned(dtype)
        row = ordered(keys.copy(), lambda a, b: _least_first(a, b))
        minus, plus = const(kind, _zero(dtype) - 1), const(kind, _zero(dtype))
        signs = self._signs_of_zeros(keys, [row[k] for k in positions], positions)
        found = []
        for k, is_minus in zip(positions, signs, strict=True):
            unsigned_zero = Op("select", kind, (Op("eq", bool_, (row[k], minus)), plus, row[k]))
            found.append(_value_of_key(Op("select", kind, (is_minus, minus, unsigned_zero)), dtype))
        return found

    def _signs_of_zeros(self, keys: list[Any], results: list[Any], positions: Sequence[int]) -> list[Expr]:
        """Returns for each result whether it is -0.0, with zeros in the order in which they stand in the row: one bit for each of them."""
        kind = u32 if self.count <= 32 else u64
        minus, plus = (const(keys[0].dtype, _zero(self.form.values[0].dtype) - k) for k in (1, 0))
        equal = lambda a, b: Op("eq", bool_, (a, b))
        is_zero = lambda e: Op("logical_or", bool_, (equal(e, minus), equal(e, plus)))
        number = lambda test: Op("select", kind, (test, const(kind, 1), const(kind, 0)))
        some = functools.reduce(lambda a, b: Op("logical_or", bool_, (a, b)), [equal(e, minus) for e in keys])
        less = [number(Op("lt", bool_, (e, minus))) for e in keys]
        before = functools.reduce(lambda a, b: Op("add", kind, (a, b)), less)
        signs: Expr = const(kind, 0)
        seen: Expr = const(kind, 0)
        for key in keys:
            signs = Op("bit_or", kind, (signs, Op("shl", kind, (number(equal(key, minus)), seen))))
            seen = Op("add", kind, (seen, number(is_zero(key))))
        then = []
        for e, k in zip(results, positions, strict=True):
            sign = Op("shr", kind, (signs, Op("sub", kind, (const(kind, k), before))))
            is_minus = equal(Op("bit_and", kind, (sign, const(kind, 1))), const(kind, 1))
            then.append(Op("logical_and", bool_, (is_zero(e), is_minus)))
        no = tuple(const(bool_, False) for _ in positions)
        branch = Cond(some, tuple(then), no)
        if len(positions) < self.count:  # few rows have a zero where one is read
            zeros = functools.reduce(lambda a, b: Op("logical_or", bool_, (a, b)), [is_zero(e) for e in results])
            branch = Cond(zeros, tuple(Item(branch, i) for i in range(len(positions))), no)
        return [Item(branch, i) for i in range(len(positions))]

    # Keys with indices

    def _by_index(self, positions: Sequence[tuple[int, int]]) -> list[Expr]:
        keys = [sortable(value) for value in self.form.values[: self.form.keys]]
        bits = (self.count - 1).bit_length()
        both = _packed(keys[0].dtype, self.count) if len(keys) == 1 else None
        if both is not None:
            high = Op("shl", both, (Op("cast", both, (keys[0],)), const(both, bits)))
            words = [Op("bit_or", both, (e, const(both, k))) for k, e in enumerate(self._row(high))]
            words = ordered(words, lambda a, b: _least_first(a, b))
            indices = [Op("bit_and", both, (word, const(both, (1 << bits) - 1))) for word in words]
        else:
            kind = max((key.dtype for key in keys), key=lambda dtype: dtype.bits)
            rows = [self._row(key) for key in keys]
            lines = [(*line, const(kind, k)) for k, line in enumerate(zip(*rows, strict=True))]
            indices = [line[-1] for line in ordered(lines, _lesser_line_first)]
        found = [Op("cast", i64, (e,)) for e in indices]
        return [
            self.tables.rewrite((self.form.values[j],), fold_constants, {self.along: found[k]})[0] for j, k in positions
        ]


def _least_first(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    return Op("minimum", a.dtype, (a, b)), Op("maximum", a.dtype, (a, b))


def _lesser_line_first(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, Any]:
    swap = comes_before(b, a)
    pick = lambda x, y: tuple(Op("select", e.dtype, (swap, e, f)) for e, f in zip(x, y, strict=True))
    return pick(b, a), pick(a, b)


def _total_key(value: Expr) -> Expr:
    """Returns an unsigned key for a float, with -0.0 before 0.0 and every NaN last; `_value_of_key` inverts it."""
    kind = unsigned(value.dtype)
    bits = Op("bitcast", kind, (value,))
    flipped = Op("bit_xor", kind, (bits, Op("bit_or", kind, (_spread(bits), const(kind, 1 << (kind.bits - 1))))))
    return Op("sub", kind, (flipped, const(kind, _least(value.dtype))))


def _value_of_key(key: Expr, dtype: DType) -> Expr:
    kind = key.dtype
    flipped = Op("add", kind, (key, const(kind, _least(dtype))))
    negative = Op("bit_not", kind, (_spread(flipped),))
    bits = Op("bit_xor", kind, (flipped, Op("bit_or", kind, (negative, const(kind, 1 << (kind.bits - 1))))))
    return Op("bitcast", dtype, (bits,))


def _spread(e: Expr) -> Expr:
    """Returns an unsigned integer with the highest bit of `e` in every bit."""
    signed = _SIGNED[e.dtype.bits]
    return Op("bitcast", e.dtype, (Op("shr", signed, (Op("bitcast", signed, (e,)), const(signed, e.dtype.bits - 1))),))


def _least(dtype: DType) -> int:
    """Returns the flipped bits of minus infinity: those of negative NaNs are less, and wrap to the end when it is subtracted."""
    return ((1 << dtype.bits) - 1) ^ const(dtype, float("-inf")).bits


def _zero(dtype: DType) -> int:
    """Returns the key of 0.0; that of -0.0 is one less."""
    return (1 << (dtype.bits - 1)) - _least(dtype)
