"""`emit_kernel`: a kernel as a function of plain TIR, as every back end for devices takes it (ARCHITECTURE.md, "Vulkan, below the lowering").

Parameters are the kernel's arrays, as pointers, then its numbers, then the fault record where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import i32
from raido.schedule.kernels.kernel import Kernel
from raido.schedule.nest.nodes import Barrier, While
from raido.schedule.nest.passes.own_counters import MOST, counted_loops
from raido.schedule.nest.walk import statements_within
from raido.targets import tvm_corner as T
from raido.targets.kernels.atomics import forms_of
from raido.targets.kernels.faults import RECORD_WORDS, nothing_failed
from raido.targets.kernels.statements import Statements
from raido.targets.kernels.unit import UNKNOWN_EXTENT, Storage, Unit, atomic, load, operation

MOST_ITERATIONS = MOST
"""The step limit of a data-dependent loop in one thread: a loop with more iterations counts as endless."""


def emit_kernel(
    kernel: Kernel, limit: int = MOST_ITERATIONS, iterations: int = 0, subgroup: int = 1, count_down: bool = False
) -> Any:
    """The TIR function of a kernel, under its name. `limit` bounds each data-dependent loop; `iterations` is the number, over all loops of
    a thread, after which the device ends them silently (0: never, or the kernel makes fewer). Reaching it is a fault, which is detected
    unless `limit` is less (`long_loops.iterations_below`). On such devices, loops continue in lanes of a subgroup that belong to no thread and
    read zeros: blocks are padded with idle threads to a multiple of `subgroup`. count_down: whether a countdown of iterations replaces the
    tests of loops' own counters."""
    unit, counted = Unit(), counted_loops(kernel.body) if count_down else {}
    forms = forms_of(kernel.body.statements)
    parameters: list[Any] = []
    for buffer in kernel.arrays:
        form = Storage(None, buffer.dtype, forms.get(buffer, "plain"))
        pointer = T.pointer(unit.fresh_name(buffer.name), form.memory)
        made = T.flat_buffer(unit.fresh_name(buffer.name), form.memory, UNKNOWN_EXTENT, pointer)
        unit.out.append(T.DeclBuffer(made, data=pointer))
        unit.memory[buffer] = Storage(made, form.dtype, form.form)
        parameters.append(pointer)
    for number in kernel.numbers:
        parameters.append(T.variable(unit.fresh_name(number.name), T.type_name(number.dtype)))
        unit.variables[number] = parameters[-1]
        unit.parameters.add(parameters[-1])
    if kernel.faults:
        parameters.append(T.pointer(unit.fresh_name("fault"), i32))
        unit.fault = T.flat_buffer("fault_record", i32, RECORD_WORDS, parameters[-1])
        unit.out.append(T.DeclBuffer(unit.fault, data=parameters[-1]))
    body = _body(kernel, unit, Statements(unit, forms, limit, kernel.threads, kernel.extent, counted), iterations)
    width, *others = kernel.extent
    if iterations and width % subgroup and others == [1, 1] and not _has_barriers(kernel):
        here = T.LT(unit.variables[kernel.threads[0]], T.IntImm("int64", width))
        body, width = T.IfThenElse(here, body, None), -(-width // subgroup) * subgroup
    return T.kernel(kernel.name, parameters, _with_axes(kernel, unit, body, (width, *others)))


def _has_barriers(kernel: Kernel) -> bool:
    return any(isinstance(s, Barrier) for s in statements_within(kernel.body))


def _body(kernel: Kernel, unit: Unit, statements: Statements, iterations: int) -> Any:
    """The code of a thread, which does nothing if a recorded fault is visible."""
    for variable in (*kernel.blocks, *kernel.threads):
        unit.variables[variable] = T.variable(unit.fresh_name(variable.name), "int64")
    declared, unit.out = unit.out, []
    test = _test(kernel, unit)
    before, unit.out = unit.out, []
    statements.block(kernel.body.statements)
    if unit.fault is not None and iterations and statements.limit >= iterations:
        whiles = [s.site for s in statements_within(kernel.body) if isinstance(s, While) and s.site >= 0]
        _see_loops_end(statements, unit.variables[kernel.blocks[0]], iterations, (*whiles, kernel.site)[0])
    statements.faults.record(unit)
    body = T.sequence(unit.out)
    return T.sequence(
        [*declared, *statements.faults.declare(), *before, body if test is None else T.IfThenElse(test, body, None)]
    )


def _see_loops_end(statements: Statements, block: Any, iterations: int, site: int) -> None:
    """Emits a loop of two iterations. If it makes fewer, the device has ended the loops before it too: a fault.

    Its trip count depends on the block's index, which no compiler knows to be non-negative.
    """
    unit, number = statements.unit, lambda value: T.IntImm("int32", value)
    made = unit.cell("made", i32, number(0))
    length = operation("select", i32, T.LT(block, T.IntImm("int64", 0)), number(3), number(2))
    outer = unit.block()
    unit.put(made, T.Add(load(made), number(1)))
    body = unit.end_block(outer)
    unit.out.append(T.For(T.variable(unit.fresh_name("again"), "int32"), number(0), length, T.ForKind.SERIAL, body))
    statements.faults.note(unit, T.LT(load(made), number(2)), "steps", site, [T.IntImm("int64", iterations)])


def _test(kernel: Kernel, unit: Unit) -> Any:
    """The condition that no fault is recorded; in kernels with barriers, all threads of a block use the first one's answer."""
    if unit.fault is None:
        return None
    if not _has_barriers(kernel):
        return nothing_failed(unit)
    seen = T.flat_buffer(unit.fresh_name("seen"), i32, 1, scope="shared")
    unit.out.append(T.AllocBuffer(seen))
    outer = unit.block()
    unit.put(seen, atomic("load", i32, unit.fault, 0))
    first: Any = None
    for variable, extent in zip(kernel.threads, kernel.extent, strict=True):
        if extent > 1:
            here = T.EQ(unit.variables[variable], T.IntImm("int64", 0))
            first = here if first is None else T.And(first, here)
    unit.when(T.IntImm("bool", 1) if first is None else first, outer)
    unit.out.append(T.barrier())
    return T.EQ(load(seen), T.IntImm("int32", 0))


def _with_axes(kernel: Kernel, unit: Unit, body: Any, threads: Sequence[int]) -> Any:
    """The body inside the axes of the launch; the thread's and block's indices are bound as i64."""
    axes = [
        *((f"threadIdx.{name}", v, n) for name, v, n in zip("xyz", kernel.threads, threads, strict=True)),
        *((f"blockIdx.{name}", v, 1) for name, v in zip("xyz", kernel.blocks, strict=True)),
    ]
    bound = []
    for tag, variable, extent in axes:
        index = T.variable(unit.fresh_name(tag), "int32")
        bound.append((tag, index, extent))
        body = T.sequence([T.Bind(unit.variables[variable], T.Cast("int64", index)), body])
    for tag, index, extent in bound:
        body = T.bind_axis(tag, index, extent, body)
    return body
