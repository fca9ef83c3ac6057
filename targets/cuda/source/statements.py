"""Statements of TIR as CUDA C: loops, branches, allocations, stores, barriers, and the axes of the launch."""

from __future__ import annotations

import math
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, i32, i64
from raido.targets.cuda.source.expressions import COPY, MATRIX, WAITING, WARPGROUP, Array, Expressions, widened
from raido.targets.cuda.source.narrow import Narrow
from raido.targets.cuda.source.operations import convert
from raido.targets.cuda.source.recipes import Functions
from raido.targets.cuda.source.values import memory_type, type_text
from raido.targets.cuda.source.writer import Writer
from raido.targets.devices import tir
from raido.targets.devices.bounds import INT32, Interval, inside
from raido.targets.devices.narrow import MOST, is_arithmetic, is_index, limit_of
from raido.targets.devices.strides import Strides

_UNROLLED = 3
_TURNS = 4  # of a loop that data ends, in each of which it may
_AXES = ("x", "y", "z")


class Statements:
    """Writes statements, and collects the launch's properties: threads per block, bytes of shared memory. `carved`: shared arrays are parts
    of one block of memory whose size the launch gives. `warpgroups`: barriers must make threads' writes to shared memory visible to
    warpgroup instructions. `strides`, for narrow code, are those of `strides_of`; `grid` bounds the blocks for which the code is valid."""

    def __init__(self, kernel: str, functions: Functions, carved: bool, strides: Strides | None = None) -> None:
        self.kernel, self.carved = kernel, carved
        self.strides = strides or Strides()
        self.writer = Writer()
        self.expressions = Expressions(kernel, self.writer, functions, narrow=strides is not None)
        self.block, self.grid = [1, 1, 1], [MOST, MOST, MOST]
        self.warpgroups = False
        self.shared = 0

    def write(self, node: Any) -> None:
        """Appends a statement."""
        write = getattr(self, f"_{tir.kind(node)}", None)
        if write is None:
            raise CompileError(f'kernel "{self.kernel}" has a {tir.kind(node)}, which CUDA C is not made from')
        write(node)

    def line(self, text: str) -> None:
        self.writer.lines.append(text)

    def _SeqStmt(self, node: Any) -> None:
        for statement in node.seq:
            self.write(statement)

    def _Evaluate(self, node: Any) -> None:
        if tir.kind(node.value) != "Call":
            return
        name, arguments = tir.callee(node.value)
        if name == "thread_return":
            self.line("return;")
        elif name == "tvm_storage_sync":
            if (scope := str(arguments[0].value)) != "shared":
                raise CompileError(f'CUDA C has a barrier for the threads of a block ("shared"), not for "{scope}"')
            self.line("raido_barrier_of_warpgroups();" if self.warpgroups else "__syncthreads();")
        elif name.startswith(COPY):
            self.writer.lines += self.expressions.copy(name, arguments)
        elif name.startswith(MATRIX):
            self.line(self.expressions.matrix(name, arguments))
        elif name.startswith(WARPGROUP):
            self.line(self.expressions.warpgroup(name, arguments))
        else:  # what it does beside giving a value is a statement by itself
            self.expressions.lanes(node.value)

    def _Return(self, node: Any) -> None:
        self.line("return;")

    def _Bind(self, node: Any) -> None:
        narrow, value = self.expressions.narrow, node.value
        if narrow is None or not is_index(value):
            self.expressions.bind(node.var, value)
            return
        bounds = narrow.bounds.of(value)
        if inside(bounds, INT32):
            self.name_narrow(node.var, narrow.low(value), bounds)
            return
        if is_arithmetic(value):
            low = narrow.low(value)
            self.expressions.bind(node.var, value)
        else:
            self.expressions.bind(node.var, value)
            low = narrow.convert(i64, self.expressions.variables[node.var][0])
        narrow.name(node.var, self.writer.declare(i32, f"{node.var.name}_low", low), bounds)

    def name_narrow(self, variable: Any, low: str, bounds: Interval) -> None:
        """Declares an i64 variable by its lower half, which has the whole value."""
        assert self.expressions.narrow is not None
        name = self.writer.declare(i32, str(variable.name), low)
        self.expressions.narrow.name(variable, name, bounds)
        self.expressions.variables[variable] = (widened(name),)

    # --- memory

    def _DeclBuffer(self, node: Any) -> None:
        data = node.data.args[0] if tir.kind(node.data) == "Call" else node.data
        self.expressions.arrays[node.buffer] = self.expressions.arrays[data]

    def _AllocBuffer(self, node: Any) -> None:
        buffer = node.buffer
        dtype, _ = tir.read_type(str(buffer.dtype))
        length = math.prod(int(extent.value) for extent in buffer.shape)
        name = self.writer.name(str(buffer.name))
        shared = str(buffer.scope()).startswith("shared")
        if shared:
            self._allocate_shared(name, dtype, length)
        else:
            self.line(f"alignas(16) {type_text(dtype)} {name}[{length}];")
        self.expressions.arrays[buffer] = Array(name, dtype, not shared, shared)

    def _allocate_shared(self, name: str, dtype: DType, length: int) -> None:
        offset = -(-self.shared // 16) * 16
        self.shared = offset + length * dtype.itemsize
        made_of = memory_type(dtype)
        if self.carved:
            self.line(f"{made_of}* const {name} = ({made_of}*)(raido_shared + {offset});")
        else:
            self.line(f"__shared__ alignas(16) {made_of} {name}[{length}];")

    def _BufferStore(self, node: Any) -> None:
        self.expressions.store(node)

    # --- control flow

    def _IfThenElse(self, node: Any) -> None:
        with self.writer.block(f"if ({_bare(self.expressions.one(node.condition))})"):
            self.write(node.then_case)
        if node.else_case is not None:
            with self.writer.block("else"):
                self.write(node.else_case)

    def _For(self, node: Any) -> None:
        dtype, _ = tir.type_of(node.loop_var)
        expressions, narrow = self.expressions, self.expressions.narrow
        indices = narrow.loop_indices(node) if narrow is not None and dtype is i64 else None
        value = expressions.one
        if narrow is not None and indices is not None:
            if narrow.bounds.of(node.extent)[1] <= 1:
                self._run_once(node, narrow, indices)
                return
            dtype, value = i32, narrow.low
        start, stop = value(node.min), value(node.extent)
        if not (tir.kind(node.min) == "IntImm" and int(node.min.value) == 0):
            start = expressions.named(dtype, start, "start")
            stop = f"{start} + {stop}"
        stop = expressions.named(dtype, stop, "stop")
        step = "1" if node.step is None else expressions.named(dtype, value(node.step), "step")
        index = self.writer.name(str(node.loop_var.name))
        expressions.variables[node.loop_var] = (index,)
        if narrow is not None and indices is not None:
            expressions.variables[node.loop_var] = (widened(index),)
            narrow.name(node.loop_var, index, indices)
        if int(node.kind) == _UNROLLED:
            self.line("#pragma unroll")
        elif _waits(node.body):
            self.line("#pragma unroll 1")
        further = f"++{index}" if step == "1" else f"{index} += {step}"
        with self.writer.block(f"for ({dtype.name} {index} = {start}; {index} < {stop}; {further})"):
            self.write(node.body)

    def _run_once(self, node: Any, narrow: Narrow, indices: Interval) -> None:
        """Writes a loop of at most one iteration as a branch."""
        if narrow.bounds.of(node.extent) == (1, 1):
            self.name_narrow(node.loop_var, narrow.low(node.min), indices)
            self.write(node.body)
            return
        with self.writer.block(f"if ({narrow.low(node.extent)} > 0)"):
            self.name_narrow(node.loop_var, narrow.low(node.min), indices)
            self.write(node.body)

    def _While(self, node: Any) -> None:
        if (parts := _ended_inside(node)) is not None:
            before, last = parts
            if _is_straight(last.then_case, *before):
                self.line(f"#pragma unroll {_TURNS}")
            with self.writer.block(f"while ({_bare(self.expressions.one(node.condition))})"):
                for statement in before:
                    self.write(statement)
                with self.writer.block(f"if (!{self.expressions.one(last.condition)})"):
                    self.write(last.else_case)
                    self.line("break;")
                self.write(last.then_case)
            return
        lines, condition = self.writer.apart(lambda: self.expressions.one(node.condition))
        with self.writer.block("while (true)" if lines else f"while ({_bare(condition)})"):
            if lines:
                self.writer.lines += [*lines, f"if (!{condition}) break;"]
            self.write(node.body)

    # --- the launch

    def _AttrStmt(self, node: Any) -> None:
        if node.attr_key != "thread_extent":
            self.write(node.body)
            return
        declaration, line_number = self._bind_axis(node), len(self.writer.lines)
        self.write(node.body)
        if node.node.var in self.expressions.mentioned:
            self.writer.lines.insert(line_number, declaration)

    def _bind_axis(self, node: Any) -> str:
        """Binds the variable of a launch axis: the block's index, or the thread's in its block, whose extent is constant. Returns the
        variable's declaration."""
        where, _, axis = str(node.node.thread_tag).partition(".")
        if where not in ("blockIdx", "threadIdx") or axis not in _AXES:
            raise CompileError(f"a launch has blockIdx and threadIdx along x, y and z, not {node.node.thread_tag}")
        if where == "threadIdx":
            self.block[_AXES.index(axis)] = int(node.value.value)
        dtype, _ = tir.type_of(node.node.var)
        name = self.writer.name(str(node.node.var.name))
        if (narrow := self.expressions.narrow) is not None:
            count = self.block[_AXES.index(axis)]
            if where == "blockIdx":
                count = self.grid[_AXES.index(axis)] = max(1, limit_of(self.strides, node.node.var))
            narrow.name(node.node.var, f"(i32){where}.{axis}", (0, count - 1))
        self.expressions.variables[node.node.var] = (name,)
        return f"const {dtype.name} {name} = ({dtype.name}){where}.{axis};"


def receive(statements: Statements, parameter: Any, dtype: DType, pointer: bool, written: bool, apart: bool) -> str:
    """A parameter's declaration; registers the parameter. `apart`: no other pointer leads to its array."""
    expressions = statements.expressions
    name = statements.writer.name(str(parameter.name))
    if pointer:
        expressions.arrays[parameter] = Array(name, dtype, private=False)
        return f"{'' if written else 'const '}{memory_type(dtype)}* {'__restrict__ ' if apart else ''}{name}"
    if dtype.bits >= 32:
        expressions.variables[parameter] = (name,)
        if (narrow := expressions.narrow) is not None and dtype is i64:
            low = statements.writer.declare(i32, f"{parameter.name}_low", f"(i32){name}")
            narrow.name(parameter, low, (0, limit_of(statements.strides, parameter)))
        return f"{dtype.name} {name}"
    from raido.algo.graph.dtypes import f16, u32

    narrow = f"(f16){name}" if dtype is f16 else convert((u32, name), dtype)
    value = statements.writer.declare(dtype, f"{parameter.name}_value", narrow)
    expressions.variables[parameter] = (value,)
    return f"u32 {name}"


def _is_straight(*statements: Any) -> bool:
    """Whether statements have no branches, loops or waits between threads, so that a few copies of a loop over them are short."""
    branches = ("IfThenElse", "For", "While", "AllocBuffer")
    return not any(tir.kind(node) in branches for s in statements for node in tir.walk(s)) and not any(
        map(_waits, statements)
    )


def _ended_inside(node: Any) -> tuple[list[Any], Any] | None:
    """Matches a loop that runs while a cell is positive, where only the else side of the test at its end changes the cell: the statements
    before the test, and the test; else None."""
    test = node.condition
    if tir.kind(test) != "GT" or tir.kind(test.a) != "BufferLoad":
        return None
    cell, statements = tir.buffer_of(test.a), list(node.body.seq) if tir.kind(node.body) == "SeqStmt" else [node.body]
    *before, last = statements
    if tir.kind(last) != "IfThenElse" or last.else_case is None or tir.kind(last.else_case) != "BufferStore":
        return None
    stores = [each for each in tir.walk(node.body) if tir.kind(each) == "BufferStore" and tir.buffer_of(each) == cell]
    ended = (
        tir.buffer_of(last.else_case) == cell
        and tir.kind(last.else_case.value) == "IntImm"
        and int(last.else_case.value.value) < 1
    )
    return (before, last) if ended and len(stores) == 1 else None


def _waits(body: Any) -> bool:
    """Whether threads of a warp, or blocks, wait for each other in a loop, which is then not unrolled."""
    calls = (tir.callee(node)[0] for node in tir.walk(body) if tir.kind(node) == "Call")
    return any(name in WAITING for name in calls)


def _bare(condition: str) -> str:
    """A condition without the parentheses around all of it."""
    if not condition.startswith("("):
        return condition
    depth = 0
    for position, letter in enumerate(condition):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return condition[1:-1] if position == len(condition) - 1 else condition
    return condition
