"""Which schedule: `rd.autotune(algorithm, inputs_or_sizes, target="llvm", trials=200, db="tuning.db", seed=0)` searches for the fastest.

The package is itself what users call, so that `rd.autotune` is one thing, whichever of its modules was imported first; what a call takes
and gives is described at `raido.autotune.jobs.autotune.autotune`, which `help(rd.autotune.jobs.autotune.autotune)` shows.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from raido.autotune.jobs.autotune import autotune

        return autotune(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
