"""Recipes: every primitive that is not native (`native.py`) as a straight-line sequence of operations, written once for all back ends.

The same operations, with explicit fma, run in the interpreters, on every vector width and on every target, so a result depends on neither
lanes nor device. No recipe traps, whatever its operands: inactive lanes run it too.

`RECIPES` holds all recipes. Those of arithmetic (division, casts, extremes, shifts, indices, f16 and bf16) are made of native operations
and of other recipes; a new back end implements the native operations and leaves the rest to `build_recipe`.

`FUNCTIONS` are the mathematical functions among them, made of primitives, for f32 and f64; f16 and bf16 are computed in f32 and rounded.
Special values are NumPy's; denormals are flushed neither in operands nor in results. docs/math.md lists the errors in ulp
(`python -m raido.algo.recipes` measures them). All coefficients are our own: `generate.py` derives them.

    build_recipe("exp", f32, x)            # of a `Value`, through any `builder.Builder`: TIR, LLVM, …
    evaluate_recipe("exp", f32, array)     # a mathematical function on NumPy arrays
    expand("exp", f32)                     # the same as a graph: (parameters, body)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import NARROW, DType, bool_
from raido.algo.graph.primitives import PRIMITIVES
from raido.algo.recipes import (
    bits,
    casts,
    division,
    dots,
    error_function,
    exponential,
    extremes,
    fused,
    hyperbolic,
    indices,
    inverse_trigonometric,
    logarithm,
    power,
    rounding,
    signs,
    trigonometric,
)
from raido.algo.recipes.builder import Builder, NumpyBuilder, Value
from raido.algo.recipes.graph import expand
from raido.algo.recipes.narrow import in_wide

__all__ = ["FUNCTIONS", "RECIPES", "Builder", "NumpyBuilder", "Value", "build_recipe", "evaluate_recipe", "expand"]

FUNCTIONS: dict[str, Callable[..., Value]] = {
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

RECIPES: dict[str, Callable[..., Value]] = FUNCTIONS | {
    **{
        f.__name__: f
        for f in (division.floordiv, division.floormod, division.truncdiv, division.truncrem, division.fmod)
    },
    **{f.__name__: f for f in (indices.clamp_index, indices.wrap_index, indices.mirror_index, indices.symmetric_index)},
    **{f.__name__: f for f in (signs.neg, signs.sign, signs.copysign, signs.signbit)},
    **{f.__name__: f for f in (signs.isnan, signs.isinf, signs.isfinite)},
    **{f.__name__: f for f in (dots.dot_halves, dots.dot_quarters, dots.byte_differences)},
    **{f.__name__: f for f in (bits.shl, bits.shr, bits.popcount, bits.clz, bits.ctz, bits.bit_not)},
    **{f.__name__: f for f in (extremes.minimum, extremes.maximum, fused.fma, power.ipow, casts.cast)},
    **{f.__name__: f for f in (rounding.rint, rounding.trunc)},
    "abs": signs.absolute,
    "mod": division.floormod,
}
_OF_BOOLEANS: dict[str, Callable[..., Value]] = {
    **{name: lambda x, y: x & y for name in ("mul", "minimum", "bit_and")},
    **{name: lambda x, y: x | y for name in ("add", "maximum", "bit_or")},
    **{name: lambda x, y: x ^ y for name in ("ne", "bit_xor")},
    "eq": lambda x, y: ~(x ^ y),
    "lt": lambda x, y: ~x & y,
    "le": lambda x, y: ~x | y,
    "gt": lambda x, y: x & ~y,
    "ge": lambda x, y: x | ~y,
}
_OF_ANY_FLOAT = ("cast", "fma", "signbit")
"""Recipes that accept f16 and bf16 without a conversion to f32."""

_BLOCK = 8192  # elements evaluated together, so that intermediate arrays stay in cache


def build_recipe(name: str, dtype: DType, *args: Value) -> Value:
    """Builds the primitive `name` with a result of type `dtype` from the native operations of its operands' builder."""
    if any(x.dtype in NARROW for x in args) and name not in _OF_ANY_FLOAT:
        return in_wide(name, dtype, args)
    recipe = (_OF_BOOLEANS if args[-1].dtype is bool_ and name in _OF_BOOLEANS else RECIPES)[name]
    return recipe(*args, dtype) if PRIMITIVES[name].rule in ("cast", "count") else recipe(*args)


def evaluate_recipe(name: str, dtype: DType, *args: Any) -> np.ndarray:
    """The mathematical function `name` of every element of the arrays `args`, of type `dtype` (f32 or f64), with broadcasting."""
    arrays = np.broadcast_arrays(*(np.asarray(a) for a in args))
    shape = arrays[0].shape
    flat = [a.reshape(-1) for a in arrays]
    result = np.empty(flat[0].shape, dtype.numpy)
    builder = NumpyBuilder()
    for start in range(0, len(result), _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = FUNCTIONS[name](*(Value(builder, dtype, a[block]) for a in flat)).raw
    return result.reshape(shape)
