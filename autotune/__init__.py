"""Which schedule: `rd.autotune(algorithm, inputs_or_sizes, target="llvm", trials=200, db="tuning.db", seed=0)` searches for the fastest.

The package is itself what users call, so that `rd.autotune` is one thing, whichever of its modules was imported first: it has the
documentation and the signature of `raido.autotune.jobs.autotune.autotune`.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from raido.algo.trace.tracebacks import border


class _Callable(ModuleType):
    @border
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _function()(*arguments, **options)

    @property
    def __doc__(self) -> str | None:  # what `help(rd.autotune)` shows
        return _function().__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_function())


def _function() -> Any:
    from raido.autotune.jobs.autotune import autotune

    return autotune


sys.modules[__name__].__class__ = _Callable
