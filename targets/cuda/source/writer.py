"""A kernel's text under construction: lines of statements, and unique names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raido.algo.graph.dtypes import DType
from raido.targets.c_names import identifier
from raido.targets.cuda.source.values import type_text

_TAKEN = frozenset(
    (
        *("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "half"),
        *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"),
    )
)
"""Names of the prelude and of CUDA C that are no words of C++."""


class Writer:
    """Appends lines; `lines` are those of the innermost open block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: set[str] = set(_TAKEN)

    def name(self, wanted: str) -> str:
        """A unique identifier similar to `wanted`."""
        base = identifier(wanted)
        base = f"{base}_" if base.startswith("raido_") else base
        found, count = base, 1
        while found in self._names:
            count += 1
            found = f"{base}_{count}"
        self._names.add(found)
        return found

    def declare(self, dtype: DType, wanted: str, value: str) -> str:
        """Declares a constant with a value; returns its name."""
        name = self.name(wanted)
        self.lines.append(f"const {type_text(dtype)} {name} = {value};")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A head, followed by the lines written inside the `with` block, in braces."""
        outer, self.lines = self.lines, []
        yield
        outer += [f"{head} {{", *(f"  {line}" for line in self.lines), "}"]
        self.lines = outer

    def apart(self, write: Callable[[], str]) -> tuple[list[str], str]:
        """The statements that an expression needs before it, not appended, and its text."""
        outer, self.lines = self.lines, []
        text = write()
        lines, self.lines = self.lines, outer
        return lines, text

    def choose(self, dtype: DType, condition: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        """One of two expressions by a condition; only that one, and the statements it needs, is evaluated."""
        (first, text), (second, other) = self.apart(yes), self.apart(no)
        if not first and not second:
            return f"({condition} ? {text} : {other})"
        name = self.name("chosen")
        self.lines.append(f"{type_text(dtype)} {name};")
        for head, lines, value in ((f"if ({condition})", first, text), ("else", second, other)):
            with self.block(head):
                self.lines += [*lines, f"{name} = {value};"]
        return name
