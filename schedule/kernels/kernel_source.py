"""A kernel as the source of one Python function, in which a thread is a function, or a generator that stops at barriers."""

from __future__ import annotations

from raido.schedule.kernels.kernel import Kernel
from raido.schedule.nest.effects import writes
from raido.schedule.nest.nodes import Alloc, Statement
from raido.schedule.nest.python_source import StatementSource
from raido.schedule.nest.walk import statements_within


class KernelSource(StatementSource):
    """Python source for a kernel: `text`, a function `run` of its arrays and numbers, of `launch`, which runs
    blocks, and of `watched`, which finds races in memory.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__("def run(arrays, numbers, faults, launch, watched):")
        for k, variable in enumerate(kernel.numbers):
            self.line(f"{self.name(variable)} = numbers[{k}]")
        for k, b in enumerate(kernel.arrays):
            shape, strides, dtype = self.tuple(b.shape), self.tuple(b.strides), self.constant(b.dtype)
            self.line(f"{self.name(b)} = arrays[{k}]({b.name!r}, {dtype}, {shape}, {strides})")
        self.memo = {}
        shared = [
            s.buffer for s in statements_within(kernel.body) if isinstance(s, Alloc) and s.buffer.scope == "shared"
        ]
        updated = {w.buffer for s in statements_within(kernel.body) for w in writes(s) if w.atomic}
        self.line(f"def block({', '.join(map(self.name, kernel.blocks))}, threads):")
        self.depth += 1
        for buffer in shared:
            self.allocate(buffer)
            if buffer not in updated:
                self.line(f"{self.name(buffer)} = watched({self.name(buffer)})")
        self.line(f"def thread({', '.join(map(self.name, kernel.threads))}):")
        self.depth += 1
        self.line("pass")
        self.block(kernel.body)
        self.depth -= 1
        self.line("threads(thread)")
        self.depth -= 1
        self.line("launch(block)")
        self.text = "\n".join(self.lines) + "\n"

    def statement(self, s: Statement) -> None:
        """The lines of one statement; shared memory is there already."""
        if not (isinstance(s, Alloc) and s.buffer.scope == "shared"):
            super().statement(s)
