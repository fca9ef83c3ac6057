"""Programs for a Vulkan device inside an exported library: called from C, under AddressSanitizer, and from Python."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import c_programs
import hand_made_kernels as kernels
import numpy as np
import pytest
from kernel_vocabulary import at, integer, kernel, native, number, put, when
from test_sanitizers import MEMORY, compiler, run
from vulkan_devices import validated_device

from raido.algo.errors import IndexOutOfRange, SizeMismatch, TargetError
from raido.algo.graph.dtypes import f32, i32, i64
from raido.schedule.kernels.host_plan import Allocate, Copy, Launch, Let, Loop, ReadBack, Statement, Swap
from raido.targets import export
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.export import write_kernels
from raido.targets.devices.library import KernelInfo
from raido.targets.devices.plan import encode_plan
from raido.targets.signature import Existential, FaultSite, Signature, Value
from raido.targets.vulkan.probe import examine
from raido.targets.vulkan.spirv.generate import generate_kernel

T = kernels.T


def blur(x: Any, a: Any, b: Any, weight: Any, n: Any) -> list[Any]:
    """b[i] = (a[i - 1] + a[i + 1]) * weight with clamped ends."""
    clamp = lambda i: T.Max(T.Min(i, n - 1), integer(0, "int64"))
    one = integer(1, "int64")
    both = at(a, clamp(x.i - one)) + at(a, clamp(x.i + one))
    return [when(x.i < n, put(b, x.i, both * at(weight, integer(0))))]


def pick(x: Any, a: Any, limit: Any, kept: Any, count: Any, record: Any, n: Any) -> list[Any]:
    """One thread keeps what is above a limit; -1 is a fault, whose values are 0, the index and n."""
    i, zero = T.Var("i", "int64"), integer(0)
    words = (integer(1), zero, zero, zero, T.Cast("int32", i), zero, T.Cast("int32", n))
    fault = when(
        T.EQ(at(record, zero), zero), *(put(record, integer(k), word) for k, word in reversed([*enumerate(words)]))
    )
    keep = [put(kept, at(count, zero), at(a, i)), put(count, zero, at(count, zero) + 1)]
    body = [when(T.EQ(at(a, i), number(f32, -1.0)), fault), when(at(limit, zero) < at(a, i), *keep)]
    return [T.For(i, integer(0, "int64"), n, T.ForKind.SERIAL, T.sequence(body))]


def ones(x: Any, a: Any, n: Any) -> list[Any]:
    return [when(x.i < n, put(a, x.i, number(f32, 1.0)))]


def code(functions: Sequence[Any], plan: Sequence[Statement], sizes: tuple[str, ...], **names: Any) -> DeviceCode:
    device = validated_device()
    made = {str(f.attrs["global_symbol"]): generate_kernel(f, device) for f in functions}
    rest: dict[str, Any] = {"results": (), "constants": {}, "counts": {}, "fault": "", "iterations": 65535}
    return DeviceCode(kernels=made, plan=encode_plan(plan, made, sizes), sizes=sizes, **{**rest, **names})


BLOCKS = lambda n: (("//", ("+", n, 63), 64), 1, 1)


def smooth_program() -> tuple[str, Signature, DeviceCode]:
    """Blurs an array so many times."""
    signature = Signature(
        "smooth",
        (Value("a", "float32", ("n",)),),
        ("n", "steps"),
        (Value("result", "float32", ("n",)),),
        {"tuple": [0, {"size": "steps"}]},
        0,
    )
    plan = (
        *(Copy("out", "a", ("*", "n", 4)), Allocate("b", ("*", "n", 4))),
        Loop("k", "steps", (Launch("blur", BLOCKS("n"), ("out", "b", "weight", "n")), Swap("out", "b"))),
    )
    functions = [kernel("blur", (f32, f32, f32, "int64"), blur)]
    half = np.array([0.5], "f4")
    names: dict[str, Any] = {"inputs": ("a",), "outputs": ("out",), "constants": {"weight": half}}
    return "smooth", signature, code(functions, plan, ("n", "steps"), **names)


def pick_program() -> tuple[str, Signature, DeviceCode]:
    """What is above a limit, and as many ones as are not."""
    signature = Signature(
        "pick",
        (Value("a", "float32", ("n",)), Value("limit", "float32", ())),
        ("n",),
        (Value("result[0]", "float32", ("k",)), Value("result[1]", "float32", ("m",))),
        {"tuple": [0, 1]},
        {"tuple": [0, 1]},
        existentials=(Existential("k", "n"), Existential("m", None)),
        sites=(FaultSite("user.py", 12, "return table[a]"),),
    )
    plan = (
        *(Allocate("count", 8), Copy("count", "zero", 8)),
        Launch("pick", (1, 1, 1), ("a", "limit", "kept", "count", "record", "n")),
        *(ReadBack("kept", "count", i64), Let("others", ("-", "n", "kept"))),
        *(Allocate("rest", ("*", "others", 4)), Launch("ones", BLOCKS("others"), ("rest", "others"))),
    )
    functions = [
        kernel("pick", (f32, f32, f32, i64, i32, "int64"), pick, block=(1, 1, 1)),
        kernel("ones", (f32, "int64"), ones),
    ]
    names: dict[str, Any] = {
        "inputs": ("a", "limit"),
        "outputs": ("kept", "rest"),
        "results": ("rest",),
        "fault": "record",
        "counts": {"k": "kept", "m": "others"},
        "constants": {"zero": np.zeros(1, "i8")},
    }
    return "pick", signature, code(functions, plan, ("n",), **names)


MAIN = r"""
#include "both.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { printf("failed: %s, line %d: %s\n", #x, __LINE__, both_message()); exit(1); } } while (0)

static void try_smooth(int64_t n, int64_t steps) {
  float* a = malloc((size_t)n * 4 + 1), *out = malloc((size_t)n * 4 + 1), *b = malloc((size_t)n * 4 + 1);
  for (int64_t i = 0; i < n; i++) a[i] = (float)(i * i % 64);
  MUST(smooth(a, n, steps, out) == BOTH_OK);
  for (int64_t k = 0; k < steps; k++) {
    for (int64_t i = 0; i < n; i++) b[i] = (a[i ? i - 1 : 0] + a[i < n - 1 ? i + 1 : n - 1]) * 0.5f;
    memcpy(a, b, (size_t)n * 4);
  }
  MUST(!memcmp(a, out, (size_t)n * 4));
  free(a), free(out), free(b);
}

static void try_pick(int64_t n) {
  float* a = malloc((size_t)n * 4 + 1), *kept = malloc((size_t)n * 4 + 1), *rest = 0;
  int64_t k = -1, m = -1, want = 0;
  for (int64_t i = 0; i < n; i++) want += (a[i] = (float)(i % 7)) > 2;
  MUST(pick(a, 2.0f, n, kept, &rest, &k, &m) == BOTH_OK && k == want && m == n - want && rest);
  for (int64_t i = 0; i < k; i++) MUST(kept[i] > 2);
  for (int64_t i = 0; i < m; i++) MUST(rest[i] == 1);
  both_free(rest);
  if (n) {
    a[n / 2] = -1;
    MUST(pick(a, 2.0f, n, kept, &rest, &k, &m) == BOTH_FAULT && !rest);
    char want[200];
    snprintf(want, sizeof want, "pick: index %d is out of range for dimension 0 of size %d\n"
             "  algorithm user.py:12   return table[a]", (int)(n / 2), (int)n);
    MUST(!strcmp(both_message(), want));
  }
  free(a), free(kept);
}

static void* everything(void* unused) {
  (void)unused;
  for (int64_t n = 1; n < 200; n += 66) try_smooth(n, n % 5), try_pick(n);
  return 0;
}

int main(int argc, char** argv) {
  (void)argv;
  float x[4] = {0};
  if (argc > 1) { /* there is no driver */
    MUST(smooth(x, 2, 1, x + 2) == BOTH_BAD_DEVICE && both_set_device("0") == BOTH_BAD_DEVICE);
    puts(both_message());
    return 0;
  }
  everything(0);
  MUST(both_set_device("none such") == BOTH_BAD_DEVICE);
  MUST(!strcmp(both_message(), "there is no Vulkan device called \"none such\""));
  pthread_t hosts[4];
  for (int k = 0; k < 4; k++) MUST(!pthread_create(&hosts[k], 0, everything, 0));
  MUST(both_set_device("0") == BOTH_OK && both_set_device(0) == BOTH_OK);
  for (int k = 0; k < 4; k++) pthread_join(hosts[k], 0);
  try_smooth(0, 3), try_pick(0), try_smooth(20000, 70);
  int64_t k, m;
  float* rest;
  MUST(smooth(0, 2, 1, x) == BOTH_NULL_POINTER && smooth(x, -2, 1, x) == BOTH_BAD_SIZE && smooth(x, 2, 1, x + 1) == BOTH_OVERLAP);
  MUST(smooth(0, 0, 1, 0) == BOTH_OK && pick(0, 1.0f, 0, 0, &rest, &k, &m) == BOTH_OK && k + m == 0);
  both_free(rest);
  puts("ok");
  return 0;
}
"""
LEAKS = "leak:libvulkan\nleak:libLLVM\nleak:libdrm\n"  # the driver's own, for the life of the process


def test_a_c_program_runs_a_library_on_the_device(tmp_path: Path) -> None:
    cc = [*compiler(MEMORY), "-O0"]
    library = export.write_library(tmp_path / "libboth.so", [smooth_program(), pick_program()], cc=cc)
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "leaks").write_text(LEAKS)
    command = [*cc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "main.c", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}", "-o", "main"], cwd=tmp_path, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LSAN_OPTIONS", f"suppressions={tmp_path / 'leaks'}:print_suppressions=0")
        done = run(tmp_path / "main")
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
        patch.setenv("VK_ICD_FILENAMES", str(tmp_path / "absent.json"))
        done = run(tmp_path / "main", "absent")
        assert done.returncode == 0 and "Vulkan" in done.stdout, done.stdout + done.stderr


def test_the_bytes_of_a_program_are_all_of_it() -> None:
    _, _, program = pick_program()
    again = DeviceCode.from_bytes(program.to_bytes())
    assert (again.kernels, again.plan, again.counts, again.fault) == (
        *(program.kernels, program.plan, program.counts, program.fault),
    )
    assert again.to_bytes() == program.to_bytes() and again.constants["zero"].tolist() == [0]
    for broken in (program.to_bytes()[:-1], b"", b"{}\n", b'{"format": 2}\n'):
        with pytest.raises(TargetError, match="not a device program"):
            DeviceCode.from_bytes(broken)


def test_libraries_hold_all_of_a_kernel() -> None:
    _, _, program = smooth_program()
    _, (row,) = write_kernels([program.kernels["blur"]])
    assert [name for name, _ in KernelInfo._fields_ if f".{name} = " not in row] == []


def test_a_library_is_loaded_back(tmp_path: Path) -> None:
    add = c_programs.add_signature()
    rows = [smooth_program(), pick_program(), ("add", add, c_programs.build_object(c_programs.ADD))]
    loaded = export.load_all(export.write_library(tmp_path / "libthree.so", rows))
    a = np.arange(12, dtype="f4") ** 2
    p = np.pad(a, 1, mode="edge")
    np.testing.assert_array_equal(loaded["smooth"](a, 1), (p[:-2] + p[2:]) / 2)
    kept, rest = loaded["pick"](a, 30)
    np.testing.assert_array_equal(kept, a[6:])
    assert rest.tolist() == [1] * 6
    with pytest.raises(IndexOutOfRange, match=r"index 1 is out of range for dimension 0 of size 2\n.*user.py:12"):
        loaded["pick"](np.array([5, -1], "f4"), 1)
    with pytest.raises(SizeMismatch, match="must not be negative"):
        loaded["smooth"](a, -1)
    np.testing.assert_array_equal(loaded["add"](a.reshape(3, 4), a.reshape(3, 4)), 3 * a.reshape(3, 4))
    header = (tmp_path / "three.h").read_text()
    assert "THREE_BAD_DEVICE = 7" in header and "int32_t three_set_device(const char* device);" in header


def test_devices_are_asked_what_no_driver_says(tmp_path: Path) -> None:
    """Kernels that leave multiply-adds to the device want them rounded once; loops made without a limit want none."""
    device = examine(validated_device(), validate=True)
    if 32 in device.fused or not device.iterations:
        pytest.skip(f"{device.name} can do both")
    name, signature, program = smooth_program()
    body = lambda x, a, b, c, n: [when(x.i < n, put(b, x.i, native("fma", f32, at(a, x.i), at(c, x.i), at(a, x.i))))]
    function = kernel("blur", (f32, f32, f32, "int64"), body)
    fused = generate_kernel(function, replace(device, fused=frozenset({32})))
    endless, takes, picking = pick_program()
    for row, lacking in (
        ((name, signature, replace(program, kernels={"blur": fused})), "32-bit multiply-adds that are rounded once"),
        ((endless, takes, replace(picking, iterations=0)), "loops of 100,000 iterations"),
    ):
        path = export.write_library(tmp_path / f"lib{row[0]}.so", [row])
        with pytest.raises(TargetError, match=f"{row[0]}: .* has no {lacking}"):
            export.load(path)(np.zeros(3, "f4"), 1)


def test_a_device_that_cannot_run_it_is_refused(tmp_path: Path) -> None:
    name, signature, program = smooth_program()
    large = replace(program.kernels["blur"], shared_bytes=1 << 30)
    path = export.write_library(
        tmp_path / "liblarge.so", [(name, signature, replace(program, kernels={"blur": large}))]
    )
    with pytest.raises(
        TargetError, match=r"smooth: .* has at most .* bytes of shared memory, and the library needs 1073"
    ):
        export.load(path)(np.zeros(3, "f4"), 1)
