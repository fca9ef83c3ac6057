"""Every primitive operation as LLVM instructions, with exactly the meaning of `raido.algo.graph.primitives`, at any number of lanes.

`write_operation(builder, name, dtype, *operands)` appends the instructions and returns the result; math functions are written from
their recipes. Invariants: no float product is left where LLVM could contract it; integers wrap; nothing is undefined for any
operand (divisors 0 and -1, shifts, conversions out of range).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from raido.algo.graph.dtypes import DType, bool_, f16, f32, f64, i32, signed
from raido.algo.graph.primitives import RECIPES
from raido.targets.llvm.fused import round_to_odd, write_fma
from raido.targets.llvm.text import TextBuilder, Value, mangled

Writer = Callable[..., Value]
_WRITERS: dict[str, Writer] = {}


def _writes(*names: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(names, writer))
        return writer

    return register


def write_operation(b: TextBuilder, name: str, dtype: DType, *operands: Value) -> Value:
    """Appends primitive `name` with a result of type `dtype`."""
    name = _NUMPY_NAMES.get(name, name)
    if name in RECIPES:
        return _write_recipe(b, name, *operands)
    if name in ("cast", "bitcast", "popcount", "clz", "ctz"):
        return _WRITERS[name](b, dtype, *operands)
    return _WRITERS[name](b, *operands)


_NUMPY_NAMES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negative": "neg",
    "absolute": "abs",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "bitwise_and": "bit_and",
    "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
    "invert": "bit_not",
    "left_shift": "shl",
    "right_shift": "shr",
    "where": "select",
}


# --- arithmetic


@_writes("add")
def _add(b: TextBuilder, x: Value, y: Value) -> Value:
    if x.dtype is bool_:
        return b.binary("or", x, y)
    return b.binary("fadd" if x.dtype.is_float else "add", x, y)


@_writes("sub")
def _sub(b: TextBuilder, x: Value, y: Value) -> Value:
    return b.binary("fsub" if x.dtype.is_float else "sub", x, y)


@_writes("mul")
def _mul(b: TextBuilder, x: Value, y: Value) -> Value:
    if x.dtype is bool_:
        return b.binary("and", x, y)
    if not x.dtype.is_float:
        return b.binary("mul", x, y)
    product = b.binary("fmul", x, y)
    return product if x.dtype is f16 else b.fence(product)


@_writes("neg")
def _neg(b: TextBuilder, x: Value) -> Value:
    return b.unary("fneg", x) if x.dtype.is_float else b.binary("sub", b.constant(x, 0), x)


@_writes("abs")
def _abs(b: TextBuilder, x: Value) -> Value:
    if x.dtype.is_float:
        return b.intrinsic("fabs", x)
    return b.intrinsic("abs", x, "i1 false") if x.dtype.kind == "i" else x


@_writes("sign")
def _sign(b: TextBuilder, x: Value) -> Value:
    zero, one = b.constant(x, 0), b.constant(x, 1)
    if x.dtype.kind == "u":
        return b.select(b.compare("eq", x, zero), zero, one)
    minus = b.constant(x, -1)
    greater, less, equal = ("ogt", "olt", "oeq") if x.dtype.is_float else ("sgt", "slt", "eq")
    rest = b.select(b.compare(equal, x, zero), zero, x)
    return b.select(b.compare(greater, x, zero), one, b.select(b.compare(less, x, zero), minus, rest))


@_writes("minimum")
def _minimum(b: TextBuilder, x: Value, y: Value) -> Value:
    return _extreme(b, x, y, "min")


@_writes("maximum")
def _maximum(b: TextBuilder, x: Value, y: Value) -> Value:
    return _extreme(b, x, y, "max")


def _extreme(b: TextBuilder, x: Value, y: Value, which: str) -> Value:
    """Of floats: done in both orders, which differ in the bits of a NaN and of zeros of both signs, and all of these taken together."""
    if x.dtype is bool_:
        return b.binary("and" if which == "min" else "or", x, y)
    if not x.dtype.is_float:
        return b.intrinsic(("s" if x.dtype.kind == "i" else "u") + which, x, y)
    for known, other in ((x, y), (y, x)):
        if known.literal is not None and not math.isnan(known.literal):
            return _extreme_with_literal(b, known, other, which)
    one, other = (_bits(b, _nearer(b, *pair, which)) for pair in ((x, y), (y, x)))
    if which == "min":
        either = b.binary("or", one, other)
    elif b.vector_bits == x.lanes * x.dtype.bits == 512:  # by each bit: its "and" where that is the sign, else its "or"
        sign = b.constant(one, -1 << (one.dtype.bits - 1))
        words = [b.result(i32, 16, f"bitcast {v.typed} to <16 x i32>") for v in (one, other, sign)]
        taken = b.call("llvm.x86.avx512.pternlog.d.512", i32, 16, *words, "i32 212")
        return b.result(x.dtype, x.lanes, f"bitcast {taken.typed} to {x.type}")
    else:
        unordered = b.convert("sext", b.compare("uno", x, y), one.dtype)
        either = b.binary("or", b.binary("and", one, other), unordered)
    return b.convert("bitcast", either, x.dtype)


def _bits(b: TextBuilder, x: Value) -> Value:
    return b.convert("bitcast", x, signed(x.dtype.bits))


def _nearer(b: TextBuilder, x: Value, y: Value, which: str) -> Value:
    """One instruction of the machine: `y` where they are equal or one is a NaN."""
    return b.select(b.compare("olt" if which == "min" else "ogt", x, y), x, y)


def _extreme_with_literal(b: TextBuilder, known: Value, x: Value, which: str) -> Value:
    """Of a literal that is no NaN and `x`: only against one of the two zeros does the sign of a zero need a look."""
    nearer = _nearer(b, known, x, which)
    if known.literal != 0 or (math.copysign(1, known.literal) < 0) is (which == "max"):
        return nearer
    size = b.intrinsic("fabs", nearer)
    return size if which == "max" else b.unary("fneg", size)


@_writes("div")
def _div(b: TextBuilder, x: Value, y: Value) -> Value:
    quotient = b.binary("fdiv", x, y)  # by a power of two LLVM makes it a product, which no sum may take in
    return quotient if x.dtype is f16 else b.fence(quotient)


_WRITERS["fma"] = write_fma


for _name in ("sqrt", "floor", "ceil", "trunc", "rint"):

    def _native(b: TextBuilder, x: Value, name: str = _name) -> Value:
        return b.intrinsic(name, x)

    _WRITERS[_name] = _native


@_writes("copysign")
def _copysign(b: TextBuilder, x: Value, y: Value) -> Value:
    return b.intrinsic("copysign", x, y)


# --- division and remainder


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


@_writes("truncdiv")
def _truncdiv(b: TextBuilder, x: Value, y: Value) -> Value:
    if x.dtype is f16:
        return _in_f32(b, _truncdiv, x, y)
    if x.dtype.is_float:
        return b.intrinsic("trunc", b.binary("fdiv", x, y))
    return _divide_integers(b, x, y)[0]


@_writes("truncrem", "fmod")
def _truncrem(b: TextBuilder, x: Value, y: Value) -> Value:
    if x.dtype is f16:
        return _in_f32(b, _truncrem, x, y)
    return b.binary("frem", x, y) if x.dtype.is_float else _divide_integers(b, x, y)[1]


@_writes("floordiv")
def _floordiv(b: TextBuilder, x: Value, y: Value) -> Value:
    if x.dtype.is_float:
        return _float_divmod(b, x, y)[0]
    quotient, rest = _divide_integers(b, x, y)
    if x.dtype.kind == "u":
        return quotient
    return b.select(_off_by_one(b, rest, y), b.binary("sub", quotient, b.constant(quotient, 1)), quotient)


@_writes("floormod", "mod", "wrap_index")
def _floormod(b: TextBuilder, x: Value, y: Value) -> Value:
    if x.dtype.is_float:
        return _float_divmod(b, x, y)[1]
    rest = _divide_integers(b, x, y)[1]
    if x.dtype.kind == "u":
        return rest
    return b.select(_off_by_one(b, rest, y), b.binary("add", rest, y), rest)


def _in_f32(b: TextBuilder, writer: Writer, *args: Value) -> Value:
    return b.convert("fptrunc", writer(b, *(b.convert("fpext", a, f32) for a in args)), f16)


def _float_divmod(b: TextBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """As `raido.algo.graph.primitives._float_divmod`, step by step."""
    if x.dtype is f16:
        wide = _float_divmod(b, b.convert("fpext", x, f32), b.convert("fpext", y, f32))
        return b.convert("fptrunc", wide[0], f16), b.convert("fptrunc", wide[1], f16)
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


@_writes("ipow")
def _ipow(b: TextBuilder, x: Value, y: Value) -> Value:
    zero, one = b.constant(x, 0), b.constant(x, 1)
    exponent = b.intrinsic("smax", y, zero) if y.dtype.kind == "i" else y
    before, loop, done = b.label, b.fresh_label("power"), b.fresh_label("powered")
    base_in, left_in, total_in = b.name(), b.name(), b.name()
    base_out, left_out, total_out = b.name(), b.name(), b.name()
    b.line(f"br label %{loop}")
    b.start_block(loop)
    for here, start, after in ((base_in, x, base_out), (left_in, exponent, left_out), (total_in, one, total_out)):
        b.line(f"{here} = phi {x.type} [ {start.text}, %{before} ], [ {after}, %{loop} ]")
    base, left, total = (Value(x.dtype, x.lanes, text) for text in (base_in, left_in, total_in))
    odd = b.compare("ne", b.binary("and", left, one), zero)
    multiplied = b.binary("mul", total, base)
    b.line(f"{total_out} = select {odd.typed}, {multiplied.typed}, {total.typed}")
    b.line(f"{base_out} = mul {base.typed}, {base.text}")
    b.line(f"{left_out} = lshr {left.typed}, {one.text}")
    more = b.any(b.compare("ne", Value(x.dtype, x.lanes, left_out), zero))
    b.line(f"br {more.typed}, label %{loop}, label %{done}")
    b.start_block(done)
    return Value(x.dtype, x.lanes, total_out)


# --- bits


for _name, _opcode in (("and", "and"), ("or", "or"), ("xor", "xor")):

    def _bitwise(b: TextBuilder, x: Value, y: Value, opcode: str = _opcode) -> Value:
        return b.binary(opcode, x, y)

    _WRITERS[f"bit_{_name}"] = _WRITERS[f"logical_{_name}"] = _bitwise


@_writes("bit_not", "logical_not")
def _not(b: TextBuilder, x: Value) -> Value:
    return b.binary("xor", x, b.constant(x, True if x.dtype is bool_ else -1))


@_writes("shl")
def _shl(b: TextBuilder, x: Value, count: Value) -> Value:
    inside = b.compare("ult", count, b.constant(count, x.dtype.bits))
    zero = b.constant(x, 0)
    return b.select(inside, b.binary("shl", x, b.select(inside, count, zero)), zero)


@_writes("shr")
def _shr(b: TextBuilder, x: Value, count: Value) -> Value:
    inside = b.compare("ult", count, b.constant(count, x.dtype.bits))
    safe = b.select(inside, count, b.constant(count, x.dtype.bits - 1))
    if x.dtype.kind == "i":
        return b.binary("ashr", x, safe)
    return b.select(inside, b.binary("lshr", x, safe), b.constant(x, 0))


@_writes("popcount")
def _popcount(b: TextBuilder, dtype: DType, x: Value) -> Value:
    return _resize(b, b.intrinsic("ctpop", x), dtype)


@_writes("clz")
def _clz(b: TextBuilder, dtype: DType, x: Value) -> Value:
    return _resize(b, b.intrinsic("ctlz", x, "i1 false"), dtype)


@_writes("ctz")
def _ctz(b: TextBuilder, dtype: DType, x: Value) -> Value:
    return _resize(b, b.intrinsic("cttz", x, "i1 false"), dtype)


def _resize(b: TextBuilder, count: Value, dtype: DType) -> Value:
    return b.convert("zext" if dtype.bits > count.dtype.bits else "trunc", count, dtype)


# --- comparisons, selection, classes of floats

_COMPARISONS = {
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
}
for _name, _predicates in _COMPARISONS.items():

    def _compare(b: TextBuilder, x: Value, y: Value, predicates: tuple[str, str, str] = _predicates) -> Value:
        return b.compare(predicates["fi".find(x.dtype.kind)], x, y)

    _WRITERS[_name] = _compare


@_writes("select")
def _select(b: TextBuilder, mask: Value, x: Value, y: Value) -> Value:
    return b.select(mask, x, y)


@_writes("isnan")
def _isnan(b: TextBuilder, x: Value) -> Value:
    return b.compare("uno", x, x)


@_writes("isinf")
def _isinf(b: TextBuilder, x: Value) -> Value:
    return b.compare("oeq", b.intrinsic("fabs", x), b.constant(x, float("inf")))


@_writes("isfinite")
def _isfinite(b: TextBuilder, x: Value) -> Value:
    return b.compare("olt", b.intrinsic("fabs", x), b.constant(x, float("inf")))


@_writes("signbit")
def _signbit(b: TextBuilder, x: Value) -> Value:
    bits = b.convert("bitcast", x, signed(x.dtype.bits))
    return b.compare("slt", bits, b.constant(bits, 0))


# --- conversions


@_writes("bitcast")
def _bitcast(b: TextBuilder, dtype: DType, x: Value) -> Value:
    return b.convert("bitcast", x, dtype)


@_writes("cast")
def _cast(b: TextBuilder, dtype: DType, x: Value) -> Value:
    if dtype is x.dtype:
        return x
    if dtype is bool_:
        return b.compare("une" if x.dtype.is_float else "ne", x, b.constant(x, 0))
    if dtype.is_float:
        return _to_float(b, dtype, x)
    if not x.dtype.is_float:
        if dtype.bits <= x.dtype.bits:
            return b.convert("trunc", x, dtype)
        return b.convert("sext" if x.dtype.kind == "i" else "zext", x, dtype)
    if x.dtype is f16:
        x = b.convert("fpext", x, f32)
    name = f"llvm.fpto{'s' if dtype.kind == 'i' else 'u'}i.sat.{mangled(dtype, x.lanes)}.{mangled(x.dtype, x.lanes)}"
    return b.call(name, dtype, x.lanes, x)


def _to_float(b: TextBuilder, dtype: DType, x: Value) -> Value:
    if not x.dtype.is_float:
        number = b.convert("sitofp" if x.dtype.kind == "i" else "uitofp", x, f32 if dtype is f16 else dtype)
        return b.convert("fptrunc", number, f16) if dtype is f16 else number
    if dtype.bits > x.dtype.bits:
        return b.convert("fpext", x, dtype)
    if dtype is not f16 or x.dtype is not f64:
        return b.convert("fptrunc", x, dtype)
    nearest = b.convert("fptrunc", x, f32)  # and to odd, so that the second rounding is the only one
    back = b.convert("fpext", nearest, f64)
    outward = b.compare("ogt", b.intrinsic("fabs", x), b.intrinsic("fabs", back))
    return b.convert("fptrunc", round_to_odd(b, nearest, b.compare("one", x, back), outward), f16)


# --- boundary indices


@_writes("clamp_index")
def _clamp_index(b: TextBuilder, e: Value, n: Value) -> Value:
    last = b.binary("sub", n, b.constant(n, 1))
    return b.intrinsic("smax", b.intrinsic("smin", e, last), b.constant(e, 0))


@_writes("mirror_index")
def _mirror_index(b: TextBuilder, e: Value, n: Value) -> Value:
    one = b.constant(n, 1)
    period = b.binary("shl", b.binary("sub", n, one), one)
    period = b.intrinsic("smax", period, one)
    place = _floormod(b, e, period)
    place = b.intrinsic("smin", place, b.binary("sub", period, place))
    return b.select(b.compare("sgt", n, one), place, b.constant(e, 0))


@_writes("symmetric_index")
def _symmetric_index(b: TextBuilder, e: Value, n: Value) -> Value:
    one = b.constant(n, 1)
    period = b.binary("shl", n, one)
    place = _floormod(b, e, period)
    return b.intrinsic("smin", place, b.binary("sub", b.binary("sub", period, one), place))


# --- math functions


class _RecipeBuilder:
    """`raido.algo.recipes.builder.Builder` over LLVM text; a `rare` value is computed behind a branch.

    There stands `whole`, a call of the same function written without branches, if it is given: code that hardly ever runs is then
    compiled once, and its constants take no registers from the loop.
    """

    def __init__(self, b: TextBuilder, like: Value, whole: Callable[[], Value] | None) -> None:
        self.b = b
        self.like = like
        self.whole = whole

    def constant(self, dtype: DType, value: Any) -> Value:
        return self.b.constant(self.like, value, dtype)

    def operation(self, name: str, dtype: DType, *args: Value) -> Value:
        return write_operation(self.b, name, dtype, *args)

    def rare(self, condition: Value, usual: Value, unusual: Callable[[], Value]) -> Value:
        b = self.b
        rare, common = b.fresh_label("rare"), b.fresh_label("common")
        before = b.label
        b.line(f"br {b.any(condition).typed}, label %{rare}, label %{common}")
        b.start_block(rare)
        mixed = self.whole() if self.whole else b.select(condition, unusual(), usual)
        after = b.label
        b.line(f"br label %{common}")
        b.start_block(common)
        return b.result(
            usual.dtype, usual.lanes, f"phi {usual.type} [ {usual.text}, %{before} ], [ {mixed.text}, %{after} ]"
        )


def _write_recipe(b: TextBuilder, name: str, *args: Value) -> Value:
    from raido.algo.recipes import build_recipe

    like = args[0]
    if like.dtype is f16:
        wide = _write_recipe(b, name, *(b.convert("fpext", a, f32) for a in args))
        return b.convert("fptrunc", wide, f16)
    call = b.call_apart
    whole = (lambda: call(b, name, args)) if call else None
    return build_recipe(name, _RecipeBuilder(b, like, whole), like.dtype, *args)
