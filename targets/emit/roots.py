"""Square roots without the divider, for loops that keep it busy.

A root of sixteen f32 takes ten cycles of the divider, a quotient seven, and there is one; products run beside them. In a loop that has
little else to do some roots are therefore made by an estimate of 14 bits, a step of Goldschmidt's, which squares its error, and
Markstein's correction: the exact rest x − g² times 1 / 2√x gives the root rounded to nearest, the bits of the instruction. P. Markstein,
"Software division and square root using Goldschmidt's algorithms", RNC6, 2004. Where some lane is not of the usual size (a rest below
the smallest number, infinity, a negative number, NaN) the instruction is used after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import f32, i32
from raido.algo.graph.expr import Op
from raido.algo.graph.primitives import RECIPES
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import Let, Store, lanes_of
from raido.targets.emit.llvm_text import TextBuilder, Value

LANES = 16
ROOT, QUOTIENT = 10, 7  # cycles of the divider
INSTEAD = 12  # cycles that the products instead of a root take, its test included
FUNCTION = 20
_USUAL = (0x0D800000, 0x7F800000)  # from 2**-100 to infinity


def roots_by_products(statements: Sequence[Any]) -> frozenset[Op]:
    """The roots of a loop's body that are to be made by products: as many as leave the divider no less to do than the products have.

    Only a loop that keeps its results in registers waits for the divider rather than for memory.
    """
    if not all(isinstance(s, Let) or (isinstance(s, Store) and s.buffer.scope == "register") for s in statements):
        return frozenset()
    seen: dict[Op, None] = {}
    for s in statements:
        seen.update((node, None) for node in topological(s.value) if isinstance(node, Op) and _is_wide(node))
    roots = [node for node in seen if node.name == "sqrt"]
    divider = ROOT * len(roots) + QUOTIENT * sum(node.name == "div" for node in seen)
    products = sum(node.name in ("mul", "fma") for node in seen) + FUNCTION * sum(node.name in RECIPES for node in seen)
    count = 0
    while count < len(roots) and divider - ROOT >= products + INSTEAD:
        count, divider, products = count + 1, divider - ROOT, products + INSTEAD
    return frozenset(roots[len(roots) - count :])


def _is_wide(node: Op) -> bool:
    return node.dtype is f32 and lanes_of(node) == LANES


def write_root(b: TextBuilder, x: Value) -> Value:
    """√x in sixteen lanes, rounded to nearest."""
    estimate = b.call("llvm.x86.avx512.rsqrt14.ps.512", f32, LANES, x, f"{x.type} zeroinitializer", "i16 -1")
    exponents = b.convert("bitcast", estimate, i32)
    half = b.convert("bitcast", b.binary("sub", exponents, b.constant(exponents, 1 << 23)), f32)
    root = b.binary("fmul", x, estimate)
    error = b.intrinsic("fma", b.unary("fneg", half), root, b.constant(x, 0.5))
    root, half = b.intrinsic("fma", root, error, root), b.intrinsic("fma", half, error, half)
    rest = b.intrinsic("fma", b.unary("fneg", root), root, x)
    root = b.intrinsic("fma", rest, half, root)
    low, high = _USUAL
    bits = b.convert("bitcast", x, i32)
    offset = b.binary("sub", bits, b.constant(bits, low))
    unusual = b.any(b.compare("uge", offset, b.constant(bits, high - low)))
    before, rare, rooted = b.label, b.fresh_label("rare"), b.fresh_label("rooted")
    b.line(f"br {unusual.typed}, label %{rare}, label %{rooted}")
    b.start_block(rare)
    instruction = b.intrinsic("sqrt", x)
    b.line(f"br label %{rooted}")
    b.start_block(rooted)
    return b.result(f32, LANES, f"phi {x.type} [ {root.text}, %{before} ], [ {instruction.text}, %{rare} ]")
