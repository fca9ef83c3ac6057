"""Complex numbers: pairs of floats inside an algorithm, NumPy's interleaved arrays outside of it.

`rd.complex64(re, im)`, `rd.complex128` and literals such as `1j` make them; combinators take them as they take pairs. Their arithmetic
is in `complex_functions`. A parameter or result is one array of floats with a last dimension of 2, which NumPy's memory already is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from raido.algo.errors import DTypeError
from raido.algo.graph.dtypes import DType, bool_, f32, f64
from raido.algo.graph.expr import Load, Op, Parameter
from raido.algo.graph.index import as_index
from raido.algo.language.records import Record
from raido.algo.trace.locations import complaint
from raido.algo.trace.operators import Operators
from raido.algo.trace.promotion import constant, lift
from raido.algo.trace.trees import map_leaves
from raido.algo.trace.types import COMPLEX_TYPES, ComplexArrayType, subscript_complex
from raido.algo.trace.value import Array


class ComplexType:
    """`rd.complex64` or `rd.complex128`: called, a complex number (or array) of that type; subscripted, an array type."""

    __slots__ = ("name", "part")

    def __init__(self, name: str, part: DType) -> None:
        self.name, self.part = name, part

    def __call__(self, re: Any, im: Any = None) -> Any:
        """The complex number re + im·i, or a number converted; of arrays, element by element."""
        from raido.algo.language.moves import convert
        from raido.algo.trace.building import elementwise

        for value in (re, im):
            if isinstance(value, (tuple, list)) and not isinstance(value, Complex):
                remedy = "its components one by one"
                raise DTypeError(complaint(f"rd.{self.name} of a {type(value).__name__}", remedy=remedy))
        convert_part = lambda value: convert(self.part, value)
        if im is None:
            return elementwise(lambda z: map_leaves(convert_part, as_complex(z)), [re])
        if is_complex(re) or is_complex(im):
            raise DTypeError(complaint(f"the parts of rd.{self.name} are real"))
        return elementwise(lambda a, b: Complex._make((convert_part(a), convert_part(b))), [re, im])

    def __getitem__(self, shape: Any) -> ComplexArrayType:
        return subscript_complex(self.part, shape)

    def __repr__(self) -> str:
        return self.name


complex64 = ComplexType("complex64", f32)
complex128 = ComplexType("complex128", f64)
COMPLEX_TYPES.update({f32: complex64, f64: complex128})


class Complex(Operators, Record):
    """A complex number, or an array of them, as its two parts."""

    __slots__ = ()
    __array_ufunc__ = None
    _fields: ClassVar[tuple[str, ...]] = ("re", "im")

    @property
    def real(self) -> Array:
        """The real part."""
        return tuple.__getitem__(self, 0)

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return tuple.__getitem__(self, 1)

    @property
    def dtype(self) -> Any:
        """`rd.complex64` or `rd.complex128`."""
        return COMPLEX_TYPES.get(self.real.dtype)

    def like(self, value: Any) -> Complex:
        """A number that is to stand among these, as a complex one."""
        return as_complex(complex_constant(value) if is_complex(value) and not isinstance(value, Complex) else value)

    def conj(self) -> Any:
        """The complex conjugate."""
        from raido.algo.language.complex_functions import conj

        return conj(self)

    def astype(self, dtype: ComplexType) -> Any:
        """The same numbers with parts of another type."""
        if not isinstance(dtype, ComplexType):
            raise DTypeError(complaint(f"a complex array as {dtype!r}", remedy=".real, .imag or rd.abs"))
        return dtype(self)

    def __repr__(self) -> str:
        return f"<traced {self.dtype}, {self.real!r}>"


def is_complex(value: Any) -> bool:
    """Whether a value is complex: traced, a literal, or NumPy's."""
    if isinstance(value, (Complex, complex, np.complexfloating)):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind == "c"


def complex_constant(value: Any) -> Complex:
    """A literal, or a NumPy scalar or array, as a traced complex value."""
    if isinstance(value, np.ndarray):
        return Complex._make((constant(np.ascontiguousarray(value.real)), constant(np.ascontiguousarray(value.imag))))
    return Complex._make((lift(value.real), lift(value.imag)))


def as_complex(value: Any) -> Complex:
    """A traced number as a complex one."""
    if isinstance(value, Complex):
        return value
    return Complex._make((value, lift(0)))


def separated(parameter: Parameter) -> Complex:
    """A parameter whose last dimension holds the two parts, as a complex value."""
    from raido.algo.language.moves import moved

    extents = parameter.shape[:-1]

    def part(k: int) -> Array:
        if not extents:
            return Array(Load(parameter, (as_index(k),), False))
        return moved(extents, lambda *p: Load(parameter, (*p, as_index(k)), False))

    return Complex._make((part(0), part(1)))


def interleaved(value: Complex) -> Array:
    """The parts of a complex value side by side, in a last dimension of 2."""
    from raido.algo.trace.building import broadcast_element, make_axes, new_form

    extents = value.real.extents
    axes = make_axes([*extents, as_index(2)])
    places: Sequence[Any] = [axis.var for axis in axes[:-1]]
    re, im = (broadcast_element(part, places).node for part in value)
    first = Op("eq", bool_, (axes[-1].var, as_index(0)))
    return Array(new_form(axes, (Op("select", re.dtype, (first, re, im)),), "elementwise")[0])
