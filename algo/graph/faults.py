"""Run-time faults as exceptions: the single source of their messages, for the interpreters and compiled code.

A fault has a kind, a site (the user's line, or None) and up to three numbers: "index" (dimension, index, size), "division" and, of u64,
"unsigned_division" (dividend), "power" (exponent), "size" (one, the other), "offsets" (one, the next, size), "offset" (the only one, size),
"bounds" (start, stop, size), "negative" (size), "limit_0" … "limit_4" (sizes that make too large an array), "total" (a sum of counts, or as
much of it as was added), "power_of_two" (the size of a Fourier transform), "empty" (). "unsigned_index", "unsigned_bounds", "unsigned_size"
(size) and "unsigned_offset" (offset) show numbers of u64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from raido.algo.errors import ArithmeticFault, ArrayTooLarge, IndexOutOfRange, RaidoError, SizeMismatch, explain
from raido.algo.graph.dtypes import bool_, i64, u64
from raido.algo.graph.expr import (
    ArrayWhile,
    Checked,
    Const,
    Expr,
    Load,
    Node,
    Op,
    Segmented,
    SizeVar,
    Update,
    Var,
    While,
)
from raido.algo.graph.limits import limit_text
from raido.algo.graph.primitives import CAN_FAULT, DIVISIONS
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import children, scalar_nodes

BOUND_OF_SLICE = (
    "rd.clip(k, 0, a.shape[0]) for a bound that is computed; ints and sizes as bounds end where the array does"
)
SIZE_OF_TRANSFORM = "n=, or the number in the type of the parameter: such a size may be any"


def can_fault(node: Node) -> bool:
    """Whether evaluating a node itself, apart from its operands, may fault."""
    if isinstance(node, (Load, Update)):
        return node.checked
    if not isinstance(node, Op):
        return isinstance(node, (Checked, Segmented))
    return _is_undefined_for_some(node) and not (node.name in DIVISIONS and all(_is_index(arg) for arg in node.args))


def is_index_of(e: Node, leaf: Callable[[Node], bool]) -> bool:
    """Whether an index is made of sizes and of such leaves by operations on indices and conditions that cannot fail."""
    return all(
        isinstance(node, (Const, SizeVar))
        or leaf(node)
        or (isinstance(node, Op) and node.dtype in (i64, bool_) and node.name not in CAN_FAULT)
        for node in scalar_nodes(e)
    )


def risky(nodes: Iterable[Node]) -> set[Node]:
    """Nodes that may fault or not terminate, themselves or through their operands. `nodes` is in postorder."""
    found: set[Node] = set()
    for node in nodes:
        if isinstance(node, While | ArrayWhile) or can_fault(node) or any(child in found for child in children(node)):
            found.add(node)
    return found


def operator_can_fault(*combine: Expr) -> bool:
    """Whether applying an operator may fault; its divisors may be any operands, not only sizes of arrays."""
    return any(
        _is_undefined_for_some(node) if isinstance(node, Op) else can_fault(node) for node in scalar_nodes(*combine)
    )


def _is_undefined_for_some(node: Op) -> bool:
    """Whether an integer operation divides by a possible 0, or raises to a possibly negative power."""
    if not node.dtype.is_integer:
        return False
    if node.name in DIVISIONS:
        return not is_never_zero(node.args[1])
    return node.name == "ipow" and node.dtype.kind == "i" and not is_never_negative(node.args[1])


def is_never_zero(e: Node) -> bool:
    """Whether a divisor is a non-zero literal, or `e where e != 0 else` such a literal."""
    if isinstance(e, Op) and e.name == "select":
        test, value, other = e.args
        asked = isinstance(test, Op) and test.name == "ne" and test.args[0] is value and _is_literal(test.args[1], 0)
        return asked and is_never_zero(other)
    return isinstance(e, Const) and e.bits != 0


def is_never_negative(e: Node) -> bool:
    """Whether an exponent is a non-negative literal, or a maximum with one."""
    if isinstance(e, Op) and e.name == "maximum":
        return any(is_never_negative(arg) for arg in e.args)
    return isinstance(e, Const) and e.value >= 0


def _is_literal(e: Node, value: int) -> bool:
    return isinstance(e, Const) and e.bits == value


def _is_index(e: Node) -> bool:
    """Whether an expression is arithmetic of sizes and indices, whose divisors are sizes of non-empty arrays."""
    if isinstance(e, Op):
        return all(_is_index(arg) for arg in e.args)
    return isinstance(e, (Const, SizeVar, Var))


def unsigned_kind(kind: str, *values: Node) -> str:
    """The kind of a fault: "unsigned_…" where one of its values is a u64 read as an i64."""
    wide = any(isinstance(v, Op) and v.name == "cast" and v.args[0].dtype is u64 for v in values)
    return f"unsigned_{kind}" if wide else kind


def index_lines(dimension: int, index: int, size: int, text: str = "") -> dict[str, str]:
    """Labelled lines of an error: the reason why an index is out of range, and the remedy; `text` is the user's line."""
    if not size:
        return {"why": "it is empty"}
    why = f"dimension {dimension} has size {size}, so its indices are 0 … {size - 1}"
    if index < 0:
        why += "; one that is computed does not count from the end, as a literal -1 does"
    return {"why": why, "try": _remedy_for_index(text)}


def _remedy_for_index(text: str) -> str:
    """The remedy for an index out of range, in a line that reads at it, changes an array there by `.at`, or both."""
    read = 'rd.gather(a, i, mode="clamp") for the nearest element, mode="wrap" or rd.constant(0)'
    if re.search(r"\bwhere\(", text):
        read = f"rd.cond(p, lambda: a[i], lambda: b), which evaluates one of the two alone; {read}"
    change = re.search(r"\.at\[.*\]\s*\.(set|add|multiply|min|max)\(", text)
    if change is None:
        return read
    name = change.group(1)
    operator = {"min": "minimum", "max": "maximum"}.get(name, name)
    form = "scatter(a, i, v)" if name == "set" else f"reduce_by_index(a, rd.{operator}, neutral, i, v)"
    written = f"rd.{form}, which leaves out what lies outside"
    return f"{written}; where it reads, {read}" if re.search(r"(?<!\.at)(?<=[\w)\]])\[", text) else written


def fault_error(kind: str, values: Sequence[int], site: Site | None) -> RaidoError:
    """The exception for a fault."""
    where = str(site) if site is not None and (site.line or site.file) else None
    if kind.startswith("unsigned_"):
        kind, values = kind.removeprefix("unsigned_"), [int(v) % (1 << 64) for v in values]
        if kind == "size":
            return SizeMismatch(explain(f"{values[0]} is larger than any size", algorithm=where))
        if kind == "offset":
            return IndexOutOfRange(explain(f"offset {values[0]} is larger than any size", algorithm=where))
    if kind == "index":
        dimension, index, size = (int(v) for v in values[:3])
        headline = f"index {index} is out of range for dimension {dimension} of size {size}"
        array = site.array or None if site else None
        return IndexOutOfRange(
            explain(headline, algorithm=where, array=array, **index_lines(dimension, index, size, where or ""))
        )
    if kind == "division":
        dividend = "".join(f" of {int(v)}" for v in values[:1])
        size = site.array or None if site else None
        return ArithmeticFault(explain(f"integer division{dividend} by zero", algorithm=where, size=size))
    if kind == "power":
        exponent = f"an integer to the power {int(values[0])} is not an integer" if len(values) else None
        return ArithmeticFault(explain("negative power of an integer", algorithm=where, why=exponent))
    if kind == "empty":
        headline = "a reduction over an empty axis has no value"
        return SizeMismatch(explain(headline, algorithm=where, **{"try": "initial="}))
    numbers = [int(v) for v in values]
    if kind == "offsets" and len(numbers) == 3:
        headline = f"offsets {numbers[0]}, {numbers[1]} must not decrease and must lie within 0..{numbers[2]}"
        return IndexOutOfRange(explain(headline, algorithm=where))
    if kind == "offset" and len(numbers) == 2:
        headline = f"offset {numbers[0]}, the only one, must lie within 0..{numbers[1]}"
        return IndexOutOfRange(explain(headline, algorithm=where))
    if kind == "bounds" and len(numbers) == 3:
        headline = f"slice {numbers[0]}:{numbers[1]} leaves a dimension of size {numbers[2]}"
        return IndexOutOfRange(explain(headline, algorithm=where, **{"try": BOUND_OF_SLICE}))
    if kind.startswith("limit_"):
        return ArrayTooLarge(explain(limit_text(numbers), algorithm=where, array=site.array or None if site else None))
    if kind == "total" and numbers:
        headline = f"counts that add up to {numbers[0]} or more make a larger array than any can be"
        return ArrayTooLarge(explain(headline, algorithm=where))
    if kind == "power_of_two" and numbers:
        headline = f"a Fourier transform of {numbers[0]} numbers, a size not known when compiled: no power of two"
        return SizeMismatch(explain(headline, algorithm=where, **{"try": SIZE_OF_TRANSFORM}))
    if kind == "exact" and len(numbers) == 2:
        headline = f'tail "exact": an extent of {numbers[0]} is not a multiple of {numbers[1]}'
        return SizeMismatch(explain(headline, algorithm=where))
    if kind == "negative" and numbers:
        return SizeMismatch(explain(f"a size must not be negative, this one is {numbers[0]}", algorithm=where))
    if len(numbers) == 2:
        array = site.array or None if site else None
        return SizeMismatch(explain(f"sizes {numbers[0]} and {numbers[1]} do not agree", algorithm=where, array=array))
    return SizeMismatch(explain("sizes that must agree do not", algorithm=where))
