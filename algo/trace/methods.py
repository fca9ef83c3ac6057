"""NumPy's array methods that forward to the function of the same name: `a.cumsum(axis=1)` is `rd.cumsum(a, axis=1)`; for complex arrays
too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.remedies import rd_form, rd_function
from raido.algo.trace.tracebacks import bordered

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, Axis, DTypeLike
    from raido.algo.trace.value import Array


class Methods(NearAttributes):
    """NumPy's methods of `rd.Array` that move, select and reduce elements."""

    __slots__ = ()
    _display_name = "a"
    _site = "algorithm"
    _internal = frozenset(("extents", "made_in", "node", "weak"))

    def argsort(self, axis: Axis = -1, kind: Any = None, *, stable: Any = None, descending: Any = None) -> Array:
        """`rd.argsort` of this array."""
        return rd_function("argsort")(self, axis, kind, stable=stable, descending=descending)

    def conj(self) -> Array:
        """`rd.conj` of this array."""
        return rd_function("conj")(self)

    def conjugate(self) -> Array:
        """`rd.conj` of this array."""
        return rd_function("conj")(self)

    def cumprod(self, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """`rd.cumprod` of this array."""
        return rd_function("cumprod")(self, axis, dtype, out=out)

    def cumsum(self, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """`rd.cumsum` of this array."""
        return rd_function("cumsum")(self, axis, dtype, out=out)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """`rd.diagonal` of this array."""
        return rd_function("diagonal")(self, offset, axis1, axis2)

    def dot(self, b: Any, out: None = None) -> Array:
        """`rd.dot` of this array and `b`."""
        return rd_function("dot")(self, b, out=out)

    def flatten(self, order: str = "C") -> Array:
        """Returns the elements in one dimension: row-major, or column-major for `order="F"`."""
        return rd_function("ravel")(self, order)

    def nonzero(self) -> tuple[Array, ...]:
        """`rd.nonzero` of this array."""
        return rd_function("nonzero")(self)

    def ravel(self, order: str = "C") -> Array:
        """`rd.ravel` of this array."""
        return rd_function("ravel")(self, order)

    def repeat(self, counts: Any = None, axis: int | None = 0, *, repeats: Any = None) -> Array:
        """`rd.repeat` of this array: along axis 0 unless `axis` says otherwise."""
        return rd_function("repeat")(self, counts, axis, repeats=repeats)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Array:
        """`rd.searchsorted` in this array."""
        return rd_function("searchsorted")(self, v, side, sorter)

    def squeeze(self, axis: Axes = None) -> Array:
        """`rd.squeeze` of this array."""
        return rd_function("squeeze")(self, axis)

    def std(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
        """`rd.std` of this array."""
        return rd_function("std")(self, axis, dtype, **options)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """`rd.swapaxes` of this array."""
        return rd_function("swapaxes")(self, axis1, axis2)

    def take(self, indices: Any, axis: Axis = None, out: None = None, mode: str = "raise") -> Array:
        """`rd.take` of this array."""
        return rd_function("take")(self, indices, axis, mode=mode, out=out)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None
    ) -> Array:
        """`rd.trace` of this array."""
        return rd_function("trace")(self, offset, axis1, axis2, dtype, out=out)

    def var(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
        """`rd.var` of this array."""
        return rd_function("var")(self, axis, dtype, **options)

    @property
    def mT(self) -> Array:
        """The array with its last two axes exchanged."""
        return rd_function("matrix_transpose")(self)

    def compress(self, condition: Any, axis: Axis = None, out: None = None) -> Array:
        """`rd.compress` of this array."""
        return rd_function("compress")(condition, self, axis, out=out)

    def copy(self, order: str = "C") -> Array:
        """Returns this array itself: arrays are immutable."""
        return rd_function("copy")(self)

    def _meant(self, name: str) -> str | None:
        form = rd_form(name)
        return _OTHERWISE.get(name) or (form and f"{form}(a)" if callable(rd_function(name)) else None)


bordered(Methods, special=())
_TYPES_OF_TORCH = {"double": "f64", "float": "f32", "half": "f16", "int": "i32", "long": "i64"}
_OTHERWISE = {  # NumPy's methods that change the array itself, or leave NumPy; and torch's
    **{name: f"a.astype(rd.{kind})" for name, kind in _TYPES_OF_TORCH.items()},
    **dict.fromkeys(("cpu", "detach", "numpy"), "a itself: the result of the algorithm is a NumPy array"),
    "permute": "a.transpose(1, 0)",
    "unsqueeze": "a[:, None], or rd.expand_dims(a, axis)",
    "fill": "b = rd.full_like(a, value)",
    "item": "a itself, a scalar where its rank is 0",
    "partition": "b = rd.sort(a, axis)",
    "put": "b = a.at[i].set(values)",
    "sort": "b = rd.sort(a, axis)",
    "tolist": "a itself: it is no list before the program runs",
}
