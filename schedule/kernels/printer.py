"""A device's program as pseudo-code: the host plan, and every kernel; for people to read, never parsed.

A launch reads `launch rows[h // 8, 4](img, out, h)`: the blocks along x, y and z in brackets, ones at the end left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raido.algo.graph.expr import SizeVar
from raido.schedule.kernels.host_plan import (
    Allocate,
    Copy,
    Download,
    Free,
    If,
    Launch,
    Let,
    Loop,
    Number,
    ReadBack,
    Statement,
    Swap,
    Upload,
    While,
)
from raido.schedule.kernels.kernel import DeviceArray, DeviceProgram, Kernel
from raido.schedule.nest.printer import NestPrinter
from raido.schedule.nest.walk import sizes_within

_BINDS = {"<": 1, "<=": 1, "==": 1, "!=": 1, "+": 2, "-": 2, "*": 3, "//": 3, "%": 3}


def print_program(program: DeviceProgram) -> str:
    """The whole program: its plan, then its kernels."""
    inputs = ", ".join(map(_declared, program.inputs))
    outputs = ", ".join(map(_declared, program.outputs))
    lines = [f"program {program.name}({inputs}) -> {outputs}"]
    lines += [f"  {_declared(array)} constant" for array in program.constants]
    lines += _plan(program.plan, 1)
    lines += [f"  count {name} = {number_text(number)}" for name, number in program.counts]
    for kernel in program.kernels:
        lines += ["", *_kernel(kernel)]
    return "\n".join(lines) + "\n"


def number_text(number: Number, binds: int = 0) -> str:
    """A number in infix notation."""
    if not isinstance(number, tuple):
        return str(number)
    op, left, right = number
    if op not in _BINDS:
        return f"{op}({number_text(left)}, {number_text(right)})"
    own = _BINDS[op]
    spaced = "" if op == "*" else " "
    text = f"{number_text(left, own)}{spaced}{op}{spaced}{number_text(right, own + 1)}"
    return text if own >= binds else f"({text})"


def _declared(array: DeviceArray) -> str:
    printer = NestPrinter()
    text = printer.declare(array.buffer)
    return f"{array.name}:{text.partition(':')[2]}"


def _kernel(kernel: Kernel) -> list[str]:
    printer = NestPrinter({n.name for n in kernel.numbers if isinstance(n, SizeVar)} | sizes_within(kernel.body))
    arrays = [printer.declare(buffer) for buffer in kernel.arrays]
    numbers = [n.name if isinstance(n, SizeVar) else printer.name(n) for n in kernel.numbers]
    for variable in (*kernel.blocks, *kernel.threads):
        printer.name(variable)
    extent = ", ".join(map(str, _short(kernel.extent)))
    head = f"kernel {kernel.name}[{extent} threads]({', '.join((*arrays, *numbers))})"
    return [f"{head}{' or nothing, after a fault' if kernel.faults else ''}:", *printer.block(kernel.body, 1)]


def _short(numbers: Sequence[Number]) -> Sequence[Number]:
    """The numbers along x, y and z without ones at the end."""
    kept = list(numbers)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return kept


def _plan(statements: Sequence[Statement], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for s in statements:
        if isinstance(s, If):
            yield f"{pad}if {number_text(s.condition)}:"
            yield from _plan(s.then, depth + 1)
            if s.otherwise:
                yield f"{pad}else:"
                yield from _plan(s.otherwise, depth + 1)
        elif isinstance(s, Loop):
            yield f"{pad}for {s.index} in 0..{number_text(s.count)}:"
            yield from _plan(s.body, depth + 1)
        elif isinstance(s, While):
            yield f"{pad}while {number_text(s.condition)}:"
            yield from _plan(s.body, depth + 1)
        else:
            yield pad + _line(s)


def _line(s: Statement) -> str:
    match s:
        case Let(name, value):
            return f"{name} = {number_text(value)}"
        case Allocate(array, nbytes):
            return f"{array} = allocate {number_text(nbytes)} bytes"
        case Free(array):
            return f"free {array}"
        case Upload(array, source, nbytes):
            return f"{array} = upload {number_text(nbytes)} bytes of {source}"
        case Download(target, array, nbytes):
            return f"download {number_text(nbytes)} bytes of {array} to {target}"
        case Copy(target, source, nbytes, at, offset):
            whole = at == 0 and offset == 0
            range_text = "" if whole else f", from byte {number_text(offset)} to byte {number_text(at)}"
            return f"copy {number_text(nbytes)} bytes of {source} to {target}{range_text}"
        case Launch(kernel, grid, arguments):
            blocks = ", ".join(map(number_text, _short(grid)))
            return f"launch {kernel}[{blocks}]({', '.join(map(number_text, arguments))})"
        case ReadBack(name, array, dtype, offset):
            return f"{name} = read back {dtype.name.rstrip('_')} of {array} at byte {number_text(offset)}"
        case Swap(first, second):
            return f"swap {first}, {second}"
    raise TypeError(f"not a statement of a plan: {s!r}")
