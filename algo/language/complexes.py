"""Complex numbers: pairs of floats inside an algorithm, NumPy's interleaved arrays outside of it.

`rd.complex64(re, im)`, `rd.complex128` and literals such as `1j` make them. To users they are an element type: `together` and `fitted`
define, for the whole language, the conversion of real numbers beside complex ones. Their arithmetic is in `complex_arithmetic`, their
functions are in `complex_functions`. A parameter or result is one array of floats with a last dimension of 2, the layout of NumPy's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph.dtypes import DType, bool_, f32, f64
from raido.algo.graph.expr import Expr, Load, Op, Parameter, const
from raido.algo.graph.index import as_index
from raido.algo.language.records import Record, RecordAt
from raido.algo.trace.dtype_reading import COMPLEX_TYPES, read_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.methods import Methods
from raido.algo.trace.operators import Operators
from raido.algo.trace.promotion import common_type, constant, lift
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import is_number, map_leaves, parts_of, rebuild_tuple
from raido.algo.trace.types import ComplexArrayType, subscript_complex
from raido.algo.trace.value import STRONG, Array


class ComplexType:
    """The element type `rd.complex64` or `rd.complex128`: called, it makes a complex number (or array); subscripted, an array type."""

    __slots__ = ("bits", "name", "numpy", "part")
    kind, is_float, is_integer = "c", False, False

    def __init__(self, name: str, part: DType) -> None:
        self.name, self.part, self.numpy, self.bits = name, part, np.dtype(name), 2 * part.bits

    @property
    def itemsize(self) -> int:
        """The size of one element in memory, in bytes."""
        return self.numpy.itemsize

    def __call__(self, re: Any, im: Any = None) -> Any:
        """Returns the complex number re + im·i, or a number converted; for arrays, element by element."""
        from raido.algo.trace.building import elementwise

        for value in (re, im):
            if isinstance(value, (tuple, list)) and not isinstance(value, Complex):
                remedy = "its components one by one"
                raise DTypeError(complaint(f"rd.{self.name} of a {type(value).__name__}", remedy=remedy))
        convert_part = lambda value: Array(cast(value, self.part), STRONG)
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


class Complex(Methods, Operators, Record):
    """A complex number, or an array of them, as its real and imaginary parts."""

    __slots__ = ()
    __array_ufunc__: Any = Array.__array_ufunc__
    __array_function__: Any = Array.__array_function__
    _fields: ClassVar[tuple[str, ...]] = ("re", "im")
    is_number: ClassVar[bool] = True

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
        return COMPLEX_TYPES.get(self.real.dtype, complex128)

    @property
    def weak(self) -> int:
        """The weakness of the type in promotion, as of an `Array`."""
        return self.real.weak

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The shape as expressions of the graph."""
        return self.real.extents

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.real.size

    @property
    def at(self) -> RecordAt:
        """The updates of these numbers: `z.at[key].set(w)`, `.add(w)` and `.multiply(w)` return new numbers."""
        return ComplexAt(self)

    def like(self, value: Any) -> Complex:
        """Returns a value to be stored among these numbers, as a complex one."""
        return fitted(value, self, "a value")

    def conj(self) -> Any:
        """The complex conjugate."""
        from raido.algo.language.complex_functions import conj

        return conj(self)

    def astype(self, dtype: Any, *, copy: bool = True) -> Any:
        """Returns the numbers with parts of another type; `copy` has no effect."""
        dtype = read_dtype(dtype)
        if not isinstance(dtype, ComplexType):
            raise DTypeError(complaint(f"complex numbers as {dtype!r}", remedy=".real, .imag or rd.abs"))
        return self if dtype is self.dtype and self.weak == STRONG else dtype(self)

    sum: Any = Array.sum
    prod: Any = Array.prod
    mean: Any = Array.mean
    any: Any = Array.any
    all: Any = Array.all
    min: Any = Array.min
    max: Any = Array.max
    argmin: Any = Array.argmin
    argmax: Any = Array.argmax
    clip: Any = Array.clip
    round: Any = Array.round
    transpose: Any = Array.transpose
    named: Any = Array.named
    view: Any = Array.view
    __iter__: Any = Array.__iter__
    __len__: Any = Array.__len__
    __contains__: Any = Array.__contains__
    __index__: Any = Array.__index__
    __int__: Any = Array.__int__
    __float__: Any = Array.__float__
    __complex__: Any = Array.__complex__
    __round__: Any = Array.__round__
    __array__: Any = Array.__array__
    if not TYPE_CHECKING:  # as in `Array`: an error for type checkers, too
        __setitem__ = Array.__setitem__

    def __bool__(self) -> bool:
        return bool(Array(self.real.node, STRONG))  # raises TraceError, with a remedy

    def __repr__(self) -> str:
        return f"<traced {self.dtype}, {self.real!r}>"


class ComplexAt(RecordAt):
    """The form `z.at`, then `z.at[key]`, which an update completes."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> ComplexAt:
        return ComplexAt(self.records, key)

    def multiply(self, value: Any, *, name: str | None = None) -> Any:
        """Returns the numbers multiplied by `value` at the key, which may hold no index array, as one index could occur twice."""
        from raido.algo.language.indexing import selection

        if selection(tuple.__getitem__(self.records, 0), self.key) is None:
            remedy = "rd.reduce_by_index(z, rd.multiply, 1, index, values)"
            raise TraceError(complaint("z.at[…].multiply of complex numbers at an array of indices", remedy=remedy))
        return self.set(self.records[self.key] * value, name=name)

    def min(self, value: Any, *, name: str | None = None) -> Any:
        """Raises `DTypeError`: complex numbers have no order."""
        raise DTypeError(complaint("z.at[…].min of complex numbers", why=NO_ORDER, remedy="z.real, z.imag or rd.abs"))

    def max(self, value: Any, *, name: str | None = None) -> Any:
        """Raises `DTypeError`: complex numbers have no order."""
        raise DTypeError(complaint("z.at[…].max of complex numbers", why=NO_ORDER, remedy="z.real, z.imag or rd.abs"))


NO_ORDER = "complex numbers have no order"


def is_complex(value: Any) -> bool:
    """Whether a value, traced, literal or NumPy's, is complex."""
    if isinstance(value, (Complex, complex, np.complexfloating)):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind == "c"


def complex_constant(value: Any) -> Complex:
    """Returns a literal, or a NumPy scalar or array, as a traced complex value."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, np.ndarray):
        return Complex._make((constant(np.ascontiguousarray(value.real)), constant(np.ascontiguousarray(value.imag))))
    return Complex._make((lift(value.real), lift(value.imag)))


def as_complex(value: Any) -> Complex:
    """Returns a traced number or array as a complex one; a real one gets an imaginary part of 0."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, tuple):
        raise TraceError(complaint("a tuple among complex numbers"))
    if value.ndim == 0:
        return Complex._make((value, lift(0)))
    from raido.algo.language.moves import moved

    zero = const(value.dtype, 0)
    return Complex._make((value, moved(value.extents, lambda *_: zero, None, value.weak)))


def of_one_type(values: Sequence[Any]) -> list[Complex]:
    """Returns numbers or arrays as complex ones of their common type, by NumPy's promotion."""
    numbers = [as_complex(v) for v in values]
    dtype, weak = common_type([part for z in numbers for part in parts_of(z)])
    dtype = dtype if dtype in COMPLEX_TYPES else f32 if dtype.is_float else f64
    return [map_leaves(lambda part: _converted(part, dtype, weak), z) for z in numbers]


def _converted(part: Array, dtype: DType, weak: int) -> Array:
    if part.ndim == 0:
        return Array(cast(part, dtype), weak)
    if part.dtype is dtype:
        return part
    from raido.algo.trace.building import elementwise

    return elementwise(lambda x: Array(cast(x, dtype), weak), [part])


def together(values: Sequence[Any]) -> list[Any]:
    """Returns structures unified for use side by side: where one has complex numbers, all have them, of one type."""
    if any(isinstance(v, Complex) for v in values):
        plain = all(isinstance(v, (Array, Complex)) for v in values)
        return list(of_one_type(values)) if plain else list(values)
    if not all(isinstance(v, tuple) for v in values) or len({len(v) for v in values}) > 1:
        return list(values)
    columns = [together(column) for column in zip(*values, strict=True)]
    return [rebuild_tuple(v, parts) for v, parts in zip(values, zip(*columns, strict=True), strict=True)]


def fitted(value: Any, like: Any, what: str, *, to_all: bool = False) -> Any:
    """Returns a value to be stored among elements such as `like`: where these are complex, a literal becomes complex; others keep their
    type.

    With `to_all`, one number serves for every part of a tuple. Raises `DTypeError` or `TraceError` where the value does not fit.
    """
    from raido.algo.trace.building import structure

    value = structure(value)
    if (
        to_all
        and isinstance(like, tuple)
        and not is_number(like)
        and (not isinstance(value, tuple) or is_number(value))
    ):
        value = rebuild_tuple(like, (value,) * len(like))
    if isinstance(like, Complex):
        if isinstance(value, tuple) and not isinstance(value, Complex):
            raise TraceError(complaint(f"{what} is a tuple among {like.dtype}"))
        if value.weak == like.weak == STRONG and value.dtype is not like.dtype:
            remedy = f".astype(rd.{like.dtype})"
            raise DTypeError(complaint(f"{what} is {value.dtype}, where {like.dtype} is due", remedy=remedy))
        return as_complex(value)
    if isinstance(value, Complex):
        due = "a tuple" if isinstance(like, tuple) else str(like.dtype)
        raise DTypeError(complaint(f"{what} is complex, where {due} is due", remedy=".real, .imag or rd.abs"))
    if isinstance(like, tuple) and isinstance(value, tuple) and len(value) == len(like):
        return rebuild_tuple(value, [fitted(v, part, what, to_all=to_all) for v, part in zip(value, like, strict=True)])
    return value


def spread(value: Any, like: Any, what: str) -> Any:
    """Returns a value for every array of a structure, in its nesting: one number serves for all arrays, a complex one for both parts."""
    if isinstance(like, Complex):
        from raido.algo.trace.building import structure

        number = as_complex(structure(value))
        if number.ndim:
            raise ShapeError(complaint(f"{what} is a scalar"))
        return number
    if isinstance(like, tuple):
        given = value if isinstance(value, tuple) else (value,) * len(like)
        if len(given) != len(like):
            raise TraceError(complaint(f"{what} has {len(given)} parts, for {len(like)} arrays"))
        return rebuild_tuple(like, [spread(v, part, what) for v, part in zip(given, like, strict=True)])
    if isinstance(value, tuple) and not is_number(value):
        raise TraceError(complaint(f"{what} is a tuple, for one array"))
    if is_complex(value):
        remedy = ".astype(rd.complex128) on the array"
        raise DTypeError(complaint(f"{what} is complex, the array is {like.dtype}", remedy=remedy))
    return value


def kind_of(value: Any) -> str:
    """Returns the name in messages of a value that an operation does not take."""
    return "complex numbers" if isinstance(value, Complex) else "a tuple"


def separated(parameter: Parameter) -> Complex:
    """Returns the complex value of a parameter whose last dimension holds the two parts."""
    from raido.algo.language.moves import moved

    extents = parameter.shape[:-1]

    def part(k: int) -> Array:
        if not extents:
            return Array(Load(parameter, (as_index(k),), False))
        return moved(extents, lambda *p: Load(parameter, (*p, as_index(k)), False))

    return Complex._make((part(0), part(1)))


def interleaved(value: Complex) -> Array:
    """Returns an array with the parts of a complex value side by side, in a last dimension of 2."""
    from raido.algo.trace.building import broadcast_element, make_axes, new_form

    (number,) = of_one_type([value])
    axes = make_axes([*number.extents, as_index(2)])
    indices: Sequence[Any] = [axis.var for axis in axes[:-1]]
    re, im = (broadcast_element(part, indices).node for part in parts_of(number))
    first = Op("eq", bool_, (axes[-1].var, as_index(0)))
    return Array(new_form(axes, (Op("select", re.dtype, (first, re, im)),), "elementwise")[0])


def numbers_of(value: Any) -> Iterator[Array]:
    """Returns an iterator over the real and the imaginary part."""
    return parts_of(as_complex(value))
