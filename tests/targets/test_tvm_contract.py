"""The behaviours of TVM on which raido relies, each alone: an upgrade of TVM fails here first.

Some tests assert a limit ("cannot"): when one of those fails, TVM has become better and raido may become simpler.
"""

import ctypes
import subprocess

import numpy as np
import pytest
import tvm
from processors import lacking

from raido.algo.graph.dtypes import f32, f64, i32, i64, u8
from raido.targets import tvm_corner as T
from raido.targets.loader import load_object

CPU = "x86-64-v3"
zero, one = T.IntImm("int64", 0), T.IntImm("int64", 1)


def int64(value):
    return T.IntImm("int64", value)


def build(make, cpu=CPU, dtypes=(f32, f32), helpers=""):
    """A function `k(pointers…, n)`; `make` gets the buffers and n, and gives the body."""
    pointers = [T.pointer(f"p{k}", dtype) for k, dtype in enumerate(dtypes)]
    buffers = [
        T.flat_buffer(f"b{k}", dtype, 1 << 40, p) for k, (dtype, p) in enumerate(zip(dtypes, pointers, strict=True))
    ]
    size = T.Var("n", "int64")
    declared = [T.DeclBuffer(b, data=p) for b, p in zip(buffers, pointers, strict=True)]
    body = T.sequence([*declared, *make(*buffers, size)])
    return T.CompiledModule({"k": T.function("k", [*pointers, size], body, helpers)}, cpu)


def run(module, *arrays, n=0):
    if lacking(CPU):
        pytest.skip(lacking(CPU))
    loaded = load_object(module.object_bytes())
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * (len(arrays) + 1))(loaded.address("k"))
    return entry(*[a.ctypes.data for a in arrays], n)


def vector(buffer, start, lanes):
    return T.BufferLoad(buffer, [T.Ramp(int64(start), one, lanes)])


def test_a_function_needs_no_passes_and_has_the_plain_c_abi():
    def body(a, b, n):
        i = T.Var("i", "int64")
        value = T.Add(T.BufferLoad(a, [i]), T.FloatImm("float32", 1.5))
        return [T.For(i, zero, n, T.ForKind.SERIAL, T.BufferStore(b, value, [i]))]

    module = build(body)
    a, b = np.arange(10, dtype="f4"), np.zeros(10, "f4")
    assert run(module, a, b, n=10) == 0
    np.testing.assert_array_equal(b, a + 1.5)
    assert "TVM" not in {
        line.split()[-1] for line in module.text("asm").splitlines() if line.strip().startswith("call")
    }


def test_element_alignment_gives_unaligned_vector_instructions():
    module = build(lambda a, b, n: [T.BufferStore(b, vector(a, 0, 8), [T.Ramp(zero, one, 8)])])
    assert "vmovups" in module.text("asm")
    memory = np.zeros(200, "u1")
    source = memory[3:35].view("f4")
    source[:] = np.arange(8)
    target = memory[101:133].view("f4")
    run(module, source, target)
    np.testing.assert_array_equal(target, np.arange(8, dtype="f4"))


def test_return_takes_only_zero():
    with pytest.raises(Exception, match="return zero"):
        build(lambda a, b, n: [tvm.tirx.Return(T.IntImm("int32", 1))])


def test_a_vector_of_bool_cannot_be_bound():
    def body(a, b, n):
        mask = T.Var("m", "boolx8")
        return [
            T.Bind(mask, T.LT(vector(a, 0, 8), vector(a, 8, 8))),
            T.BufferStore(b, T.Select(mask, vector(a, 0, 8), vector(a, 8, 8)), [T.Ramp(zero, one, 8)]),
        ]

    with pytest.raises(Exception, match="scalar"):
        build(body)


def test_selects_take_vector_conditions():
    def body(a, b, n):
        x, y = vector(a, 0, 8), vector(a, 8, 8)
        return [T.BufferStore(b, T.Select(T.LT(x, y), x, y), [T.Ramp(zero, one, 8)])]

    a, b = np.random.default_rng(0).random(16, "f4"), np.zeros(8, "f4")
    run(build(body), a, b)
    np.testing.assert_array_equal(b, np.minimum(a[:8], a[8:]))


def test_not_equal_on_floats_is_the_ordered_comparison():
    def body(a, b, n):
        differs = T.NE(T.BufferLoad(a, [zero]), T.BufferLoad(a, [zero]))
        return [T.BufferStore(b, T.Select(differs, T.IntImm("int32", 1), T.IntImm("int32", 0)), [zero])]

    a, b = np.full(1, np.nan, "f4"), np.full(1, 7, "i4")
    run(build(body, dtypes=(f32, i32)), a, b)
    assert b[0] == 0


HELPERS = """
define internal <8 x float> @twice(<8 x float> %x) alwaysinline nounwind {
  %y = fadd <8 x float> %x, %x
  ret <8 x float> %y
}
define internal ptr @second(ptr %p) alwaysinline nounwind {
  %q = getelementptr float, ptr %p, i64 8
  ret ptr %q
}
@table = internal unnamed_addr constant [4 x i8] c"\\01\\02\\03\\04", align 4
define internal ptr @table_at() alwaysinline { ret ptr @table }
"""


def test_helper_functions_in_llvm_assembly_are_inlined_and_leave_no_symbol(tmp_path):
    def body(a, b, n):
        q = T.pointer("q", f32)
        second = T.flat_buffer("s", f32, 100, q)
        value = T.call("twice", "float32x8", T.BufferLoad(second, [T.Ramp(zero, one, 8)]))
        return [
            T.Bind(q, T.call("second", T.pointer_type(f32), a.data)),
            T.DeclBuffer(second, data=q),
            T.BufferStore(b, value, [T.Ramp(zero, one, 8)]),
        ]

    module = build(body, helpers=HELPERS)
    a, b = np.arange(16, dtype="f4"), np.zeros(8, "f4")
    run(module, a, b)
    np.testing.assert_array_equal(b, 2 * a[8:])
    assert "call" not in module.text("asm")
    (tmp_path / "k.o").write_bytes(module.object_bytes())
    names = subprocess.run(["nm", str(tmp_path / "k.o")], capture_output=True, text=True).stdout
    assert "twice" not in names


def test_one_text_serves_all_functions_of_a_module():
    def one_function(name, helpers):
        p = T.pointer("p", f32)
        buffer = T.flat_buffer("b", f32, 100, p)
        ramp = T.Ramp(zero, one, 8)
        store = T.BufferStore(buffer, T.call("twice", "float32x8", T.BufferLoad(buffer, [ramp])), [ramp])
        return T.function(name, [p], T.sequence([T.DeclBuffer(buffer, data=p), store]), helpers)

    for first, second in (("", HELPERS), (HELPERS, "")):
        module = T.CompiledModule({"k": one_function("k", first), "other": one_function("other", second)}, CPU)
        a = np.arange(8, dtype="f4")
        loaded = load_object(module.object_bytes())
        for name in ("k", "other"):
            ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(loaded.address(name))(a.ctypes.data)
        np.testing.assert_array_equal(a, 4 * np.arange(8))


def test_constant_data_in_helpers_becomes_part_of_the_object():
    def body(a, n):
        q = T.pointer("q", u8)
        table = T.flat_buffer("t", u8, 4, q)
        return [
            T.Bind(q, T.call("table_at", T.pointer_type(u8))),
            T.DeclBuffer(table, data=q),
            T.BufferStore(a, T.BufferLoad(table, [n]), [zero]),
        ]

    a = np.zeros(1, "u1")
    run(build(body, dtypes=(u8,), helpers=HELPERS), a, n=2)
    assert a[0] == 3


def test_buffers_of_constant_size_are_on_the_stack_whatever_their_size():
    def body(a, b, n):
        kept = T.flat_buffer("kept", f32, 10000)
        i, j = T.Var("i", "int64"), T.Var("j", "int64")
        back = T.Sub(int64(9999), j)
        return [
            T.AllocBuffer(kept),
            T.For(i, zero, int64(10000), T.ForKind.SERIAL, T.BufferStore(kept, T.BufferLoad(a, [i]), [i])),
            T.For(j, zero, int64(10000), T.ForKind.SERIAL, T.BufferStore(b, T.BufferLoad(kept, [back]), [j])),
        ]

    module = build(body)
    a, b = np.arange(10000, dtype="f4"), np.zeros(10000, "f4")
    run(module, a, b)
    np.testing.assert_array_equal(b, a[::-1])
    assert "Workspace" not in module.text("asm")


def test_a_buffer_inside_a_loop_does_not_grow_the_stack():
    def body(a, b, n):
        kept = T.flat_buffer("kept", f32, 8)
        i = T.Var("i", "int64")
        store = T.BufferStore(kept, T.BufferLoad(a, [zero]), [T.Div(i, n)])
        load = T.BufferStore(b, T.BufferLoad(kept, [zero]), [zero])
        return [T.For(i, zero, n, T.ForKind.SERIAL, T.sequence([T.AllocBuffer(kept), store, load]))]

    a, b = np.ones(1, "f4"), np.zeros(1, "f4")
    run(build(body), a, b, n=10_000_000)
    assert b[0] == 1


def test_parallel_loops_call_the_launch_function_through_its_weak_variable():
    def body(a, b, n):
        i = T.Var("i", "int64")
        return [T.For(i, zero, n, T.ForKind.PARALLEL, T.BufferStore(b, T.BufferLoad(a, [i]), [i]))]

    module = build(body)
    assert "__TVMBackendParallelLaunch" in module.text("asm")
    a, b = np.arange(1000, dtype="f4"), np.zeros(1000, "f4")
    assert run(module, a, b, n=1000) == 0
    np.testing.assert_array_equal(b, a)


def test_while_loops_read_memory_again_before_each_round():
    def body(a, n):
        again = T.LT(T.BufferLoad(a, [zero]), n)
        return [T.While(again, T.BufferStore(a, T.Add(T.BufferLoad(a, [zero]), one), [zero]))]

    a = np.zeros(1, "i8")
    run(build(body, dtypes=(i64,)), a, n=37)
    assert a[0] == 37


def test_shifts_floor_and_divisions_truncate():
    def body(a, n):
        return [
            T.BufferStore(a, T.RShift(n, one), [zero]),
            T.BufferStore(a, T.Div(n, int64(2)), [one]),
        ]

    a = np.zeros(2, "i8")
    run(build(body, dtypes=(i64,)), a, n=-7 & (2**64 - 1))
    assert list(a) == [-4, -3]


def test_products_are_contracted_unless_fenced():
    helpers = """
declare <4 x double> @llvm.arithmetic.fence.v4f64(<4 x double>)
define internal <4 x double> @fence(<4 x double> %x) alwaysinline {
  %y = call <4 x double> @llvm.arithmetic.fence.v4f64(<4 x double> %x)
  ret <4 x double> %y
}
"""

    random = np.random.default_rng(0).standard_normal((3, 4))
    random[2] = -random[0] * random[1]
    for fenced in (False, True):

        def body(a, b, n, fenced=fenced):
            product = T.Mul(vector(a, 0, 4), vector(a, 4, 4))
            if fenced:
                product = T.call("fence", "float64x4", product)
            return [T.BufferStore(b, T.Add(product, vector(a, 8, 4)), [T.Ramp(zero, one, 4)])]

        b = np.ones(4)
        run(build(body, dtypes=(f64, f64), helpers=helpers), random, b)
        assert b.any() != fenced


@pytest.mark.parametrize(
    "cpu, register", [("x86-64-v2", "%xmm"), ("haswell", "%ymm"), ("skylake-avx512", "%zmm"), ("znver4", "%zmm")]
)
def test_the_cpu_decides_the_registers(cpu, register):
    body = lambda a, b, n: [T.BufferStore(b, T.Add(vector(a, 0, 16), vector(a, 16, 16)), [T.Ramp(zero, one, 16)])]
    text = build(body, cpu).text("asm")
    assert register in text


def test_llvm_lists_its_cpus_and_their_features():
    assert {"nehalem", "haswell", "znver4", "x86-64-v3"} <= set(T.llvm_cpus())
    assert {"64bit", "avx2", "fma", "sse4.2"} <= set(T.llvm_features("haswell"))
    assert "avx512f" not in T.llvm_features("haswell") and "64bit" not in T.llvm_features("i686")


def test_conditions_need_their_third_argument():
    def body(a, n):
        return [T.IfThenElse(T.LT(n, int64(3)), T.BufferStore(a, one, [zero]), None)]

    for n, wanted in ((2, 1), (3, 0)):
        a = np.zeros(1, "i8")
        run(build(body, dtypes=(i64,)), a, n=n)
        assert a[0] == wanted


def test_the_functions_print_as_tir():
    text = build(lambda a, b, n: [T.BufferStore(b, vector(a, 0, 8), [T.Ramp(zero, one, 8)])]).text("tir")
    assert "def k(" in text
