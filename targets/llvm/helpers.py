"""The helper functions that one module needs, in LLVM assembly, by family: what TIR calls where it cannot say a thing itself.

Asking a family for a function writes it, once, and gives its symbol; `text()` is linked into the module.
"""

from __future__ import annotations

from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.helper_texts import HelperTexts
from raido.targets.llvm.memory_helpers import MemoryHelpers
from raido.targets.llvm.runtime_helpers import RuntimeHelpers
from raido.targets.llvm.value_helpers import ValueHelpers


class Helpers:
    """Helper functions of one module, for a processor that `can` do so much."""

    def __init__(self, prefix: str, can: Capabilities) -> None:
        self.can = can
        self._texts = HelperTexts(can)
        self.values = ValueHelpers(self._texts, prefix)
        self.memory = MemoryHelpers(self._texts)
        self.runtime = RuntimeHelpers(self._texts)

    def text(self) -> str:
        """Everything asked for so far, as one LLVM module."""
        return self._texts.module()
