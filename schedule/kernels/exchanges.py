"""A collection of parts as the code of each thread of a block: values are exchanged between threads, without barriers.

    collect partial[t] over thread.x t in 0..8, halves of 8: left + right

becomes, in every thread:

    own = partial[thread_x] if thread_x < 8
    other = exchange own of 4 threads on;  own_1 = own + other if thread_x + 4 < 8 else own
    other_1 = exchange own_1 of 2 threads on; …
    if thread_x == 0: partial[0] = own_3

Where prefixes are collected, values come from earlier threads, and every thread stores its own. Threads without a partner compute with
arbitrary values, which are discarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.carry import applied
from raido.schedule.nest.collect import distances_of, tree_levels
from raido.schedule.nest.nodes import Collect, Exchange, Let, Statement, Store
from raido.schedule.nest.values import Read


def exchanged(s: Collect, thread: Var, threads: int, chosen: Expr | None, subgroup: int) -> Iterator[Statement]:
    """The code of every thread for a collection. thread: its place along x, of `threads`. chosen: the condition on its places along other
    axes that it has a part (None: always). subgroup: the number of threads that exchange values."""
    indices = tuple(substitute(i, {s.var: thread}) for i in s.indices)
    all_have = (ix.constant_value(s.count) or 0) >= threads
    here = chosen if all_have else _both(Op("lt", bool_, (thread, s.count)), chosen)
    own = _named("own", s.left)
    for v, buffer in zip(own, s.buffers, strict=True):
        yield Let(v, Read(buffer, indices, here))
    if s.prefix:
        yield from _prefixes(s, thread, own, subgroup)
        yield from (Store(buffer, indices, v, here) for v, buffer in zip(own, s.buffers, strict=True))
        return
    for each in tree_levels(s):
        taken = Op("lt", bool_, (ix.add(thread, each.distance), each.limit))
        yield from _combined(s, own, taken, each.distance, subgroup)
    lane = thread if s.halves else Op("mod", thread.dtype, (thread, ix.as_index(s.width)))
    first = Op("eq", bool_, (lane, ix.as_index(0)))
    for v, buffer in zip(own, s.buffers, strict=True):
        yield Store(buffer, indices, v, _both(here, first))


def _prefixes(s: Collect, thread: Var, own: list[Var], subgroup: int) -> Iterator[Statement]:
    """The steps in which each thread combines its value with that of an earlier thread; `own` is updated to the results."""
    lane = Op("mod", thread.dtype, (thread, ix.as_index(s.width)))
    for distance in distances_of(s):
        taken = Op("le", bool_, (ix.as_index(distance), lane))
        yield from _combined(s, own, taken, -distance, subgroup)


def _combined(s: Collect, own: list[Var], taken: Expr, distance: int, subgroup: int) -> Iterator[Statement]:
    """A step in which a thread combines its value with that of another one, where `taken` holds; `own` is updated to the results."""
    others, made = _named("other", s.left), _named("own", s.left)
    yield Exchange(tuple(others), tuple(own), distance, subgroup)
    combined = applied(s, own, others) if distance > 0 else applied(s, others, own)
    for v, value, before in zip(made, combined, own, strict=True):
        yield Let(v, Op("select", v.dtype, (taken, value, before)))
    own[:] = made


def _named(label: str, operands: Sequence[Var]) -> list[Var]:
    return [fresh(label, v.dtype) for v in operands]


def _both(a: Expr | None, b: Expr | None) -> Expr | None:
    return (a or b) if a is None or b is None else Op("logical_and", bool_, (a, b))
