"""The current source location in the user's code: the innermost frame outside raido. Errors and fault sites quote it."""

from __future__ import annotations

import linecache
import operator
import os
import sys
from types import FrameType
from typing import Any

import numpy as np

from raido.algo.errors import ShapeError, TraceError, explain
from raido.algo.graph.limits import LARGEST_SIZE
from raido.algo.graph.program import Site

# the folders of raido, and of NumPy, whose functions call methods of what they are given
_INTERNAL = [
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(np.__file__) + os.sep,
]


def mark_internal(file: str) -> None:
    """Frames of files in the folder of `file` are raido's own from now on."""
    folder = os.path.dirname(os.path.abspath(file)) + os.sep
    if folder not in _INTERNAL:
        _INTERNAL.append(folder)


def user_frame() -> FrameType | None:
    """The innermost frame that is neither raido's nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(name.startswith(folder) for folder in _INTERNAL):
            return frame
        frame = frame.f_back
    return None


def user_site() -> Site:
    """File, line and text of the user's code that is running."""
    frame = user_frame()
    if frame is None:
        return Site("<unknown>", 0, "")
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Site(_readable(file), line, _readable(linecache.getline(file, line, frame.f_globals).strip()))


def _readable(text: str) -> str:
    """The text with escapes for what is no text: names of files may hold any bytes (PEP 383), and messages and JSON may not."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def plain_int(value: Any, what: str) -> int:
    """An int that must be known while tracing; TraceError says what it is for."""
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
    """A plain int that counts elements; ShapeError where no array has as many."""
    number = plain_int(value, what)
    if abs(number) > LARGEST_SIZE:
        raise ShapeError(complaint(f"{what} of {number} is larger than any array can be"))
    return number


def complaint(headline: str, *, why: str | None = None, remedy: str | None = None) -> str:
    """The text of an error met while tracing: what, the user's line, why, and what to write instead."""
    labelled: dict[str, Any] = {"algorithm": str(user_site()), "why": why, "try": remedy}
    return explain(headline, **labelled)
