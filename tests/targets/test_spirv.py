"""Kernels as SPIR-V: valid, with exactly the capabilities that they use, and refused where the device lacks one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import Any

import hand_made_kernels as kernels
import pytest
from kernel_vocabulary import Case, at, atomic, integer, kernel, memory, native, put
from vulkan_devices import ANYTHING

from raido.algo.errors import CompileError, TargetError
from raido.algo.graph.dtypes import f32, f64, i8, i32, i64
from raido.algo.recipes.native import NATIVE
from raido.targets import tvm_corner as T
from raido.targets.vulkan.device import Device, FloatMode
from raido.targets.vulkan.spirv.generate import generate_kernel
from raido.targets.vulkan.spirv.grammar import Capability
from raido.targets.vulkan.spirv.listing import disassemble, list_instructions
from raido.targets.vulkan.spirv.operations import native_operations

CASES = {case.name: case for case in kernels.cases()}
BY_ADDRESS = {"Int64", "PhysicalStorageBufferAddresses", "Shader"}


def without(*names: str) -> Device:
    return replace(ANYTHING, capabilities=ANYTHING.capabilities - {Capability[name] for name in names})


def refused(function: Any, device: Device, **options: Any) -> str:
    with pytest.raises(TargetError) as caught:
        generate_kernel(function, device, **options)
    return str(caught.value)


@pytest.mark.skipif(
    shutil.which("spirv-val") is None, reason="spirv-val is not installed (apt-get install spirv-tools)"
)
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_every_kernel_is_valid(case: Case) -> None:
    for checked in (False, True):
        made = generate_kernel(case.function, ANYTHING, checked=checked)
        for code in filter(None, (made.code, made.narrow)):
            command = ["spirv-val", "--target-env", "vulkan1.2", "-"]
            done = subprocess.run(command, input=code, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()


def test_capabilities_are_those_used() -> None:
    plain = CASES["map_f32"].function
    assert set(generate_kernel(plain, ANYTHING).capabilities) == BY_ADDRESS
    assert set(generate_kernel(plain, ANYTHING, checked=True).capabilities) == {"Int64", "Shader"}
    moved = generate_kernel(CASES["narrow_floats"].function, ANYTHING).capabilities
    assert set(moved) == BY_ADDRESS | {"StorageBuffer16BitAccess"}  # f16 is stored and converted, not computed
    assert "Int8" not in generate_kernel(CASES["booleans"].function, ANYTHING).capabilities


def test_a_lacking_capability_is_one_error_that_names_it() -> None:
    text = refused(CASES["arithmetic_f64"].function, without("Float64"))
    assert text.splitlines() == [
        'kernel "arithmetic_f64" cannot run on a device with everything: arithmetic on f64 needs the capability Float64, '
        "which the device lacks",
        '  try       another dtype, another device, or target="llvm"',
    ]
    assert "an array of i8 needs the capability StorageBuffer8BitAccess" in refused(
        CASES["arithmetic_i8"].function, without("StorageBuffer8BitAccess")
    )
    assert "arithmetic on i8 needs the capability Int8" in refused(CASES["arithmetic_i8"].function, without("Int8"))
    only_shared = replace(ANYTHING, buffer_atomics=frozenset())
    assert "an atomic add of f32 in device memory" in refused(CASES["atomic_floats"].function, only_shared)
    generate_kernel(CASES["histogram"].function, only_shared)  # 32 bits need nothing


def test_devices_without_addresses_get_descriptors() -> None:
    function = CASES["divisions_i32"].function
    for device in (replace(ANYTHING, addresses=False), without("PhysicalStorageBufferAddresses")):
        assert generate_kernel(function, device).mode == "descriptors"
    assert generate_kernel(function, ANYTHING).mode == "addresses"


def test_arguments_beyond_a_launch_lie_in_memory() -> None:
    function = CASES["many_arguments"].function
    for checked in (False, True):
        assert not generate_kernel(function, replace(ANYTHING, arguments=32), checked=checked).inline
        assert generate_kernel(function, replace(ANYTHING, arguments=512), checked=checked).inline
    made = generate_kernel(CASES["map_f32"].function, ANYTHING)
    assert [(a.name, a.offset, a.pointer) for a in made.arguments] == [
        *(("p0", 0, True), ("p1", 8, True)),
        *(("s2", 16, False), ("s3", 24, False)),
    ]
    assert made.argument_bytes == 32


def test_limits_of_a_block_are_kept() -> None:
    function = CASES["transpose"].function
    made = generate_kernel(function, ANYTHING)
    assert (made.block, made.shared_bytes) == ((16, 16, 1), 16 * 17 * 4)
    assert "a block of 256 threads, and the device takes at most 128" in refused(
        function, replace(ANYTHING, threads=128)
    )
    assert "16 threads along y, and the device takes at most 8" in refused(
        function, replace(ANYTHING, block=(64, 8, 1))
    )
    few = replace(ANYTHING, shared=1024)
    assert "1,088 bytes of shared memory, and the device takes at most 1,024" in refused(function, few)
    assert "3 arrays as descriptors" in refused(
        CASES["laziness"].function, replace(ANYTHING, bindings=2), checked=True
    ).replace("4 arrays", "3 arrays")


def test_floats_keep_what_the_device_promises() -> None:
    """Modes are asked for the widths used, and where widths go together for none or for all of them."""
    function = CASES["conversions"].function  # f32 and f64
    both = FloatMode(frozenset({32, 64}))
    text = list_instructions(generate_kernel(function, replace(ANYTHING, round_to_even=both)).code)
    assert text.count("OpExecutionMode") == 3  # with the size of the block
    tied = FloatMode(frozenset({32, 64}), (frozenset({16, 64}), frozenset({32})))
    assert tied.request({32, 64}) == [32]
    assert FloatMode(frozenset({16, 32, 64}), (frozenset({16, 32, 64}),)).request({32}) == [16, 32, 64]


def test_no_sum_or_product_is_contracted() -> None:
    text = list_instructions(generate_kernel(CASES["arithmetic_f32"].function, ANYTHING).code)
    assert text.count("NoContraction") == sum(text.count(f"= {op} ") for op in ("OpFAdd", "OpFSub", "OpFMul")) == 3


def test_sixteen_bytes_move_at_once() -> None:
    for name in ("vectors_f32", "vectors_u8", "vectors_f64"):
        text = list_instructions(generate_kernel(CASES[name].function, ANYTHING).code)
        moves = [line for line in text.splitlines() if line.endswith(" 2 16")]
        assert [line.split("Op")[1].split()[0] for line in moves] == ["Load", "Load", "Store"]  # v + v is two loads
        assert text.count("OpStore") == 1


def test_a_loop_that_data_ends_has_a_boolean_at_its_head() -> None:
    """No comparison stands between the head and the branch that leaves."""
    lines = list_instructions(generate_kernel(CASES["collatz"].function, ANYTHING).code).splitlines()
    heads = [k for k, line in enumerate(lines) if "OpLoopMerge" in line]
    names = [[line.split("Op")[1].split()[0] for line in lines[k + 1 : k + 5]] for k in heads]
    assert names == [["Branch", "Label", "Load", "BranchConditional"]]


def test_indices_of_64_bits_reach_elements_unnarrowed() -> None:
    """Arrays beyond 2³¹ bytes."""
    far = kernel("far", (i8, i8), lambda x, a, b: [put(b, x.i, at(a, x.i * (1 << 33)))])
    text = list_instructions(generate_kernel(far, ANYTHING).code)
    narrow = next(line.split()[0][1:] for line in text.splitlines() if "OpTypeInt 32" in line)
    assert f"Convert {narrow} " not in text and f"OpConstant 3 0 {1 << 33 >> 32}" in text


def test_a_module_is_listed_with_and_without_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    words = generate_kernel(CASES["tree_reduction"].function, ANYTHING).code
    ours = list_instructions(words)
    assert "OpControlBarrier" in ours and "OpExtInstImport GLSL.std.450" in ours
    if shutil.which("spirv-dis"):
        names = [word for line in disassemble(words).splitlines() for word in line.split() if word[:2] == "Op"]
        assert names == [word for line in ours.splitlines() for word in line.split() if word[:2] == "Op"]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert disassemble(words) == ours


def test_every_native_operation_has_a_writer() -> None:
    assert set(NATIVE) == set(native_operations())


def test_a_multiply_add_is_emulated_unless_the_device_fuses() -> None:
    function = kernel("k", (f32,), lambda x, a: [put(a, x.i, native("fma", f32, *[at(a, x.i)] * 3))])
    fused = list_instructions(generate_kernel(function, replace(ANYTHING, fused=frozenset({32}))).code)
    assert fused.count(" Fma ") == 1 and "Float64" not in fused
    emulated = list_instructions(generate_kernel(function, ANYTHING).code)
    assert " Fma " not in emulated and "OpCapability Float64" in emulated


def test_narrow_constants_are_valid() -> None:
    """Their unused bits are 0, of negative numbers too."""
    store = kernel("store", (i8,), lambda x, a: [put(a, x.i, integer(-2, "int8"))])
    text = list_instructions(generate_kernel(store, ANYTHING).code)
    assert [line for line in text.splitlines() if "OpConstant " in line and line.endswith(" 254")]


def test_code_that_is_not_generated_is_an_error() -> None:
    division = kernel("k", (i32,), lambda x, a: [put(a, x.i, T.tirx.FloorDiv(at(a, x.i), integer(2)))])
    with pytest.raises(CompileError, match='kernel "k" has a FloorDiv, which SPIR-V is not made from'):
        generate_kernel(division, ANYTHING)
    call = kernel("k", (f32,), lambda x, a: [put(a, x.i, T.call("expf", "float32", at(a, x.i)))])
    with pytest.raises(CompileError, match='kernel "k" calls expf, which SPIR-V is not made from'):
        generate_kernel(call, ANYTHING)
    absent = kernel("k", (f64,), lambda x, a: [put(a, x.i, native("expo", f64, at(a, x.i)))])
    with pytest.raises(CompileError, match='kernel "k" calls expo, which is no operation'):
        generate_kernel(absent, ANYTHING)
    updating = kernel("k", (f32,), lambda x, a: [T.Evaluate(atomic("max", f32, at(a, x.i), at(a, x.i)))])
    with pytest.raises(CompileError, match="SPIR-V has no atomic max of f32"):
        generate_kernel(updating, ANYTHING)


def test_shared_booleans_and_wide_indices_need_no_more_than_they_use() -> None:
    def make(x: Any, a: Any) -> list[Any]:
        kept = memory("kept", kernels.bool_, 64, "shared")
        chosen = T.Select(at(kept, x.t[0]), integer(1, "int64"), integer(0, "int64"))
        return [T.AllocBuffer(kept), put(kept, x.t[0], x.t[0] < 3), put(a, x.i, chosen)]

    made = generate_kernel(kernel("k", (i64,), make), ANYTHING)
    assert set(made.capabilities) == BY_ADDRESS
