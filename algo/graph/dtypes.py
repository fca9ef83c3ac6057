"""Element types: one `DType` object for each, named as in the contract (`bool_, i8 … u64, f16, bf16, f32, f64`).

A `DType` is a singleton; compare with `is` or `==`. `rd.f32["h", "w"]` is an array type, `rd.f32(x)` a cast: the tracer defines both
through `DType.subscript` and `DType.convert`, so that this file stays at the bottom of the layers. bf16 is the upper half of an f32. NumPy
has no such type; `ml_dtypes` provides one, which is imported where bf16 first meets NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from raido.algo.trace.value import Array


class DType:
    """An element type: `.name`, `.numpy`, `.numpy_name`, `.bits`, `.itemsize` (bytes of one element in memory), and `.kind`, one of "b"
    (bool), "i", "u", "f"; `.is_float`, `.is_integer`."""

    __slots__ = ("_numpy", "bits", "is_float", "is_integer", "itemsize", "kind", "name", "numpy_name")
    subscript: ClassVar[Callable[[DType, Any], Any]]
    convert: ClassVar[Callable[[DType, Any], Any]]

    def __init__(self, name: str, numpy_name: str, kind: str, bits: int) -> None:
        self.name, self.numpy_name = name, numpy_name
        self.kind, self.bits, self.itemsize = kind, bits, (bits + 7) // 8
        self.is_float, self.is_integer = kind == "f", kind in "iu"
        self._numpy: np.dtype[Any] | None = None

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        if self._numpy is None:
            self._numpy = numpy_dtype(self.numpy_name)
        return self._numpy

    def __getitem__(self, shape: Any) -> Any:
        return DType.subscript(self, shape)

    def __call__(self, value: Any) -> Array:
        return DType.convert(self, value)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_named, (self.name,))


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of that name; for "bfloat16", that of `ml_dtypes`."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


bool_ = DType("bool_", "bool", "b", 1)
i8, i16, i32, i64 = (DType(f"i{bits}", f"int{bits}", "i", bits) for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"u{bits}", f"uint{bits}", "u", bits) for bits in (8, 16, 32, 64))
f16, f32, f64 = (DType(f"f{bits}", f"float{bits}", "f", bits) for bits in (16, 32, 64))
bf16 = DType("bf16", "bfloat16", "f", 16)

DTYPES = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
_BY_NAME = {dtype.name: dtype for dtype in DTYPES} | {"bool": bool_, bf16.numpy_name: bf16}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES if dtype is not bf16}
NARROW = (f16, bf16)
"""The floating-point types whose arithmetic is done in f32 and rounded after each operation."""
MANTISSA = {f16: 10, bf16: 7, f32: 23, f64: 52}
"""Bits of the fraction of a float."""
BIAS = {f16: 15, bf16: 127, f32: 127, f64: 1023}
"""The difference between the exponent of a float and the integer stored for it."""


def dtype_named(name: str) -> DType:
    """The element type called `name`; raises `KeyError` when there is none."""
    return _BY_NAME[name]


def dtype_of(numpy_type: Any) -> DType | None:
    """The element type of a NumPy dtype in native byte order, or None."""
    dtype = np.dtype(numpy_type)
    if dtype.kind == "V" and dtype.name == bf16.numpy_name:
        return bf16
    return _BY_NUMPY.get(dtype)


def kind_of(numpy_type: np.dtype[Any]) -> str:
    """NumPy's kind letter of a dtype; "f" for bf16, too."""
    return "f" if numpy_type.kind == "V" and dtype_of(numpy_type) is bf16 else numpy_type.kind


def text_of(numpy_type: np.dtype[Any]) -> str:
    """The text from which `numpy_dtype` makes the dtype."""
    return bf16.numpy_name if dtype_of(numpy_type) is bf16 else numpy_type.str


def computed_in(dtype: DType) -> DType:
    """The type in which operations on a type are computed: f32 for f16 and bf16, else the type itself."""
    return f32 if dtype in NARROW else dtype


def largest(dtype: DType) -> float:
    """The largest finite number of a float type."""
    return (2.0 - 2.0 ** -MANTISSA[dtype]) * 2.0 ** BIAS[dtype]


def whole_range(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of an integer type, or of bool."""
    if dtype.kind == "b":
        return 0, 1
    is_signed = dtype.kind == "i"
    return -(1 << (dtype.bits - 1)) if is_signed else 0, (1 << (dtype.bits - is_signed)) - 1


def signed(bits: int) -> DType:
    """The signed integer type of that width."""
    return _BY_NAME[f"i{bits}"]


def unsigned(bits: int) -> DType:
    """The unsigned integer type of that width."""
    return _BY_NAME[f"u{bits}"]
