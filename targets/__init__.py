"""On what it runs: loop nest to machine code, executables, export.

`raido.targets` is this package and, by the contract, also a function: `rd.targets()` lists the targets of this machine. So the module
can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Targets(ModuleType):
    def __call__(self) -> Any:
        from raido.targets.target import targets

        return targets()


sys.modules[__name__].__class__ = _Targets
