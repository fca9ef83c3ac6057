"""Names of the parts of a loop's state, taken from its body, for messages: `m` in `lambda i, m: …`; `s[1]`, or the names in `a, b = s`."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from raido.algo.graph.program import OF_RAIDO
from raido.algo.trace.locations import is_internal
from raido.algo.trace.trees import is_number, leaves, parts_of

Target: TypeAlias = "str | list[Target]"


def state_names(body: Callable[..., Any], state: Any) -> list[str]:
    """Returns a name for each array of a state, in order; none where the body is no Python function, a common one for raido's own bodies."""
    code = getattr(body, "__code__", None)
    if code is None or not code.co_argcount:
        return []
    if is_internal(code.co_filename):
        return [OF_RAIDO for _ in leaves(state)]
    own = code.co_varnames[code.co_argcount - 1]  # the state is the last argument
    return list(_names_of_parts(_unpacked(code, own) or own, own, state))


def _names_of_parts(target: Target, name: str, value: Any) -> Iterator[str]:
    """Yields the names of a value's parts, from the target of an assignment; `name` is the value's own name where the target has none."""
    if isinstance(target, str):
        name = target
    if not isinstance(value, tuple) or is_number(value):
        yield from (name for _ in leaves(value))
        return
    parts, fields = tuple(parts_of(value)), getattr(value, "_fields", None)
    for k, part in enumerate(parts):
        plain = f"{name}.{fields[k]}" if fields else f"{name}[{k}]"
        yield from _names_of_parts(
            target[k] if isinstance(target, list) and len(target) == len(parts) else plain, plain, part
        )


def _unpacked(code: Any, name: str) -> Target:
    """Returns the left side of the first assignment `a, b = name` in some code; empty where there is none."""
    instructions = list(dis.get_instructions(code))
    for k, (before, here) in enumerate(pairwise(instructions)):
        if here.opname == "UNPACK_SEQUENCE" and before.opname.startswith("LOAD_") and before.argval == name:
            return _target(_stores(instructions[k + 1 :]))
    return []


def _target(stores: Iterator[str | int]) -> Target:
    following = next(stores, "")
    return [_target(stores) for _ in range(following)] if isinstance(following, int) else following


def _stores(instructions: Sequence[dis.Instruction]) -> Iterator[str | int]:
    """Yields the names that successive instructions store to, and the length of each tuple unpacked among them. Python 3.13 stores two at
    once."""
    for each in instructions:
        if each.opname == "UNPACK_SEQUENCE":
            yield int(each.argval)
        elif each.opname.startswith("STORE_") and "LOAD" not in each.opname:
            yield from each.argval if isinstance(each.argval, tuple) else (str(each.argval),)
        else:
            yield from each.argval[:1] if each.opname.startswith("STORE_") else ()
            return
