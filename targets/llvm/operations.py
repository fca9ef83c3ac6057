"""Every primitive operation as LLVM instructions, with exactly the meaning of `raido.algo.graph.primitives`, at any number of lanes.

`write_operation(builder, name, dtype, *operands)` appends the instructions and returns the result; math functions are written from
their recipes. Invariants: no float product is left where LLVM could contract it; integers wrap; nothing is undefined for any
operand (divisors 0 and -1, shifts, conversions out of range). `narrow` says what f16 and bf16 are here.
"""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.graph.dtypes import DType, bool_, f16, f32, signed
from raido.algo.graph.primitives import RECIPES
from raido.targets.llvm.conversions import write_cast
from raido.targets.llvm.division import write_floordiv, write_floormod, write_truncdiv, write_truncrem
from raido.targets.llvm.extremes import write_maximum, write_minimum
from raido.targets.llvm.fused import write_fma
from raido.targets.llvm.narrow import is_computed_in_f32, round_result, widen
from raido.targets.llvm.recipes import write_recipe
from raido.targets.llvm.text import TextBuilder, Value

Writer = Callable[..., Value]
_WRITERS: dict[str, Writer] = {}


def _writes(*names: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(names, writer))
        return writer

    return register


def write_operation(b: TextBuilder, name: str, dtype: DType, *operands: Value) -> Value:
    """Appends primitive `name` with a result of type `dtype`."""
    if is_computed_in_f32(name, operands[0].dtype):
        wide = write_operation(b, name, f32 if dtype.is_float else dtype, *(widen(b, x) for x in operands))
        return round_result(b, name, wide, dtype) if dtype.is_float else wide
    if name in RECIPES:
        return write_recipe(b, name, operands, write_operation)
    if name in ("cast", "bitcast", "popcount", "clz", "ctz"):
        return _WRITERS[name](b, dtype, *operands)
    return _WRITERS[name](b, *operands)


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


@_writes("div")
def _div(b: TextBuilder, x: Value, y: Value) -> Value:
    quotient = b.binary("fdiv", x, y)  # by a power of two LLVM makes it a product, which no sum may take in
    return quotient if x.dtype is f16 else b.fence(quotient)


_WRITERS |= {"fma": write_fma, "minimum": write_minimum, "maximum": write_maximum, "cast": write_cast}
_WRITERS |= {"truncdiv": write_truncdiv, "truncrem": write_truncrem, "fmod": write_truncrem, "floordiv": write_floordiv}
_WRITERS |= dict.fromkeys(("floormod", "mod", "wrap_index"), write_floormod)


for _name in ("sqrt", "floor", "ceil", "trunc", "rint"):

    def _native(b: TextBuilder, x: Value, name: str = _name) -> Value:
        return b.intrinsic(name, x)

    _WRITERS[_name] = _native


@_writes("copysign")
def _copysign(b: TextBuilder, x: Value, y: Value) -> Value:
    return b.intrinsic("copysign", x, y)


# --- powers of integers


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


@_writes("bitcast")
def _bitcast(b: TextBuilder, dtype: DType, x: Value) -> Value:
    return b.convert("bitcast", x, dtype)


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
    place = write_floormod(b, e, period)
    place = b.intrinsic("smin", place, b.binary("sub", period, place))
    return b.select(b.compare("sgt", n, one), place, b.constant(e, 0))


@_writes("symmetric_index")
def _symmetric_index(b: TextBuilder, e: Value, n: Value) -> Value:
    one = b.constant(n, 1)
    period = b.binary("shl", n, one)
    place = write_floormod(b, e, period)
    return b.intrinsic("smin", place, b.binary("sub", b.binary("sub", period, one), place))
