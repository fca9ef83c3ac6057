"""Division and remainder as LLVM instructions, of integers and floats: no divisor is undefined, 0 and -1 least of all."""

from __future__ import annotations

from raido.algo.graph.dtypes import f32, f64
from raido.targets.llvm.text import TextBuilder, Value


def write_truncdiv(b: TextBuilder, x: Value, y: Value) -> Value:
    """The quotient, rounded towards zero."""
    if x.dtype.is_float:
        return b.intrinsic("trunc", b.binary("fdiv", x, y))
    return _divide_integers(b, x, y)[0]


def write_truncrem(b: TextBuilder, x: Value, y: Value) -> Value:
    """What is left of `x` then: it has the sign of `x`."""
    return b.binary("frem", x, y) if x.dtype.is_float else _divide_integers(b, x, y)[1]


def write_floordiv(b: TextBuilder, x: Value, y: Value) -> Value:
    """The quotient, rounded down."""
    if x.dtype.is_float:
        return _float_divmod(b, x, y)[0]
    quotient, rest = _divide_integers(b, x, y)
    if x.dtype.kind == "u":
        return quotient
    return b.select(_off_by_one(b, rest, y), b.binary("sub", quotient, b.constant(quotient, 1)), quotient)


def write_floormod(b: TextBuilder, x: Value, y: Value) -> Value:
    """What is left of `x` then: it has the sign of `y`."""
    if x.dtype.is_float:
        return _float_divmod(b, x, y)[1]
    rest = _divide_integers(b, x, y)[1]
    if x.dtype.kind == "u":
        return rest
    return b.select(_off_by_one(b, rest, y), b.binary("add", rest, y), rest)


def _divide_integers(b: TextBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient towards zero and its remainder; 0 and 0 for divisor 0, wrapping for -1."""
    zero, one = b.constant(y, 0), b.constant(y, 1)
    is_zero = b.compare("eq", y, zero)
    in_floats = x.lanes > 1 and x.dtype.bits < 64 and y.text.startswith("%")  # no instruction divides integer vectors
    quotient_of = _quotient_in_floats if in_floats else _quotient
    if x.dtype.kind == "u":
        quotient = quotient_of(b, x, b.select(is_zero, one, y))
    else:
        is_minus = b.compare("eq", y, b.constant(y, -1))
        quotient = quotient_of(b, x, b.select(b.binary("or", is_zero, is_minus), one, y))
        quotient = b.select(is_minus, b.binary("sub", zero, x), quotient)
    rest = b.binary("sub", x, b.binary("mul", quotient, y))
    return b.select(is_zero, zero, quotient), b.select(is_zero, zero, rest)


def _quotient(b: TextBuilder, x: Value, y: Value) -> Value:
    """x / y towards zero, for y neither 0 nor -1."""
    return b.binary("sdiv" if x.dtype.kind == "i" else "udiv", x, y)


def _quotient_in_floats(b: TextBuilder, x: Value, y: Value) -> Value:
    """The same by a float division with twice the bits: a quotient below an integer is further from it than rounding reaches."""
    sign = "s" if x.dtype.kind == "i" else "u"
    wide = f64 if x.dtype.bits == 32 else f32
    whole = b.binary("fdiv", b.convert(f"{sign}itofp", x, wide), b.convert(f"{sign}itofp", y, wide))
    return b.convert(f"fpto{sign}i", whole, x.dtype)


def _off_by_one(b: TextBuilder, rest: Value, y: Value) -> Value:
    """Where the floor lies below the truncation: a remainder whose sign is not the divisor's."""
    zero = b.constant(rest, 0)
    differ = b.compare("slt", b.binary("xor", rest, y), zero)
    return b.binary("and", differ, b.compare("ne", rest, zero))


def _float_divmod(b: TextBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """As `raido.algo.graph.primitives._float_divmod`, step by step."""
    zero, one, half = b.constant(x, 0.0), b.constant(x, 1.0), b.constant(x, 0.5)
    exact = b.binary("frem", x, y)
    quotient = b.binary("fdiv", b.binary("fsub", x, exact), y)
    nonzero = b.compare("une", exact, zero)
    signs = b.binary("xor", b.compare("olt", y, zero), b.compare("olt", exact, zero))
    wrong = b.binary("and", nonzero, signs)
    rest = b.select(wrong, b.binary("fadd", exact, y), exact)
    rest = b.select(nonzero, rest, b.intrinsic("copysign", b.constant(x, 0.0), y))
    quotient = b.select(wrong, b.binary("fsub", quotient, one), quotient)
    floored = b.intrinsic("floor", quotient)
    more = b.compare("ogt", b.binary("fsub", quotient, floored), half)
    floored = b.select(more, b.binary("fadd", floored, one), floored)
    plain = b.binary("fdiv", x, y)
    floored = b.select(b.compare("une", quotient, zero), floored, b.intrinsic("copysign", b.constant(x, 0.0), plain))
    by_zero = b.compare("oeq", y, zero)
    return b.select(by_zero, plain, floored), b.select(by_zero, exact, rest)
