"""Translation of statements into lines of Python, one for each operation, and of a nest into one function, for `interpret`.

Scalars are Python ints (i64), bools and NumPy scalars, vectors are NumPy arrays, memory is a `Memory`. `interpret.compile_nest` defines the
names that the lines mention.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import Const, Node, Op, SizeVar, Var
from raido.algo.graph.primitives import evaluator
from raido.algo.graph.rewrite import children
from raido.schedule.nest.carry import carried_in_order
from raido.schedule.nest.collect import collected_in_order
from raido.schedule.nest.effects import goes_in_order
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    AwaitCopies,
    Barrier,
    Block,
    Carry,
    Check,
    Collect,
    CommitCopies,
    Copy,
    Fold,
    For,
    If,
    Let,
    Nest,
    Ordered,
    Prefetch,
    Produce,
    Scatter,
    Statement,
    Store,
    Swap,
    VectorStore,
    View,
    While,
)
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
    contents,
    lanes_of,
)
from raido.schedule.nest.walk import constants_of
from raido.schedule.oracles.memory import NestError

_INFIX = {"add": "+", "sub": "-", "mul": "*"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_MOST_ITERATIONS = 1_000_000


class StatementSource:
    """Python source of statements: `lines`, and the values of the `constants` that they mention by name."""

    def __init__(self, head: str) -> None:
        self.lines: list[str] = [head]
        self.constants: dict[str, Any] = {}
        self.names: dict[Any, str] = {}
        self.primitives: dict[tuple[str, DType], str] = {}
        self.memo: dict[Node, str] = {}
        self.temporaries = itertools.count(1)
        self.depth = 1

    # --- text

    def line(self, text: str) -> None:
        """Appends a line."""
        self.lines.append("    " * self.depth + text)

    def name(self, node: Any) -> str:
        """Returns the Python name of a variable or buffer."""
        known = self.names.get(node)
        if known is None:
            kind = {Var: "v", VectorVar: "w", Buffer: "m", SizeVar: "n"}[type(node)]
            known = self.names[node] = f"{kind}{len(self.names)}"
        return known

    def constant(self, value: Any) -> str:
        """Returns the Python name of a value known at translation."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def primitive(self, name: str, dtype: DType) -> str:
        """Returns the Python name of a primitive with a result of that type."""
        known = self.primitives.get((name, dtype))
        if known is None:
            known = self.primitives[name, dtype] = self.constant(evaluator(name, dtype))
        return known

    def allocate(self, b: Buffer, suffix: str = "") -> None:
        """Appends the allocation of a buffer."""
        self.memo = {}
        shape, strides = self.tuple(b.shape), self.tuple(b.strides)
        dtype = self.constant(b.dtype)
        self.line(f"{self.name(b)} = {self.memory(b)}({b.name!r}, {dtype}, {shape}, {strides}, {b.lanes}){suffix}")

    def memory(self, buffer: Buffer) -> str:
        """Returns the Python name of the constructor of a buffer's memory."""
        return "M"

    # --- expressions

    def tuple(self, expressions: Sequence[NestExpr]) -> str:
        """Returns a Python tuple of values."""
        return "(" + "".join(f"{self.value(e)}, " for e in expressions) + ")"

    def optional(self, e: NestExpr | None) -> str:
        """Returns the Python text of a value, or "None"."""
        return "None" if e is None else self.value(e)

    def value(self, root: NestExpr) -> str:
        """Returns a Python name or literal for a value; appends the lines that compute it."""
        stack: list[NestExpr] = [root]
        while stack:
            e = stack[-1]
            if e in self.memo:
                stack.pop()
                continue
            rest = [c for c in children(e) if not isinstance(c, Buffer) and c not in self.memo]
            if rest:
                stack.extend(rest)  # type: ignore[arg-type]
            else:
                self.memo[e] = self._value(e)
        return self.memo[root]

    def _value(self, e: NestExpr) -> str:
        if isinstance(e, (Var, VectorVar, SizeVar)):
            return self.name(e)
        if isinstance(e, Const):
            if e.dtype is i64 or e.dtype is bool_:
                return repr(e.value)
            bits = np.array(e.bits & ((1 << e.dtype.bits) - 1), f"u{e.dtype.itemsize}")
            return self.constant(bits.view(e.dtype.numpy)[()])
        name = f"t{next(self.temporaries)}"
        self.line(f"{name} = {self._compute(e)}")
        return name

    def _compute(self, e: NestExpr) -> str:
        memo = self.memo
        if isinstance(e, Op):
            return self._operation(e)
        if isinstance(e, Read):
            predicate = "" if e.predicate is None else f", {memo[e.predicate]}"
            read = f"{self.name(e.buffer)}.read({self._indices(e.indices)}{predicate})"
            return read if e.buffer.lanes > 1 else _scalar(e.dtype, read)
        if isinstance(e, Ramp):
            return f"{memo[e.base]} + np.arange({e.lanes}) * {e.stride}"
        if isinstance(e, Splat):
            return f"np.full({e.lanes}, {memo[e.value]}, {self.constant(e.dtype.numpy)})"
        mask = "" if getattr(e, "mask", None) is None else f", {memo[e.mask]}"  # type: ignore[union-attr]
        if isinstance(e, VectorRead):
            across = ", across=True" if e.across else ""
            return f"{self.name(e.buffer)}.vector_read({self._indices(e.indices)}, {e.stride}, {e.lanes}{mask}{across})"
        if isinstance(e, Gather):
            return f"{self.name(e.buffer)}.gather({self._indices(e.indices)}, {lanes_of(e)}{mask})"
        if isinstance(e, LaneFold):
            return _scalar(e.dtype, f"fold({e.name!r}, {self.constant(e.dtype)}, {memo[e.value]})")
        if isinstance(e, Extract):
            return _scalar(e.dtype, f"{memo[e.value]}[{e.lane}]")
        if isinstance(e, LaneCompress):
            return f"compress({memo[e.value]}, {memo[e.mask]})"
        if isinstance(e, LaneCount):
            return f"int(np.count_nonzero({memo[e.mask]}))"
        if isinstance(e, LaneShift):
            return f"shift({memo[e.value]}, {e.distance}, {self._value(e.fill)})"
        if isinstance(e, LaneShuffle):
            return f"np.concatenate(({memo[e.first]}, {memo[e.second]}))[{list(e.order)}]"
        raise NestError(f"{type(e).__name__} is no expression of a nest")

    def _indices(self, indices: Sequence[NestExpr]) -> str:
        return "(" + "".join(f"{self.memo[i]}, " for i in indices) + ")"

    def _operation(self, e: Op) -> str:
        args = [self.memo[a] for a in e.args]
        scalar = lanes_of(e) == 1
        first = e.args[0].dtype
        if e.name in _INFIX and e.dtype is not bool_ and e.dtype.bits != 16:
            text = f"{args[0]} {_INFIX[e.name]} {args[1]}"
            return f"W({text})" if e.dtype is i64 and scalar else text
        if e.name in _COMPARE and first is not bool_:
            text = f"{args[0]} {_COMPARE[e.name]} {args[1]}"
            return f"bool({text})" if scalar and first is not i64 else text
        if scalar and e.name == "logical_and":
            return f"{args[0]} and {args[1]}"
        if scalar and e.name == "logical_or":
            return f"{args[0]} or {args[1]}"
        if scalar and e.name == "logical_not":
            return f"not {args[0]}"
        if scalar and e.name == "select":
            return f"{args[1]} if {args[0]} else {args[2]}"
        if scalar and e.dtype is i64 and e.name in ("minimum", "maximum"):
            return f"{e.name[:3]}({args[0]}, {args[1]})"
        if e.dtype is i64 and scalar:
            args = [f"np.int64({a})" if b.dtype is i64 else a for a, b in zip(args, e.args, strict=True)]
        text = f"{self.primitive(e.name, e.dtype)}({', '.join(args)})"
        return _scalar(e.dtype, f"{text}[()]") if scalar else text

    # --- statements

    def block(self, block: Block) -> None:
        """Appends the lines of a block."""
        for statement in block.statements:
            self.memo = {}
            self.statement(statement)

    def nested(self, head: str, block: Block) -> None:
        """Appends a compound statement: its head, and the block inside."""
        self.line(head)
        self.depth += 1
        self.line("pass")
        self.block(block)
        self.depth -= 1
        self.memo = {}  # lines inside may not have run

    def statement(self, s: Statement) -> None:
        """Appends the lines of one statement."""
        if isinstance(s, Let):
            self.line(f"{self.name(s.var)} = {self.value(s.value)}")
        elif isinstance(s, Alloc):
            self.allocate(s.buffer)
        elif isinstance(s, Store):
            indices, value, predicate = self.tuple(s.indices), self.value(s.value), self.optional(s.predicate)
            if s.asynchronous:
                self.line(f"flight.begin({self.name(s.buffer)}, {indices}, {value}, {predicate})")
            else:
                self.line(f"{self.name(s.buffer)}.write({indices}, {value}, {predicate})")
        elif isinstance(s, VectorStore):
            indices, value, mask = self.tuple(s.indices), self.value(s.value), self.optional(s.mask)
            if s.asynchronous:
                self.line(f"flight.begin_several({self.name(s.buffer)}, {indices}, {value})")
            else:
                self.line(f"{self.name(s.buffer)}.vector_write({indices}, {value}, {s.stride}, {mask}, {s.across})")
        elif isinstance(s, Scatter):
            indices, value, mask = self.tuple(s.indices), self.value(s.value), self.optional(s.mask)
            self.line(f"{self.name(s.buffer)}.scatter({indices}, {value}, {mask})")
        elif isinstance(s, Fold):
            self._fold(s)
        elif isinstance(s, AtomicUpdate):
            self._atomic(s)
        elif isinstance(s, Collect):
            self.block(collected_in_order(s))
        elif isinstance(s, Carry):
            self.block(Block(carried_in_order(s)))
        elif isinstance(s, Append):
            self._append(s)
        elif isinstance(s, Check):
            holds, predicate, values = self.value(s.holds), self.optional(s.predicate), self.tuple(s.values)
            self.line(f"record(faults, {s.kind!r}, {s.site}, {holds}, {predicate}, {values})")
        elif isinstance(s, Swap):
            left, right = self.name(s.left), self.name(s.right)
            self.line(f"{left}, {right} = {right}, {left}")
        elif isinstance(s, View):
            self.memo = {}
            self.line(f"{self.name(s.buffer)} = {self.name(s.source)}.view({self.tuple(s.buffer.shape)})")
        elif isinstance(s, Copy):
            source, destination = self.name(s.source), self.name(s.destination)
            self.line(f"{destination}.copy({source})")
        elif isinstance(s, (Produce, Ordered)):
            self.block(s.body)
        elif isinstance(s, Block):
            self.block(s)
        elif isinstance(s, Barrier):
            self.line(f"yield {next(self.temporaries)}")
        elif isinstance(s, CommitCopies):
            self.line("flight.commit()")
        elif isinstance(s, AwaitCopies):
            self.line(f"flight.arrive({s.left})")
        elif not isinstance(s, Prefetch):
            self._control(s)

    def _control(self, s: Statement) -> None:
        if isinstance(s, For):
            loop = f"R({self.value(s.low)}, {self.value(s.high)}, {s.step})"
            loop = f"order({loop}, chance)" if s.kind == "parallel" and not goes_in_order(s.body) else loop
            if s.alone is not None:  # any value is allowed, in every iteration
                self.line(f"alones = alone({loop}, chance)")
                self.nested(f"for {self.name(s.var)}, {self.name(s.alone)} in zip({loop}, alones):", s.body)
                return
            self.nested(f"for {self.name(s.var)} in {loop}:", s.body)
        elif isinstance(s, If):
            self.nested(f"if {self.value(s.condition)}:", s.then)
            if s.orelse is not None:
                self.nested("else:", s.orelse)
        elif isinstance(s, While):
            iterations = f"iterations{next(self.temporaries)}"
            self.line(f"{iterations} = {_MOST_ITERATIONS}")
            self.line("while True:")
            self.depth += 1
            self.line(f"{iterations} -= 1")
            self.line(f"if not {iterations}: raise NestError('a while loop does not end')")
            self.block(s.setup)
            self.memo = {}
            self.line(f"if not {self.value(s.condition)}: break")
            self.block(s.body)
            self.depth -= 1
        else:
            raise NestError(f"{type(s).__name__} is no statement of a nest")

    def _fold(self, s: Fold) -> None:
        indices = self.tuple(s.indices)
        for left, buffer in zip(s.left, s.buffers, strict=True):
            read = f"{self.name(buffer)}.read({indices})"
            self.line(f"{self.name(left)} = {read if buffer.lanes > 1 else _scalar(left.dtype, read)}")
        for right, value in zip(s.right, s.values, strict=False):
            self.line(f"{self.name(right)} = {self.value(value)}")
        updated = [self.value(each) for each in s.step]
        for buffer, each in zip(s.buffers, updated, strict=True):
            self.line(f"{self.name(buffer)}.write({indices}, {each})")
        for var, value in (*zip(s.before, map(self.name, s.left), strict=False), *zip(s.after, updated, strict=False)):
            self.line(f"{self.name(var)} = {value}")

    def _atomic(self, s: AtomicUpdate) -> None:
        indices, value = self.tuple(s.indices), self.value(s.value)
        read = f"{self.name(s.buffer)}.read({indices})"
        self.line(f"{self.name(s.left)} = {_scalar(s.left.dtype, read)}")
        self.line(f"{self.name(s.right)} = {value}")
        self.line(f"{self.name(s.buffer)}.write({indices}, {self.value(s.combine)})")

    def _append(self, s: Append) -> None:
        predicate, values = self.value(s.predicate), [self.value(value) for value in s.values]
        self.line(f"if {predicate}:")
        self.depth += 1
        target = f"t{next(self.temporaries)}"
        self.line(f"{target} = {self.name(s.position)}.read(())")
        for buffer, value in zip(s.buffers, values, strict=True):
            self.line(f"{self.name(buffer)}.write(({target},), {value}, None)")
        self.line(f"{self.name(s.position)}.write((), {target} + 1, None)")
        self.depth -= 1


class PythonSource(StatementSource):
    """Python source of a nest: `text`, a function `run`, and the values of the `constants` that it mentions by name."""

    def __init__(self, nest: Nest) -> None:
        super().__init__("def run(arrays, sizes, faults, chance):")
        self.line("flight = Flight()")
        for size in nest.sizes:
            self.line(f"{self.name(size)} = sizes[{size.name!r}]")
        for position, buffer in enumerate(nest.inputs):
            self.allocate(buffer, f".fill(arrays[{position}])")
        for buffer in (*nest.outputs, *(buffer for _, buffer in nest.counts)):
            if buffer.scope == "result":
                self.line(f"{self.name(buffer)} = None")
            else:
                self.allocate(buffer)
        for buffer in constants_of(nest.body):
            self.allocate(buffer, f".fill({self.constant(contents(buffer))})")
        self.block(nest.body)
        shapes = nest.shapes or tuple(b.shape for b in nest.outputs)
        parts = [f"{self.name(b)}.part({self.tuple(shape)})" for b, shape in zip(nest.outputs, shapes, strict=True)]
        self.line(f"return [{', '.join(parts)}]")
        self.text = "\n".join(self.lines) + "\n"


def _scalar(dtype: DType, text: str) -> str:
    """Returns Python text that converts a scalar to its representation: int for i64, bool for booleans."""
    return f"int({text})" if dtype is i64 else f"bool({text})" if dtype is bool_ else text
