"""Recognition of matrix products in loops of kind "matrix": the sums that a thread accumulates, and the factors of each product.

A loop of kind "matrix" means a serial loop: its products are added one by one, in order. Devices may run it by matrix instructions, which
add several products to a sum at once: its trip count is constant, a multiple of 16, or less than 16.
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.algo.graph.dtypes import f32
from raido.algo.graph.expr import Node, Op
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import Fold, For, Let, Statement, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import flat


@dataclass(frozen=True, slots=True)
class Product:
    """buffer[indices] += f32(first) * f32(second), in each iteration of a loop."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    first: Read
    second: Read


def products_of(loop: For) -> list[Product] | None:
    """Returns the products that each iteration of a loop adds to sums; None where it has any other effect."""
    known: dict[Node, NestExpr] = {}
    found: list[Product] = []
    for s in flat(loop.body):
        if isinstance(s, Let):
            known[s.var] = substitute(s.value, known)
            continue
        made = _product(s, known)
        if made is None:
            return None
        found.append(made)
    return found or None


def _product(s: Statement, known: dict[Node, NestExpr]) -> Product | None:
    if isinstance(s, Fold) and len(s.buffers) == 1 and s.monoid == "add" and not (s.before or s.after or s.values):
        buffer, value, held = s.buffers[0], s.step[0], s.left[0]
    elif isinstance(s, Store) and s.predicate is None:
        buffer, value, held = s.buffer, s.value, None
    else:
        return None
    value = substitute(value, known)
    if not isinstance(value, Op) or value.dtype is not f32:
        return None
    if value.name == "fma":
        first, second, before = value.args
    elif value.name == "add" and isinstance(value.args[1], Op) and value.args[1].name == "mul":
        before, (first, second) = value.args[0], value.args[1].args
    else:
        return None
    indices = tuple(substitute(i, known) for i in s.indices)
    same = isinstance(before, Read) and before.buffer is buffer and before.indices == indices
    reads = [_widened(e) for e in (first, second)]
    if not (before is held or same) or reads[0] is None or reads[1] is None or reads[0].dtype is not reads[1].dtype:
        return None
    return Product(buffer, indices, reads[0], reads[1])


def _widened(e: NestExpr) -> Read | None:
    """Returns the f16 or bf16 element behind a value in f32, or the f32 element, which the schedule knows to be rounded to tf32; None for
    others.
    """
    read = e.args[0] if isinstance(e, Op) and e.name == "cast" else e
    narrow = read.dtype is f32 if read is e else read.dtype.itemsize == 2
    return read if isinstance(read, Read) and read.predicate is None and narrow else None
