"""The helper functions that one module needs, in LLVM assembly, by family: what TIR calls where it cannot say a thing itself.

Asking a family for a function writes it, once, and gives its symbol; `text()` is linked into the module.
"""

from __future__ import annotations

from raido.targets.llvm.helper_texts import HelperTexts
from raido.targets.llvm.memory_helpers import MemoryHelpers
from raido.targets.llvm.runtime_helpers import RuntimeHelpers
from raido.targets.llvm.value_helpers import ValueHelpers


class Helpers:
    """Helper functions of one module. `fused`: the machine has a fused multiply-add, `vector_bits`: its registers."""

    def __init__(self, prefix: str, fused: bool, vector_bits: int) -> None:
        self.fused = fused
        self.vector_bits = vector_bits
        self._texts = HelperTexts(fused, vector_bits)
        self.values = ValueHelpers(self._texts, prefix)
        self.memory = MemoryHelpers(self._texts)
        self.runtime = RuntimeHelpers(self._texts)

    def text(self) -> str:
        """Everything asked for so far, as one LLVM module."""
        return self._texts.module()
