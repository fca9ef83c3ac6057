"""Array types in the user's notation: `rd.f32["h", "w"]`, `rd.f32`, `"f32[h, w + 1]"`, `rd.size`, tuples of these, and `Annotated[rd.Array,
"f32[h, w + 1]"]`, which type checkers read as `rd.Array`.

A dimension is a name, an int, or an expression of names in a string (`+ - * // % min max`). Types are plain data; `signature.py` applies
them to arguments. Importing this module gives `DType` its subscript.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias, get_args, get_origin

from raido.algo.documents import shown
from raido.algo.errors import ArgumentError, ShapeError, TraceError, explain
from raido.algo.graph import index
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Expr, SizeVar
from raido.algo.graph.read_sizes import read_extent
from raido.algo.graph.size_text import LARGEST, magnitude, parse_size_text
from raido.algo.trace.dtype_reading import find_dtype
from raido.algo.trace.trees import rebuild_tuple


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type `dtype[shape]`; the shape holds sizes in canonical form. Rank 0 is a scalar."""

    dtype: DType
    shape: tuple[Expr, ...]

    def __repr__(self) -> str:
        return describe(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class ComplexArrayType:
    """The type of an array of complex numbers with parts of `dtype`; rank 0 is one number."""

    dtype: DType
    shape: tuple[Expr, ...]

    def __repr__(self) -> str:
        name = f"complex{2 * self.dtype.bits}"
        return f"{name}[{', '.join(index.text(extent) for extent in self.shape)}]" if self.shape else name


@dataclass(frozen=True, slots=True)
class SizeType:
    """The type of an int argument that serves as a size named after it, written `rd.size`; called, it is NumPy's function `size`."""

    def __call__(self, a: Any, axis: Any = None) -> Any:
        """Returns the number of elements of an array, or along `axis`, an int or a tuple: an int, or a size."""
        from raido.algo.language.reductions import normal_axes
        from raido.algo.trace.building import structure
        from raido.algo.trace.trees import leaves

        shape, count = leaves(structure(a))[0].shape, 1
        for k in normal_axes(axis, len(shape)):
            count = count * shape[k]
        return count

    if not TYPE_CHECKING:  # so that `rd.size[…]` is an error for type checkers, too

        def __getitem__(self, shape: Any) -> NoReturn:
            raise ArgumentError(explain("rd.size is one number", **{"try": 'rd.i64["n"] for an array of them'}))

    def __repr__(self) -> str:
        return "size"


size = SizeType()
Type: TypeAlias = ArrayType | ComplexArrayType | SizeType | tuple["Type", ...]


def describe(dtype: DType, shape: tuple[Expr, ...]) -> str:
    """Returns the text of a type: `f32[h, w]`, or `f32` for a scalar."""
    return f"{dtype}[{', '.join(map(read_extent, shape))}]" if shape else str(dtype)


def as_type(value: Any) -> Type | None:
    """Returns the type that an annotation denotes; None where it denotes none (`rd.Array`, no annotation)."""
    if isinstance(value, (ArrayType, ComplexArrayType, SizeType)):
        return value
    if isinstance(value, type) and hasattr(value, "_types"):
        return value[()]  # type: ignore[index]
    if isinstance(value, str):
        return parse_type(value)
    if get_origin(value) is Annotated:  # type checkers read the first argument
        return next((found for found in map(as_type, get_args(value)[1:]) if found is not None), None)
    if get_origin(value) is tuple:
        return as_type(get_args(value))
    if isinstance(value, tuple):
        parts = tuple(as_type(part) for part in value)
        return None if any(part is None for part in parts) else rebuild_tuple(value, parts)
    if isinstance(value, dict):
        return _record_type(value)
    dtype = find_dtype(value)
    return None if dtype is None else dtype[()]


def _record_type(fields: dict[Any, Any]) -> Type | None:
    """Returns the type of a dict of arrays, as a record of types; None where it is no dict of types by name."""
    from raido.algo.language.records import record_class

    parts = [as_type(part) for part in fields.values()]
    if not parts or any(part is None for part in parts) or not all(isinstance(name, str) for name in fields):
        return None
    kinds = tuple(type(part) if hasattr(part, "_types") else getattr(part, "dtype", None) for part in parts)
    found: Type = record_class(tuple(fields), kinds)._make(parts)
    return found


def with_products(sizes: str) -> str:
    """Returns the text of sizes with `2*n` for each `2n`."""
    return re.sub(r"(?<!\w)(\d+)\s*(?=[A-Za-z_(])", r"\1*", sizes)


def parse_type(text: str) -> Type:
    """Returns the type written as `f32[h, w]`, `f32`, `size`, or a tuple of them in parentheses."""
    if "..." in text:
        raise TraceError(explain(f"`...` in the type {shown(text)}", **{"try": _ANY_RANK}))
    try:
        return _type_of(parse_size_text(text), text)
    except (SyntaxError, RecursionError) as error:
        said = str(getattr(error, "msg", ""))
        why = f": {said}" if "never closed" in said or "unmatched" in said else ""
        dtype, bracket, sizes = text.partition("[")
        if not why and with_products(sizes) != sizes:
            written = f"{dtype}{bracket}{with_products(sizes)}"
            raise TraceError(f"cannot read the type {shown(text)}: a product is written {shown(written)}") from error
        raise TraceError(f"cannot read the type {shown(text)}{why}; write it like f32[h, w + 1]") from error


def _type_of(tree: ast.expr, text: str) -> Type:
    if isinstance(tree, ast.Tuple):
        return tuple(_type_of(part, text) for part in tree.elts)
    if isinstance(tree, ast.Name):
        return size if tree.id == "size" else _array_type(tree.id, (), text)
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        inside = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        return _array_type(tree.value.id, tuple(_size(part, text) for part in inside), text)
    raise TraceError(f"cannot read the type {text!r}; write it like f32[h, w + 1]")


_DTYPES = [
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "complex64",
    "complex128",
    "float32",
    "float64",
    "int32",
    "int64",
    "uint8",
]


def _array_type(name: str, shape: tuple[Expr, ...], text: str) -> ArrayType | ComplexArrayType:
    dtype = find_dtype(name)
    if dtype is None:
        from raido.algo.trace.remedies import near_names  # for errors only

        meant = {"c64": "complex64", "c128": "complex128"}.get(name) or ", ".join(near_names(name, _DTYPES))
        raise TraceError(explain(f"there is no dtype {name!r} in the type {text!r}", **{"try": meant or None}))
    return ArrayType(dtype, shape) if isinstance(dtype, DType) else ComplexArrayType(dtype.part, shape)


def _size(tree: ast.expr, text: str) -> Expr:
    """Returns the size of a syntax tree; raises `ShapeError` for a number outside i64, a size below 0 and a division by 0."""
    if magnitude(tree) > LARGEST:
        raise ShapeError(f"the numbers in the size {shown(text)} are beyond 64 bits")
    found = _dimension(tree, text)
    value = index.constant_value(found)
    if value is not None and value < 0:
        raise ShapeError(f"a size cannot be negative: {shown(text)} is {value}")
    return found


_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: index.add,
    ast.Sub: index.sub,
    ast.Mult: index.mul,
    ast.FloorDiv: index.floordiv,
    ast.Mod: index.mod,
}


def _dimension(tree: ast.expr, text: str) -> Expr:
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return index.as_index(tree.value)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        return parse_dimension(tree.value)
    if isinstance(tree, ast.Name):
        return SizeVar(tree.id)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
        left, right = _dimension(tree.left, text), _dimension(tree.right, text)
        if isinstance(tree.op, ast.FloorDiv | ast.Mod) and index.constant_value(right) == 0:
            raise ShapeError(f"a division by zero in the size {shown(text)}")
        return _BINARY[type(tree.op)](left, right)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return index.mul(_dimension(tree.operand, text), -1)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("min", "max"):
        parts = [_dimension(part, text) for part in tree.args]
        if parts and not tree.keywords:
            return functools.reduce(index.minimum if tree.func.id == "min" else index.maximum, parts)
    raise ShapeError(f"cannot read a size in {shown(text)}: names, ints and + - * // % min max may stand in it")


_ANY_RANK = "no type for the parameter: each rank that comes is a signature of its own"


def parse_dimension(value: Any) -> Expr:
    """Returns a size from an annotation: an int, or a string such as `"n + 1"`."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        if value is Ellipsis:
            raise ShapeError(explain("`...` in a type", **{"try": _ANY_RANK}))
        said = f"a size in a type is a name, an int or an expression in a string, not {value!r}"
        raise ShapeError(explain(said, **{"try": 'rd.f32["h", "w"]: each size has a name'}))
    if isinstance(value, int):
        if value < 0:
            raise ShapeError(f"a size cannot be negative: {value}")
        if value > LARGEST:
            raise ShapeError(f"the size {shown(str(value))} is beyond 64 bits")
        return index.as_index(value)
    if value.strip() == "...":
        raise ShapeError(explain("`...` in a type", **{"try": _ANY_RANK}))
    try:
        return _size(parse_size_text(value), value)
    except (SyntaxError, RecursionError) as error:
        if (written := with_products(value)) != value and len(value) < 100:
            raise ShapeError(f"cannot read the size {shown(value)}: a product is written {shown(written)}") from error
        raise ShapeError(
            f'cannot read the size {shown(value)}; each dimension is a string of its own, as in rd.f32["h", "w"]'
        ) from error


def subscript_complex(part: DType, shape: Any) -> ComplexArrayType:
    """Returns `rd.complex64[shape]`, or the like for other parts."""
    dims = shape if isinstance(shape, tuple) else (shape,)
    return ComplexArrayType(part, tuple(parse_dimension(dim) for dim in dims))


def _subscript(dtype: DType, shape: Any) -> ArrayType:
    dims = shape if isinstance(shape, tuple) else (shape,)
    return ArrayType(dtype, tuple(parse_dimension(dim) for dim in dims))


DType.subscript = _subscript
