"""Records: elements with named fields, `Vec = rd.record(x=rd.f32, y=rd.f32)`; an array of them is a structure of arrays.

A record is a tuple with named fields, so every combinator takes it as it takes tuples: leaf by leaf. `v.x` reads a field, for an array of
records the array of that field; `records[key]` indexes every field. Outside of algorithms an array of records is a dict of arrays, or a
NumPy structured array, which is copied. Records with equal fields have one class.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from raido.algo.errors import DTypeError, TraceError
from raido.algo.graph.dtypes import DType
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.dtype_reading import find_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.remedies import near_names
from raido.algo.trace.tracebacks import bordered
from raido.algo.trace.trees import leaves, map_leaves, parts_of, rebuild_tuple
from raido.algo.trace.types import ArrayType
from raido.algo.trace.value import Array


class Record(NearAttributes, tuple):
    """The base class of records, which are made from their fields by name or position: `Vec(x=1.0, y=0.0)`; literals take the field's
    dtype."""

    __slots__ = ()
    _display_name = "record"
    _site = "algorithm"
    _fields: ClassVar[tuple[str, ...]] = ()
    _types: ClassVar[tuple[Any, ...]] = ()

    def __new__(cls, *values: Any, **named: Any) -> Record:
        if len(values) > len(cls._fields):
            raise TraceError(complaint(f"{len(values)} values for the fields {', '.join(cls._fields)}"))
        given = dict(zip(cls._fields, values, strict=False))
        for name, value in named.items():
            if name not in cls._fields or name in given:
                problem = "given twice" if name in given else f"no field; there are {', '.join(cls._fields)}"
                raise TraceError(complaint(f"{name!r} is {problem}"))
            given[name] = value
        missing = [name for name in cls._fields if name not in given]
        if missing:
            raise TraceError(complaint(f"the field {missing[0]!r} is missing"))
        fields = zip(cls._fields, cls._types, strict=True)
        return cls._make(_field(name, kind, given[name]) for name, kind in fields)

    def _meant(self, name: str) -> str | None:
        return None if near_names(name, self._fields) else f"its fields: {', '.join(self._fields)}"

    @classmethod
    def _make(cls, parts: Iterable[Any]) -> Any:
        """Returns a record of values without conversion."""
        return tuple.__new__(cls, parts)

    def __class_getitem__(cls, shape: Any) -> Any:
        """Returns the type of an array of these records: `Vec["n"]`."""
        return cls._make(kind[shape] for kind in cls._types)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in self._fields:
            return getattr(self, key)
        from raido.algo.language.indexing import index_structure

        return index_structure(self, key)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self._fields, tuple(self)))

    def __repr__(self) -> str:
        return f"record({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self, strict=True))})"

    def __add__(self, other: Any) -> Any:
        raise TraceError(complaint("arithmetic of records", remedy="build one from its fields: Vec(x=a.x + b.x, …)"))

    __radd__ = __mul__ = __rmul__ = __lt__ = __le__ = __gt__ = __ge__ = __add__

    def replace(self, **fields: Any) -> Any:
        """Returns the record with some fields replaced."""
        return type(self)(**{**dict(zip(self._fields, self, strict=True)), **fields})

    def like(self, value: Any) -> Any:
        """Returns a value to be stored among these records; raises `TraceError` where it is no record."""
        if not isinstance(value, tuple):
            raise TraceError(complaint(f"{value!r} among records", remedy="a record with the same fields"))
        return value

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the array of records; () for one record."""
        return leaves(self)[0].shape

    @property
    def ndim(self) -> int:
        """The rank of the array of records."""
        return leaves(self)[0].ndim

    @property
    def at(self) -> RecordAt:
        """The updates of these records: `records.at[key].set(record)` replaces every field at the key."""
        return RecordAt(self)

    def reshape(self, *shape: Any) -> Any:
        """Returns the records with every field in another shape."""
        return map_leaves(lambda leaf: leaf.reshape(*shape), self)

    def flatten(self) -> Any:
        """Returns the records with every field in one dimension, row-major."""
        return map_leaves(lambda leaf: leaf.flatten(), self)

    @property
    def T(self) -> Any:
        """The records with the axes of every field in reverse order."""
        return map_leaves(lambda leaf: leaf.T, self)


@bordered
class RecordAt(NearAttributes):
    """The form `records.at`, then `records.at[key]`, which an update completes."""

    __slots__ = ("key", "records")
    _display_name = "records.at[key]"
    _site = "algorithm"

    def __init__(self, records: Record, key: Any = None) -> None:
        self.records, self.key = records, key

    def __getitem__(self, key: Any) -> RecordAt:
        return RecordAt(self.records, key)

    def set(self, value: Any, *, name: str | None = None) -> Any:
        """Returns the records with `value` at the key."""
        return self._changed("set", value, name)

    def add(self, value: Any, *, name: str | None = None) -> Any:
        """Returns the records with `value` added at the key, field by field."""
        return self._changed("add", value, name)

    def _changed(self, method: str, value: Any, name: str | None) -> Any:
        new = self.records.like(value)
        return map_leaves(lambda leaf, part: getattr(leaf.at[self.key], method)(part, name=name), self.records, new)


def record(**fields: Any) -> Any:
    """Returns a class of records with these fields: dtypes, or other records.

    `Vec(x=…, y=…)` makes a record inside an algorithm, and raises `DTypeError` where a value has another dtype than its field. In
    annotations `Vec["n"]` is the type of an array of records, `Vec` that of one.

    Example:
        >>> import numpy as np, raido as rd
        >>> Vec = rd.record(x=rd.f32, y=rd.f32)
        >>> @rd.algorithm
        ... def turned(v: Vec["n"]):
        ...     return rd.map(lambda p: Vec(x=-p.y, y=p.x), v)
        >>> turned.interpret({"x": np.float32([1, 2]), "y": np.float32([3, 4])})
        {'x': array([-3., -4.], dtype=float32), 'y': array([1., 2.], dtype=float32)}
    """
    if not fields:
        raise TraceError("a record has at least one field")
    types: dict[str, Any] = {}
    for name, kind in fields.items():
        is_record = isinstance(kind, type) and issubclass(kind, Record)
        types[name] = kind if is_record else find_dtype(kind)
        if not is_record and not isinstance(types[name], DType):
            raise TraceError(f"the field {name!r} of a record has a dtype such as rd.f32, or is a record, not {kind!r}")
        if name.startswith("_") or name == "replace":
            raise TraceError(f"a field of a record cannot be called {name!r}")
    return record_class(tuple(types), tuple(types.values()))


def as_records(value: Any, does: str = "returns") -> Any:
    """Returns a result, or an argument of an algorithm, in which every dict is a record of its values; outside, results are dicts again."""
    from raido.algo.trace.building import structure

    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
                raise TraceError(complaint(f"a dict that an algorithm {does} has names as keys, not {name!r}"))
        parts = [structure(as_records(part, does)) for part in value.values()]
        kinds = tuple(type(part) if isinstance(part, Record) else getattr(part, "dtype", None) for part in parts)
        return record_class(tuple(value), kinds)._make(parts)
    if isinstance(value, tuple) and not isinstance(value, Record):
        return rebuild_tuple(value, [as_records(part, does) for part in parts_of(value)])
    if isinstance(value, list):
        remedy = (
            "a tuple (a, b) for several values, rd.array([...]) for one array of scalars, rd.stack([...]) of arrays"
        )
        raise TraceError(complaint(f"an algorithm {does} no list", remedy=remedy))
    return value


@functools.cache
def record_class(names: tuple[str, ...], types: tuple[Any, ...]) -> Any:
    """Returns a class of records with these fields; equal fields give the same class."""
    members: dict[str, Any] = {"__slots__": (), "_fields": names, "_types": types}
    for k, name in enumerate(names):
        members[name] = property(lambda self, k=k: tuple.__getitem__(self, k), doc=f"The field {name!r}.")
    return type("Record", (Record,), members)


def _field(name: str, kind: Any, value: Any) -> Any:
    """Returns the value of a field, converted to its dtype; types and records are unchanged."""
    from raido.algo.language.moves import convert
    from raido.algo.trace.building import structure
    from raido.algo.trace.promotion import takes

    if not isinstance(kind, DType):
        if not isinstance(value, kind):
            raise DTypeError(complaint(f"the field {name!r} is a record with {', '.join(kind._fields)}"))
        return value
    if isinstance(value, ArrayType):
        return value
    given = structure(value)
    if not isinstance(given, Array):
        raise DTypeError(complaint(f"the field {name!r} is {kind}, not a tuple"))
    if given.dtype is kind:
        return given
    if not takes(given, kind):
        raise DTypeError(complaint(f"the field {name!r} is {kind}, not {given.dtype}", remedy=f"rd.{kind}(…)"))
    return convert(kind, given)
