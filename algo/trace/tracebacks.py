"""Tracebacks reduced to the user's frames and the message: an error leaves raido through a border, which removes raido's frames.

Errors stay ordinary exceptions: only their `__traceback__` is shortened, and that of their causes. An error that arose inside raido without
one of its `raise` statements keeps all frames. `RAIDO_TRACEBACK=1` keeps them always; so does the command line's `--traceback`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from opcode import opmap
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from raido.algo.errors import CompileError, RaidoError, explain

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
Wrong: TypeAlias = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], "RaidoError | None"]
_PASSED = {contextlib.__file__, functools.__file__}  # frames of Python's standard library between raido's
_SPOKEN = {"__init__", "__call__", "__getitem__", "__getattr__"}
# A bare `raise` takes the traceback that the error has, without the frame it stands in; that of Python 3.10 takes the one it had before.
LEAVES_NO_FRAME = sys.version_info >= (3, 11)


TOO_DEEP = explain(
    "an index or a size is nested too deeply",
    why="each step of its arithmetic uses the one before, more often than Python's stack is deep",
    **{"try": "rd.loop(n, body, init) instead of a loop that Python unrolls"},
)


def keeps_all_frames() -> bool:
    """Whether the environment asks for complete tracebacks."""
    return os.environ.get("RAIDO_TRACEBACK", "0") not in ("", "0")


def shortened(error: BaseException) -> BaseException:
    """Returns the error, with only the user's frames in its traceback and in those of its causes."""
    if keeps_all_frames() or not (isinstance(error, RaidoError) or _is_on_purpose(error)):
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


def _wrong_arguments(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> RaidoError | None:
    from raido.algo.trace.wrong_arguments import wrong_arguments  # for errors only

    return wrong_arguments(function, arguments, options)


def border(function: Function, wrong: Wrong = _wrong_arguments) -> Function:
    """Returns a public function whose errors leave with shortened tracebacks; `wrong` makes the error for arguments that do not fit."""

    @functools.wraps(function)
    def entered(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            try:
                return function(*arguments, **options)
            except RecursionError as error:
                if not isinstance(error, RaidoError) and _is_raidos_own(error):
                    raise CompileError(TOO_DEEP) from None
                raise
            except TypeError as error:
                misfit = None if isinstance(error, RaidoError) else wrong(entered, arguments, options)
                if misfit is not None:
                    raise misfit from None
                raise
        except Exception as error:
            short = shortened(error)
            if LEAVES_NO_FRAME:
                raise
            raise short  # noqa: B904 - the same error

    return entered  # type: ignore[return-value]


def bordered(kind: Class, wrong: Wrong = _wrong_arguments, special: Collection[str] = _SPOKEN) -> Class:
    """Makes the public methods of a class, and its special methods named in `special`, borders; returns the class."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name not in special:
            continue
        if inspect.isfunction(member):
            setattr(kind, name, border(member, wrong))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(kind, name, type(member)(border(member.__func__, wrong)))
    return kind


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


def _is_on_purpose(error: BaseException) -> bool:
    """Whether an error arose in a user's frame, or by a `raise` statement of raido's."""
    traceback = error.__traceback__
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    raised = traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == opmap["RAISE_VARARGS"]
    return _is_users(traceback) or (raised and not isinstance(error, AssertionError))


def _is_raidos_own(error: RecursionError) -> bool:
    """Whether the recursion was raido's rather than that of a user's function: fewer than a tenth of the frames are the user's."""
    traceback, users, frames = error.__traceback__, 0, 0
    while traceback is not None:
        users, frames, traceback = users + _is_users(traceback), frames + 1, traceback.tb_next
    return 10 * users < frames


def _is_users(traceback: TracebackType) -> bool:
    """Whether the frame is the user's, judged by its module, as raido's folder may have any name."""
    frame = traceback.tb_frame
    module = str(frame.f_globals.get("__name__", ""))
    return module.split(".")[0] != "raido" and frame.f_code.co_filename not in _PASSED
