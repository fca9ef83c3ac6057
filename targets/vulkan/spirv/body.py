"""The body of a kernel under construction: instructions in order, in structured control flow.

Every value is a scalar; a vector of TIR is a tuple of scalars, which the device's compiler maps to its registers. Float sums, differences,
products and quotients are decorated NoContraction, so that none becomes a fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.graph.dtypes import DType, bool_, u16, u32, unsigned
from raido.targets.vulkan.spirv.grammar import BuiltIn, Decoration, Glsl, Op, Storage
from raido.targets.vulkan.spirv.module import Instruction, Module, instruction, opcode

Lanes = tuple[int, ...]
_EXACT = (Op.FAdd, Op.FSub, Op.FMul, Op.FDiv)
_EFFECTS = {
    *(Op.Load, Op.Store, Op.Label, Op.ControlBarrier, Op.SDiv, Op.UDiv, Op.UMod, Op.AtomicLoad, Op.AtomicStore),
    *(Op.AtomicExchange, Op.AtomicCompareExchange, Op.AtomicIAdd, Op.AtomicSMin, Op.AtomicUMin, Op.AtomicSMax),
    *(Op.GroupNonUniformShuffleUp, Op.GroupNonUniformShuffleDown),
    *(Op.AtomicUMax, Op.AtomicAnd, Op.AtomicOr, Op.AtomicXor, Op.AtomicFAddEXT),
}
"""Instructions that must not be executed speculatively."""


class Body:
    """Appends instructions; `label` is the current basic block."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.variables: list[Instruction] = []
        self.code: list[Instruction] = []
        self.first = self.label = module.fresh()

    # --- instructions

    def value(self, op: Op, made_of: int, *operands: int) -> int:
        """The result of an instruction, of type `made_of`."""
        made = self.module.fresh()
        self.code.append(instruction(op, made_of, made, *operands))
        return made

    def compute(self, op: Op, dtype: DType, *operands: int) -> int:
        """The result of an arithmetic instruction of a dtype."""
        return self.value(op, self.module.compute(dtype), *operands)

    def test(self, op: Op, *operands: int) -> int:
        """The boolean result of a comparison or a logical instruction."""
        return self.value(op, self.module.scalar(bool_), *operands)

    def glsl(self, which: Glsl, dtype: DType, *operands: int) -> int:
        """The result of an instruction of the extended set GLSL.std.450."""
        return self.value(Op.ExtInst, self.module.compute(dtype), self.module.glsl, which, *operands)

    def select(self, condition: int, dtype: DType, yes: int, no: int) -> int:
        """`yes` where the condition holds, else `no`, both computed before."""
        if (known := self.module.known.get(condition)) is not None:
            return yes if known else no
        yes, no = self.without_zero(dtype, yes), self.without_zero(dtype, no)
        return self.value(Op.Select, self.module.compute(dtype), condition, yes, no)

    def without_zero(self, dtype: DType, x: int) -> int:
        """A value; `hidden` if it is a literal 0 of a float, or of u16 (bf16's bits), because a compiler that resolves the condition, or
        unrolls the loop, would see a literal operand."""
        is_zero = self.module.known.get(x) in (0, 1 << dtype.bits - 1)
        takes_part = dtype.is_float or dtype is u16
        return self.hidden(dtype, x) if is_zero and takes_part and self.module.can_compute(unsigned(dtype.bits)) else x

    def hidden(self, dtype: DType, x: int) -> int:
        """The same number, opaque to the device's compiler, so that it cannot be recognised as 0: its bits, or-ed with the highest one of
        the block's index, which no grid reaches."""
        whole = unsigned(dtype.bits)
        workgroup = self.compute(Op.CompositeExtract, u32, self.built_in(BuiltIn.WorkgroupId, 3), 0)
        top = self.compute(Op.ShiftRightLogical, u32, workgroup, self.module.constant(u32, 31))
        wide = top if whole is u32 else self.value(Op.UConvert, self.module.compute(whole), top)
        bits = self.compute(Op.Bitcast, whole, x) if dtype.is_float else x
        joined = self.compute(Op.BitwiseOr, whole, bits, wide)
        return self.compute(Op.Bitcast, dtype, joined) if dtype.is_float else joined

    def effect(self, op: Op, *operands: int) -> None:
        """Appends an instruction without a result."""
        self.code.append(instruction(op, *operands))

    def built_in(self, which: BuiltIn, lanes: int = 1) -> int:
        """The value of a built-in variable."""
        made_of = self.module.compute(u32)
        made_of = made_of if lanes == 1 else self.module.vector(made_of, lanes)
        return self.value(Op.Load, made_of, self.module.built_in(which, made_of))

    def local(self, pointee: int) -> int:
        """A variable of the thread, with type `pointee`."""
        made = self.module.fresh()
        pointer = self.module.pointer(Storage.Function, pointee)
        self.variables.append(instruction(Op.Variable, pointer, made, Storage.Function))
        return made

    # --- control flow

    def begin(self, label: int) -> None:
        """Begins a basic block."""
        self.effect(Op.Label, label)
        self.label = label

    def branch(self, condition: int, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """Runs one of two sides; control flow merges after them."""
        yes, merge = self.module.fresh(), self.module.fresh()
        no = self.module.fresh() if otherwise else merge
        self.effect(Op.SelectionMerge, merge, 0)
        self.effect(Op.BranchConditional, condition, yes, no)
        for label, run in ((yes, then), (no, otherwise)):
            if run is not None:
                self.begin(label)
                run()
                self.effect(Op.Branch, merge)
        self.begin(merge)

    def choose(self, condition: int, dtype: DType, yes: Callable[[], Lanes], no: Callable[[], Lanes]) -> Lanes:
        """One of two values by a condition; only that side is computed."""
        came: list[tuple[Lanes, int]] = []
        made = lambda side: tuple(self.without_zero(dtype, x) for x in side())
        self.branch(
            condition,
            lambda: came.append((made(yes), self.label)),
            lambda: came.append((made(no), self.label)),
        )
        (first, here), (second, there) = came
        made_of = self.module.compute(dtype)
        return tuple(self.value(Op.Phi, made_of, a, here, b, there) for a, b in zip(first, second, strict=True))

    def lazy(self, left: int, right: Callable[[], int], wanted: bool) -> int:
        """`left and right` (`wanted`) or `left or right`; the right side is behind a branch if it has effects or could fault."""
        start, label = len(self.code), self.label
        value = right()
        if not any(opcode(words) in _EFFECTS for words in self.code[start:]):
            return self.test(Op.LogicalAnd if wanted else Op.LogicalOr, left, value)
        del self.code[start:]
        self.label = label
        known = self.module.constant(bool_, not wanted)
        branches = (lambda: (right(),)), (lambda: (known,))
        return self.choose(left, bool_, *(branches if wanted else branches[::-1]))[0]

    def loop_while(self, condition: Callable[[], int], run: Callable[[], None]) -> None:
        """Repeats while a condition holds, which is computed before the loop and at the end of each iteration, and kept in a boolean.

        A comparison in the loop's header would be a mask that lavapipe combines with those of the branches around it, in words of 16 bits.
        """
        made_of = self.module.scalar(bool_)
        goes_on = self.local(made_of)

        def iteration() -> None:
            run()
            self.effect(Op.Store, goes_on, condition())

        self.effect(Op.Store, goes_on, condition())
        header, again, merge = self._enter_loop()
        self._loop_body(self.value(Op.Load, made_of, goes_on), iteration, again, merge)
        self._close_loop(header, merge)

    def loop_over(
        self, dtype: DType, start: int, stop: int, step: int, run: Callable[[int], None], unroll: bool
    ) -> None:
        """A counted loop: calls `run` with the index, from `start` up to `stop`."""
        made_of, index, following = self.module.compute(dtype), self.module.fresh(), self.module.fresh()
        before = self.label
        header, again, merge = self._enter_loop(lambda again: (made_of, index, start, before, following, again), unroll)
        inside = self.test(Op.SLessThan if dtype.kind == "i" else Op.ULessThan, index, stop)
        self._loop_body(inside, lambda: run(index), again, merge)
        self.code.append(instruction(Op.IAdd, made_of, following, index, step))
        self._close_loop(header, merge)

    def _enter_loop(
        self, phi: Callable[[int], tuple[int, ...]] | None = None, unroll: bool = False
    ) -> tuple[int, int, int]:
        """Begins the header and the test block of a loop; returns the labels of header, continue target and merge block."""
        header, test, again, merge = (self.module.fresh() for _ in range(4))
        self.effect(Op.Branch, header)
        self.begin(header)
        if phi is not None:
            self.effect(Op.Phi, *phi(again))
        self.effect(Op.LoopMerge, merge, again, int(unroll))
        self.effect(Op.Branch, test)
        self.begin(test)
        return header, again, merge

    def _loop_body(self, condition: int, run: Callable[[], None], again: int, merge: int) -> None:
        inside = self.module.fresh()
        self.effect(Op.BranchConditional, condition, inside, merge)
        self.begin(inside)
        run()
        self.effect(Op.Branch, again)
        self.begin(again)

    def _close_loop(self, header: int, merge: int) -> None:
        self.effect(Op.Branch, header)
        self.begin(merge)

    def stop(self) -> None:
        """Ends the thread; later code is unreachable."""
        self.effect(Op.Return)
        self.begin(self.module.fresh())

    def finish(self, block: tuple[int, int, int]) -> bytes:
        """The words of the module with this body as its function."""
        self.effect(Op.Return)
        for words in self.code:
            if opcode(words) in _EXACT:
                self.module.decorate(words[2], Decoration.NoContraction)
        return self.module.assemble(block, self.first, self.variables, self.code)
