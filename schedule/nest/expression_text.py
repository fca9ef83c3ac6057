"""Expressions of a nest as text, with as few parentheses as operator precedence allows.

Variables and buffers have names unique within their scope (`x`, `x_2`); names that appear without brackets differ from size names, too. A
splat is written as its scalar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar, Var
from raido.schedule.nest.values import (
    Buffer,
    Extract,
    Gather,
    LaneCompress,
    LaneCount,
    LaneFold,
    LaneShift,
    LaneShuffle,
    NestExpr,
    Ramp,
    Read,
    Splat,
    VectorRead,
    VectorVar,
)

# The precedence of each operator; other operations are written as calls.
_INFIX = {
    "logical_or": ("or", 1),
    "logical_and": ("and", 2),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "eq": ("==", 4),
    "ne": ("!=", 4),
    "bit_or": ("|", 5),
    "bit_xor": ("^", 6),
    "bit_and": ("&", 7),
    "shl": ("<<", 8),
    "shr": (">>", 8),
    "add": ("+", 9),
    "sub": ("-", 9),
    "mul": ("*", 10),
    "div": ("/", 10),
    "floordiv": ("//", 10),
    "floormod": ("%", 10),
    "mod": ("%", 10),
}
_SHORT = {"minimum": "min", "maximum": "max", "logical_not": "not", "bit_not": "~"}
_BOUNDARIES = {"clamp_index": "clamp", "wrap_index": "wrap", "mirror_index": "mirror", "symmetric_index": "symmetric"}
ATOM, _UNARY = 12, 11


class ExpressionText:
    """Names in scope, and the text of every kind of expression; `sizes`: the names of all sizes, `shared`: names of common
    subexpressions.
    """

    def __init__(self, sizes: Iterable[str] = ()) -> None:
        self.sizes = frozenset(sizes)
        self.names: dict[Node, str] = {}
        self.taken: dict[str, Node] = {}
        self.shared: dict[Node, str] = {}

    def name(self, node: Var | VectorVar | Buffer) -> str:
        """Returns the display name of a variable or buffer: its own, with a number where that is taken."""
        known = self.names.get(node)
        if known is None:
            base = node.name or "v"
            known, number = base, 1
            sizes: frozenset[str] = frozenset() if isinstance(node, Buffer) and node.shape else self.sizes
            while known in sizes or not self._is_free(known):
                number += 1
                known = f"{base}_{number}"
            self.names[node] = known
            self.taken[known] = node
        return known

    def _is_free(self, name: str) -> bool:
        return name not in self.taken and name not in self.shared.values()

    def element(self, buffer: Buffer, indices: tuple[NestExpr, ...]) -> str:
        """Returns the text of an element of a buffer."""
        name = self.name(buffer)
        if not indices:
            return name
        extents: tuple[Expr | None, ...] = buffer.shape
        written = [self.text(i, extent=n) for i, n in zip(indices, extents, strict=True)]
        return f"{name}[{', '.join(written)}]"

    def slice(self, buffer: Buffer, indices: tuple[NestExpr, ...], stride: int, lanes: int) -> str:
        """Returns the text of elements of a buffer, one for each lane, `stride` apart."""
        by = f" by {stride}" if stride != 1 else ""
        return f"{self.element(buffer, indices)[:-1]} +: {lanes}{by}]"

    def text(self, e: NestExpr, extent: Expr | None = None) -> str:
        """Returns the text of an expression; `extent`: the size of the dimension that it indexes, which boundary operators omit."""
        return self._write(e, extent)[0]

    def tight(self, e: NestExpr, level: int) -> str:
        """Returns the text of an expression, in parentheses if its precedence is below `level`."""
        written, binds = self._write(e)
        return written if binds >= level else f"({written})"

    def _write(self, e: NestExpr, extent: Expr | None = None) -> tuple[str, int]:
        """Returns the text of an expression and its precedence."""
        if e in self.shared:
            return self.shared[e], ATOM
        if isinstance(e, (Var, VectorVar)):
            return self.names.get(e) or self.name(e), ATOM
        if isinstance(e, SizeVar):
            return e.name, ATOM
        if isinstance(e, Const):
            return _literal(e)
        if isinstance(e, Op):
            return self._operation(e, extent)
        if isinstance(e, Read):
            return self._masked(self.element(e.buffer, e.indices), e.predicate)
        if isinstance(e, VectorRead):
            return self._masked(self.slice(e.buffer, e.indices, e.stride, e.lanes), e.mask)
        if isinstance(e, Gather):
            return self._masked(f"gather {self.element(e.buffer, e.indices)}", e.mask, _UNARY)
        if isinstance(e, Ramp):
            by = f" by {e.stride}" if e.stride != 1 else ""
            return f"({self.text(e.base)} +: {e.lanes}{by})", ATOM
        if isinstance(e, Splat):
            return self._write(e.value)
        if isinstance(e, LaneFold):
            word = {"logical_or": "any", "logical_and": "all", "add": "sum", "minimum": "min", "maximum": "max"}
            return f"{word.get(e.name, e.name)}_lanes({self.text(e.value)})", ATOM
        if isinstance(e, Extract):
            return f"{self.tight(e.value, ATOM)}.lane({e.lane})", ATOM
        if isinstance(e, LaneCompress):
            return f"compress_lanes({self.text(e.value)} where {self.tight(e.mask, 3)})", ATOM
        if isinstance(e, LaneCount):
            return f"count_lanes({self.text(e.mask)})", ATOM
        if isinstance(e, LaneShift):
            return f"shift_lanes({self.text(e.value)}, {e.distance})", ATOM
        if isinstance(e, LaneShuffle):
            order = " ".join(map(str, e.order))
            return f"shuffle_lanes({self.text(e.first)}, {self.text(e.second)}, {order})", ATOM
        return f"<{type(e).__name__}>", ATOM

    def _masked(self, element: str, mask: NestExpr | None, binds: int = ATOM) -> tuple[str, int]:
        return (element, binds) if mask is None else (f"{element} where {self.tight(mask, 3)}", 0)

    def _operation(self, e: Op, extent: Expr | None) -> tuple[str, int]:
        if e.name in _INFIX:
            return self._infix(e)
        if e.name in _BOUNDARIES:
            size = e.args[-1]
            whole = size is extent or getattr(size, "value", None) is extent
            rest = "" if whole else f", {self.text(size)}"
            return f"{_BOUNDARIES[e.name]}({self.text(e.args[0])}{rest})", ATOM
        if e.name == "cast":
            return f"{e.dtype.name.rstrip('_')}({self.text(e.args[0])})", ATOM
        if e.name == "neg":
            return f"-{self.tight(e.args[0], _UNARY)}", _UNARY
        if e.name == "logical_not":
            return f"not {self.tight(e.args[0], 3)}", 3
        if e.name == "select":
            condition, yes, no = (self.tight(a, 1) for a in e.args)
            return f"{yes} if {condition} else {no}", 0
        name = _SHORT.get(e.name, e.name)
        members = list(_members(e)) if e.name in ("minimum", "maximum") else e.args
        return f"{name}({', '.join(map(self.text, members))})", ATOM

    def _infix(self, e: Op) -> tuple[str, int]:
        symbol, level = _INFIX[e.name]
        left, right = e.args[0], e.args[-1]
        if e.name == "add" and e.dtype is i64:
            for plus, minus in ((left, right), (right, left)):
                positive = _negated(minus)
                if positive is not None:
                    return f"{self.tight(plus, level)} - {self._term(positive)}", level
        if e.name == "mul" and e.dtype is i64 and isinstance(right, Const):
            return self._term((right.value, left)), level
        spaced = "" if level == 10 and e.dtype is i64 else " "
        side = level + 1
        return (
            f"{self.tight(left, side if level == 4 else level)}{spaced}{symbol}{spaced}{self.tight(right, side)}",
            level,
        )

    def _term(self, term: tuple[int, NestExpr | None]) -> str:
        factor, rest = term
        if rest is None:
            return str(factor)
        written = self.tight(rest, _UNARY)
        return written if factor == 1 else f"{factor}*{written}"


def _negated(e: NestExpr) -> tuple[int, NestExpr | None] | None:
    """Returns a negative term as its positive factor and the rest; None for other terms."""
    if isinstance(e, Splat):
        e = e.value
    if isinstance(e, Const) and e.value < 0:
        return -e.value, None
    if isinstance(e, Op) and e.name == "mul":
        rest, factor = e.args[0], e.args[-1]
        if isinstance(factor, Const) and factor.value < 0:
            return -factor.value, rest
    return None


def _members(e: NestExpr, name: str = "") -> Iterator[NestExpr]:
    """Yields the operands of nested minima (or maxima), in order."""
    if isinstance(e, Op) and e.name in ("minimum", "maximum") and name in ("", e.name):
        for argument in e.args:
            yield from _members(argument, e.name)
    else:
        yield e


def _literal(e: Const) -> tuple[str, int]:
    value = e.value
    if e.dtype is bool_:
        return ("true" if value else "false"), ATOM
    written = str(e.dtype.numpy.type(value)) if e.dtype.is_float else str(value)
    return written, ATOM if not written.startswith("-") else _UNARY
