"""Helper functions on values: primitives at any number of lanes, masks, and permutations of lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from raido.algo.graph.dtypes import DType, bool_, f32, i32, i64, signed, u8, unsigned
from raido.algo.graph.expr import Const
from raido.targets.llvm.compress import write_compress
from raido.targets.llvm.helper_texts import HelperTexts, Shape
from raido.targets.llvm.memory import ramp
from raido.targets.llvm.operations import write_operation
from raido.targets.llvm.roots import LANES as ROOT_LANES
from raido.targets.llvm.roots import write_root
from raido.targets.llvm.text import TextBuilder, Value, llvm_type, mangled, scalar_type


class ValueHelpers:
    """Symbols of functions from values to a value.

    `math_functions` are the out-of-line functions that helpers call, by symbol (`prefix` in front); the module's emitter defines them by
    `whole`. They run where some lane takes a rare case.
    """

    def __init__(self, texts: HelperTexts, prefix: str) -> None:
        self._texts = texts
        self._prefix = prefix
        self.math_functions: dict[str, tuple[str, tuple[Shape, ...]]] = {}

    def operation(
        self, name: str, dtype: DType, operands: Sequence[Shape], literals: dict[int, Const] | None = None
    ) -> str:
        """Primitive `name`. Operands in `literals` (by index) are these constants, and ignored when passed; scalars among vectors are
        broadcast."""
        literals = literals or {}
        marks = "".join(f".{position}is{known.bits}".replace("-", "m") for position, known in literals.items())
        symbol = f"rd.{name}.{dtype.name}." + ".".join(f"{d.name}x{n}" for d, n in operands) + marks
        lanes = max(n for _, n in operands)

        def body(b: TextBuilder, *args: Value) -> str:
            b.call_apart = self._call_apart
            spread = [a if a.lanes == lanes else b.spread(a, lanes) for a in args]
            given = [b.constant(a, literals[i].value) if i in literals else a for i, a in enumerate(spread)]
            return write_operation(b, name, dtype, *given).text

        return self._texts.write(symbol, llvm_type(dtype, lanes), operands, body)

    def _call_apart(self, b: TextBuilder, name: str, args: Sequence[Value]) -> Value:
        """A call of an out-of-line math function."""
        like = args[0]
        symbol = f"{self._prefix}.{name}.{like.dtype.name}x{like.lanes}"
        self.math_functions[symbol] = (name, tuple((a.dtype, a.lanes) for a in args))
        b.declarations.add(f"declare i32 @{symbol}({', '.join(a.type for a in args)}, ptr)")
        slot = b.name()
        b.lines.insert(0, f"  {slot} = alloca {like.type}, align 64")
        often = "" if name == "fma" else " cold"
        b.line(f"{b.name()} = call i32 @{symbol}({', '.join(a.typed for a in args)}, ptr {slot}) noinline{often}")
        return b.result(like.dtype, like.lanes, f"load {like.type}, ptr {slot}, align 64")

    def whole(self, name: str, operands: Sequence[Shape]) -> str:
        """A math function that evaluates both sides of its branches."""
        dtype, lanes = operands[0]
        body = lambda b, *args: write_operation(b, name, dtype, *args).text
        return self._texts.write(f"rd.whole.{name}.{dtype.name}x{lanes}", llvm_type(dtype, lanes), operands, body)

    def root_by_products(self) -> str:
        """Square roots of sixteen f32 without the divider."""
        shape = (f32, ROOT_LANES)
        return self._texts.write("rd.root", llvm_type(*shape), [shape], lambda b, x: write_root(b, x).text)

    def unless_unordered(self, dtype: DType, lanes: int, inputs: int) -> str:
        """(x, inputs …) -> x, but NaN where one of the inputs is."""

        def body(b: TextBuilder, x: Value, *given: Value) -> str:
            pairs = [b.compare("ord", given[i], given[min(i + 1, len(given) - 1)]) for i in range(0, len(given), 2)]
            return b.select(reduce(lambda p, q: b.binary("and", p, q), pairs), x, b.constant(x, math.nan)).text

        symbol = f"rd.unless_unordered.{dtype.name}x{lanes}.{inputs}"
        return self._texts.write(symbol, llvm_type(dtype, lanes), [(dtype, lanes)] * (1 + inputs), body)

    def choice(self, name: str, dtype: DType) -> str:
        """ "select", "minimum" or "maximum" of scalar integers as a conditional move.

        An operand of an extreme is hidden from LLVM, which would recognise the extreme and may branch.
        """

        def body(b: TextBuilder, *args: Value) -> str:
            *tests, x, y = args
            if not tests:
                hidden = b.result(dtype, 1, f'call {x.type} asm "", "=r,0"({x.typed}) nounwind memory(none)')
                order = "lt" if name == "minimum" else "gt"
                tests = [b.compare(f"{'s' if dtype.kind == 'i' else 'u'}{order}", hidden, y)]
            return b.result(dtype, 1, f"select {tests[0].typed}, {x.typed}, {y.typed}, !unpredictable !1").text

        shapes: list[Shape | str] = [*[(bool_, 1)] * (name == "select"), (dtype, 1), (dtype, 1)]
        return self._texts.write(f"rd.choice.{name}.{dtype.name}", llvm_type(dtype, 1), shapes, body)

    def step_where(self, dtype: DType, lanes: int) -> str:
        """(mask, x, step, y) -> x + step in active lanes, else y: one masked addition.

        A step that fills a register is hidden from LLVM, which would otherwise fold it into other instructions.
        """
        one_register = lanes * dtype.bits in (128, 256, 512) and lanes * dtype.bits <= self._texts.can.vector_bits

        def body(b: TextBuilder, mask: Value, x: Value, step: Value, y: Value) -> str:
            if one_register:
                step = b.result(dtype, lanes, f'call {x.type} asm "", "=v,0"({step.typed})')
            return b.select(mask, b.binary("add", x, step), y).text

        shapes: list[Shape | str] = [(bool_, lanes), *[(dtype, lanes)] * 3]
        return self._texts.write(f"rd.step.{dtype.name}x{lanes}", llvm_type(dtype, lanes), shapes, body)

    def literal(self, dtype: DType, bits: int) -> str:
        """A constant by its bits, for values that TIR's literals cannot represent."""
        whole = f"i{dtype.itemsize * 8}"

        def body(b: TextBuilder) -> str:
            return b.result(dtype, 1, f"bitcast {whole} {bits} to {scalar_type(dtype)}").text

        return self._texts.write(f"rd.literal.{dtype.name}.{bits:x}".replace("-", "m"), scalar_type(dtype), (), body)

    def pack_mask(self, lanes: int) -> str:
        """A vector of bool as a vector of i8, which TIR can name."""
        body = lambda b, mask: b.convert("sext", mask, u8).text
        return self._texts.write(f"rd.pack.x{lanes}", llvm_type(u8, lanes), [(bool_, lanes)], body)

    def unpack_mask(self, lanes: int) -> str:
        """The inverse of `pack_mask`; only the lowest bit of each byte counts."""
        body = lambda b, packed: b.convert("trunc", packed, bool_).text
        return self._texts.write(f"rd.unpack.x{lanes}", llvm_type(bool_, lanes), [(u8, lanes)], body)

    def ramp(self, stride: int, lanes: int) -> str:
        """(base) -> base, base + stride, …: a vector of `lanes`."""
        body = lambda b, base: ramp(b, base, stride, lanes).text
        return self._texts.write(f"rd.ramp{stride}.x{lanes}".replace("-", "m"), llvm_type(i64, lanes), [(i64, 1)], body)

    def below(self, lanes: int) -> str:
        """(base, high) -> mask of base, base + 1, … < `high`: one comparison in lanes as narrow as fill a register."""
        narrow = signed(min(64, max(8 if lanes < 256 else 16, self._texts.can.vector_bits // lanes)))

        def body(b: TextBuilder, base: Value, high: Value) -> str:
            count = b.binary("sub", b.intrinsic("smax", high, base), base)
            count = b.intrinsic("umin", count, b.constant(count, lanes))
            left = b.spread(b.convert("trunc", count, narrow), lanes)
            lane = ", ".join(f"{scalar_type(narrow)} {k}" for k in range(lanes))
            return b.compare("ugt", left, Value(narrow, lanes, f"<{lane}>")).text

        return self._texts.write(f"rd.below.x{lanes}", llvm_type(bool_, lanes), [(i64, 1), (i64, 1)], body)

    def inside(self) -> str:
        """(index, size) -> whether 0 <= index < size, by one unsigned comparison. TVM's analysis refuses a cast of a possibly negative
        value to u64."""
        body = lambda b, index, size: b.compare("ult", index, size).text
        return self._texts.write("rd.inside", llvm_type(bool_, 1), [(i64, 1), (i64, 1)], body)

    def extract(self, dtype: DType, lanes: int, lane: int) -> str:
        """(vector) -> one lane."""
        body = lambda b, v: b.result(dtype, 1, f"extractelement {v.typed}, i64 {lane}").text
        return self._texts.write(f"rd.extract{lane}.{dtype.name}x{lanes}", scalar_type(dtype), [(dtype, lanes)], body)

    def half(self, dtype: DType, lanes: int, upper: bool) -> str:
        """(vector) -> the lower or upper half of its lanes."""
        count = lanes // 2
        picked = list(range(count, lanes) if upper else range(count))

        def body(b: TextBuilder, v: Value) -> str:
            if count == 1:
                return b.result(dtype, 1, f"extractelement {v.typed}, i64 {picked[0]}").text
            return b.shuffle(v, Value(dtype, lanes, "poison"), picked).text

        return self._texts.write(
            f"rd.half{int(upper)}.{dtype.name}x{lanes}", llvm_type(dtype, count), [(dtype, lanes)], body
        )

    def shift(self, dtype: DType, lanes: int, distance: int, fill: int) -> str:
        """(vector) -> every lane moved up by `distance`; lanes that become free get the constant with bits `fill`."""
        picked = [lanes] * distance + list(range(lanes - distance))

        def body(b: TextBuilder, v: Value) -> str:
            return b.shuffle(v, b.constant(v, Const(dtype, fill).value), picked).text

        symbol = f"rd.shift{distance}.{fill:x}.{dtype.name}x{lanes}".replace("-", "m")
        return self._texts.write(symbol, llvm_type(dtype, lanes), [(dtype, lanes)], body)

    def shuffle(self, dtype: DType, order: bytes) -> str:
        """(first, second) -> the lanes at `order` of both, end to end."""
        body = lambda b, first, second: b.shuffle(first, second, list(order)).text
        lanes, symbol = len(order), f"rd.shuffle{'.'.join(map(str, order))}.{dtype.name}"
        return self._texts.write(symbol, llvm_type(dtype, lanes), [(dtype, lanes)] * 2, body)

    def reinterpret(self, dtype: DType, lanes: int, to: DType) -> str:
        """(vector) -> the same bits as lanes of another width."""
        count = lanes * dtype.bits // to.bits
        body = lambda b, v: b.result(to, count, f"bitcast {v.typed} to {llvm_type(to, count)}").text
        symbol = f"rd.reinterpret.{dtype.name}x{lanes}.{to.name}"
        return self._texts.write(symbol, llvm_type(to, count), [(dtype, lanes)], body)

    def join(self, part: DType, lanes: int, count: int, dtype: DType) -> str:
        """(lowest, …, highest) -> lanes `count` times as wide, whose parts these are.

        The parts are put end to end, which loads do, and permuted once; without byte permutations units of each 128 bits, then bytes there.
        """
        units = lanes * part.bits * count // 128 if not self._texts.can.byte_permutes else 0
        unit, of_unit = unsigned(128 // count), 128 // count // part.bits

        def body(b: TextBuilder, *parts: Value) -> str:
            whole = list(parts)
            while len(whole) > 1:
                ends = range(2 * whole[0].lanes)
                whole = [b.shuffle(*pair, list(ends)) for pair in zip(whole[::2], whole[1::2], strict=True)]
            order = [lanes * p + k for k in range(lanes) for p in range(count)]
            if units > 1:
                wide = b.result(unit, units * count, f"bitcast {whole[0].typed} to {llvm_type(unit, units * count)}")
                wide = b.shuffle(wide, wide, [units * p + u for u in range(units) for p in range(count)])
                whole[0] = b.result(part, lanes * count, f"bitcast {wide.typed} to {whole[0].type}")
                order = [(k // of_unit * count + p) * of_unit + k % of_unit for k in range(lanes) for p in range(count)]
            woven = b.shuffle(whole[0], whole[0], order)
            return b.result(dtype, lanes, f"bitcast {woven.typed} to {llvm_type(dtype, lanes)}").text

        symbol = f"rd.join{count}.{part.name}x{lanes}"
        return self._texts.write(symbol, llvm_type(dtype, lanes), [(part, lanes)] * count, body)

    def compress(self, dtype: DType, lanes: int) -> str:
        """(value, mask) -> active lanes first, then zeros."""

        def body(b: TextBuilder, value: Value, mask: Value) -> str:
            wide = b.convert("zext", value, u8) if dtype is bool_ else value
            moved = write_compress(b, wide, mask)
            return (b.convert("trunc", moved, bool_) if dtype is bool_ else moved).text

        shapes: list[Shape | str] = [(dtype, lanes), (bool_, lanes)]
        return self._texts.write(f"rd.compress.{dtype.name}x{lanes}", llvm_type(dtype, lanes), shapes, body)

    def count(self, lanes: int) -> str:
        """(mask) -> the number of active lanes."""

        def body(b: TextBuilder, mask: Value) -> str:
            bits = b.result(i32, 1, f"bitcast {mask.typed} to i{lanes}").text
            wide = b.result(i64, 1, f"zext i{lanes} {bits} to i64") if lanes < 64 else Value(i64, 1, bits)
            return b.call("llvm.ctpop.i64", i64, 1, wide).text

        return self._texts.write(f"rd.count.x{lanes}", "i64", [(bool_, lanes)], body)

    def reduce(self, name: str, dtype: DType, lanes: int) -> str:
        """(vector) -> its lanes reduced by an exact operation of LLVM's: or, and, xor, add, mul, smin, …"""

        def body(b: TextBuilder, v: Value) -> str:
            return b.call(f"llvm.vector.reduce.{name}.{mangled(dtype, lanes)}", dtype, 1, v).text

        return self._texts.write(f"rd.reduce.{name}.{dtype.name}x{lanes}", scalar_type(dtype), [(dtype, lanes)], body)
