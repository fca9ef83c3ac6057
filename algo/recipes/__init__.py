"""raido's vector math: every transcendental function as a recipe, a straight line of primitive operations.

The same operations, with explicit fma, run in the interpreters, on every vector width and on every target, so a result
depends on neither lanes nor device. Recipes exist for f32 and f64; f16 and bf16 are computed in f32 and rounded. Special values are
NumPy's; denormals are neither flushed on the way in nor on the way out. docs/math.md lists the errors in ulp
(`python -m raido.algo.recipes` measures them). All coefficients are our own: `generate.py` derives them.

    build_recipe("exp", builder, f32, x)   # through any `builder.Builder`: TIR, LLVM, …
    evaluate_recipe("exp", f32, array)     # on NumPy arrays
    expand("exp", f32)                     # as a graph: (parameters, body)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import DType
from raido.algo.recipes import (
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    trigonometric,
)
from raido.algo.recipes.builder import Builder, NumpyBuilder, Value
from raido.algo.recipes.graph import expand

__all__ = ["RECIPES", "Builder", "NumpyBuilder", "Value", "build_recipe", "evaluate_recipe", "expand"]

RECIPES: dict[str, Callable[..., Value]] = {
    **{f.__name__: f for f in (exponential.exp, exponential.exp2, exponential.expm1)},
    **{f.__name__: f for f in (logarithm.log, logarithm.log2, logarithm.log10, logarithm.log1p)},
    **{f.__name__: f for f in (trigonometric.sin, trigonometric.cos, trigonometric.tan)},
    **{f.__name__: f for f in (inverse_trigonometric.asin, inverse_trigonometric.acos)},
    **{f.__name__: f for f in (inverse_trigonometric.atan, inverse_trigonometric.atan2)},
    **{f.__name__: f for f in (hyperbolic.sinh, hyperbolic.cosh, hyperbolic.tanh)},
    **{f.__name__: f for f in (hyperbolic.asinh, hyperbolic.acosh, hyperbolic.atanh)},
    **{f.__name__: f for f in (error_function.erf, error_function.erfc)},
    **{f.__name__: f for f in (power.cbrt, power.hypot, power.rsqrt)},
    "pow": power.power,
}

_BLOCK = 8192  # elements evaluated together, so that intermediate arrays stay in cache


def build_recipe(name: str, builder: Builder, dtype: DType, *args: Any) -> Any:
    """The value of `name` (f32 or f64) of the builder's values `args`."""
    return RECIPES[name](*(Value(builder, dtype, a) for a in args)).raw


def evaluate_recipe(name: str, dtype: DType, *args: Any) -> np.ndarray:
    """`name` at every element of the arrays `args` of that type (f32 or f64), with broadcasting."""
    arrays = np.broadcast_arrays(*(np.asarray(a) for a in args))
    shape = arrays[0].shape
    flat = [a.reshape(-1) for a in arrays]
    result = np.empty(flat[0].shape, dtype.numpy)
    builder = NumpyBuilder()
    for start in range(0, len(result), _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = build_recipe(name, builder, dtype, *(a[block] for a in flat))
    return result.reshape(shape)
