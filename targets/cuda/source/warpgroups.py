"""Warpgroup matrix products in CUDA C: a function for each width and layout that a text uses.

In code for sm_90a it is the instruction (PTX ISA, "wgmma.mma_async"); elsewhere, in exported libraries, each thread computes its sums one
by one from the factors that the descriptors describe (`prelude.cuh`).
"""

from __future__ import annotations

from collections.abc import Sequence

MULTIPLY = "raido_warpgroup_multiply_"
"""The beginning of the names of these functions."""
_SHAPES = {"f16": ("k16", "f16.f16"), "bf16": ("k16", "bf16.bf16"), "tf32": ("k8", "tf32.tf32")}


def name_of(operation: str, columns: int, turned: Sequence[int]) -> str:
    """The name of the function for an operation `raido_warpgroup_multiply_<dtype>`, a number of columns, and the factors' layouts."""
    return f"{operation}_{columns}_{turned[0]}{turned[1]}"


def define(operation: str, columns: int, turned: Sequence[int]) -> str:
    """The definition of a multiply function; its arguments are the descriptors of both factors and the thread's sums."""
    dtype = operation.rpartition("_")[2]
    depth, types = _SHAPES[dtype]
    count = columns // 2
    sums = [f"s{k}" for k in range(count)]
    shape = f"m64n{columns}{depth}.f32.{types}"
    registers = ", ".join(f"%{k}" for k in range(count))
    transposed = "" if dtype == "tf32" else f", {turned[0]}, {turned[1]}"
    given = ", ".join(f"f32& {s}" for s in sums)
    bound = ", ".join(f'"+f"({s})' for s in sums)
    by_one = [
        f"  raido_warpgroup_add({s}, raido_warpgroup_sum_{dtype}<{turned[0]}, {turned[1]}>, a, b, {k // 2 % 2 * 8}, {k // 4 * 8 + k % 2});"
        for k, s in enumerate(sums)
    ]
    return "\n".join(
        [
            f"RAIDO_INLINE void {name_of(operation, columns, turned)}(u64 a, u64 b, {given}) {{",
            "#ifdef RAIDO_WARPGROUPS",
            f'  asm volatile("{{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.{shape} "',
            f'               "{{{registers}}}, %{count}, %{count + 1}, p, 1, 1{transposed};}}"',
            f'               : {bound} : "l"(a), "l"(b));',
            "#else",
            *by_one,
            "#endif",
            "}",
        ]
    )
