"""Nodes are immutable and interned (hash-consed): building an equal node twice gives the same object, so `is` is equality."""

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
    """A weak reference in the table, like `WeakValueDictionary`'s, but made without a Python-level call."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


class NodeTable:
    """A table of nodes by key with weak values: an entry lasts while something else refers to its node."""

    __slots__ = ("_forget", "_references")

    def __init__(self) -> None:
        table: weakref.WeakValueDictionary[Any, Node] = weakref.WeakValueDictionary()
        self._references: dict[Any, weakref.ref[Node]] = table.data  # type: ignore[attr-defined]
        self._forget: Any = table._remove  # type: ignore[attr-defined]

    def get(self, key: Any) -> Any:
        """The node of that key, or None."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def keep(self, key: Any, node: Node) -> None:
        """Stores a node; the key may refer to its operands, not to the node itself."""
        made = _Reference(node, self._forget)
        made.key = key
        self._references[key] = made


class _Interned(type):
    """Metaclass that interns: a call with equal fields returns the same node."""

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
    """A constructor generated for a node class, three times as fast as the dataclass's, which looks up each field by name."""
    names = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    known = {f"set_{name}": getattr(cls, name).__set__ for name in names}
    known |= {f"default_{name}": value for name, value in names.items()} | {"new": object.__new__, "cls": cls}
    parameters = [name if value is MISSING else f"{name}=default_{name}" for name, value in names.items()]
    body = ["node = new(cls)", *(f"set_{name}(node, {name})" for name in names), "return node"]
    exec(f"def make({', '.join(parameters)}):\n " + "\n ".join(body), known)
    _makers[cls] = known["make"]
    return _makers[cls]


class Node(metaclass=_Interned):
    """Base class of all nodes: equality and hash are identity. Fields are positional, and tuples where there are several.

    A node never changes, so it caches derived properties: its operands and free variables (`rewrite`), its linear form, canonical form
    (None: itself, since a reference to itself would keep a node alive), text, whether it contains a minimum or maximum, and whether it
    consists of counters and sizes (`index`), whether it is arithmetic on sizes (`size_numbers`), its number of lanes
    (`schedule/nest/values.py`).
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
    """Base class of scalars that later layers add (a read of memory, a value with lanes); the graph knows their dtype only."""

    __slots__ = ()
    dtype: DType


N = TypeVar("N", bound=Node)


def field_names(cls: type[Node]) -> tuple[str, ...]:
    """Names of a node class's fields, in order."""
    names = cls.__dict__.get("FIELDS")
    if names is None:
        names = tuple(f.name for f in fields(cls))  # type: ignore[arg-type]
        cls.FIELDS = names
    return names


def with_fields(node: N, **changed: Any) -> N:
    """The node with some of its fields replaced."""
    return type(node)(*[changed[name] if name in changed else getattr(node, name) for name in field_names(type(node))])


node = dataclass(frozen=True, eq=False, slots=True, repr=False)
