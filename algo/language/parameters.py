"""The types of parameters that many public functions share, as checkers of types and editors show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

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
"""A number of elements: known while tracing, or a scalar of the algorithm."""

Shape: TypeAlias = "Size | Sequence[Size]"
"""The size of each axis; that of the only one may stand alone."""
