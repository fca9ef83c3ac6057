"""Operations as LLVM instructions, at any number of lanes: the table of native ones, and of recipes for which LLVM has a faster equivalent.

`write_operation(builder, name, dtype, *operands)` appends the instructions and returns the result, with exactly the meaning of
`raido.algo.graph.primitives`; operations neither native nor in `_BETTER` are written from their recipes. Invariants: LLVM finds no float
product to contract; integers wrap. bf16 is an `i16` everywhere: LLVM's `bfloat` is rounded by VCVTNEPS2BF16 where the processor has it,
which flushes subnormal numbers to 0 (Intel SDM, volume 2C). f16 is LLVM's `half`, whose arithmetic is f32's, rounded, on every processor.
"""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.graph.dtypes import DType, bf16, bool_, f16, f32, f64
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.recipes.native import is_native
from raido.targets.llvm.dots import write_byte_differences, write_dot_halves, write_dot_quarters
from raido.targets.llvm.extremes import write_extreme, write_extreme_of_numbers
from raido.targets.llvm.fused import write_fma_f64
from raido.targets.llvm.recipes import write_recipe
from raido.targets.llvm.shared_divisor import write_by_shared
from raido.targets.llvm.text import TextBuilder, Value, mangled

Writer = Callable[..., Value]
_OF_HALVES = (
    *("add", "sub", "mul", "div", "neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"),
    *("lt", "le", "gt", "ge", "eq", "ne"),
)


def write_operation(b: TextBuilder, name: str, dtype: DType, *operands: Value) -> Value:
    """Appends operation `name` with a result of type `dtype`."""
    better = _BETTER[name](b, dtype, *operands) if name in _BETTER else None
    if better is not None:
        return better
    types = [x.dtype for x in operands]
    if is_native(name, dtype, types) or (types[0] is f16 and name in _OF_HALVES):
        return _NATIVE[name](b, dtype, *operands)
    return write_recipe(b, name, dtype, operands, write_operation)


# --- native operations


def _arithmetic(of_integers: str) -> Writer:
    def write(b: TextBuilder, dtype: DType, x: Value, y: Value) -> Value:
        return b.binary(f"f{of_integers}" if dtype.is_float else of_integers, x, y)

    return write


def _opcode(opcode: str) -> Writer:
    return lambda b, _, x, y: b.binary(opcode, x, y)


def _intrinsic(name: str, *more: str) -> Writer:
    return lambda b, _, *operands: b.intrinsic(name, *operands, *more)


def _by_sign(of_signed: Writer, of_unsigned: Writer) -> Writer:
    return lambda b, dtype, *operands: (of_signed if operands[0].dtype.kind == "i" else of_unsigned)(
        b, dtype, *operands
    )


def _comparison(*predicates: str) -> Writer:
    return lambda b, _, x, y: b.compare(predicates["fi".find(x.dtype.kind)], x, y)


def _fenced(write: Writer) -> Writer:
    """A writer whose result LLVM cannot contract into sums; quotients too, since LLVM multiplies by the reciprocal of a power of two."""

    def fenced(b: TextBuilder, dtype: DType, x: Value, y: Value) -> Value:
        result = write(b, dtype, x, y)
        return b.fence(result) if dtype in (f32, f64) else result

    return fenced


def _quotient(b: TextBuilder, dtype: DType, x: Value, y: Value) -> Value:
    """The truncated quotient of integers. Vectors are divided as floats of twice the bits, since no instruction divides them as integers;
    the rounded quotient never reaches the next integer."""
    if x.lanes > 1 and dtype.bits < 64 and y.literal is None:
        wide = f64 if dtype.bits == 32 else f32
        return _convert(b, dtype, b.binary("fdiv", _convert(b, wide, x), _convert(b, wide, y)))
    return b.binary("sdiv" if dtype.kind == "i" else "udiv", x, y)


def _convert(b: TextBuilder, dtype: DType, x: Value) -> Value:
    to, of = dtype.kind == "f", x.dtype.kind == "f"
    if to and of:
        return b.convert("fpext" if dtype.bits > x.dtype.bits else "fptrunc", x, dtype)
    if to or of:
        sign = "s" if "i" in (x.dtype.kind, dtype.kind) else "u"
        return b.convert(f"{sign}itofp" if to else f"fpto{sign}i", x, dtype)
    extend = "sext" if x.dtype.kind == "i" else "zext"
    return b.convert("trunc" if dtype.bits <= x.dtype.bits else extend, x, dtype)


_NATIVE: dict[str, Writer] = {
    "add": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "mul": _fenced(_arithmetic("mul")),
    "div": _fenced(_opcode("fdiv")),
    "neg": lambda b, _, x: b.unary("fneg", x),
    "abs": _intrinsic("fabs"),
    **{name: _intrinsic(name) for name in ("fma", "sqrt", "floor", "ceil", "trunc", "rint")},
    "lt": _comparison("olt", "slt", "ult"),
    "le": _comparison("ole", "sle", "ule"),
    "gt": _comparison("ogt", "sgt", "ugt"),
    "ge": _comparison("oge", "sge", "uge"),
    "eq": _comparison("oeq", "eq", "eq"),
    "ne": _comparison("une", "ne", "ne"),
    "minimum": _by_sign(_intrinsic("smin"), _intrinsic("umin")),
    "maximum": _by_sign(_intrinsic("smax"), _intrinsic("umax")),
    "select": lambda b, _, mask, x, y: b.select(mask, x, y),
    **{f"{kind}_{name}": _opcode(name) for kind in ("bit", "logical") for name in ("and", "or", "xor")},
    "logical_not": lambda b, _, x: b.binary("xor", x, b.constant(x, True)),
    "shift_left": _opcode("shl"),
    "shift_right": _by_sign(_opcode("ashr"), _opcode("lshr")),
    "quotient": _quotient,
    "convert": _convert,
    "bitcast": lambda b, dtype, x: b.convert("bitcast", x, dtype),
}


# --- better than the recipe: None where it is not


def _cast(b: TextBuilder, dtype: DType, x: Value) -> Value | None:
    if x.dtype is bool_ and dtype is not bf16:
        return x if dtype is bool_ else b.convert("uitofp" if dtype.is_float else "zext", x, dtype)
    if x.dtype not in (f32, f64) or not dtype.is_integer or x.lanes > 1:  # LLVM takes vectors apart
        return None
    name = f"llvm.fpto{'s' if dtype.kind == 'i' else 'u'}i.sat.{mangled(dtype)}.{mangled(x.dtype)}"
    return b.call(name, dtype, 1, x)


def _fma(b: TextBuilder, dtype: DType, x: Value, y: Value, z: Value) -> Value | None:
    if b.can.fused or dtype not in (f32, f64):
        return None
    if dtype is f64:
        return write_fma_f64(b, x, y, z, write_operation)
    return write_recipe(b, "fma", dtype, (x, y, z), write_operation)


def _count(name: str, *more: str) -> Writer:
    def write(b: TextBuilder, dtype: DType, x: Value) -> Value:
        count = b.intrinsic(name, x, *more)
        return b.convert("zext" if dtype.bits > count.dtype.bits else "trunc", count, dtype)

    return write


def _ipow(b: TextBuilder, dtype: DType, x: Value, y: Value) -> Value:
    """Integer power by repeated squaring: as many iterations as the largest exponent of the lanes has bits."""
    zero, one = b.constant(x, 0), b.constant(x, 1)
    exponent = b.intrinsic("smax", y, zero) if dtype.kind == "i" else y
    before, loop, done = b.label, b.fresh_label("power"), b.fresh_label("powered")
    base_in, left_in, total_in = b.name(), b.name(), b.name()
    base_out, left_out, total_out = b.name(), b.name(), b.name()
    b.line(f"br label %{loop}")
    b.start_block(loop)
    for here, start, after in ((base_in, x, base_out), (left_in, exponent, left_out), (total_in, one, total_out)):
        b.line(f"{here} = phi {x.type} [ {start.text}, %{before} ], [ {after}, %{loop} ]")
    base, left, total = (Value(dtype, x.lanes, text) for text in (base_in, left_in, total_in))
    odd = b.compare("ne", b.binary("and", left, one), zero)
    multiplied = b.binary("mul", total, base)
    b.line(f"{total_out} = select {odd.typed}, {multiplied.typed}, {total.typed}")
    b.line(f"{base_out} = mul {base.typed}, {base.text}")
    b.line(f"{left_out} = lshr {left.typed}, {one.text}")
    more = b.any(b.compare("ne", Value(dtype, x.lanes, left_out), zero))
    b.line(f"br {more.typed}, label %{loop}, label %{done}")
    b.start_block(done)
    return Value(dtype, x.lanes, total_out)


def _by_shared(name: str) -> Callable[..., Value | None]:
    return lambda b, dtype, x, y: write_by_shared(b, name, dtype, x, y)


_BETTER: dict[str, Callable[..., Value | None]] = {
    **{name: _by_shared(name) for name in DIVISIONS},
    "minimum": lambda b, dtype, x, y: write_extreme(b, x, y, "min") if dtype in (f16, f32, f64) else None,
    "maximum": lambda b, dtype, x, y: write_extreme(b, x, y, "max") if dtype in (f16, f32, f64) else None,
    "minimum_of_numbers": lambda b, _, x, y: write_extreme_of_numbers(b, x, y, "min"),
    "maximum_of_numbers": lambda b, _, x, y: write_extreme_of_numbers(b, x, y, "max"),
    "copysign": lambda b, dtype, x, y: b.intrinsic("copysign", x, y) if dtype is not bf16 else None,
    "cast": _cast,
    "fma": _fma,
    "ipow": _ipow,
    "dot_halves": lambda b, _, *operands: write_dot_halves(b, *operands),
    "dot_quarters": lambda b, _, *operands: write_dot_quarters(b, *operands),
    "byte_differences": lambda b, _, *operands: write_byte_differences(b, *operands),
    "popcount": _count("ctpop"),
    "clz": _count("ctlz", "i1 false"),
    "ctz": _count("cttz", "i1 false"),
}
