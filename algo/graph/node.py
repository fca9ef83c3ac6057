"""Nodes are immutable and interned. Building an equal node twice gives the same object: `is` is equality, sharing is free."""

from __future__ import annotations

import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]  # as `WeakValueDictionary` removes entries
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeVar

from raido.algo.graph.dtypes import DType

_table: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
_references: dict[tuple[Any, ...], weakref.ref[Node]] = _table.data  # type: ignore[attr-defined]
_forget: Any = _table._remove  # type: ignore[attr-defined]
_makers: dict[type, Callable[..., Any]] = {}


class _Reference(weakref.ref):  # type: ignore[type-arg]
    """An entry of the table, as `WeakValueDictionary` makes them, made without a call of Python's."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


class NodeTable:
    """Nodes by what they were made of. An entry does not keep its node alive: it lasts as long as something else does."""

    __slots__ = ("_forget", "_references")

    def __init__(self) -> None:
        table: weakref.WeakValueDictionary[Any, Node] = weakref.WeakValueDictionary()
        self._references: dict[Any, weakref.ref[Node]] = table.data  # type: ignore[attr-defined]
        self._forget: Any = table._remove  # type: ignore[attr-defined]

    def get(self, key: Any) -> Any:
        """The node of that key, if it lives."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def keep(self, key: Any, node: Node) -> None:
        """Enters a node; the key may refer to nodes below it, not to it."""
        made = _Reference(node, self._forget)
        made.key = key
        self._references[key] = made


class _Interned(type):
    """Calling a node class with equal fields gives the same node."""

    def __call__(cls, *args: Any) -> Any:
        key = (cls, *args)
        reference = _references.get(key)
        node = None if reference is None else reference()
        if node is not None:
            return node
        node = (_makers.get(cls) or _maker(cls))(*args)
        made = _Reference(node, _forget)
        made.key = key
        while (kept := _references.setdefault(key, made)) is not made:  # another thread's, or one whose node is no more
            other = kept()
            if other is not None:
                return other
            _remove_dead_weakref(_references, key)
        return node


def _maker(cls: type) -> Callable[..., Any]:
    """A function that makes a node of a class of its fields: one that dataclasses write looks each field up by its name, in three times as
    long."""
    names = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    known = {f"set_{name}": getattr(cls, name).__set__ for name in names}
    known |= {f"default_{name}": value for name, value in names.items()} | {"new": object.__new__, "cls": cls}
    parameters = [name if value is MISSING else f"{name}=default_{name}" for name, value in names.items()]
    body = ["node = new(cls)", *(f"set_{name}(node, {name})" for name in names), "return node"]
    exec(f"def make({', '.join(parameters)}):\n " + "\n ".join(body), known)
    _makers[cls] = known["make"]
    return _makers[cls]


class Node(metaclass=_Interned):
    """Base of all nodes: equality and hash are identity. Fields are positional, and tuples where there are several.

    A node never changes, so it keeps what is asked of it again and again, from the first time on: the nodes below and its free variables
    (`rewrite`), its linear terms, canonical form (None: itself, as a node that held itself would live on), text, whether a minimum or a
    maximum is in it, and whether it is made of counters and sizes (`index`), whether it is arithmetic on sizes (`size_numbers`), how many
    lanes it has (`schedule/nest/values.py`).
    """

    __slots__ = (
        "__weakref__",
        "_below",
        "_canonical",
        "_extremes",
        "_free",
        "_is_count",
        "_lanes",
        "_linear",
        "_mentions_size",
        "_scalars_below",
        "_text",
    )
    FIELDS: ClassVar[tuple[str, ...]]
    _below: tuple[Node, ...]
    _scalars_below: tuple[Node, ...]
    _linear: tuple[int, dict[Any, int]]
    _canonical: Node | None
    _extremes: bool
    _free: frozenset[Any]
    _is_count: bool
    _mentions_size: bool | None
    _lanes: int
    _text: str

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, name) for name in field_names(type(self))))


class Opaque(Node):
    """A scalar that a later stage adds (a read of memory, a value with lanes); the graph knows no more of it than its type."""

    __slots__ = ()
    dtype: DType


N = TypeVar("N", bound=Node)


def field_names(cls: type[Node]) -> tuple[str, ...]:
    """The names of a node class's fields, in order."""
    names = cls.__dict__.get("FIELDS")
    if names is None:
        names = tuple(f.name for f in fields(cls))  # type: ignore[arg-type]
        cls.FIELDS = names
    return names


def with_fields(node: N, **changed: Any) -> N:
    """The node with other values for some of its fields."""
    return type(node)(*[changed[name] if name in changed else getattr(node, name) for name in field_names(type(node))])


node = dataclass(frozen=True, eq=False, slots=True, repr=False)
