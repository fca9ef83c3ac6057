"""Expressions of TIR as CUDA C: TIR's nodes, and calls of operations (`raido_<name>`), native or primitives.

A value is the text of a scalar; a vector of TIR is a tuple of texts: vectors move data, and are computed with lane by lane. An expression
of TIR becomes one of C++, except that vector loads and values used more than once are named in statements before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, f16, f32, i32, i64
from raido.algo.graph.index import COMPARISONS
from raido.schedule.machine import WIDEST_ACCESS
from raido.targets.cuda.source.narrow import Narrow
from raido.targets.cuda.source.operations import convert, write_native
from raido.targets.cuda.source.recipes import Functions
from raido.targets.cuda.source.values import literal, memory_type, type_text
from raido.targets.cuda.source.warpgroups import define, name_of
from raido.targets.cuda.source.writer import Writer
from raido.targets.devices import tir

Lanes = tuple[str, ...]
PREFIX = "raido_"
ATOMIC = PREFIX + "atomic_"
EXCHANGE = PREFIX + "exchange"
MATRIX = PREFIX + "matrix_"
WARPGROUP = PREFIX + "warpgroup_"
COPY = PREFIX + "copy"
COPIED = (4, 8, 16)
"""Bytes that an asynchronous copy moves at once (PTX ISA, "cp.async")."""
BROADCAST = PREFIX + "broadcast"
WITHIN = PREFIX + "within"
FIRST_THREAD = PREFIX + "first_thread"
WARP = 32
BETWEEN_BLOCKS = tuple(PREFIX + name for name in ("publish", "await", "publish_alone", "await_alone"))
WAITING = (EXCHANGE, BROADCAST, FIRST_THREAD, *BETWEEN_BLOCKS)
_NATIVE_NODES = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "LShift": "shift_left",
    "RShift": "shift_right",
    **{name: name.lower() for name in ("LT", "LE", "GT", "GE", "EQ", "NE")},
    "Min": "minimum",
    "Max": "maximum",
}
_BITS = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}
_UPDATES = ("add", "min", "max", "and", "or", "xor", "exchange", "compare_exchange", "load", "store")
_PLAIN = re.compile(r"\w+(\.at\[\d+\])?|\d[\w.+-]*")


@dataclass(frozen=True, slots=True)
class Array:
    """An array in memory: its name, the dtype of its elements, and whether it is private to a thread, or shared by a block's."""

    name: str
    dtype: DType
    private: bool
    shared: bool = False


class Expressions:
    """Writes expressions. `variables` and `arrays` map TIR's names to text; `mentioned` has the variables in use; `narrow`, if not None,
    writes i64 arithmetic in 32 bits where possible."""

    def __init__(self, kernel: str, writer: Writer, functions: Functions, narrow: bool = False) -> None:
        self.kernel, self.writer, self.functions = kernel, writer, functions
        self.variables: dict[Any, Lanes] = {}
        self.arrays: dict[Any, Array] = {}
        self.mentioned: set[Any] = set()
        self.narrow = Narrow(self) if narrow else None

    def one(self, node: Any) -> str:
        """The text of a scalar."""
        (value,) = self.lanes(node)
        return value

    def lanes(self, node: Any) -> Lanes:
        """The texts of an expression, one per lane."""
        if self.narrow is not None and self.narrow.applies(node):
            return (widened(self.narrow.low(node)),)
        return self.written(node)

    def written(self, node: Any) -> Lanes:
        """The texts of an expression, computed in its own type, not in 32 bits."""
        write = getattr(self, f"_{tir.kind(node)}", None)
        if write is None:
            raise CompileError(f'kernel "{self.kernel}" has a {tir.kind(node)}, which CUDA C is not made from: {node}')
        return write(node)

    def index(self, node: Any) -> tuple[DType, str]:
        """An element's index, or the first of several: its type and text."""
        dtype, _ = tir.type_of(node)
        if self.narrow is not None and dtype is i64:
            return i32, self.narrow.low(node)
        return dtype, self.one(node)

    def indices(self, node: Any) -> Lanes:
        """Indices of elements, one per lane."""
        return (self.index(node)[1],) if tir.type_of(node)[1] == 1 else self.lanes(node)

    def element(self, access: Any) -> tuple[Array, Any]:
        """The array of a load or store, and the index in it."""
        (index,) = access.indices
        return self.arrays[tir.buffer_of(access)], index

    def named(self, dtype: DType, text: str, name: str = "t") -> str:
        """A text that may be repeated: a name is declared for anything but a plain name or literal."""
        return text if _PLAIN.fullmatch(text) else self.writer.declare(dtype, name, text)

    # --- leaves

    def _Var(self, node: Any) -> Lanes:
        self.mentioned.add(node)
        return self.variables[node]

    def _IntImm(self, node: Any) -> Lanes:
        return (literal(tir.type_of(node)[0], int(node.value)),)

    def _FloatImm(self, node: Any) -> Lanes:
        return (literal(tir.type_of(node)[0], float(node.value)),)

    # --- memory

    def _BufferLoad(self, node: Any) -> Lanes:
        array, index = self.element(node)
        if (start := tir.consecutive(index)) is None or array.private:
            return tuple(self._load(array, at) for at in self.indices(index))
        found: list[str] = []
        _, lanes = tir.type_of(index)
        dtype, text = self.index(start)
        first = self.named(dtype, text, "first")
        for offset, count in accesses(array.dtype, lanes):
            at = self.offset(dtype, first, offset)
            if count == 1:
                found.append(self._load(array, at))
                continue
            name = self.writer.name("loaded")
            made_of = memory_type(array.dtype)
            self.writer.lines.append(f"const auto {name} = raido_load<{made_of}, {count}>(&{array.name}[{at}]);")
            found += [self._from_memory(array, f"{name}.at[{k}]") for k in range(count)]
        return tuple(found)

    def _load(self, array: Array, at: str) -> str:
        return self._from_memory(array, f"{array.name}[{at}]")

    def _from_memory(self, array: Array, text: str) -> str:
        return f"({text} != 0)" if array.dtype is bool_ and not array.private else text

    def store(self, access: Any) -> None:
        """Appends a store."""
        array, index = self.element(access)
        values = self.lanes(access.value)
        start = tir.consecutive(index)
        if start is None or array.private:
            indices = self.indices(index)
            if len(values) > 1:  # each lane is read before any is written
                values = tuple(self.writer.declare(array.dtype, "lane", value) for value in values)
            self.writer.lines += [f"{array.name}[{at}] = {value};" for at, value in zip(indices, values, strict=True)]
            return
        _, lanes = tir.type_of(index)
        dtype, text = self.index(start)
        first = self.named(dtype, text, "first")
        values = tuple(self.named(array.dtype, value, "lane") for value in values)
        for offset, count in accesses(array.dtype, lanes):
            at, part = self.offset(dtype, first, offset), values[offset : offset + count]
            if count == 1:
                self.writer.lines.append(f"{array.name}[{at}] = {part[0]};")
                continue
            together = f"raido_elements<{memory_type(array.dtype)}, {count}>{{{', '.join(part)}}}"
            self.writer.lines.append(f"raido_store(&{array.name}[{at}], {together});")

    def offset(self, dtype: DType, first: str, offset: int) -> str:
        return f"{first} + {literal(dtype, offset)}" if offset else first

    # --- vectors

    def _Ramp(self, node: Any) -> Lanes:
        dtype, lanes = tir.type_of(node)
        base, stride = (
            self.named(dtype, self.one(node.base), "base"),
            self.named(dtype, self.one(node.stride), "stride"),
        )
        far = [write_native("mul", dtype, [(dtype, stride), (dtype, literal(dtype, k))]) for k in range(1, lanes)]
        return (base, *(write_native("add", dtype, [(dtype, base), (dtype, distance)]) for distance in far))

    def _Broadcast(self, node: Any) -> Lanes:
        dtype, lanes = tir.type_of(node)
        return (self.named(dtype, self.one(node.value)),) * lanes

    def _Shuffle(self, node: Any) -> Lanes:
        pool = [value for vector in node.vectors for value in self.lanes(vector)]
        picked = [int(index.value) for index in node.indices]
        dtype, _ = tir.type_of(node)
        return tuple(self.named(dtype, pool[k]) if picked.count(k) > 1 else pool[k] for k in picked)

    # --- operators

    def _each(self, node: Any, write: Callable[[DType, str, str], str]) -> Lanes:
        dtype, _ = tir.type_of(node.a)
        return tuple(write(dtype, x, y) for x, y in zip(self.lanes(node.a), self.lanes(node.b), strict=True))

    def _arithmetic(self, node: Any) -> Lanes:
        """A native operation. f16 is computed in f32 and rounded: for sums, differences and products this equals rounding once."""
        name, result = _NATIVE_NODES[tir.kind(node)], tir.type_of(node)[0]
        if name in COMPARISONS and self.narrow is not None and self.narrow.compares(node.a, node.b):
            return (self._compare_narrow(name, node.a, node.b),)

        def write(dtype: DType, x: str, y: str) -> str:
            if dtype is not f16:
                return write_native(name, result, [(dtype, x), (dtype, y)])
            wide = f32 if result is f16 else result
            return convert((wide, write_native(name, wide, [(f32, convert((f16, v), f32)) for v in (x, y)])), result)

        return self._each(node, write)

    _Add = _Sub = _Mul = _LShift = _RShift = _LT = _LE = _GT = _GE = _EQ = _NE = _Min = _Max = _arithmetic

    def _compare_narrow(self, name: str, *operands: Any) -> str:
        assert self.narrow is not None
        return write_native(name, bool_, [(i32, self.narrow.low(operand)) for operand in operands])

    def _Div(self, node: Any) -> Lanes:
        def write(dtype: DType, x: str, y: str) -> str:
            if dtype is f16:
                return convert((f32, write(f32, convert((f16, x), f32), convert((f16, y), f32))), f16)
            return write_native("quotient" if dtype.is_integer else "div", dtype, [(dtype, x), (dtype, y)])

        return self._each(node, write)

    def _Mod(self, node: Any) -> Lanes:
        return self._each(node, lambda _, x, y: f"raido_remainder({x}, {y})")

    def _bitwise(self, node: Any) -> Lanes:
        kind = _BITS[tir.kind(node)]

        def write(dtype: DType, x: str, y: str) -> str:
            name = f"{'logical' if dtype is bool_ else 'bit'}_{kind}"
            return write_native(name, dtype, [(dtype, x), (dtype, y)])

        return self._each(node, write)

    _BitwiseAnd = _BitwiseOr = _BitwiseXor = _bitwise

    def _BitwiseNot(self, node: Any) -> Lanes:
        return tuple(f"raido_bit_not({x})" for x in self.lanes(node.a))

    def _junction(self, node: Any) -> Lanes:
        """A short-circuit conjunction or disjunction; vectors, which are pure, are evaluated lane by lane."""
        both = tir.kind(node) == "And"
        if tir.type_of(node)[1] > 1:
            return self._each(node, lambda _, x, y: f"({x} {'&&' if both else '||'} {y})")
        left = self.one(node.a)
        lines, right = self.writer.apart(lambda: self.one(node.b))
        if not lines:
            return (f"({left} {'&&' if both else '||'} {right})",)
        name = self.writer.name("holds")
        self.writer.lines.append(f"bool {name} = {left};")
        with self.writer.block(f"if ({'' if both else '!'}{name})"):
            self.writer.lines += [*lines, f"{name} = {right};"]
        return (name,)

    _And = _Or = _junction

    def _Not(self, node: Any) -> Lanes:
        return tuple(f"(!{x})" for x in self.lanes(node.a))

    def _Cast(self, node: Any) -> Lanes:
        dtype, lanes = tir.type_of(node)
        if lanes == 1:
            return (self._converted(node.value, dtype),)
        source = tir.type_of(node.value)[0]
        return tuple(convert((source, x), dtype) for x in self.lanes(node.value))

    def _converted(self, value: Any, dtype: DType) -> str:
        """A scalar converted to another type; an i64 is converted from its lower half where that suffices."""
        source, _ = tir.type_of(value)
        if self.narrow is not None and source is i64 and dtype is not bool_:
            truncated = not dtype.is_float and dtype.bits <= i32.bits
            if truncated or self.narrow.bounds.fit(value):
                return convert((i32, self.narrow.low(value)), dtype)
        return convert((source, self.one(value)), dtype)

    def _Select(self, node: Any) -> Lanes:
        _, lanes = tir.type_of(node)
        condition, yes, no = (self.lanes(part) for part in (node.condition, node.true_value, node.false_value))
        if len(condition) < lanes:
            condition = (self.named(bool_, condition[0]),) * lanes
        return tuple(f"({c} ? {x} : {y})" for c, x, y in zip(condition, yes, no, strict=True))

    def _Let(self, node: Any) -> Lanes:
        self.bind(node.var, node.value)
        return self.lanes(node.body)

    def bind(self, variable: Any, value: Any) -> None:
        """Declares a variable of TIR with its value."""
        dtype, _ = tir.type_of(value)
        values = self.lanes(value)
        self.variables[variable] = tuple(self.writer.declare(dtype, str(variable.name), text) for text in values)

    # --- calls

    def _Call(self, node: Any) -> Lanes:
        name, arguments = tir.callee(node)
        if name.startswith(ATOMIC):
            return (self.update(name.removeprefix(ATOMIC), *arguments),)
        dtype, lanes = tir.type_of(node)
        if name in BETWEEN_BLOCKS:
            return (self.between_blocks(name, *arguments),)
        if name == EXCHANGE:
            value, distance, width = arguments
            return (f"{EXCHANGE}({self.one(value)}, {int(distance.value)}, {int(width.value)})",)
        if name == WITHIN:
            return self.lanes(arguments[0])
        if name == BROADCAST:
            value, source, width = arguments
            return (f"{BROADCAST}({self.one(value)}, {self.one(source)}, {int(width.value)})",)
        if name == FIRST_THREAD:
            condition, width = arguments
            if int(width.value) != WARP:
                raise CompileError(f"a subgroup of CUDA has {WARP} threads, not {int(width.value)}")
            return (f"{FIRST_THREAD}({self.one(condition)})",)
        if name == "if_then_else":
            condition, yes, no = arguments
            if lanes > 1:
                return self._choose_lanes(dtype, lanes, *arguments)
            return (self.writer.choose(dtype, self.one(condition), lambda: self.one(yes), lambda: self.one(no)),)
        if name == "likely":
            return self.lanes(arguments[0])
        if name == PREFIX + "convert" and lanes == 1:
            return (self._converted(arguments[0], dtype),)
        compared = name.removeprefix(PREFIX) in COMPARISONS
        if compared and self.narrow is not None and self.narrow.compares(*arguments):
            return (self._compare_narrow(name.removeprefix(PREFIX), *arguments),)
        types = [tir.type_of(argument)[0] for argument in arguments]
        rows = zip(*(self.lanes(argument) for argument in arguments), strict=True)
        return tuple(self._operation(name, dtype, list(zip(types, row, strict=True)), node) for row in rows)

    def _choose_lanes(self, dtype: DType, lanes: int, condition: Any, yes: Any, no: Any) -> Lanes:
        names = tuple(self.writer.name("chosen") for _ in range(lanes))
        test = self.one(condition)
        self.writer.lines += [f"{type_text(dtype)} {name};" for name in names]
        for head, part in ((f"if ({test})", yes), ("else", no)):
            with self.writer.block(head):
                values = self.lanes(part)
                self.writer.lines += [f"{name} = {value};" for name, value in zip(names, values, strict=True)]
        return names

    def _operation(self, name: str, dtype: DType, operands: list[tuple[DType, str]], node: Any) -> str:
        """An operation on one lane, named by TIR or by raido."""
        if name == "reinterpret":
            return write_native("bitcast", dtype, operands)
        if not name.startswith(PREFIX):
            raise CompileError(f'kernel "{self.kernel}" calls {name}, which CUDA C is not made from: {node}')
        try:
            return self.functions.operation(name.removeprefix(PREFIX), dtype, operands)
        except CompileError as error:
            raise CompileError(f'kernel "{self.kernel}" calls {error}') from None

    def update(self, name: str, address: Any, *values: Any) -> str:
        """An atomic access to an element; one with a result is declared in a statement, so that TIR's order is kept. Stores have none, and
        additions to integers of two words in shared memory, where the machine has atomic additions to one."""
        array, index = self.element(address.args[0])
        dtype = array.dtype
        if name not in _UPDATES or dtype.bits < 32 or (dtype.is_float and name != "add"):
            raise CompileError(f"CUDA C has no atomic {name} of {dtype}")
        given = [f"&{array.name}[{self.index(index)[1]}]", *(self.one(value) for value in values)]
        in_words = array.shared and name == "add" and dtype.bits > 32 and not dtype.is_float
        call = f"raido_atomic_{name}{'_in_words' if in_words else ''}({', '.join(given)})"
        if name == "store" or in_words:
            self.writer.lines.append(f"{call};")
            return ""
        return self.writer.declare(dtype, "seen", call)

    def between_blocks(self, name: str, address: Any, *values: Any) -> str:
        """Communication between blocks through an element, as a statement, so that TIR's order is kept."""
        array, index = self.element(address.args[0])
        given = [f"&{array.name}[{self.index(index)[1]}]", *map(self.one, values)]
        call = f"{name}({', '.join(given)})"
        if not values:
            return self.writer.declare(array.dtype, "seen", call)
        self.writer.lines.append(f"{call};")
        return ""

    def copy(self, name: str, arguments: Sequence[Any]) -> list[str]:
        """Statements that copy consecutive elements to shared memory asynchronously, commit a group of copies, or await groups."""
        if name == COPY + "_commit":
            return [f"{name}();"]
        if name == COPY + "_await":
            return [f"{name}<{int(arguments[0].value)}>();"]
        (target, to), (source, at) = (self.element(address.args[0]) for address in arguments[:2])
        firsts = [self.named(*self.index(index), "first") for index in (to, at)]
        kinds = [self.index(index)[0] for index in (to, at)]
        made = []
        for offset, count in accesses(target.dtype, int(arguments[2].value)):
            (a, b), nbytes = (
                (self.offset(kind, first, offset) for kind, first in zip(kinds, firsts, strict=True)),
                count * target.dtype.itemsize,
            )
            addresses = f"&{target.name}[{a}], &{source.name}[{b}]"
            if nbytes in COPIED:
                made.append(f"{COPY}<{nbytes}>({addresses});")
            else:
                made.append(
                    f"raido_store({f'&{target.name}[{a}]'}, raido_load<{memory_type(source.dtype)}, {count}>(&{source.name}[{b}]));"
                )
        return made

    def matrix(self, name: str, arguments: Sequence[Any]) -> str:
        """A matrix-unit statement of a subgroup; registers that it loads or accumulates into are elements of a thread's arrays."""
        if name == MATRIX + "load":
            count, transposed, address, *words = arguments
            array, index = self.element(address.args[0])
            given = [*(self.one(word) for word in words), f"&{array.name}[{self.index(index)[1]}]"]
            return f"{name}_{int(count.value)}{'_transposed' if int(transposed.value) else ''}({', '.join(given)});"
        return f"{name}({', '.join(map(self.one, arguments))});"

    def warpgroup(self, name: str, arguments: Sequence[Any]) -> str:
        """A warpgroup statement; factors are given by descriptors, sums are elements of a thread's arrays."""
        if not arguments:
            return f"{name}();"
        columns, *turned = (int(each.value) for each in arguments[:3])
        factors = []
        for address, *apart in (arguments[3:6], arguments[6:9]):
            array, index = self.element(address.args[0])
            factors.append(
                f"{WARPGROUP}descriptor(&{array.name}[{self.index(index)[1]}], {', '.join(str(int(n.value)) for n in apart)})"
            )
        function = name_of(name, columns, turned)
        self.functions.definitions.setdefault(function, define(name, columns, turned))
        return f"{function}({', '.join([*factors, *map(self.one, arguments[9:])])});"


def widened(low: str) -> str:
    """An i64 from its lower half, where that has the whole value."""
    return f"((i64){low})"


def accesses(dtype: DType, lanes: int) -> list[tuple[int, int]]:
    """Splits a move of `lanes` elements into accesses of at most 16 bytes: (first element, number of elements) of each."""
    found, done = [], 0
    while done < lanes:
        count = min(WIDEST_ACCESS // dtype.itemsize, 1 << (lanes - done).bit_length() - 1)
        found.append((done, count))
        done += count
    return found
