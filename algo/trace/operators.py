"""Python's operators on traced values: each applies the NumPy function of the same meaning to every element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raido.algo.trace.value import Array


def _apply(name: str, other: Any, *operands: Any) -> Any:
    """Applies the universal function `name`; returns `NotImplemented` where `other` is no operand, so that Python tries its method next."""
    from raido.algo.language import ufuncs

    return ufuncs.OPERATOR_OF_UFUNC[name](*operands) if ufuncs.is_operand(other) else NotImplemented


class Operators:
    """The arithmetic, comparison and bit operators of `rd.Array`, as in NumPy."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Array:
        return _apply("add", other, self, other)

    def __radd__(self, other: Any) -> Array:
        return _apply("add", other, other, self)

    def __sub__(self, other: Any) -> Array:
        return _apply("subtract", other, self, other)

    def __rsub__(self, other: Any) -> Array:
        return _apply("subtract", other, other, self)

    def __mul__(self, other: Any) -> Array:
        return _apply("multiply", other, self, other)

    def __rmul__(self, other: Any) -> Array:
        return _apply("multiply", other, other, self)

    def __truediv__(self, other: Any) -> Array:
        return _apply("divide", other, self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return _apply("divide", other, other, self)

    def __floordiv__(self, other: Any) -> Array:
        return _apply("floor_divide", other, self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        return _apply("floor_divide", other, other, self)

    def __mod__(self, other: Any) -> Array:
        return _apply("remainder", other, self, other)

    def __rmod__(self, other: Any) -> Array:
        return _apply("remainder", other, other, self)

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        quotient: Any = self.__floordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__mod__(other))

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        quotient: Any = self.__rfloordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__rmod__(other))

    def __pow__(self, other: Any) -> Array:
        return _apply("power", other, self, other)

    def __rpow__(self, other: Any) -> Array:
        return _apply("power", other, other, self)

    def __and__(self, other: Any) -> Array:
        return _apply("bitwise_and", other, self, other)

    def __rand__(self, other: Any) -> Array:
        return _apply("bitwise_and", other, other, self)

    def __or__(self, other: Any) -> Array:
        return _apply("bitwise_or", other, self, other)

    def __ror__(self, other: Any) -> Array:
        return _apply("bitwise_or", other, other, self)

    def __xor__(self, other: Any) -> Array:
        return _apply("bitwise_xor", other, self, other)

    def __rxor__(self, other: Any) -> Array:
        return _apply("bitwise_xor", other, other, self)

    def __lshift__(self, other: Any) -> Array:
        return _apply("left_shift", other, self, other)

    def __rlshift__(self, other: Any) -> Array:
        return _apply("left_shift", other, other, self)

    def __rshift__(self, other: Any) -> Array:
        return _apply("right_shift", other, self, other)

    def __rrshift__(self, other: Any) -> Array:
        return _apply("right_shift", other, other, self)

    def __matmul__(self, other: Any) -> Array:
        return _apply("matmul", other, self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return _apply("matmul", other, other, self)

    def __lt__(self, other: Any) -> Array:
        return _apply("less", other, self, other)

    def __le__(self, other: Any) -> Array:
        return _apply("less_equal", other, self, other)

    def __gt__(self, other: Any) -> Array:
        return _apply("greater", other, self, other)

    def __ge__(self, other: Any) -> Array:
        return _apply("greater_equal", other, self, other)

    def __eq__(self, other: Any) -> Array:  # type: ignore[override]
        return _apply("equal", other, self, other)

    def __ne__(self, other: Any) -> Array:  # type: ignore[override]
        return _apply("not_equal", other, self, other)

    def __neg__(self) -> Array:
        return _apply("negative", self, self)

    def __pos__(self) -> Array:
        return _apply("positive", self, self)

    def __abs__(self) -> Array:
        return _apply("absolute", self, self)

    def __invert__(self) -> Array:
        return _apply("invert", self, self)
