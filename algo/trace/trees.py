"""Nested tuples and NamedTuples of values: flattening, rebuilding, and their JSON description in a `Program`.

A description is an int (the position of a leaf), {"tuple": [...]}, {"namedtuple": {"name": name, "fields": {field: …}}}, {"record": {field:
…}}, or {"size": name} where an argument is a plain size.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeGuard

_classes: dict[tuple[str, tuple[str, ...]], type] = {}


def parts_of(value: tuple[Any, ...]) -> Iterator[Any]:
    """Returns the parts of a tuple; of a complex array the real and imaginary arrays, although users iterate it over its elements."""
    return tuple.__iter__(value)


def is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def is_number(value: Any) -> bool:
    """Whether a tuple is a single number to users, as complex numbers are."""
    return getattr(type(value), "is_number", False)


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a sequence to users: a list or a plain tuple, but no record and no complex number."""
    return isinstance(value, list) or (isinstance(value, tuple) and not hasattr(type(value), "_types"))


def rebuild_tuple(like: tuple[Any, ...], parts: Iterable[Any]) -> tuple[Any, ...]:
    """Returns a tuple of the same class with other parts."""
    return type(like)._make(parts) if is_namedtuple(like) else tuple(parts)  # type: ignore[attr-defined]


def leaves(value: Any) -> list[Any]:
    """Returns the leaves of nested tuples, in order."""
    if isinstance(value, tuple):
        return [leaf for part in parts_of(value) for leaf in leaves(part)]
    return [value]


def map_leaves(change: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Returns the same nesting with `change` applied to every leaf (and to the corresponding leaves of `others`)."""
    if isinstance(value, tuple):
        sides = map(parts_of, (value, *others))
        return rebuild_tuple(value, (map_leaves(change, *parts) for parts in zip(*sides, strict=True)))
    return change(value, *others)


def unflatten(like: Any, flat: Iterable[Any]) -> Any:
    """Returns the leaves `flat` in the nesting of `like`."""
    rest = iter(flat)
    return map_leaves(lambda _: next(rest), like)


def same_nesting(a: Any, b: Any) -> bool:
    """Whether two values nest in the same way (a NamedTuple like a tuple; a complex number is no tuple of two)."""
    if isinstance(a, tuple) != isinstance(b, tuple) or is_number(a) != is_number(b):
        return False
    return not isinstance(a, tuple) or (
        tuple.__len__(a) == tuple.__len__(b)
        and all(same_nesting(x, y) for x, y in zip(parts_of(a), parts_of(b), strict=True))
    )


def describe_tree(value: Any, first: int = 0) -> Any:
    """Returns the JSON description of a value's nesting, with its leaves numbered from `first`."""
    return _describe(value, iter(range(first, first + len(leaves(value)))))


def _describe(value: Any, numbers: Any) -> Any:
    if not isinstance(value, tuple):
        return next(numbers)
    parts = [_describe(part, numbers) for part in parts_of(value)]
    if not is_namedtuple(value):
        return {"tuple": parts}
    kind: Any = type(value)
    if hasattr(kind, "_types"):
        return {"record": dict(zip(kind._fields, parts, strict=True))}
    _classes.setdefault((kind.__name__, kind._fields), kind)
    return {"namedtuple": {"name": kind.__name__, "fields": dict(zip(kind._fields, parts, strict=True))}}


def branches(kind: str, body: Any) -> list[Any]:
    """Returns the subtrees of a description {kind: body}, in order."""
    if kind == "tuple":
        return list(body)
    return list({"record": body, "namedtuple": body.get("fields")}[kind].values())


def build_tree(tree: Any, flat: Sequence[Any]) -> Any:
    """Returns the value with the given description and leaves."""
    if isinstance(tree, int):
        return flat[tree]
    if "tuple" in tree:
        return tuple(build_tree(part, flat) for part in tree["tuple"])
    if "record" in tree:
        return {name: build_tree(part, flat) for name, part in tree["record"].items()}
    name, fields = tree["namedtuple"]["name"], tree["namedtuple"]["fields"]
    key = (name, tuple(fields))
    if key not in _classes:
        _classes[key] = namedtuple(name, tuple(fields))
    return _classes[key](*(build_tree(part, flat) for part in fields.values()))
