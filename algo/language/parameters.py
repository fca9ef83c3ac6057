"""Types of parameters and of functions that many public names share, as type checkers and editors show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias

import numpy as np

from raido.algo.graph.dtypes import DType
from raido.algo.language.complexes import ComplexType
from raido.algo.trace.value import Array

DTypeLike: TypeAlias = "DType | ComplexType | np.dtype[Any] | type[Any] | str"
"""An element type: raido's or NumPy's, a name, or one of Python's number classes."""

Axis: TypeAlias = "SupportsIndex | None"
"""One axis, or that of the flattened array."""

Axes: TypeAlias = "SupportsIndex | tuple[SupportsIndex, ...] | None"
"""An axis, several, or all of them."""

Size: TypeAlias = "int | np.integer[Any] | Array"
"""A number of elements: an int known while tracing, or a traced scalar."""

Shape: TypeAlias = "Size | Sequence[Size]"
"""The size of each axis; a single size stands for one axis."""


class Unary(Protocol):
    """A universal function of one number, such as `rd.sqrt`, applied to the elements of arrays, which broadcast."""

    def __call__(
        self,
        x: Any,
        /,
        *,
        out: None = None,
        where: Literal[True] = True,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Array: ...


class Binary(Protocol):
    """A universal function of two numbers, such as `rd.add`, applied to the elements of arrays, which broadcast."""

    def __call__(
        self,
        x1: Any,
        x2: Any,
        /,
        *,
        out: None = None,
        where: Literal[True] = True,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Array: ...


class Ternary(Protocol):
    """A universal function of three values, such as `rd.where`, applied to the elements of arrays, which broadcast."""

    def __call__(
        self,
        x1: Any,
        x2: Any,
        x3: Any,
        /,
        *,
        out: None = None,
        where: Literal[True] = True,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Array: ...
