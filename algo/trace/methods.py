"""NumPy's methods of arrays that are functions of the same name: `a.cumsum(axis=1)` is `rd.cumsum(a, axis=1)`; of complex arrays, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from raido.algo.trace.value import Array


def _function(family: str, name: str) -> Any:
    """A function of the language or the library, found when a method is called: its file imports the file of traced values."""
    import importlib

    return getattr(importlib.import_module(f"raido.algo.{family}"), name)


class Methods:
    """What `rd.Array` has of NumPy's methods that move, choose and sum up elements."""

    __slots__ = ()

    def argsort(self, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Array:
        """`rd.argsort` of this array."""
        return _function("language.sorting", "argsort")(self, axis, kind, stable=stable)

    def conj(self) -> Array:
        """`rd.conj` of this array."""
        return _function("language.complex_functions", "conj")(self)

    def conjugate(self) -> Array:
        """`rd.conj` of this array."""
        return _function("language.complex_functions", "conj")(self)

    def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        """`rd.cumprod` of this array."""
        return _function("library.running", "cumprod")(self, axis, dtype, out=out)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        """`rd.cumsum` of this array."""
        return _function("library.running", "cumsum")(self, axis, dtype, out=out)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """`rd.diagonal` of this array."""
        return _function("library.diagonals", "diagonal")(self, offset, axis1, axis2)

    def dot(self, b: Any, out: Any = None) -> Array:
        """`rd.dot` of this array and `b`."""
        return _function("language.reductions", "dot")(self, b, out=out)

    def flatten(self, order: str = "C") -> Array:
        """One dimension: row-major, or column-major for `order="F"`."""
        return _function("library.moving", "ravel")(self, order)

    def nonzero(self) -> tuple[Array, ...]:
        """`rd.nonzero` of this array."""
        return _function("library.finding", "nonzero")(self)

    def ravel(self, order: str = "C") -> Array:
        """`rd.ravel` of this array."""
        return _function("library.moving", "ravel")(self, order)

    def repeat(self, counts: Any = None, axis: int | None = 0, *, repeats: Any = None) -> Array:
        """`rd.repeat` of this array: along axis 0 unless `axis` says otherwise."""
        return _function("language.repeating", "repeat")(self, counts, axis, repeats=repeats)

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

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Array:
        """`rd.take` of this array."""
        return _function("library.taking", "take")(self, indices, axis, mode=mode, out=out)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Array:
        """`rd.trace` of this array."""
        return _function("library.linear", "trace")(self, offset, axis1, axis2, dtype, out=out)

    def var(self, axis: Any = None, dtype: Any = None, **options: Any) -> Array:
        """`rd.var` of this array."""
        return _function("library.statistics", "var")(self, axis, dtype, **options)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return _function("library.linalg", "matrix_transpose")(self)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Array:
        """`rd.compress` of this array."""
        return _function("library.choosing", "compress")(condition, self, axis, out=out)

    def copy(self, order: str = "C") -> Array:
        """This array: arrays do not change."""
        return _function("library.spaced", "copy")(self)

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> NoReturn:
        """Refused: NumPy's changes the array itself."""
        _refuse_change("sort", "b = rd.sort(a, axis)")

    def fill(self, value: Any) -> NoReturn:
        """Refused: NumPy's changes the array itself."""
        _refuse_change("fill", "b = rd.full_like(a, value)")

    def put(self, indices: Any, values: Any, mode: str = "raise") -> NoReturn:
        """Refused: NumPy's changes the array itself."""
        _refuse_change("put", "b = a.at[i].set(values)")

    def partition(self, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> NoReturn:
        """Refused: NumPy's changes the array itself."""
        _refuse_change("partition", "b = rd.sort(a, axis)")


def _refuse_change(method: str, remedy: str) -> NoReturn:
    from raido.algo.errors import TraceError
    from raido.algo.trace.locations import complaint

    raise TraceError(complaint(f"a.{method}() of an array, which does not change", remedy=remedy))
