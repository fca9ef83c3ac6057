"""Types of an algorithm's parameters, read from its Python signature and from the arguments of a call.

Positional parameters are arrays, sizes or tuples of them; a parameter without a type takes dtype and rank from its argument. Keyword-only
parameters are static. Types come from annotations (also as strings under `from __future__ import annotations`) or from the decorator's
keywords.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

import numpy as np

from raido.algo.errors import ArgumentError, TraceError, explain
from raido.algo.graph.dtypes import dtype_of, f32, f64
from raido.algo.graph.expr import SizeVar
from raido.algo.graph.rewrite import topological
from raido.algo.language.records import Record, record_class
from raido.algo.trace.argument_errors import counted, no_array_remedy, traced_remedy
from raido.algo.trace.arguments import fields_of, read_array
from raido.algo.trace.dtype_reading import find_dtype
from raido.algo.trace.foreign import is_elsewhere
from raido.algo.trace.remedies import near_names
from raido.algo.trace.types import ArrayType, ComplexArrayType, SizeType, Type, as_type
from raido.algo.trace.value import Array


@dataclass(frozen=True, slots=True)
class Declaration:
    """A positional parameter: its name and its type, None where the argument determines it."""

    name: str
    type: Type | None


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of an algorithm and its declared result type, if any."""

    positional: tuple[Declaration, ...]
    defaults: Mapping[str, Any]
    required: frozenset[str]
    result: Type | None


def read_signature(function: Callable[..., Any], types: Mapping[str, Any]) -> Signature:
    """Returns the signature of a function; types given to the decorator take precedence over annotations."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise TraceError(f"the parameters of {function!r} are not known: write a function around it") from None
    known = {*parameters, "returns", "name"}
    for name in types:
        if name not in known:
            near = ", ".join(f"{word}=" for word in near_names(name, {*known, "contract"}))
            head = f"{function.__name__} has no parameter {name!r}: it has {', '.join(parameters) or 'none'}"
            raise TraceError(explain(head, **{"try": near or None}))
    positional: list[Declaration] = []
    defaults: dict[str, Any] = {}
    required: set[str] = set()
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind == parameter.VAR_POSITIONAL else "**"
            said = f"{function.__name__}: an algorithm cannot take {stars}{parameter.name}"
            raise TraceError(explain(said, **{"try": "one parameter that is a tuple, or a dict: f((a, b))"}))
        if parameter.kind == parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty:
                required.add(parameter.name)
            else:
                defaults[parameter.name] = parameter.default
            continue
        if parameter.default is not parameter.empty:
            raise TraceError(
                f"{function.__name__}: the parameter {parameter.name!r} has a default; "
                "make it keyword-only (static) with `*` before it"
            )
        declared = types.get(parameter.name)
        if declared is None:
            annotation = _evaluated(function, parameter.annotation)
            declared = None if annotation is parameter.empty else annotation
        positional.append(Declaration(parameter.name, _type(function, parameter.name, declared)))
    returned = types.get("returns", getattr(function, "__annotations__", {}).get("return"))
    result = as_type(_evaluated(function, returned)) if returned is not None else None
    return Signature(tuple(positional), defaults, frozenset(required), result)


def _type(function: Callable[..., Any], name: str, declared: Any) -> Type | None:
    if (
        declared is None
        or declared is Any
        or declared is Array
        or getattr(declared, "__name__", "") in ("Array", "ndarray")
        or (get_origin(declared) is tuple and as_type(declared) is None)
    ):
        return None
    found = as_type(declared)
    if found is None and not isinstance(declared, tuple):
        raise TraceError(
            f"{function.__name__}: the type of {name!r} is {declared!r}; "
            'write rd.f32["h", "w"], rd.size, a tuple of these, a dict of them by name, or none'
        )
    return found


def _evaluated(function: Callable[..., Any], annotation: Any) -> Any:
    """Returns the value of an annotation that is kept as text."""
    if not isinstance(annotation, str):
        return annotation
    inner = inspect.unwrap(function)
    closure = inspect.getclosurevars(inner).nonlocals if hasattr(inner, "__code__") else {}
    try:
        return eval(annotation, getattr(inner, "__globals__", {}), dict(closure))
    except NameError:
        try:
            return as_type(annotation)
        except TraceError:
            return None


def type_of(argument: Any, name: str, call: bool = False) -> Type | ArrayType:
    """Returns the type of an argument for a parameter without one, with sizes named after the parameter; in a call, types are refused."""
    if not call and is_type(argument) and not isinstance(argument, tuple):
        found = as_type(argument)
        assert found is not None
        return found
    if isinstance(argument, tuple):
        make = getattr(type(argument), "_make", tuple)  # records and named tuples keep their names
        return make(type_of(part, f"{name}_{k}", call) for k, part in enumerate(argument))
    if isinstance(argument, Array) and call:
        remedy = traced_remedy()
        raise ArgumentError(explain(f"argument {name!r} is a traced value; an array is expected", **{"try": remedy}))
    if isinstance(argument, Array):
        return ArrayType(argument.dtype, argument.extents)
    fields = fields_of(argument)
    if fields is not None:
        parts = [type_of(fields[field], name, call) for field in fields]
        kinds = tuple(type(part) if isinstance(part, Record) else getattr(part, "dtype", None) for part in parts)
        return record_class(tuple(fields), kinds)._make(parts)
    array = argument if is_elsewhere(argument) else as_array(argument, name)
    if array.dtype in _PARTS:
        return ComplexArrayType(_PARTS[array.dtype], tuple(SizeVar(f"{name}_{k}") for k in range(array.ndim)))
    dtype = dtype_of(array.dtype)
    if dtype is None:
        raise ArgumentError(f"argument {name!r} has the dtype {array.dtype}, which raido does not have")
    return ArrayType(dtype, tuple(SizeVar(f"{name}_{k}") for k in range(array.ndim)))


def as_array(argument: Any, name: str) -> np.ndarray:
    """Returns an argument as a NumPy array, without a copy where possible; raises `ArgumentError` where it is no array of numbers."""
    if isinstance(argument, np.ma.MaskedArray):
        raise ArgumentError(f"argument {name!r} is a masked array\n  try       {name}.filled(…)")
    try:
        array = read_array(argument)
    except (ArgumentError, ValueError, OverflowError) as error:
        raise ArgumentError(explain(f"argument {name!r} is a {type(argument).__name__}", why=str(error))) from error
    if array is None or array.dtype.kind in "OSU":
        came = f"{type(argument).__name__}{'' if array is None else f' of dtype {array.dtype}'}"
        said = f"argument {name!r} is a {came}; an array of numbers is expected"
        raise ArgumentError(explain(said, **{"try": no_array_remedy(argument)}))
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_type(argument: Any) -> bool:
    """Whether an argument of `trace` is a type instead of an array."""
    if isinstance(argument, tuple):
        return any(is_type(part) for part in argument)
    if isinstance(argument, dict):
        return any(is_type(part) for part in argument.values())
    if isinstance(argument, (ArrayType, ComplexArrayType, SizeType, str)):
        return True
    return find_dtype(argument) is not None or (isinstance(argument, type) and issubclass(argument, Record))


def resolve_types(
    signature: Signature, arguments: Sequence[Any], function: str, call: bool = False, form: str = "trace({})"
) -> tuple[Type, ...]:
    """Returns the type of every positional parameter for these arguments; without arguments, and outside of calls, the declared types.

    `form` is the method that the user called, as messages write it.
    """
    declared = signature.positional
    if not arguments and declared and not call:
        missing = [d.name for d in declared if d.type is None]
        if missing:
            types = ", ".join(['rd.f32["n"]'] * len(declared))
            types += "," * ("like" in form and len(declared) == 1)
            raise ArgumentError(
                explain(
                    f"{function}: the type of {missing[0]!r} is not declared",
                    **{"try": f"{function}.{form.format(types)}: for each parameter its type, or an example"},
                )
            )
        return tuple(d.type for d in declared)  # type: ignore[misc]
    if len(arguments) != len(declared):
        raise ArgumentError(count_complaint(function, signature, len(arguments)))
    return tuple(
        type_of(argument, d.name, call) if d.type is None or (is_type(argument) and not call) else d.type
        for d, argument in zip(declared, arguments, strict=True)
    )


def count_complaint(function: str, signature: Signature, count: int) -> str:
    """Returns the message for a call whose number of arguments differs from the number of positional parameters."""
    names = [declaration.name for declaration in signature.positional]
    statics = sorted({*signature.defaults, *signature.required}) if count > len(names) else []
    by_name = f"; by name: {', '.join(f'{name}=' for name in statics)}" if statics else ""
    missing = f"; {names[count]!r} is missing" if count < len(names) else ""
    if names[:1] == ["self"]:
        missing = (
            "; in a class an algorithm is a @staticmethod, without self: what it needs of the object are arguments"
        )
    return f"{function} takes {counted(len(names), 'argument')} ({', '.join(names) or 'none'}), not {count}{by_name}{missing}"


@dataclass(frozen=True, slots=True)
class Expected:
    """An array that a parameter expects: its name, NumPy's name of its dtype, its shape, and its type as text."""

    name: str
    dtype: str
    shape: tuple[Any, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Takes:
    """The expected arguments of an algorithm for one set of types, in the form that `match_arguments` reads."""

    name: str
    inputs: tuple[Expected, ...]
    input_tree: Any


def takes_of(function: str, types: Sequence[Type], names: Sequence[str]) -> Takes:
    """Returns the expected arguments of an algorithm whose parameters have these types."""
    inputs: list[Expected] = []

    def expect(declared: Type, name: str) -> Any:
        if isinstance(declared, SizeType):
            return {"size": name}
        if isinstance(declared, tuple):
            own = names_of(declared)
            trees = [expect(part, f"{name}_{label}") for label, part in zip(own, declared, strict=True)]
            return {"record": dict(zip(own, trees, strict=True))} if isinstance(declared, Record) else {"tuple": trees}
        is_complex = isinstance(declared, ComplexArrayType)
        dtype = f"complex{2 * declared.dtype.bits}" if is_complex else declared.dtype.numpy_name
        inputs.append(Expected(name, dtype, declared.shape, repr(declared)))
        return len(inputs) - 1

    trees = [expect(declared, name) for declared, name in zip(types, names, strict=True)]
    return Takes(function, tuple(inputs), {"tuple": trees})


_PARTS = {np.dtype("complex64"): f32, np.dtype("complex128"): f64}


def names_of(declared: tuple[Any, ...]) -> Sequence[Any]:
    """Returns the keys of a tuple's parts: field names for a record, else positions."""
    return declared._fields if isinstance(declared, Record) else range(len(declared))


def split_parts(array: np.ndarray) -> np.ndarray:
    """Returns a contiguous complex array as floats in the same memory, with a last dimension of 2; other arrays unchanged."""
    part = _PARTS.get(array.dtype)
    return array if part is None else array.reshape(-1).view(part.numpy).reshape(*array.shape, 2)


def join_parts(array: np.ndarray) -> np.ndarray:
    """Returns an array of floats with a last dimension of 2 as a complex array, in the same memory if it is contiguous."""
    flat = np.ascontiguousarray(array).reshape(-1).view(f"complex{16 * array.dtype.itemsize}")
    return flat.reshape(array.shape[:-1])


def size_variables(types: Sequence[Type], names: Sequence[str]) -> list[SizeVar]:
    """Returns the size variables of a signature in the order of their first appearance."""
    found: dict[SizeVar, None] = {}

    def visit(declared: Type, name: str) -> None:
        if isinstance(declared, tuple):
            for label, part in zip(names_of(declared), declared, strict=True):
                visit(part, f"{name}_{label}")
        elif isinstance(declared, SizeType):
            found[SizeVar(name)] = None
        else:
            for extent in declared.shape:
                found.update((node, None) for node in topological(extent) if isinstance(node, SizeVar))

    for declared, name in zip(types, names, strict=True):
        visit(declared, name)
    return list(found)


def static_key(value: Any) -> Any:
    """Returns a hashable key of a static value; keys are equal where the values are."""
    if isinstance(value, np.ndarray):
        return ("ndarray", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(static_key(part) for part in value))
    if isinstance(value, dict):
        return (dict, tuple((key, static_key(part)) for key, part in value.items()))
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(f"a static parameter must be hashable, not {type(value).__name__}") from None
    return (type(value), repr(value) if isinstance(value, float) else value)
