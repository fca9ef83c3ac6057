"""Fused multiply-add: one instruction, or built from operations that round twice, exactly.

f16, bf16 and f32 by a wider type: the product is exact there, the sum is rounded to odd, and rounding once more is then right. f64 by
error-free transformations (Dekker's product, Knuth's sum) and one addition to odd; Boldo & Melquiond, "Emulation of FMA and correctly
rounded sums", IEEE TC 57(4), 2008. The interpreters' `raido.algo.graph.fma` does the same on arrays. Where the C library has an instruction
for it, as on newer machines that run code for old ones, a call for every lane is quicker.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import NARROW, f16, f32, f64
from raido.targets.llvm.conversions import write_cast
from raido.targets.llvm.narrow import round_to_odd
from raido.targets.llvm.text import TextBuilder, Value

_SPLITTER = 134217729.0  # 2**27 + 1
_KNOWN = "rd.processor"
_LARGE, _SMALL = 2.0**500, 2.0**-900  # between them nothing overflows or underflows on the way


def write_fma(b: TextBuilder, x: Value, y: Value, z: Value) -> Value:
    """x · y + z, rounded once."""
    if b.can.fused and x.dtype not in NARROW:
        return b.intrinsic("fma", x, y, z)
    if x.dtype is f64:
        if x.lanes == 1:
            return b.intrinsic("fma", x, y, z)
        return b.call_apart(b, "fma", (x, y, z)) if b.call_apart else _fma_f64(b, x, y, z)
    wide = f32 if x.dtype is f16 else f64  # holds the product exactly, and more than twice the result's bits and two
    total = _add_to_odd(
        b, b.fence(b.binary("fmul", write_cast(b, wide, x), write_cast(b, wide, y))), write_cast(b, wide, z)
    )
    return write_cast(b, x.dtype, total)


def _two_sum(b: TextBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded sum and its exact error (Knuth)."""
    total = b.binary("fadd", x, y)
    part = b.binary("fsub", total, x)
    lost = b.binary("fadd", b.binary("fsub", x, b.binary("fsub", total, part)), b.binary("fsub", y, part))
    return total, lost


def _add_to_odd(b: TextBuilder, x: Value, y: Value) -> Value:
    """x + y; an inexact sum gets the neighbour whose last bit is 1."""
    total, lost = _two_sum(b, x, y)
    zero = b.constant(lost, 0)
    outward = b.binary("xor", b.compare("ogt", lost, zero), b.compare("olt", total, zero))
    return round_to_odd(b, total, b.compare("one", lost, zero), outward)


def _split(b: TextBuilder, x: Value) -> tuple[Value, Value]:
    """The upper and the lower half of the digits (Veltkamp)."""
    scaled = b.binary("fmul", x, b.constant(x, _SPLITTER))
    high = b.binary("fsub", scaled, b.binary("fsub", scaled, x))
    return high, b.binary("fsub", x, high)


def _two_product(b: TextBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded product and its exact error (Dekker)."""
    product = b.binary("fmul", x, y)
    (x_high, x_low), (y_high, y_low) = _split(b, x), _split(b, y)
    rest = b.binary("fsub", b.binary("fmul", x_high, y_high), product)
    for left, right in ((x_high, y_low), (x_low, y_high), (x_low, y_low)):
        rest = b.binary("fadd", rest, b.binary("fmul", left, right))
    return product, rest


def _fma_f64(b: TextBuilder, x: Value, y: Value, z: Value) -> Value:
    """As `raido.algo.graph.fma`; the library's function, lane by lane, where some lane is so large or small that a step could go wrong."""
    library, emulated, done = (b.fresh_label(stem) for stem in ("library", "emulated", "fused"))
    b.line(f"br i1 {_library_is_quick(b)}, label %{library}, label %{emulated}")
    b.start_block(emulated)
    product, product_low = _two_product(b, x, y)
    tail, rest = _two_sum(b, z, product_low)
    head, middle = _two_sum(b, product, tail)
    fused = b.binary("fadd", head, _add_to_odd(b, rest, middle))
    zero = b.constant(x, 0.0)
    # An exact zero has the sign that the plain sum gives it.
    fused = b.select(b.compare("oeq", fused, zero), b.binary("fadd", b.fence(product), z), fused)
    tame = b.compare("oge", b.intrinsic("fabs", product), b.constant(x, _SMALL))
    for factor in (x, y):
        tame = b.binary("or", tame, b.compare("oeq", factor, zero))
    for operand in (x, y, z):
        tame = b.binary("and", tame, b.compare("olt", b.intrinsic("fabs", operand), b.constant(x, _LARGE)))
    wild = b.any(b.binary("xor", tame, b.constant(tame, True)))
    b.line(f"br {wild.typed}, label %{library}, label %{done}")
    b.start_block(library)
    called = b.intrinsic("fma", x, y, z)
    b.line(f"br label %{done}")
    b.start_block(done)
    return b.result(x.dtype, x.lanes, f"phi {x.type} [ {fused.text}, %{emulated} ], [ {called.text}, %{library} ]")


def _library_is_quick(b: TextBuilder) -> str:
    """Whether the processor has the instruction, which code for it may not have but the library has: asked once."""
    b.globals[_KNOWN] = f"@{_KNOWN} = internal global i32 0"
    before, ask, answered = b.label, b.fresh_label("ask"), b.fresh_label("answered")
    known, unknown, leaf, flag, answer, found, quick = (b.name() for _ in range(7))
    b.line(f"{known} = load i32, ptr @{_KNOWN}")
    b.line(f"{unknown} = icmp eq i32 {known}, 0")
    b.line(f"br i1 {unknown}, label %{ask}, label %{answered}")
    b.start_block(ask)
    b.line(
        f'{leaf} = call {{i32, i32, i32, i32}} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},0,2"(i32 1, i32 0)'
    )
    b.line(f"{flag} = extractvalue {{i32, i32, i32, i32}} {leaf}, 2")
    b.line(f"{answer} = or i32 {flag}, 1")
    b.line(f"store i32 {answer}, ptr @{_KNOWN}")
    b.line(f"br label %{answered}")
    b.start_block(answered)
    b.line(f"{found} = phi i32 [ {known}, %{before} ], [ {answer}, %{ask} ]")
    bit = b.name()
    b.line(f"{bit} = and i32 {found}, 4096")
    b.line(f"{quick} = icmp ne i32 {bit}, 0")
    return quick
