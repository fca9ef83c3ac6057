"""The base that makes instances callable: `runtime/raido_call.c` where that was built, which Python then imports instead of this file.

Built without Python's header files, an installation has this alone, and every call takes the complete way.
"""

from __future__ import annotations

from typing import Any


class Caller:
    """The base of what is called with arrays: by its `_plan` (see `raido.targets.fastcall`), or by `_complete`."""

    __slots__ = ()

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        return self._complete(*arrays, out=out, **named)

    def _complete(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        raise NotImplementedError
