"""Sorts by several keys as sorts by one: adjacent keys of at most 64 bits together are packed into one unsigned integer, the first in its
highest bits, and taken out of it afterwards; for several such words there are as many stable sorts, by the last word first.

    sort(i32 a, i32 b, by 2 keys)      becomes      sort(u64 a << 32 | b); a, b: its halves
    sort(i64 a, f64 b, by 2 keys)      becomes      sort(a, b, by a) of sort(b, a, by b)

Integers are recovered from their bits. A float is moved beside its word where it is read: zeros of both signs are equal, as are all NaN. Keys
behind the element's own index decide nothing, nor does the index; they are moved alone. (Knuth, The Art of Computer Programming 3, 5.2.5.)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

from raido.algo.graph.dtypes import DType, u8, u16, u32, u64
from raido.algo.graph.expr import Array, Axis, Expr, Generate, Load, Node, Op, Result, Sort, axes_like, const
from raido.algo.graph.rewrite import rewritten, topological
from raido.schedule.stages.sort_keys import sortable, unsigned, value_of
from raido.schedule.stages.tables import Tables

WORDS = (u8, u16, u32, u64)
Group: TypeAlias = tuple[int, ...]  # the numbers of values of a sort


def pack_keys(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces sorts by several keys."""
    nodes = topological(*roots)
    if not any(isinstance(node, Sort) and node.keys > 1 for node in nodes):
        return roots
    read = {node for node in nodes if isinstance(node, Result) and isinstance(node.form, Sort)}
    memo: dict[Node, Any] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, Sort) and node.keys > 1:
            wanted = [k for k in range(len(node.values)) if Result(node, k) in read]
            memo |= {Result(node, k): array for k, array in _sorted(node, new, wanted, tables).items()}
    return rewritten(roots, memo)


def _sorted(old: Sort, form: Sort, wanted: Sequence[int], tables: Tables) -> dict[int, Array]:
    """Returns the wanted results of a sort, made by a sort for each word."""
    own = form.axes[form.along].var
    keys = form.keys if own not in form.values[: form.keys] else max(1, form.values.index(own))
    words = _words([value.dtype for value in form.values[:keys]])
    held = {
        k: word for word in words for k in word if k in wanted and (len(word) == 1 or not form.values[k].dtype.is_float)
    }
    items: dict[Group, Expr] = {word: _packed(form.values, word) for word in words}
    items |= {(k,): form.values[k] for k in wanted if k not in held}
    axes, sort = form.axes, form
    for number in reversed(range(len(words))):
        still = {*words[:number], *held.values(), *((k,) for k in wanted if k not in held)}
        order = [words[number], *(item for item in items if item in still and item != words[number])]
        sort = Sort(axes, form.along, 1, tuple(items[item] for item in order))
        tables.kinds[sort] = "sort"
        axes = axes_like(form.axes)
        items = {item: _element(Result(sort, k), axes) for k, item in enumerate(order)}
    tables.carry(old, sort)
    results: dict[int, Array] = {item[0]: Result(sort, k) for k, item in enumerate(items) if len(item) == 1}
    for k, item in enumerate(items):
        taken = [key for key in item if held.get(key) == item]
        if len(item) > 1 and taken:
            own_axes = axes_like(form.axes)
            word = _element(Result(sort, k), own_axes)
            unpacked = Generate(own_axes, tuple(_taken(word, form.values, item, key) for key in taken))
            results |= {key: Result(unpacked, number) for number, key in enumerate(taken)}
    return {k: results[k] for k in wanted}


def _words(dtypes: Sequence[DType]) -> list[Group]:
    """Returns the keys of each word, as many as fit it."""
    words: list[list[int]] = []
    for k, dtype in enumerate(dtypes):
        if words and _bits(dtypes[j] for j in words[-1]) + unsigned(dtype).bits <= u64.bits:
            words[-1].append(k)
        else:
            words.append([k])
    return [tuple(word) for word in words]


def _bits(dtypes: Any) -> int:
    return sum(unsigned(dtype).bits for dtype in dtypes)


def _packed(values: Sequence[Expr], word: Group) -> Expr:
    """Returns the key of a word: a value itself, if there is one alone."""
    if len(word) == 1:
        return values[word[0]]
    dtype = next(dtype for dtype in WORDS if _bits(values[k].dtype for k in word) <= dtype.bits)
    fields = [_shifted("shl", Op("cast", dtype, (sortable(values[k]),)), _below(values, word, k)) for k in word]
    return functools.reduce(lambda a, b: Op("bit_or", dtype, (a, b)), fields)


def _taken(packed: Expr, values: Sequence[Expr], word: Group, key: int) -> Expr:
    """Returns the value of a key of a packed word."""
    dtype = values[key].dtype
    return value_of(Op("cast", unsigned(dtype), (_shifted("shr", packed, _below(values, word, key)),)), dtype)


def _below(values: Sequence[Expr], word: Group, key: int) -> int:
    """Returns the number of bits below a key of a word."""
    return _bits(values[k].dtype for k in word if k > key)


def _shifted(name: str, value: Expr, bits: int) -> Expr:
    return Op(name, value.dtype, (value, const(value.dtype, bits))) if bits else value


def _element(array: Result, axes: tuple[Axis, ...]) -> Load:
    return Load(array, tuple(axis.var for axis in axes), False)
