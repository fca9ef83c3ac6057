"""Integer quotients and remainders of vectors by a divisor that all lanes share: by multiplication, without a division in any lane.

With 2**(l − 1) < d <= 2**l and m = ⌊2**N (2**l − d) / d⌋ + 1, ⌊n / d⌋ of a number n of N bits is (n + ⌊m n / 2**N⌋) >> l, the sum taken
without overflow (T. Granlund & P. Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figure 4.1). Signed numbers
are divided by magnitude, which is at most 2**(N − 1), so that the sum has N bits: ⌊x / d⌋ is ~⌊~x / d⌋ for negative x, and that of a
negative divisor ~⌊(x − 1) / −d⌋. m and l depend on the divisor alone: LLVM hoists them out of the loop, since their operations can be
executed speculatively (there is no integer division among them). For a literal divisor they are literals.
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.algo.graph.dtypes import DType, bool_, f64, u16, u32, u64, unsigned
from raido.targets.llvm.text import TextBuilder, Value, literal

_QUOTIENTS = ("floordiv", "truncdiv")
_TRUNCATED = ("truncdiv", "truncrem")


def write_by_shared(b: TextBuilder, name: str, dtype: DType, x: Value, y: Value) -> Value | None:
    """Writes a floored or truncated quotient or remainder of integer vectors; 0 for a divisor of 0. None where another way is as good."""
    scalar = y.shared if y.literal is None else Value(y.dtype, 1, literal(y.dtype, y.literal), y.literal)
    if dtype.is_float or x.lanes == 1 or scalar is None:
        return None
    if scalar.literal is not None and _is_simple(dtype, int(scalar.literal)):
        return None
    by = _divisor(b, scalar)
    quotient = _quotient_of_signed(b, x, by, name in _TRUNCATED) if dtype.kind == "i" else _quotient(b, x, by)
    result = quotient
    if name not in _QUOTIENTS:
        result = b.binary("sub", x, b.binary("mul", quotient, y))
    return b.binary("and", result, _spread(b, by.nonzero, x)) if by.nonzero is not None else result


def _is_simple(dtype: DType, divisor: int) -> bool:
    """Whether LLVM or the recipe divides by a literal as well: by powers of two, and unsigned numbers of up to 32 bits."""
    return (divisor >= 0 and divisor.bit_count() <= 1) or (dtype.kind == "u" and dtype.bits < 64)


@dataclass(frozen=True, slots=True)
class _Divisor:
    """Scalars derived from a divisor: the factor m, the shift l, and masks, -1 where it is negative, and where it is not 0 (each None for a
    literal that is non-negative, or non-zero)."""

    factor: Value
    shift: Value
    negative: Value | None
    nonzero: Value | None


def _divisor(b: TextBuilder, y: Value) -> _Divisor:
    bits = y.dtype.bits
    whole = Value(unsigned(bits), 1, y.text)
    zero = b.constant(y, 0)
    if y.literal is not None:
        size = abs(int(y.literal))
        shift = (size - 1).bit_length()
        factor = ((1 << bits) * ((1 << shift) - size)) // size + 1
        negative = b.constant(y, -1) if y.literal < 0 else None
        return _Divisor(b.constant(whole, factor), b.constant(whole, shift), negative, None)
    negative = b.binary("ashr", y, b.constant(y, bits - 1)) if y.dtype.kind == "i" else None
    if negative is not None:
        whole = b.binary("sub", b.binary("xor", y, negative), negative)
    nonzero = b.convert("sext", b.compare("ne", y, zero), y.dtype)
    size = b.intrinsic("umax", Value(unsigned(bits), 1, whole.text), b.constant(zero, 1, unsigned(bits)))
    below = b.binary("sub", size, b.constant(size, 1))
    shift = b.binary("sub", b.constant(size, bits), b.intrinsic("ctlz", below, "i1 false"))
    factor = b.binary("add", _reciprocal(b, size, shift), b.constant(size, 1))
    return _Divisor(factor, shift, negative, nonzero)


def _reciprocal(b: TextBuilder, size: Value, shift: Value) -> Value:
    """⌊2**N (2**shift − size) / size⌋ of scalars, by digits of at most 32 bits: float quotients, at most one off, and corrected."""
    bits = size.dtype.bits
    one, last = b.constant(size, 1), b.constant(size, bits)
    power = b.binary("shl", one, b.binary("and", shift, b.constant(size, bits - 1)))
    power = b.select(b.compare("eq", shift, last), b.constant(size, 0), power)
    rest, divisor = (b.convert("zext", v, u64) for v in (b.binary("sub", power, size), size))
    if bits < 64:
        return b.convert("trunc", _digit(b, rest, divisor, bits)[0], size.dtype)
    upper, rest = _digit(b, rest, divisor, 32)
    lower, _ = _digit(b, rest, divisor, 32)
    return b.binary("or", b.binary("shl", upper, b.constant(upper, 32)), lower)


def _digit(b: TextBuilder, rest: Value, divisor: Value, bits: int) -> tuple[Value, Value]:
    """Digit ⌊2**bits rest / divisor⌋ and its remainder, for rest < divisor: a float estimate, corrected by its exact remainder in 128 bits."""
    ratio = b.binary("fdiv", b.convert("uitofp", rest, f64), b.convert("uitofp", divisor, f64))
    estimate = b.convert("fptoui", b.binary("fmul", ratio, b.constant(ratio, 2.0**bits)), u64)
    wide = {}
    for name, value in (("rest", rest), ("divisor", divisor), ("estimate", estimate)):
        wide[name] = b.name()
        b.line(f"{wide[name]} = zext {value.typed} to i128")
    moved, product, left = b.name(), b.name(), b.name()
    b.line(f"{moved} = shl i128 {wide['rest']}, {bits}")
    b.line(f"{product} = mul i128 {wide['estimate']}, {wide['divisor']}")
    b.line(f"{left} = sub i128 {moved}, {product}")
    high, low = (
        b.result(bool_, 1, f"icmp {p} i128 {left}, {other}") for p, other in (("slt", "0"), ("sge", wide["divisor"]))
    )
    remainder = b.result(u64, 1, f"trunc i128 {left} to i64")
    zero = b.constant(divisor, 0)
    remainder = b.binary("add", remainder, b.select(high, divisor, zero))
    remainder = b.binary("sub", remainder, b.select(low, divisor, zero))
    digit = b.binary("sub", estimate, b.convert("zext", high, u64))
    return b.binary("add", digit, b.convert("zext", low, u64)), remainder


# --- in lanes


def _spread(b: TextBuilder, scalar: Value, like: Value) -> Value:
    """A scalar broadcast to the lanes of `like`, and of its type."""
    if scalar.literal is not None:
        return b.constant(like, scalar.literal)
    spread = b.spread(scalar, like.lanes)
    return Value(like.dtype, like.lanes, spread.text)


def _quotient_of_signed(b: TextBuilder, x: Value, by: _Divisor, truncated: bool) -> Value:
    """x / d of signed numbers, rounded towards zero or down."""
    top = b.constant(x, x.dtype.bits - 1)
    negative = None if by.negative is None else _spread(b, by.negative, x)
    moved = x if negative is None or truncated else b.binary("add", x, negative)
    sign = b.binary("ashr", x if moved is x else b.binary("or", x, moved), top)
    size = b.binary("xor", moved, sign)
    if truncated:
        size = b.binary("sub", size, sign)
    total = b.binary("add", size, _upper_half(b, size, by.factor))
    quotient = b.binary("lshr", total, _spread(b, by.shift, x))
    back = sign if negative is None else b.binary("xor", sign, negative)
    quotient = b.binary("xor", quotient, back)
    return b.binary("sub", quotient, back) if truncated else quotient


def _quotient(b: TextBuilder, x: Value, by: _Divisor) -> Value:
    """⌊x / d⌋ of unsigned numbers: the sum, which may need N + 1 bits, is halved first, then shifted by l − 1."""
    upper = _upper_half(b, x, by.factor)
    if by.shift.literal is not None:
        once = b.constant(by.shift, min(by.shift.literal, 1))
        more = b.constant(by.shift, by.shift.literal - once.literal)
    else:
        once = b.intrinsic("umin", by.shift, b.constant(by.shift, 1))
        more = b.binary("sub", by.shift, once)
    half = b.binary("lshr", b.binary("sub", x, upper), _spread(b, once, x))
    return b.binary("lshr", b.binary("add", upper, half), _spread(b, more, x))


def _upper_half(b: TextBuilder, x: Value, factor: Value) -> Value:
    """⌊factor · x / 2**N⌋ of N-bit numbers, taken as unsigned."""
    bits = x.dtype.bits
    if bits == 64:
        return _upper_half_of_64(b, x, factor)
    if bits == 32 and x.lanes > 2 and x.lanes % 2 == 0:
        return _upper_half_of_32(b, x, factor)
    wide = {8: u16, 16: u32, 32: u64}[bits]
    number = b.convert("zext", Value(unsigned(bits), x.lanes, x.text), wide)
    product = b.binary("mul", number, _spread(b, _widened(b, factor, wide), number))
    return b.convert("trunc", b.binary("lshr", product, b.constant(product, bits)), x.dtype)


def _upper_half_of_32(b: TextBuilder, x: Value, factor: Value) -> Value:
    """Upper halves of 32-bit products, of even and odd lanes separately: the instruction that multiplies 32 bits to 64 takes every other
    lane."""
    pairs = x.lanes // 2
    both = b.result(u64, pairs, f"bitcast {x.typed} to <{pairs} x i64>")
    by = _spread(b, _widened(b, factor, u64), both)
    low = b.binary("mul", b.binary("and", both, b.constant(both, 0xFFFFFFFF)), by)
    high = b.binary("mul", b.binary("lshr", both, b.constant(both, 32)), by)
    of_low, of_high = (
        Value(x.dtype, x.lanes, b.result(u64, pairs, f"bitcast {v.typed} to {x.type}").text) for v in (low, high)
    )
    return b.shuffle(of_low, of_high, [k + 1 + (k % 2) * (x.lanes - 1) for k in range(x.lanes)])


def _upper_half_of_64(b: TextBuilder, x: Value, factor: Value) -> Value:
    """Upper halves of 64-bit products, by four products of 32-bit halves."""
    mask, half = b.constant(x, 0xFFFFFFFF), b.constant(x, 32)
    if factor.literal is not None:
        parts = [b.constant(x, factor.literal & 0xFFFFFFFF), b.constant(x, factor.literal >> 32)]
    else:
        lower = b.binary("and", factor, b.constant(factor, 0xFFFFFFFF))
        parts = [_spread(b, v, x) for v in (lower, b.binary("lshr", factor, b.constant(factor, 32)))]
    (low, high), (by_low, by_high) = (b.binary("and", x, mask), b.binary("lshr", x, half)), parts
    carried = b.binary("lshr", b.binary("mul", low, by_low), half)
    one = b.binary("add", b.binary("mul", high, by_low), carried)
    other = b.binary("add", b.binary("mul", low, by_high), b.binary("and", one, mask))
    upper = b.binary("add", b.binary("mul", high, by_high), b.binary("lshr", one, half))
    return b.binary("add", upper, b.binary("lshr", other, half))


def _widened(b: TextBuilder, factor: Value, wide: DType) -> Value:
    return b.constant(factor, factor.literal, wide) if factor.literal is not None else b.convert("zext", factor, wide)
