"""NumPy's methods of arrays that are functions of the same name: `a.cumsum(axis=1)` is `rd.cumsum(a, axis=1)`; of complex arrays, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raido.algo.trace.value import Array


def _function(family: str, name: str) -> Any:
    """A function of the language or the library, found when a method is called: its file imports the file of traced values."""
    import importlib

    return getattr(importlib.import_module(f"raido.algo.{family}"), name)


class Methods:
    """What `rd.Array` has of NumPy's methods that move, choose and sum up elements."""

    __slots__ = ()

    def argsort(self, axis: Any = -1) -> Array:
        """`rd.argsort` of this array."""
        return _function("language.sorting", "argsort")(self, axis)

    def conj(self) -> Array:
        """`rd.conj` of this array."""
        return _function("language.complex_functions", "conj")(self)

    def conjugate(self) -> Array:
        """`rd.conj` of this array."""
        return _function("language.complex_functions", "conj")(self)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Array:
        """`rd.cumprod` of this array."""
        return _function("library.running", "cumprod")(self, axis, dtype)

    def cumsum(self, axis: Any = None, dtype: Any = None) -> Array:
        """`rd.cumsum` of this array."""
        return _function("library.running", "cumsum")(self, axis, dtype)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """`rd.diagonal` of this array."""
        return _function("library.diagonals", "diagonal")(self, offset, axis1, axis2)

    def dot(self, b: Any) -> Array:
        """`rd.dot` of this array and `b`."""
        return _function("language.reductions", "dot")(self, b)

    def flatten(self, order: str = "C") -> Array:
        """One dimension: row-major, or column-major for `order="F"`."""
        return _function("library.moving", "ravel")(self, order)

    def nonzero(self) -> tuple[Array, ...]:
        """`rd.nonzero` of this array."""
        return _function("library.finding", "nonzero")(self)

    def ravel(self, order: str = "C") -> Array:
        """`rd.ravel` of this array."""
        return _function("library.moving", "ravel")(self, order)

    def repeat(self, counts: Any, axis: int = 0) -> Array:
        """`rd.repeat` of this array: along axis 0 unless `axis` says otherwise."""
        return _function("language.repeating", "repeat")(self, counts, axis)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Array:
        """`rd.searchsorted` in this array."""
        return _function("library.searching", "searchsorted")(self, v, side, sorter)

    def squeeze(self, axis: Any = None) -> Array:
        """`rd.squeeze` of this array."""
        return _function("library.moving", "squeeze")(self, axis)

    def std(self, axis: Any = None, dtype: Any = None, **options: Any) -> Array:
        """`rd.std` of this array."""
        return _function("library.statistics", "std")(self, axis, dtype, **options)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """`rd.swapaxes` of this array."""
        return _function("language.moves", "swapaxes")(self, axis1, axis2)

    def take(self, indices: Any, axis: Any = None, *, mode: str = "raise") -> Array:
        """`rd.take` of this array."""
        return _function("library.taking", "take")(self, indices, axis, mode=mode)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
        """`rd.trace` of this array."""
        return _function("library.linear", "trace")(self, offset, axis1, axis2, dtype)

    def var(self, axis: Any = None, dtype: Any = None, **options: Any) -> Array:
        """`rd.var` of this array."""
        return _function("library.statistics", "var")(self, axis, dtype, **options)
