"""Validates the arguments of `autotune` that are no arrays, sizes or schedules, before any work."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from raido.algo.documents import Unreadable, read_bytes, shown
from raido.algo.errors import ArgumentError, TargetError
from raido.autotune.measure.measurement import Limits, Protocol
from raido.targets.target import Target

TLS = ("ca", "cert", "key")
SEARCHES = ("model", "random", "grid")
Settings = TypeVar("Settings", Limits, Protocol)


def whole_number(value: Any, name: str, least: int | None = 0) -> int:
    """An integer of Python or NumPy as an int; raises `ArgumentError` for anything else, and for less than `least`."""
    if hasattr(value, "__index__") and not isinstance(value, bool):
        number = operator.index(value)
        if least is None or number >= least:
            return number
    limit = "" if least is None else f"at least {least}, "
    raise ArgumentError(f"{name} must be {limit}a whole number, not {value!r}")


def check_search(search: Any) -> None:
    """Raises `ArgumentError` for an unknown kind of search."""
    if search not in SEARCHES:
        raise ArgumentError(f"search={search!r} is unknown; the searches are {', '.join(SEARCHES)}")


def check_minutes(minutes: Any) -> None:
    """Raises `ArgumentError` unless the time is None or positive."""
    if minutes is not None and not (_is_number(minutes) and minutes > 0):
        raise ArgumentError(f"minutes must be more than 0, not {minutes!r}")


def check_tolerance(tolerance: Any) -> None:
    """Raises `ArgumentError` unless the tolerance is None or a finite non-negative number."""
    if tolerance is not None and not (_is_number(tolerance) and 0 <= tolerance < math.inf):
        raise ArgumentError(f"tolerance must be a number from 0 on, such as 1e-3, not {tolerance!r}")


def check_workers(workers: Any, tls: Any = None) -> None:
    """Raises `ArgumentError` unless the address is None or a string, and for invalid certificates, or ones without a tls:// address."""
    if workers is not None and not isinstance(workers, str):
        raise ArgumentError(
            f'workers is the address of a dask scheduler, such as "tcp://host:8786", not {workers!r}; '
            "builders= says how many processes compile on this machine"
        )
    if tls is None:
        return
    if not isinstance(tls, Mapping) or set(tls) != set(TLS):
        raise ArgumentError(f'tls is a table of three files, {{"ca": …, "cert": …, "key": …}}, not {shown(tls)}')
    if workers is None or not workers.startswith("tls://"):
        raise ArgumentError(f"with certificates the address of the workers begins with tls://, unlike {workers!r}")
    for name in TLS:
        _check_pem(tls[name], f"tls: the file {name!r}, {shown(str(tls[name]))},")


def _check_pem(path: Any, what: str) -> None:
    try:
        if b"-----BEGIN " not in read_bytes(path):
            raise Unreadable("the file has no -----BEGIN line, which every PEM file has")
    except (Unreadable, TypeError) as error:
        raise ArgumentError(f"{what} cannot be used: {error}") from None


def check_runs_here(target: Target) -> None:
    """Raises `TargetError` for a target whose code this machine cannot run."""
    if not target.runs_here:
        raise TargetError(
            f"this machine cannot run code for {target}, so it cannot measure any: give workers= that can, or trials=0, "
            "which runs nothing"
        )


def settings_of(kind: type[Settings], given: Any, name: str) -> Settings:
    """`Limits` or a `Protocol` from an instance, from a mapping of its fields, or the default for None."""
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    known = {field.name: field.type for field in fields(kind)}
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f'{name} is a table, such as {{"{next(iter(known))}": 1}}, not {given!r}; its keys are {", ".join(known)}'
        )
    for key, value in given.items():
        if key not in known:
            raise ArgumentError(f"{name} has no key {key!r}; its keys are {', '.join(known)}")
        if known[key] == "int":
            whole_number(value, f"{name}: {key}")
        elif not (_is_number(value) and value >= 0):
            raise ArgumentError(f"{name}: {key} must be a number from 0 on, not {value!r}")
    return kind(**given)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
