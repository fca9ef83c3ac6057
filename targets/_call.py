"""The base class of `Executable` in Python. Where `runtime/raido_call.c` was built, Python imports that extension module instead of this
file; an installation that was built without Python's header files has this one alone, and every call takes the complete path."""

from __future__ import annotations

from typing import Any


class Caller:
    """Base class of objects that are called with arrays: calls by `_plan` (see `raido.targets.fastcall`), or by `_complete`."""

    __slots__ = ()

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        return self._complete(*arrays, out=out, **named)

    def _complete(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        raise NotImplementedError
