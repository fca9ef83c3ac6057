"""Exported libraries: used from C and C++ without Python, several in one process, loaded back, refused clearly."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import c_programs as programs
import numpy as np
import pytest

from raido.algo.errors import ExportError, IndexOutOfRange, TargetError
from raido.targets import export
from raido.targets.signature import Signature, Value

MAIN = r"""
#include "first.h"
#include "second.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { printf("failed: %s, line %d: %s\n", #x, __LINE__, first_message()); return 1; } } while (0)
int main(int argc, char** argv) {
  int64_t h = 37, w = 41;
  float *a = (float*)malloc(4 * h * w), *b = (float*)malloc(4 * h * w), *out = (float*)malloc(4 * h * w + 1);
  if (argc > 1) first_set_threads(atoi(argv[1])), second_set_threads(atoi(argv[1]));
  for (int i = 0; i < h * w; i++) a[i] = (float)i, b[i] = (float)(i % 10);
  for (int iteration = 0; iteration < 20; iteration++) {
    memset(out, 0, 4 * h * w);
    MUST(add(a, b, h, w, out) == FIRST_OK);
    for (int i = 0; i < h * w; i++) MUST(out[i] == a[i] + 2 * b[i]);
    memset(out, 0, 4 * h * w);
    MUST(second_add(a, b, h, w, out) == SECOND_OK);
    for (int i = 0; i < h * w; i++) MUST(out[i] == a[i] + 2 * b[i]);
  }
  MUST(add(0, 0, 0, w, 0) == FIRST_OK);
  MUST(add(a, 0, h, w, out) == FIRST_NULL_POINTER && !strcmp(first_message(), "add: b is NULL"));
  MUST(add(a, b, -1, w, out) == FIRST_BAD_SIZE && !strcmp(first_message(), "add: size h is negative: -1"));
  MUST(add(a, b, (int64_t)1 << 40, (int64_t)1 << 40, out) == FIRST_BAD_SIZE);
  MUST(add(a, b, h, w, a + 1) == FIRST_OVERLAP && !strcmp(first_message(), "add: result overlaps a"));
  double table[5] = {0, 1, 2, 3, 4}, found[3];
  int64_t index[3] = {4, 0, 2};
  MUST(gather(table, index, 5, 3, found) == FIRST_OK && found[0] == 4 && found[2] == 2);
  index[1] = 5;
  MUST(gather(table, index, 5, 3, found) == FIRST_FAULT);
  MUST(!strcmp(first_message(), "gather: index 5 is out of range for dimension 0 of size 5\n  algorithm user.py:12   return table[i]"));
  float x[2] = {1, 2}, total, y[2];
  int64_t count;
  MUST(statistics(x, 2.0f, 2, &total, &count, y) == FIRST_OK && total == 6 && count == 2 && y[1] == 4);
  int32_t numbers[4] = {1, -1, 2, -2}, kept[4];
  int64_t k;
  MUST(positive(numbers, 4, kept, &k) == FIRST_OK && k == 2 && kept[1] == 2);
  MUST(positive(numbers, 4, kept, 0) == FIRST_NULL_POINTER);
  float base[3] = {0};
  MUST(differences(base, base, base, 3, 2, y) == FIRST_BAD_SIZE);
  MUST(!strcmp(first_message(), "differences: argument \"base\" has size 3, argument \"y\" has size 2; they must agree"));
  MUST(first_abi_version() == FIRST_ABI_VERSION && strstr(first_metadata(), "gather"));
  MUST(!*second_message());
  puts("ok");
  return 0;
}
"""


def write_first(folder: Path) -> Path:
    rows = []
    for source, signature in (
        (programs.ADD, programs.add_signature()),
        (programs.GATHER, programs.gather_signature()),
        (programs.STATISTICS, programs.statistics_signature()),
        (programs.POSITIVE, programs.positive_signature()),
        (programs.DIFFERENCES, programs.differences_signature()),
    ):
        rows.append((signature.name, signature, programs.build_object(source)))
    return export.write_library(folder / "libfirst.so", rows)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "build"
    write_first(folder)
    signature = programs.add_signature()
    export.write_library(folder / "libsecond.so", [("second_add", signature, programs.build_object(programs.ADD))])
    return folder


@pytest.fixture(scope="module")
def program(libraries: Path) -> Path:
    for suffix, options in (("c", ["-std=c99", "-pedantic"]), ("cpp", ["-x", "c++", "-std=c++11"])):
        (libraries / f"main.{suffix}").write_text(MAIN)
        flags = ["-Wall", "-Wextra", "-Werror", *options, f"main.{suffix}", "-x", "none", "-L.", "-lfirst", "-lsecond"]
        command = [*export.find_compiler(), *flags, "-Wl,-rpath,$ORIGIN", "-o", f"main_{suffix}"]
        if suffix == "cpp":
            command.append("-fsyntax-only")
        done = subprocess.run(command, cwd=libraries, capture_output=True, text=True, check=False)
        if suffix == "cpp" and "cc1plus" in done.stderr:
            continue  # a C compiler without its C++ half
        assert done.returncode == 0, done.stderr
    return libraries / "main_c"


@pytest.mark.parametrize("threads", ["1", "2", "8"])
def test_a_c_program_uses_two_libraries(program: Path, threads: str) -> None:
    done = subprocess.run([program, threads], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ok\n", done.stdout + done.stderr


def test_only_public_names_show_and_only_libc_is_needed(libraries: Path) -> None:
    shown = subprocess.run(["nm", "-D", "--defined-only", libraries / "libsecond.so"], capture_output=True, text=True)
    if shown.returncode:
        pytest.skip("nm is not installed")
    names = {line.split()[-1] for line in shown.stdout.splitlines()}
    assert names == {
        "second_add",
        "second_message",
        "second_metadata",
        "second_abi_version",
        "second_free",
        "second_set_threads",
        "raido_library_v1",
    }
    needed = subprocess.run(["ldd", libraries / "libfirst.so"], capture_output=True, text=True, check=True).stdout
    found = {line.split()[0] for line in needed.splitlines()}
    assert all(re.match(r"(linux-vdso|libc\.so|libm\.so|/.*ld-linux)", name) for name in found), found
    assert sorted(path.name for path in libraries.iterdir() if not path.name.startswith("main")) == [
        "first.h",
        "libfirst.so",
        "libsecond.so",
        "second.h",
    ]


def test_a_loaded_library_behaves_like_the_executable(libraries: Path) -> None:
    loaded = export.load_all(libraries / "libfirst.so")
    assert list(loaded) == ["add", "gather", "statistics", "positive", "differences"]
    a = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(loaded["add"](a, a), 3 * a)
    np.testing.assert_array_equal(loaded["add"].with_threads(2)(a[:, ::2], a[:, ::2]), 3 * a[:, ::2])
    assert loaded["positive"](np.array([1, -1, 3], "int32")).tolist() == [1, 3]
    with pytest.raises(IndexOutOfRange, match=r"index 9 is out of range.*\n.*user.py:12"):
        loaded["gather"](np.zeros(5), np.array([9]))
    single = export.load(libraries / "libsecond.so")
    assert repr(single) == "<Executable add(a: f32[h, w], b: f32[h, w]) -> f32[h, w]>"
    assert export.load(libraries / "libfirst.so", "add").time(a, a, repeat=2).bytes == 144
    with pytest.raises(TargetError, match=r"holds add, gather, .*: say which with name="):
        export.load(libraries / "libfirst.so")
    with pytest.raises(TargetError, match="there is no 'sub'"):
        export.load(libraries / "libfirst.so", "sub")
    with pytest.raises(TargetError, match="copy that library"):
        single.export(libraries / "again.so")
    with pytest.raises(TargetError, match="no source of kind"):
        single.source("tir")


def test_loading_needs_neither_tvm_nor_a_compiler(libraries: Path) -> None:
    script = """
import sys, numpy as np
from raido.targets.export import load
a = np.ones((2, 3), "float32")
assert load(sys.argv[1])(a, a).tolist() == [[3, 3, 3]] * 2
assert "tvm" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script, libraries / "libsecond.so"], env={"PATH": ""}, check=True)


def test_a_library_written_anew_is_loaded_anew(tmp_path: Path) -> None:
    add = programs.make_executable(programs.ADD, programs.add_signature())
    other = programs.make_executable(programs.ADD.replace("2 *", "5 *"), replace(add.signature, name="other"))
    ones = np.ones((1, 1), "float32")
    path = add.export(tmp_path / "libadd.so")
    first = export.load(path)
    other.export(path)
    second = export.load(path)
    assert first(ones, ones) == 3 and second(ones, ones) == 6 and second.signature.name == "other"


def test_awkward_names_become_c_names(tmp_path: Path) -> None:
    signature = Signature(
        "while",
        (Value("double", "complex64", ("größe",)), Value("p.x", "bool", ("größe",)), Value("p_x", "float16", ())),
        ("größe",),
        (Value("result", "float32", ("größe",)),),
        {"tuple": [0, {"record": {"x": 1}}, 2]},
        0,
    )
    source = """int32_t entry(const float* z, const uint8_t* m, const uint16_t* s, int64_t n, float* out, RdFault* f) {
      (void)m, (void)s, (void)f; for (int64_t i = 0; i < n; i++) out[i] = z[2 * i] + z[2 * i + 1]; return 0; }"""
    data = programs.build_object(source)
    path = export.write_library(tmp_path / "lib3-d.so", [("while", signature, data), ("exp", signature, data)])
    header = (tmp_path / "_3_d.h").read_text()
    assert (
        "int32_t while_(const float* double_, const uint8_t* p_x, uint16_t p_x_2, int64_t gr_e, float* result);"
        in header
    )
    assert "int32_t _3_d_exp(" in header and "interleaved pairs" in header
    exe = export.load(path, "exp")
    z = np.array([1 + 2j, 3 - 1j], "complex64")
    assert exe(z, {"x": np.array([True, False])}, np.float16(1)).tolist() == [3, 2]


def test_refusals_are_clear_and_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signature, data = programs.add_signature(), programs.build_object(programs.ADD)
    rows = [("add", signature, data)]
    with pytest.raises(ExportError, match=r'ends in "\.so"'):
        export.write_library(tmp_path / "blur.dll", rows)
    with pytest.raises(ExportError, match=r'ends in "\.so", unlike .a.x00b'):
        export.write_library(tmp_path / "a\0b.so", rows)
    with pytest.raises(ExportError, match="at least one"):
        export.write_library(tmp_path / "libblur.so", [])
    with pytest.raises(ExportError, match='"add" twice'):
        export.write_library(tmp_path / "libblur.so", rows * 2)
    with pytest.raises(ExportError, match="'no-such-cc' does not exist"):
        export.write_library(tmp_path / "libblur.so", rows, cc="no-such-cc")
    with pytest.raises(ExportError, match=r"the C compiler failed: .*false"):
        export.write_library(tmp_path / "libblur.so", rows, cc="false")
    broken = programs.build_object("int elsewhere(void); int32_t entry(void) { return elsewhere(); }")
    with pytest.raises(ExportError, match="elsewhere"):
        export.write_library(tmp_path / "libblur.so", [("add", signature, broken)])
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot be written"):
        export.write_library(tmp_path / "file" / "libblur.so", rows)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ExportError, match=r"install gcc or clang, or `pip install raido\[export\]`"):
        export.write_library(tmp_path / "libblur.so", rows)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_other_files_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("hello")
    for path, message in (
        (tmp_path / "absent.so", "cannot be loaded"),
        (tmp_path / "text.so", "cannot be loaded"),
        (Path("/lib/x86_64-linux-gnu/libm.so.6"), "not a library that raido exported"),
    ):
        if path.is_absolute() and not path.exists() and path.parent != tmp_path:
            continue
        with pytest.raises(TargetError, match=message):
            export.load(path)


def test_the_compiler_of_the_ziglang_package_serves_too(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    exe = programs.make_executable(programs.ADD, programs.add_signature())
    loaded = export.load(exe.export(tmp_path / "libadd.so", cc=[sys.executable, "-m", "ziglang", "cc"]))
    ones = np.ones((3, 2), "float32")
    np.testing.assert_array_equal(loaded(ones, ones), 3 * ones)
