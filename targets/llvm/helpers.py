"""Helper functions of a module in LLVM assembly, by family: operations that TIR cannot express.

A request to a family writes the function, once, and returns its symbol; `text()` is linked into the module.
"""

from __future__ import annotations

from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.helper_texts import HelperTexts
from raido.targets.llvm.memory_helpers import MemoryHelpers
from raido.targets.llvm.runtime_helpers import RuntimeHelpers
from raido.targets.llvm.value_helpers import ValueHelpers


class Helpers:
    """Helper functions of one module, for a processor with capabilities `can`."""

    def __init__(self, prefix: str, can: Capabilities) -> None:
        self.can = can
        self._texts = HelperTexts(can)
        self.values = ValueHelpers(self._texts, prefix)
        self.memory = MemoryHelpers(self._texts)
        self.runtime = RuntimeHelpers(self._texts)

    def text(self) -> str:
        """Everything requested so far as one LLVM module."""
        return self._texts.module()
