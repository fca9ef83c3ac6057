"""Native operations (`algo/recipes/native`) as expressions of CUDA C: this back end's table.

`write_native(name, dtype, operands)` returns the text of an operation on operands given as (dtype, text), each of which it uses once.
Operations with an equivalent C++ operator are written as such, others as functions of `prelude.cuh`. Integers wrap; quotients and shifts
are defined within the range of the hardware. Kernels are compiled with `-fmad=false`, so products and sums are never contracted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, f16, f32, f64
from raido.targets.cuda.source.values import type_text

Operand = tuple[DType, str]
Writer = Callable[..., str]
_NATIVE: dict[str, Writer] = {}
_ATOM = re.compile(r"\w+|\([^()]*\)")


def write_native(name: str, dtype: DType, operands: Sequence[Operand]) -> str:
    """A native operation with a result of type `dtype`; raises `CompileError` for another name."""
    if name not in _NATIVE:
        raise CompileError(f"CUDA C has no native operation {name}: it must arrive expanded")
    return _NATIVE[name](dtype, *operands)


def native_operations() -> tuple[str, ...]:
    """Names of the operations in the table."""
    return tuple(sorted(_NATIVE))


def _operator(symbol: str) -> Writer:
    return lambda _, x, y: f"({x[1]} {symbol} {y[1]})"


def _function(name: str) -> Writer:
    return lambda _, *operands: f"raido_{name}({', '.join(text for _, text in operands)})"


def _of_floats(symbol: str, name: str) -> Writer:
    """A writer: an operator for floats, a wrapping function for integers."""
    operator, function = _operator(symbol), _function(name)
    return lambda dtype, x, y: (operator if dtype.is_float else function)(dtype, x, y)


_NATIVE |= {name: _of_floats(symbol, name) for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"))}
_NATIVE |= {
    name: _operator(symbol)
    for name, symbol in (
        *(("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")),
        *(("logical_and", "&&"), ("logical_or", "||"), ("logical_xor", "!=")),
    )
}
_NATIVE |= {
    name: _function(name)
    for name in (
        *("div", "fma", "sqrt", "floor", "ceil", "trunc", "rint", "abs", "quotient", "minimum", "maximum"),
        *("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "popcount", "clz"),
    )
}
_NATIVE |= {
    "neg": lambda _, x: f"(-{x[1]})",
    "logical_not": lambda _, x: f"(!{x[1]})",
    "select": lambda _, condition, yes, no: f"({condition[1]} ? {yes[1]} : {no[1]})",
    "convert": lambda dtype, x: convert(x, dtype),
    "bitcast": lambda dtype, x: _bitcast(x, dtype),
}


def cast(dtype: DType, text: str) -> str:
    """A C cast of an expression."""
    return f"({type_text(dtype)}){text if _ATOM.fullmatch(text) else f'({text})'}"


def convert(x: Operand, dtype: DType) -> str:
    """A number converted to another type: integers wrap, floats are rounded once; a float beyond an integer's range gives an unspecified
    value."""
    source, text = x
    if source is dtype:
        return text
    if source is f16:
        return convert((f32, f"raido_widen({text})"), dtype)
    if dtype is f16:  # integers that f32 rounds are beyond the range of f16
        return f"raido_narrow({text if source in (f32, f64) else convert(x, f32)})"
    if dtype is bool_:
        return f"({text} != 0)"
    return cast(dtype, text)


def _bitcast(x: Operand, dtype: DType) -> str:
    source, text = x
    plain = (source.is_float == dtype.is_float) or f16 in (source, dtype)
    if plain:  # an integer is converted modulo its width, and f16 is kept as one
        return text if source is dtype else cast(dtype, text)
    return f"raido_bits_{dtype.name}({text})"
