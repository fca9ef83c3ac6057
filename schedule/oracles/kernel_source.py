"""A kernel as the source of one Python function, in which a thread is a function, or a generator that stops at barriers; a block is a
generator that stops where its threads await values that others publish."""

from __future__ import annotations

from raido.schedule.kernels.kernel import Kernel
from raido.schedule.nest.effects import writes
from raido.schedule.nest.nodes import Alloc, Await, Broadcast, Exchange, FirstThread, Publish, Statement, Ticket
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.python_source import StatementSource

AWAITS = "awaits"
"""The value that a thread's generator yields while it awaits a word of another block."""


class KernelSource(StatementSource):
    """Python source for a kernel: `text`, a function `run` of its arrays and numbers, of `launch`, which runs blocks, and of `watched`,
    which detects races in memory."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__("def run(arrays, numbers, faults, launch, watched, clock):")
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
        self.line("given = {}")
        self.line(f"def thread({', '.join(map(self.name, kernel.threads))}):")
        self.depth += 1
        x, y, z = map(self.name, kernel.threads)
        self.line("flight = Flight()")
        self.line(f"lane = {x} + {kernel.extent[0]} * ({y} + {kernel.extent[1]} * {z})")
        self.block(kernel.body)
        self.depth -= 1
        self.line("yield from threads(thread)")
        self.depth -= 1
        self.line("launch(block)")
        self.text = "\n".join(self.lines) + "\n"

    def statement(self, s: Statement) -> None:
        """Writes the lines of one statement; shared memory is allocated by the block already."""
        if isinstance(s, (Exchange, Broadcast, FirstThread)):
            self._exchange(s)
        elif isinstance(s, (Ticket, Publish, Await)):
            self._between_blocks(s)
        elif not (isinstance(s, Alloc) and s.buffer.scope == "shared"):
            super().statement(s)

    def _between_blocks(self, s: Ticket | Publish | Await) -> None:
        """Writes a ticket, a publication, or an `Await`, which stops the thread until the value is published."""
        state = self.name(s.state)
        if isinstance(s, Ticket):
            self.line(f"{self.name(s.var)} = int({state}.read((0,)))")
            self.line(f"{state}.write((0,), {self.name(s.var)} + 1)")
            return
        index = self.value(s.index)
        where = f"({s.state.serial}, {index})"
        if isinstance(s, Publish):
            self.line(f"{state}.write(({index},), {self.value(s.value)})")
            if not s.alone:
                self.line(f"clock.publish({where})")
            return
        self.line(f"while not {state}.read(({index},)): yield {AWAITS!r}")
        if not s.alone:
            self.line(f"clock.learn({where})")
        self.line(f"{self.name(s.var)} = int({state}.read(({index},)))")

    def _exchange(self, s: Exchange | Broadcast | FirstThread) -> None:
        """Writes an exchange in a subgroup: threads put their values, and read others once all have reached the first stop; at
        the second stop all have read."""
        given = self.value(s.condition) if isinstance(s, FirstThread) else self.tuple(s.values)
        self.line(f"given[lane] = {given}")
        self.line(f"yield ({next(self.temporaries)}, {s.width})")
        first = f"lane // {s.width} * {s.width}"
        if isinstance(s, FirstThread):
            those = f"[k for k in range({s.width}) if given[{first} + k]]"
            self.line(f"{self.name(s.var)} = {self.constant(s.var.dtype)}.numpy.type(({those} or [{s.width}])[0])")
        else:
            if isinstance(s, Broadcast):
                other = f"{first} + int({self.value(s.source)})"
            else:
                other = f"min(max(lane + {s.distance}, {first}), {first} + {s.width - 1})"
            self.line(f"{''.join(f'{self.name(v)}, ' for v in s.vars)} = given[{other}]")
        self.line(f"yield ({next(self.temporaries)}, {s.width})")
