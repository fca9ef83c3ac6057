"""The current source location in the user's code: the innermost frame outside of raido, quoted by errors and fault sites."""

from __future__ import annotations

import linecache
import operator
import os
import sys
import warnings
from opcode import opmap
from types import FrameType
from typing import Any

import numpy as np

from raido.algo.errors import ShapeError, TraceError, explain
from raido.algo.graph.limits import LARGEST_SIZE
from raido.algo.graph.program import Site

# the folders of raido, and of NumPy, whose functions call methods of their arguments
_INTERNAL = [
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(np.__file__) + os.sep,
]

_LIBRARIES = frozenset(
    ("pandas", "scipy", "skimage", "sklearn")
)  # libraries whose functions call methods of their arguments, too


_CACHE = opmap.get("CACHE", 0)  # the opcode of inline caches behind instructions, from Python 3.11 on


def mark_internal(file: str) -> None:
    """Registers the folder of `file` as raido's own: its frames are skipped from now on."""
    folder = os.path.dirname(os.path.abspath(file)) + os.sep
    if folder not in _INTERNAL:
        _INTERNAL.append(folder)


def user_frame() -> FrameType | None:
    """Returns the innermost frame of the user's: not raido's, NumPy's or that of a library over NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_passed(frame):
        frame = frame.f_back
    return frame


def library_module() -> str | None:
    """Returns the public module, such as "scipy.special", of the library over NumPy that the user's line calls; None where it calls none."""
    found, frame = None, sys._getframe(1)
    while frame is not None and is_passed(frame):
        found = public_module(frame) or found
        frame = frame.f_back
    return found


def public_module(frame: FrameType) -> str | None:
    """Returns the public module, such as "scipy.special", of a frame of a library over NumPy; None for other frames."""
    home = _module(frame).split(".")[:2]
    return ".".join(home) if _is_of_library(frame) and not home[-1].startswith("_") else None


def is_passed(frame: FrameType) -> bool:
    """Whether a frame is skipped: it is raido's, NumPy's or that of a library over NumPy."""
    return is_internal(frame.f_code.co_filename) or _is_of_library(frame)


def is_internal(file: str) -> bool:
    """Whether a file is raido's or NumPy's."""
    return any(file.startswith(folder) for folder in _INTERNAL)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_of_library(frame: FrameType) -> bool:
    return _module(frame).partition(".")[0] in _LIBRARIES


def is_dropped(frame: FrameType | None) -> bool:
    """Whether the result of a frame's current call is discarded: the call is a statement of its own."""
    if frame is None or frame.f_lasti < 0:
        return False
    code = frame.f_code.co_code
    following = (code[k] for k in range(frame.f_lasti + 2, len(code), 2))
    return next((opcode for opcode in following if opcode != _CACHE), None) == opmap["POP_TOP"]


def user_site() -> Site:
    """Returns file, line and text of the user's code that is running."""
    frame = user_frame()
    if frame is None:
        return Site("<unknown>", 0, "")
    return site_in(frame, frame.f_lineno)


def site_in(frame: FrameType, line: int) -> Site:
    """Returns the site of a line in the code of a frame."""
    file = frame.f_code.co_filename
    return Site(_readable(file), line, _readable(linecache.getline(file, line, frame.f_globals).strip()))


_warned: dict[Any, Any] = {}  # lines with a warning, in the form of Python's warning registries


def warn_at(site: Site, text: str, category: type[Warning]) -> None:
    """Warns the user at one of their lines, once for each text."""
    warnings.warn_explicit(text, category, site.file, site.line, registry=_warned)


def _readable(text: str) -> str:
    """Returns the text with escapes for undecodable bytes, which file names may contain (PEP 383), and messages and JSON may not."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def plain_int(value: Any, what: str) -> int:
    """Returns an int that must be known while tracing; raises `TraceError`, which names its purpose `what`, for other values."""
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(error, TraceError):
            raise
        text = repr(value)
        raise TraceError(
            complaint(f"{what} is an int, not {text if len(text) < 40 else type(value).__name__}")
        ) from None


def plain_size(value: Any, what: str) -> int:
    """Returns a plain int that counts elements; raises `ShapeError` where it exceeds every array."""
    number = plain_int(value, what)
    if abs(number) > LARGEST_SIZE:
        raise ShapeError(complaint(f"{what} of {number} is larger than any array can be"))
    return number


def complaint(headline: str, *, why: str | None = None, remedy: str | None = None, site: Site | None = None) -> str:
    """Returns the text of an error met while tracing: the headline, the user's line (by default the current one), the reason and the
    remedy."""
    labelled: dict[str, Any] = {"algorithm": str(site or user_site()), "why": why, "try": remedy}
    return explain(headline, **labelled)
