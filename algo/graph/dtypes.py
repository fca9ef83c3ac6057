"""Element types: one `DType` object for each, named as in the contract (`bool_, i8 … u64, f16, f32, f64`).

A `DType` is a singleton; compare with `is` or `==`. `rd.f32["h", "w"]` is an array type, `rd.f32(x)` a cast: both are given their
meaning by the tracer through `DType.subscript` and `DType.convert`, so that this file stays at the bottom of the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from raido.algo.trace.value import Array


class DType:
    """An element type: `.name`, `.numpy`, `.bits`, and `.kind`, one of "b" (bool), "i", "u", "f"."""

    __slots__ = ("bits", "kind", "name", "numpy")
    subscript: ClassVar[Callable[[DType, Any], Any]]
    convert: ClassVar[Callable[[DType, Any], Any]]

    def __init__(self, name: str, numpy_name: str) -> None:
        self.name = name
        self.numpy = np.dtype(numpy_name)
        self.kind = self.numpy.kind
        self.bits = 1 if self.kind == "b" else self.numpy.itemsize * 8

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    def __getitem__(self, shape: Any) -> Any:
        return DType.subscript(self, shape)

    def __call__(self, value: Any) -> Array:
        return DType.convert(self, value)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_named, (self.name,))


bool_ = DType("bool_", "bool")
i8, i16, i32, i64 = (DType(f"i{bits}", f"int{bits}") for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"u{bits}", f"uint{bits}") for bits in (8, 16, 32, 64))
f16, f32, f64 = (DType(f"f{bits}", f"float{bits}") for bits in (16, 32, 64))

DTYPES = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64)
_BY_NAME = {dtype.name: dtype for dtype in DTYPES} | {"bool": bool_}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES}


def dtype_named(name: str) -> DType:
    """The element type called `name`; KeyError when there is none."""
    return _BY_NAME[name]


def dtype_of(numpy_dtype: Any) -> DType | None:
    """The element type for a NumPy dtype in native byte order, or None."""
    return _BY_NUMPY.get(np.dtype(numpy_dtype))


def signed(bits: int) -> DType:
    """The signed integer type of that width."""
    return _BY_NAME[f"i{bits}"]


def unsigned(bits: int) -> DType:
    """The unsigned integer type of that width."""
    return _BY_NAME[f"u{bits}"]
