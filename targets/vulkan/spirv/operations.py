"""Native operations (`algo/recipes/native`) as SPIR-V instructions: this back end's table.

`write_native(body, name, dtype, operands)` appends an operation on scalars, given as (dtype, identifier). Quotients of integers and shifts
are defined within the range of the hardware only. Division, square root and fma of floats are as exact as the device makes them.
"""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, f16, i32
from raido.targets.vulkan.spirv.body import Body
from raido.targets.vulkan.spirv.folding import folded
from raido.targets.vulkan.spirv.grammar import Glsl, Op
from raido.targets.vulkan.spirv.zeros import arithmetic_of_zero

Operand = tuple[DType, int]
Writer = Callable[..., int]
_NATIVE: dict[str, Writer] = {}


def write_native(b: Body, name: str, dtype: DType, operands: list[Operand]) -> int:
    """Appends a native operation with a result of type `dtype`; raises `CompileError` for another name."""
    if name not in _NATIVE:
        raise CompileError(f"SPIR-V has no native operation {name}: it must arrive expanded")
    literal = folded(b.module, name, dtype, operands)
    return _NATIVE[name](b, dtype, *operands) if literal is None else literal


def native_operations() -> tuple[str, ...]:
    """Names of the operations in the table."""
    return tuple(sorted(_NATIVE))


def _writes(*names: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        _NATIVE.update(dict.fromkeys(names, writer))
        return writer

    return register


# --- arithmetic: (float, signed, unsigned), and comparisons of booleans

ARITHMETIC = {
    "add": (Op.FAdd, Op.IAdd, Op.IAdd),
    "sub": (Op.FSub, Op.ISub, Op.ISub),
    "mul": (Op.FMul, Op.IMul, Op.IMul),
    "div": (Op.FDiv, Op.SDiv, Op.UDiv),
}
BITWISE = {"and": Op.BitwiseAnd, "or": Op.BitwiseOr, "xor": Op.BitwiseXor}
LOGICAL = {"and": Op.LogicalAnd, "or": Op.LogicalOr, "xor": Op.LogicalNotEqual}
COMPARISONS = {
    "lt": (Op.FOrdLessThan, Op.SLessThan, Op.ULessThan),
    "le": (Op.FOrdLessThanEqual, Op.SLessThanEqual, Op.ULessThanEqual),
    "gt": (Op.FOrdGreaterThan, Op.SGreaterThan, Op.UGreaterThan),
    "ge": (Op.FOrdGreaterThanEqual, Op.SGreaterThanEqual, Op.UGreaterThanEqual),
    "eq": (Op.FOrdEqual, Op.IEqual, Op.IEqual, Op.LogicalEqual),
    "ne": (Op.FUnordNotEqual, Op.INotEqual, Op.INotEqual, Op.LogicalNotEqual),
}


def arithmetic(b: Body, name: str, dtype: DType, x: int, y: int) -> int:
    """A sum, difference, product or quotient; integers wrap, and quotients of integers are rounded towards zero."""
    if dtype.is_float and (literal := folded(b.module, name, dtype, [(dtype, x), (dtype, y)])) is not None:
        return literal
    if dtype.is_float and (exact := arithmetic_of_zero(b, name, dtype, x, y)) is not None:
        return exact
    return b.compute(ARITHMETIC[name]["fiu".index(dtype.kind)], dtype, x, y)


def compare(b: Body, name: str, dtype: DType, x: int, y: int) -> int:
    """A comparison of two numbers of a dtype; false with a NaN, except "ne", which is true."""
    b.module.compute(dtype)
    if (literal := folded(b.module, name, bool_, [(dtype, x), (dtype, y)])) is not None:
        return literal
    return b.test(COMPARISONS[name]["fiub".index(dtype.kind)], x, y)


def extreme(b: Body, test: str, dtype: DType, x: int, y: int) -> int:
    """The first number where the comparison holds, else the second."""
    return b.select(compare(b, test, dtype, x, y), dtype, x, y)


def remainder(b: Body, dtype: DType, x: int, y: int) -> int:
    """The remainder of a truncated quotient, with the dividend's sign (Vulkan defines OpSRem for positive numbers only)."""
    if dtype.kind == "u":
        return b.compute(Op.UMod, dtype, x, y)
    quotient = b.compute(Op.SDiv, dtype, x, y)
    return b.compute(Op.ISub, dtype, x, b.compute(Op.IMul, dtype, quotient, y))


def shift_right(b: Body, dtype: DType, x: int, count: int) -> int:
    return b.compute(Op.ShiftRightArithmetic if dtype.kind == "i" else Op.ShiftRightLogical, dtype, x, count)


for _name in ARITHMETIC:

    def _arithmetic(b: Body, dtype: DType, x: Operand, y: Operand, name: str = _name) -> int:
        return arithmetic(b, name, dtype, x[1], y[1])

    _NATIVE[_name] = _arithmetic

for _name in COMPARISONS:

    def _compare(b: Body, _: DType, x: Operand, y: Operand, name: str = _name) -> int:
        return compare(b, name, x[0], x[1], y[1])

    _NATIVE[_name] = _compare

for _name in BITWISE:

    def _bitwise(b: Body, dtype: DType, x: Operand, y: Operand, name: str = _name) -> int:
        return b.compute(LOGICAL[name] if dtype is bool_ else BITWISE[name], dtype, x[1], y[1])

    _NATIVE[f"bit_{_name}"] = _NATIVE[f"logical_{_name}"] = _bitwise


@_writes("logical_not")
def _not(b: Body, _: DType, x: Operand) -> int:
    return b.test(Op.LogicalNot, x[1])


@_writes("neg")
def _neg(b: Body, dtype: DType, x: Operand) -> int:
    return b.compute(Op.FNegate if dtype.is_float else Op.SNegate, dtype, x[1])


@_writes("quotient")
def _quotient(b: Body, dtype: DType, x: Operand, y: Operand) -> int:
    return arithmetic(b, "div", dtype, x[1], y[1])


for _name, _test in (("minimum", "lt"), ("maximum", "gt")):

    def _extreme(b: Body, dtype: DType, x: Operand, y: Operand, test: str = _test) -> int:
        return extreme(b, test, dtype, x[1], y[1])

    _NATIVE[_name] = _extreme


@_writes("select")
def _select(b: Body, dtype: DType, condition: Operand, yes: Operand, no: Operand) -> int:
    return b.select(condition[1], dtype, yes[1], no[1])


# --- floats

for _name, _which in {
    "sqrt": Glsl.Sqrt,
    "floor": Glsl.Floor,
    "ceil": Glsl.Ceil,
    "trunc": Glsl.Trunc,
    "rint": Glsl.RoundEven,
    "abs": Glsl.FAbs,
    "fma": Glsl.Fma,
}.items():

    def _extended(b: Body, dtype: DType, *operands: Operand, which: Glsl = _which) -> int:
        return b.glsl(which, dtype, *(x for _, x in operands))

    _NATIVE[_name] = _extended


# --- bits


@_writes("bitcast")
def _bitcast(b: Body, dtype: DType, x: Operand) -> int:
    if dtype.is_float == x[0].is_float:
        return x[1]  # integers of one width are one type
    b.module.compute(x[0])
    return b.compute(Op.Bitcast, dtype, x[1])


@_writes("popcount")
def _popcount(b: Body, dtype: DType, x: Operand) -> int:
    return b.compute(Op.BitCount, dtype, x[1])


@_writes("clz")
def _clz(b: Body, dtype: DType, x: Operand) -> int:
    """Leading zeros, by FindUMsb, which returns the index of the highest set bit, -1 for zero."""
    return b.compute(Op.ISub, dtype, b.module.constant(i32, 31), b.glsl(Glsl.FindUMsb, i32, x[1]))


@_writes("shift_left")
def _shift_left(b: Body, dtype: DType, x: Operand, count: Operand) -> int:
    return b.compute(Op.ShiftLeftLogical, dtype, x[1], count[1])


@_writes("shift_right")
def _shift_right(b: Body, dtype: DType, x: Operand, count: Operand) -> int:
    return shift_right(b, dtype, x[1], count[1])


# --- conversions


@_writes("convert")
def _convert(b: Body, dtype: DType, x: Operand) -> int:
    return convert(b, x[0], dtype, x[1])


def convert(b: Body, source: DType, dtype: DType, x: int) -> int:
    """A number converted to another type: integers wrap, floats are rounded; a float beyond an integer's range gives an unspecified value."""
    if source is dtype:
        return x
    if (literal := folded(b.module, "convert", dtype, [(source, x)])) is not None:
        return literal
    if source is bool_:
        return b.select(x, dtype, b.module.constant(dtype, 1), b.module.constant(dtype, 0))
    if dtype is bool_:
        return compare(b, "ne", source, x, b.module.constant(source, 0))
    if source.is_float and dtype.is_float:
        return b.value(Op.FConvert, b.module.moved(dtype), x)
    if source.is_float:
        b.module.moved(source)
        return b.value(Op.ConvertFToS if dtype.kind == "i" else Op.ConvertFToU, b.module.compute(dtype), x)
    if dtype.is_float:
        b.module.compute(source)
        made = b.value(Op.ConvertSToF if source.kind == "i" else Op.ConvertUToF, b.module.moved(dtype), x)
        return made if dtype is f16 else b.hidden(dtype, made)
    if source.bits == dtype.bits:
        return x
    if source is i32 and dtype.bits == 64:
        return _extend_sign(b, dtype, x)
    return b.value(Op.UConvert if source.kind == "u" else Op.SConvert, b.module.moved(dtype), x)


def _extend_sign(b: Body, dtype: DType, x: int) -> int:
    """An i32 sign-extended to 64 bits by arithmetic: Mesa 22.3 compares an OpSConvert to 64 bits with a constant wrongly
    (nir_opt_algebraic.py, "optimize comparisons of up-casts", takes the least i32 for a positive number)."""
    sign = b.module.constant(dtype, 1 << i32.bits - 1)
    shifted = b.compute(Op.BitwiseXor, dtype, b.value(Op.UConvert, b.module.compute(dtype), x), sign)
    return b.compute(Op.ISub, dtype, shifted, sign)
