"""Strict reading of documents that people and other programs write: schedules, jobs, measurements, models.

Any defect of a document is `Unreadable`, with a reason in a few words, and nothing else is raised: the caller adds what was read, from
where, and the remedy. JSON is read as in RFC 8259, with further limits: a key occurs once in an object, numbers are finite and
integers fit 64 bits, text is Unicode without lone surrogates, and nesting is bounded. Every document that raido writes conforms.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import stat
from collections.abc import Mapping
from typing import Any, TypeVar, cast

LARGEST = 1 << 30  # bytes of a document: raido writes some thousands, and some millions for a database as text
DEEPEST = 200  # nested brackets: a schedule with three levels of choices has some twenty
_KINDS: Mapping[Any, str] = {
    dict: "a table",
    list: "a list",
    str: "a text",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_Kind = TypeVar("_Kind")


class Unreadable(ValueError):
    """Raised for a document that cannot be read; the message is the reason."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file; opening a FIFO does not wait for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("it is a folder" if stat.S_ISDIR(status.st_mode) else "it is no regular file")
            if status.st_size > LARGEST:
                raise Unreadable(f"it has {status.st_size >> 20} MB; at most {LARGEST >> 20} MB are read")
            return file.read()
    except OSError as error:
        raise Unreadable("it is a folder" if isinstance(error, IsADirectoryError) else _said(error)) from None
    except ValueError as error:  # a NUL or a lone surrogate in the path
        raise error if isinstance(error, Unreadable) else Unreadable("no file can have such a name") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular file in UTF-8, with or without a byte-order mark."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not text in UTF-8: {error.reason} at byte {error.start}") from None


def parse_json(text: str | bytes, deepest: int = DEEPEST) -> Any:
    """The value of a JSON text with at most `deepest` nested brackets."""
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        value = _JSON.decode(text)
        if "\\" in text or not text.isascii():
            text.encode()
            _check_text(value)
        if text.count("[") + text.count("{") > deepest:
            _check_depth(value, deepest)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable(f"it nests deeper than {deepest} brackets") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    except (ValueError, TypeError) as error:  # a lone surrogate, thousands of digits; a value that is not text
        raise Unreadable(f"it is not JSON: {str(error)[:200]}") from None
    return value


def expect(value: Any, kind: type[_Kind], what: str) -> _Kind:
    """The value, checked to be of type `kind` (`float` accepts ints too) and finite; Unreadable otherwise."""
    found: Any = value
    kinds: Any = (int, float) if kind is float else kind
    if not isinstance(found, kinds) or (isinstance(found, bool) and kind is not bool):
        raise Unreadable(f"{what} is {_KINDS[kind]}, not {shown(found)}")
    if kind is float and not math.isfinite(found):
        raise Unreadable(f"{what} is {found}")
    return cast("_Kind", found)


def field(table: Mapping[str, Any], name: str, kind: type[_Kind], where: str) -> _Kind:
    """The value of the field `name` of a table, checked to be of type `kind`; Unreadable where it is missing."""
    if name not in table:
        raise Unreadable(f"{where} has no `{name}`")
    return expect(table[name], kind, f"`{name}` of {where}")


def shown(value: Any) -> str:
    """The value for a message: shortened, and in printable characters."""
    return reprlib.repr(value)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"{shown(twice)} stands twice in one table")
    return table


def _whole(text: str) -> int:
    if len(text) > 20 or not -(1 << 63) <= (number := int(text)) < 1 << 64:
        raise Unreadable(f"the number {shown(text)} does not fit 64 bits")
    return number


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise Unreadable(f"the number {shown(text)} does not fit 64 bits")
    return number


def _no(text: str) -> Any:
    raise Unreadable(f"{text} is no number in JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_table, parse_int=_whole, parse_float=_finite, parse_constant=_no)


def _check_text(value: Any) -> None:
    """Raises Unreadable for a lone surrogate, which JSON can spell, and no file or terminal accepts."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            if not each.isascii():
                each.encode()
        elif isinstance(each, dict):
            pending += each
            pending += each.values()
        elif isinstance(each, list):
            pending += each


def _check_depth(value: Any, deepest: int) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > deepest:
            raise Unreadable(f"it nests deeper than {deepest} brackets")
        below: list[Any] = []
        for each in level:
            below += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        level = below


def _said(error: OSError) -> str:
    return error.strerror or str(error)
