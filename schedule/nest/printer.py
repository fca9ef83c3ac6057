"""The nest as pseudo-code, printed by `s.show()` and `exe.source("nest")`, for both levels; it is never parsed.

Loops read `for y in low..high step s:`, vectors `img[y, x - 1 +: 16]` (16 elements from x − 1 on), `where m` is a mask or predicate. A
reduction step is written as `fold acc = …`, and common subexpressions of a large expression are named `t1, t2, …` on lines of their own.
"""

from __future__ import annotations

from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Node, SizeVar
from raido.algo.graph.rewrite import children, topological
from raido.schedule.nest.carry import element_of
from raido.schedule.nest.effects import binds_inside, is_scan
from raido.schedule.nest.expression_text import ATOM, ExpressionText
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Await,
    AwaitCopies,
    Barrier,
    Block,
    Broadcast,
    Carry,
    Check,
    Collect,
    CommitCopies,
    Copy,
    Exchange,
    FirstThread,
    Fold,
    For,
    If,
    Let,
    Nest,
    Ordered,
    Prefetch,
    Produce,
    Publish,
    Scatter,
    Statement,
    Store,
    Swap,
    Ticket,
    VectorStore,
    View,
    While,
)
from raido.schedule.nest.values import Buffer, NestExpr, lanes_of
from raido.schedule.nest.walk import constants_of, expressions_of, sizes_within

_LARGE = 48


def print_nest(nest: Nest) -> str:
    """Returns the whole program as pseudo-code."""
    printer = NestPrinter({size.name for size in nest.sizes} | sizes_within(nest.body))
    inputs = ", ".join(printer.declare(buffer) for buffer in nest.inputs)
    outputs = ", ".join(printer.declare(buffer) for buffer in nest.outputs)
    lines = [f"nest {nest.name}({inputs}) -> {outputs}"]
    lines += [f"  {printer.declare(buffer)} constant" for buffer in constants_of(nest.body)]
    lines += printer.block(nest.body, 1)
    lines += [f"  # {f'line {copy.site.line}: ' if copy.site else ''}{copy}" for copy in nest.copies]
    return "\n".join(lines) + "\n"


def print_statement(statement: Statement) -> str:
    """Returns one statement, or a block, as pseudo-code."""
    return "\n".join(NestPrinter(sizes_within(statement)).statement(statement, 0)) + "\n"


class NestPrinter(ExpressionText):
    """The text of every kind of statement."""

    def declare(self, buffer: Buffer) -> str:
        """Returns `name: dtype[shape]`, with lanes and strides where there are any."""
        lanes = f"x{buffer.lanes}" if buffer.lanes > 1 else ""
        shape = f"[{', '.join(map(self.text, buffer.shape))}]" if buffer.shape else ""
        strides = f" strides ({', '.join(map(self.text, buffer.strides))})" if buffer.strides else ""
        return f"{self.name(buffer)}: {buffer.dtype.name.rstrip('_')}{lanes}{shape}{strides}"

    def block(self, block: Block, depth: int) -> list[str]:
        """Returns the lines of a block; names that it introduces are free again afterwards."""
        names, taken = dict(self.names), dict(self.taken)
        lines = [line for statement in block.statements for line in self.statement(statement, depth)]
        self.names, self.taken = names, taken
        return lines or ["  " * depth + "pass"]

    def statement(self, statement: Statement, depth: int) -> list[str]:
        """Returns the lines of one statement."""
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
        word = loop.level or {"parallel": "parallel", "unroll": "unroll"}.get(loop.kind, "for")
        head = f"{word} {self.name(loop.var)} in {low}..{high}{step}"
        if loop.kind == "vector":
            head += f" by vector {loop.lanes}" if loop.lanes else " by vector"
            head += f", interleave {loop.interleave}" if loop.interleave != 1 else ""
            head += f", tail {loop.tail}" if loop.tail != "default" else ""
        if loop.kind == "matrix":
            head += " by matrix" + (f" of {loop.threads} threads" if loop.threads else "")
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
            return (
                f"{name} = {value}"
                if statement.below is None
                else f"{name} = {value}, below {self.text(statement.below)}"
            )
        if isinstance(statement, Alloc):
            return f"{self.declare(statement.buffer)} {statement.buffer.scope}"
        if isinstance(statement, Store):
            element = self.element(statement.buffer, statement.indices)
            return f"{element} = {self.text(statement.value)}{self._where(statement.predicate)}{_stream(statement)}"
        if isinstance(statement, VectorStore):
            lanes = lanes_of(statement.value)
            element = self.slice(statement.buffer, statement.indices, statement.stride, lanes)
            return f"{element} = {self.text(statement.value)}{self._where(statement.mask)}{_stream(statement)}"
        if isinstance(statement, Scatter):
            element = self.element(statement.buffer, statement.indices)
            return f"scatter {element} = {self.text(statement.value)}{self._where(statement.mask)}"
        if isinstance(statement, Fold):
            return self._fold(statement)
        if isinstance(statement, AtomicUpdate):
            return self._atomic(statement)
        if isinstance(statement, Collect):
            return self._collect(statement)
        if isinstance(statement, Carry):
            return self._carry(statement)
        if isinstance(statement, Ticket):
            first = self.element(statement.state, (ix.as_index(0),))
            return f"{self.name(statement.var)} = next of {first}, below {self.text(statement.count)}"
        if isinstance(statement, Publish):
            element = self.element(statement.state, (statement.index,))
            return f"publish {element} = {self.text(statement.value)}{', alone' if statement.alone else ''}"
        if isinstance(statement, Await):
            element = self.element(statement.state, (statement.index,))
            return f"{self.name(statement.var)} = await {element}{', alone' if statement.alone else ''}"
        if isinstance(statement, Exchange):
            values = ", ".join(map(self.text, statement.values))
            return f"{', '.join(map(self.name, statement.vars))} = exchange {values} of {statement.distance} threads on"
        if isinstance(statement, Broadcast):
            values = ", ".join(map(self.text, statement.values))
            return f"{', '.join(map(self.name, statement.vars))} = {values} of thread {self.text(statement.source)}"
        if isinstance(statement, FirstThread):
            return (
                f"{self.name(statement.var)} = first thread of {statement.width} with {self.text(statement.condition)}"
            )
        if isinstance(statement, Append):
            elements = ", ".join(
                f"{self.name(buffer)}[{self.name(statement.position)}++]" for buffer in statement.buffers
            )
            values = ", ".join(map(self.text, statement.values))
            spare = ", in whole gangs" if statement.spare else ""
            return f"append {elements} = {values}{self._where(statement.predicate)}{spare}"
        if isinstance(statement, Check):
            values = ", ".join(map(self.text, statement.values))
            return (
                f"check {self.text(statement.holds)}{self._where(statement.predicate)} else {statement.kind} ({values})"
            )
        if isinstance(statement, Barrier):
            return "barrier"
        if isinstance(statement, CommitCopies):
            return "commit copies"
        if isinstance(statement, AwaitCopies):
            return f"await copies{f' but the last {statement.left}' if statement.left else ''}"
        if isinstance(statement, Prefetch):
            return f"prefetch {self.element(statement.buffer, statement.indices)}"
        if isinstance(statement, Swap):
            return f"swap {self.name(statement.left)}, {self.name(statement.right)}"
        if isinstance(statement, View):
            return f"{self.declare(statement.buffer)} = {self.name(statement.source)}"
        if isinstance(statement, Copy):
            return f"{self.name(statement.destination)} = copy {self.name(statement.source)}"
        raise TypeError(f"not a statement: {statement!r}")

    def _fold(self, fold: Fold) -> str:
        elements = [self.element(buffer, fold.indices) for buffer in fold.buffers]
        operands: dict[Node, str] = dict(zip(fold.left, elements, strict=True))
        operands |= {var: self.tight(value, ATOM) for var, value in zip(fold.right, fold.values, strict=False)}
        self.names.update(operands)
        updated, held = ", ".join(map(self.text, fold.step)), ", ".join(elements)
        for var in operands:
            del self.names[var]
        if is_scan(fold):
            head = f"{', '.join(map(self.name, (*fold.before, *fold.after)))} = "
            return f"{head}{held}, then scan {held} = {updated}" if fold.before else f"{head}scan {held} = {updated}"
        operator = f" by {fold.monoid}"
        if not fold.monoid:
            operator = f" combining {', '.join(map(self.text, fold.combine))}"
        return f"fold {held} = {updated}{operator}"

    def _atomic(self, s: AtomicUpdate) -> str:
        element = self.element(s.buffer, s.indices)
        self.names.update({s.left: element, s.right: self.tight(s.value, ATOM)})
        combined = self.text(s.combine)
        del self.names[s.left], self.names[s.right]
        return f"atomic {element} = {combined}"

    def _collect(self, s: Collect) -> str:
        names, taken = dict(self.names), dict(self.taken)
        count, var = self.text(s.count), self.name(s.var)
        elements = [self.element(buffer, s.indices) for buffer in s.buffers]
        for label, operands in (("left", s.left), ("right", s.right)):
            self.names.update({v: f"{label}{k or ''}" for k, v in enumerate(operands)})
        combined, order = (
            ", ".join(map(self.text, s.combine)),
            "prefixes" if s.prefix else "halves" if s.halves else "neighbours",
        )
        self.names, self.taken = names, taken
        return f"collect {', '.join(elements)} over {s.level} {var} in 0..{count}, {order} of {s.width}: {combined}"

    def _carry(self, s: Carry) -> str:
        index: Any = s.index
        taken, values = [self.name(v) for v in s.taken], [self.tight(value, ATOM) for value in s.values]
        elements = (element_of(s, at) for at in (index, ix.add(index, 1)))
        held, after = ([self.element(b, (at,)) for b in s.buffers] for at in elements)
        operands: dict[Node, str] = dict(zip((*s.left, *s.right), (*taken, *values), strict=True))
        self.names.update(operands)
        combined = ", ".join(map(self.text, s.combine))
        for var in operands:
            del self.names[var]
        return f"{', '.join(taken)} = carry {', '.join(held)}, then {', '.join(after)} = {combined}"

    def _share(self, statement: Statement) -> list[str]:
        """Names common subexpressions of a large expression; returns the lines that define the names."""
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
        tainted: set[Node] = set(binds_inside(statement))
        lines: list[str] = []
        number = 0
        for node in order:
            if not tainted.isdisjoint(children(node)):
                tainted.add(node)
            elif uses.get(node, 0) > 1 and sizes[node] > 3 and not isinstance(node, Buffer):
                written = self.text(node)  # type: ignore[arg-type]
                number += 1
                while f"t{number}" in self.sizes or not self._is_free(f"t{number}"):
                    number += 1
                self.shared[node] = f"t{number}"
                lines.append(f"t{number} = {written}")
        return lines

    def _where(self, mask: NestExpr | None) -> str:
        return "" if mask is None else f" where {self.text(mask)}"


def _stream(s: Store | VectorStore) -> str:
    """Returns the suffix of a non-temporal or asynchronous store."""
    if s.asynchronous:
        return " (asynchronous)"
    return "" if s.stream is None else f" (stream above {s.stream} bytes)" if s.stream else " (stream)"
