"""The Nest as pseudo-code: what `s.show()` and `exe.source("nest")` print. Both levels; made for people, never parsed.

Loops read `for y in low..high step s:`, vectors `img[y, x - 1 +: 16]` (16 elements from x − 1 on), `where m` is a mask or predicate.
A splat is written as its scalar, a reduction step as `fold acc = …`. Names are made unique within their scope (`x`, `x_2`), and a
large expression is cut at its shared parts, which are named `t1, t2, …` on lines of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar, Var
from raido.algo.graph.rewrite import children, topological
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Buffer,
    Check,
    Copy,
    Extract,
    Fold,
    For,
    Gather,
    If,
    LaneCompress,
    LaneCount,
    LaneFold,
    LaneShift,
    LaneShuffle,
    Let,
    Nest,
    NestExpr,
    Ordered,
    Prefetch,
    Prefix,
    Produce,
    Ramp,
    Read,
    Scatter,
    Splat,
    Statement,
    Store,
    Swap,
    VectorRead,
    VectorStore,
    VectorVar,
    View,
    While,
    lanes_of,
)
from raido.schedule.nest.walk import expressions_of, statements_within

# How tightly each operator binds; what is not here is written as a call.
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
_ATOM, _UNARY = 12, 11
_LARGE = 48


def print_nest(nest: Nest) -> str:
    """The whole program as pseudo-code."""
    printer = _Printer()
    inputs = ", ".join(printer.declare(buffer) for buffer in nest.inputs)
    outputs = ", ".join(printer.declare(buffer) for buffer in nest.outputs)
    lines = [f"nest {nest.name}({inputs}) -> {outputs}"]
    lines += [f"  {printer.declare(buffer)} constant" for buffer in _constants(nest.body)]
    lines += printer.block(nest.body, 1)
    return "\n".join(lines) + "\n"


def print_statement(statement: Statement) -> str:
    """One statement, or a block, as pseudo-code."""
    return "\n".join(_Printer().statement(statement, 0)) + "\n"


def print_expression(expression: NestExpr) -> str:
    """An expression as a person writes it."""
    return _Printer().text(expression)


def _constants(block: Block) -> list[Buffer]:
    found: dict[Buffer, None] = {}
    for statement in statements_within(block):
        for node in topological(*expressions_of(statement)):
            if isinstance(node, Buffer) and node.scope == "constant":
                found[node] = None
    return list(found)


class _Printer:
    """Names in scope, and the text of every kind of node."""

    def __init__(self) -> None:
        self.names: dict[Node, str] = {}
        self.taken: dict[str, Node] = {}
        self.shared: dict[Node, str] = {}

    def name(self, node: Var | VectorVar | Buffer) -> str:
        """The display name of a variable or buffer: its own, or numbered where that is taken."""
        known = self.names.get(node)
        if known is None:
            base = node.name or "v"
            known, number = base, 1
            while known in self.taken:
                number += 1
                known = f"{base}_{number}"
            self.names[node] = known
            self.taken[known] = node
        return known

    def declare(self, buffer: Buffer) -> str:
        """`name: dtype[shape]`, with lanes and strides where there are any."""
        lanes = f"x{buffer.lanes}" if buffer.lanes > 1 else ""
        shape = f"[{', '.join(map(self.text, buffer.shape))}]" if buffer.shape else ""
        strides = f" strides ({', '.join(map(self.text, buffer.strides))})" if buffer.strides else ""
        return f"{self.name(buffer)}: {buffer.dtype.name.rstrip('_')}{lanes}{shape}{strides}"

    def block(self, block: Block, depth: int) -> list[str]:
        """The lines of a block; names that it introduces are free again afterwards."""
        names, taken = dict(self.names), dict(self.taken)
        lines = [line for statement in block.statements for line in self.statement(statement, depth)]
        self.names, self.taken = names, taken
        return lines or ["  " * depth + "pass"]

    def statement(self, statement: Statement, depth: int) -> list[str]:
        """The lines of one statement."""
        pad = "  " * depth
        if isinstance(statement, Block):
            return self.block(statement, depth)
        lines = [pad + line for line in self._share(statement)]
        if isinstance(statement, For):
            lines += self._for(statement, depth)
        elif isinstance(statement, If):
            lines.append(f"{pad}if {self.text(statement.condition)}:")
            lines += self.block(statement.then, depth + 1)
            if statement.orelse is not None:
                lines += [f"{pad}else:", *self.block(statement.orelse, depth + 1)]
        elif isinstance(statement, While):
            lines += self._while(statement, depth)
        elif isinstance(statement, Ordered):
            lines += [f"{pad}ordered:", *self.block(statement.body, depth + 1)]
        elif isinstance(statement, Produce):
            lines += [f"{pad}produce {statement.stage}:", *self.block(statement.body, depth + 1)]
        else:
            lines.append(pad + self._line(statement))
        self.shared = {}
        return lines

    def _for(self, loop: For, depth: int) -> list[str]:
        low, high = self.text(loop.low), self.text(loop.high)
        names, taken = dict(self.names), dict(self.taken)
        step = f" step {loop.step}" if loop.step != 1 else ""
        word = {"parallel": "parallel", "unroll": "unroll"}.get(loop.kind, "for")
        head = f"{word} {self.name(loop.var)} in {low}..{high}{step}"
        if loop.kind == "vector":
            head += f" by vector {loop.lanes}" if loop.lanes else " by vector"
            head += f", interleave {loop.interleave}" if loop.interleave != 1 else ""
            head += f", tail {loop.tail}" if loop.tail != "default" else ""
        if loop.kind == "parallel":
            head += (f" grain {loop.grain}" if loop.grain else "") + (" dynamic" if loop.dynamic else "")
        self.shared = {}
        lines = ["  " * depth + head + ":", *self.block(loop.body, depth + 1)]
        self.names, self.taken = names, taken
        return lines

    def _while(self, loop: While, depth: int) -> list[str]:
        pad = "  " * depth
        names, taken = dict(self.names), dict(self.taken)
        if not loop.setup.statements:
            lines = [f"{pad}while {self.text(loop.condition)}:"]
        else:
            setup = [line for inner in loop.setup.statements for line in self.statement(inner, depth + 1)]
            lines = [f"{pad}while:", *setup, f"{pad}  break unless {self.text(loop.condition)}"]
        lines += self.block(loop.body, depth + 1)
        self.names, self.taken = names, taken
        return lines

    def _line(self, statement: Statement) -> str:
        if isinstance(statement, Let):
            value = self.text(statement.value)
            name = statement.var.name if isinstance(statement.var, SizeVar) else self.name(statement.var)
            return f"{name} = {value}"
        if isinstance(statement, Alloc):
            return f"{self.declare(statement.buffer)} {statement.buffer.scope}"
        if isinstance(statement, Store):
            place = self._place(statement.buffer, statement.indices)
            return (
                f"{place} = {self.text(statement.value)}{self._where(statement.predicate)}{_stream(statement.stream)}"
            )
        if isinstance(statement, VectorStore):
            lanes = lanes_of(statement.value)
            place = self._slice(statement.buffer, statement.indices, statement.stride, lanes)
            return f"{place} = {self.text(statement.value)}{self._where(statement.mask)}{_stream(statement.stream)}"
        if isinstance(statement, Scatter):
            place = self._place(statement.buffer, statement.indices)
            return f"scatter {place} = {self.text(statement.value)}{self._where(statement.mask)}"
        if isinstance(statement, Fold):
            return self._fold(statement)
        if isinstance(statement, AtomicUpdate):
            return self._atomic(statement)
        if isinstance(statement, Prefix):
            return self._prefix(statement)
        if isinstance(statement, Append):
            places = ", ".join(
                f"{self.name(buffer)}[{self.name(statement.position)}++]" for buffer in statement.buffers
            )
            values = ", ".join(map(self.text, statement.values))
            return f"append {places} = {values}{self._where(statement.predicate)}"
        if isinstance(statement, Check):
            values = ", ".join(map(self.text, statement.values))
            return (
                f"check {self.text(statement.holds)}{self._where(statement.predicate)} else {statement.kind} ({values})"
            )
        if isinstance(statement, Prefetch):
            return f"prefetch {self._place(statement.buffer, statement.indices)}"
        if isinstance(statement, Swap):
            return f"swap {self.name(statement.left)}, {self.name(statement.right)}"
        if isinstance(statement, View):
            return f"{self.declare(statement.buffer)} = {self.name(statement.source)}"
        if isinstance(statement, Copy):
            return f"{self.name(statement.destination)} = copy {self.name(statement.source)}"
        raise TypeError(f"not a statement: {statement!r}")

    def _fold(self, fold: Fold) -> str:
        places = [self._place(buffer, fold.indices) for buffer in fold.buffers]
        self.names.update(zip(fold.left, places, strict=True))
        steps = ", ".join(map(self.text, fold.step))
        for var in fold.left:
            del self.names[var]
        operator = f" by {fold.monoid}"
        if not fold.monoid:
            operator = f" combining {', '.join(map(self.text, fold.combine))}"
        return f"fold {', '.join(places)} = {steps}{operator}"

    def _atomic(self, s: AtomicUpdate) -> str:
        place = self._place(s.buffer, s.indices)
        self.names.update({s.left: place, s.right: self._tight(s.value, _ATOM)})
        combined = self.text(s.combine)
        del self.names[s.left], self.names[s.right]
        return f"atomic {place} = {combined}"

    def _prefix(self, s: Prefix) -> str:
        places = [self._place(buffer, s.indices) for buffer in s.buffers]
        values = [self._tight(value, _ATOM) for value in s.values]
        self.names.update(zip(s.left + s.right, places + values, strict=True))
        operator = ", ".join(map(self.text, s.combine))
        for var in s.left + s.right:
            del self.names[var]
        results = ", ".join(map(self.name, s.results))
        held = ", ".join(places)
        return (
            f"{results} = {held}, then scan {held} = {operator}"
            if s.exclusive
            else f"{results} = scan {held} = {operator}"
        )

    def _share(self, statement: Statement) -> list[str]:
        """Names parts of a large expression that occur more than once; the lines that say what they are."""
        roots = list(expressions_of(statement))
        sizes: dict[Node, int] = {}
        uses: dict[Node, int] = dict.fromkeys(roots, 1)
        order = topological(*roots)
        for node in order:
            below = [child for child in children(node) if not isinstance(child, Buffer)]
            sizes[node] = min(1 + sum(sizes.get(child, 1) for child in below), 1 << 30)
            for child in below:
                uses[child] = uses.get(child, 0) + 1
        if sum(sizes[root] for root in roots) <= _LARGE:
            return []
        tainted: set[Node] = set()
        if isinstance(statement, (Fold, Prefix)):
            tainted.update(statement.left + statement.right)
        elif isinstance(statement, AtomicUpdate):
            tainted.update((statement.left, statement.right))
        lines: list[str] = []
        for node in order:
            if not tainted.isdisjoint(children(node)):
                tainted.add(node)
            elif uses.get(node, 0) > 1 and sizes[node] > 3 and not isinstance(node, Buffer):
                line = f"t{len(lines) + 1} = {self.text(node)}"  # type: ignore[arg-type]
                self.shared[node] = f"t{len(lines) + 1}"
                lines.append(line)
        return lines

    def _where(self, mask: NestExpr | None) -> str:
        return "" if mask is None else f" where {self.text(mask)}"

    def _place(self, buffer: Buffer, indices: tuple[NestExpr, ...]) -> str:
        name = self.name(buffer)
        if not indices:
            return name
        extents: tuple[Expr | None, ...] = buffer.shape
        written = [self.text(i, extent=n) for i, n in zip(indices, extents, strict=True)]
        return f"{name}[{', '.join(written)}]"

    def _slice(self, buffer: Buffer, indices: tuple[NestExpr, ...], stride: int, lanes: int) -> str:
        by = f" by {stride}" if stride != 1 else ""
        return f"{self._place(buffer, indices)[:-1]} +: {lanes}{by}]"

    def text(self, e: NestExpr, extent: Expr | None = None) -> str:
        """The text of an expression; `extent` is the size of the dimension that it indexes, left out of boundary operators."""
        return self._write(e, extent)[0]

    def _tight(self, e: NestExpr, level: int) -> str:
        written, binds = self._write(e)
        return written if binds >= level else f"({written})"

    def _write(self, e: NestExpr, extent: Expr | None = None) -> tuple[str, int]:
        """The text and how tightly it binds."""
        if e in self.shared:
            return self.shared[e], _ATOM
        if isinstance(e, (Var, VectorVar)):
            return self.names.get(e) or self.name(e), _ATOM
        if isinstance(e, SizeVar):
            return e.name, _ATOM
        if isinstance(e, Const):
            return _literal(e)
        if isinstance(e, Op):
            return self._operation(e, extent)
        if isinstance(e, Read):
            return self._masked(self._place(e.buffer, e.indices), e.predicate)
        if isinstance(e, VectorRead):
            return self._masked(self._slice(e.buffer, e.indices, e.stride, e.lanes), e.mask)
        if isinstance(e, Gather):
            return self._masked(f"gather {self._place(e.buffer, e.indices)}", e.mask, _UNARY)
        if isinstance(e, Ramp):
            by = f" by {e.stride}" if e.stride != 1 else ""
            return f"({self.text(e.base)} +: {e.lanes}{by})", _ATOM
        if isinstance(e, Splat):
            return self._write(e.value)
        if isinstance(e, LaneFold):
            word = {"logical_or": "any", "logical_and": "all", "add": "sum", "minimum": "min", "maximum": "max"}
            return f"{word.get(e.name, e.name)}_lanes({self.text(e.value)})", _ATOM
        if isinstance(e, Extract):
            return f"{self._tight(e.value, _ATOM)}.lane({e.lane})", _ATOM
        if isinstance(e, LaneCompress):
            return f"compress_lanes({self.text(e.value)} where {self._tight(e.mask, 3)})", _ATOM
        if isinstance(e, LaneCount):
            return f"count_lanes({self.text(e.mask)})", _ATOM
        if isinstance(e, LaneShift):
            return f"shift_lanes({self.text(e.value)}, {e.distance})", _ATOM
        if isinstance(e, LaneShuffle):
            places = " ".join(map(str, e.places))
            return f"shuffle_lanes({self.text(e.first)}, {self.text(e.second)}, {places})", _ATOM
        return f"<{type(e).__name__}>", _ATOM

    def _masked(self, place: str, mask: NestExpr | None, binds: int = _ATOM) -> tuple[str, int]:
        return (place, binds) if mask is None else (f"{place} where {self._tight(mask, 3)}", 0)

    def _operation(self, e: Op, extent: Expr | None) -> tuple[str, int]:
        if e.name in _INFIX:
            return self._infix(e)
        if e.name in _BOUNDARIES:
            size = e.args[-1]
            whole = size is extent or getattr(size, "value", None) is extent
            rest = "" if whole else f", {self.text(size)}"
            return f"{_BOUNDARIES[e.name]}({self.text(e.args[0])}{rest})", _ATOM
        if e.name == "cast":
            return f"{e.dtype.name.rstrip('_')}({self.text(e.args[0])})", _ATOM
        if e.name == "neg":
            return f"-{self._tight(e.args[0], _UNARY)}", _UNARY
        if e.name == "logical_not":
            return f"not {self._tight(e.args[0], 3)}", 3
        if e.name == "select":
            condition, yes, no = (self._tight(a, 1) for a in e.args)
            return f"{yes} if {condition} else {no}", 0
        name = _SHORT.get(e.name, e.name)
        members = list(_members(e)) if e.name in ("minimum", "maximum") else e.args
        return f"{name}({', '.join(map(self.text, members))})", _ATOM

    def _infix(self, e: Op) -> tuple[str, int]:
        symbol, level = _INFIX[e.name]
        left, right = e.args[0], e.args[-1]
        if e.name == "add" and e.dtype is i64:
            for plus, minus in ((left, right), (right, left)):
                positive = _negated(minus)
                if positive is not None:
                    return f"{self._tight(plus, level)} - {self._term(positive)}", level
        if e.name == "mul" and e.dtype is i64 and isinstance(right, Const):
            return self._term((right.value, left)), level
        spaced = "" if level == 10 and e.dtype is i64 else " "
        side = level + 1
        return (
            f"{self._tight(left, side if level == 4 else level)}{spaced}{symbol}{spaced}{self._tight(right, side)}",
            level,
        )

    def _term(self, term: tuple[int, NestExpr | None]) -> str:
        factor, rest = term
        if rest is None:
            return str(factor)
        written = self._tight(rest, _UNARY)
        return written if factor == 1 else f"{factor}*{written}"


def _negated(e: NestExpr) -> tuple[int, NestExpr | None] | None:
    """A negative term as its positive factor and the rest, or None."""
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
    """The operands of nested minima (or maxima), in order."""
    if isinstance(e, Op) and e.name in ("minimum", "maximum") and name in ("", e.name):
        for argument in e.args:
            yield from _members(argument, e.name)
    else:
        yield e


def _literal(e: Const) -> tuple[str, int]:
    value = e.value
    if e.dtype is bool_:
        return ("true" if value else "false"), _ATOM
    written = str(e.dtype.numpy.type(value)) if e.dtype.is_float else str(value)
    return written, _ATOM if not written.startswith("-") else _UNARY


def _stream(above: int | None) -> str:
    return "" if above is None else f" (stream above {above} bytes)" if above else " (stream)"
