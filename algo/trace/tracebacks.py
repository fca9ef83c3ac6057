"""Tracebacks as users read them: their own frames and the message. An error leaves raido through a border, which takes raido's frames out.

Errors stay ordinary exceptions: only `__traceback__` is shortened, and that of the errors behind them. What raido did not raise on
purpose keeps all its frames if it arose inside raido. `RAIDO_TRACEBACK=1` keeps them always; so does the command line's `--traceback`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from raido.algo.errors import RaidoError

Function = TypeVar("Function", bound=Callable[..., Any])
_PASSED = {contextlib.__file__, functools.__file__}  # frames of Python's own that stand between raido's


def keeps_all_frames() -> bool:
    """Whether the environment asks for complete tracebacks."""
    return os.environ.get("RAIDO_TRACEBACK", "0") not in ("", "0")


def shortened(error: BaseException) -> BaseException:
    """The error, with the users' frames alone in its traceback; in the errors that led to it, too."""
    if keeps_all_frames() or not (isinstance(error, RaidoError) or _is_users(_last(error.__traceback__))):
        return error
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = _users_part(link.__traceback__)
        if isinstance(link, RaidoError) and link.__cause__ is None:
            link.__suppress_context__ = True
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return error


def border(function: Function) -> Function:
    """A function that users call, whose errors leave with shortened tracebacks."""

    @functools.wraps(function)
    def entered(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return function(*arguments, **options)
        except Exception as error:
            raise shortened(error)  # noqa: B904 - the same error. RAIDO_TRACEBACK=1 shows raido's own frames

    return entered  # type: ignore[return-value]


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if _is_users(traceback):
            kept.append(traceback)
        traceback = traceback.tb_next
    rest: TracebackType | None = None
    for own in reversed(kept):
        rest = TracebackType(rest, own.tb_frame, own.tb_lasti, own.tb_lineno)
    return rest


def _last(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _is_users(traceback: TracebackType | None) -> bool:
    """Whether the frame is none of raido's: by its module, as a folder of raido's may have any name."""
    if traceback is None:
        return False
    frame = traceback.tb_frame
    module = str(frame.f_globals.get("__name__", ""))
    file = frame.f_code.co_filename
    return module.split(".")[0] != "raido" and file not in _PASSED and not file.startswith("<call of ")
