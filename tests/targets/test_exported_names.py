"""Any name and any text of a user's survives in C: headers compile as C and C++ after any other header, and messages keep their text."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import c_programs as programs
import numpy as np
import pytest

import raido as rd
from raido.algo.errors import ExportError, IndexOutOfRange
from raido.targets import export
from raido.targets.c_names import LIBRARY_FUNCTIONS, global_name, identifier, library_name
from raido.targets.c_text import c_comment, c_format, c_string
from raido.targets.export_functions import describe_function
from raido.targets.export_header import write_header
from raido.targets.signature import FaultSite, Signature, Value

_NAMES = """
int32_t size_t rd_alloc rd_free raido_x raido_library_v1 snprintf int64_t uint8_t NULL INT64_MAX errno stdin EOF I N M_PI PRId64 main
exp read isnan offsetof alloca signbit pow10 major unix linux restrict auto register typedef unsigned new delete template namespace
co_await char8_t requires typename std nullptr char wchar_t fault status missing message report overlap local extern metadata
entries Site RdFault FAIL PUBLIC ENTRY a0 a1 bytes_0 bound_0 sites_0 __x__ _ _x x__y x_2 x été größe 名前 _3 uint va_list jmp_buf FILE
atomic_int memcpy result h w w_t T2 B0 SIGINT library_message library_free std_ inline switch void
"""
NAMES = _NAMES.split()
TEXTS = [
    *("%n%s", "%", "%%d", "*/", "/*", "//", "??/", "??=", '"', "\\", "\\n", "\n", "\r\n", "\0", "\t", "é", "名", "'"),
    *("; int x;", "#", "a" * 30),
]
STANDARD = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdbool stddef stdint stdio stdlib
string time uchar wchar wctype unistd sys/types sys/stat sys/mman sys/socket sys/time sys/wait sys/select sys/param sys/ioctl netinet/in
netdb arpa/inet poll pthread semaphore dlfcn fcntl dirent sched termios aio pwd
"""
ONLY_C = "stdnoreturn stdatomic threads tgmath"
LANGUAGES = {"C99": ("c", "c99"), "C11": ("c", "c11"), "GNU 17": ("c", "gnu17"), "C++17": ("c++", "c++17")}
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")


def includes(language: str) -> str:
    names = (STANDARD + (ONLY_C if language == "c" else "")).split()
    return "".join(f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif\n" for name in names)


def compiles(folder: Path, source: str, language: str, standard: str) -> None:
    """Asserts that a source is C or C++ without a warning."""
    (folder / "main.x").write_text(source)
    command = [*export.find_compiler(), "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-I.", "main.x"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if "cc1plus" in done.stderr:
        pytest.skip("a C compiler without its C++ half")
    assert done.returncode == 0, done.stderr[:3000]


@functools.cache
def words_of_headers() -> tuple[str, ...]:
    """Every identifier that stands anywhere in the headers of this system, and every macro."""
    found: set[str] = set()
    for option in (["-E"], ["-E", "-dM"]):
        command = [*export.find_compiler(), "-x", "c", "-std=gnu17", "-D_GNU_SOURCE", *option, "-"]
        text = subprocess.run(command, input=includes("c"), capture_output=True, text=True, check=True).stdout
        lines = [line for line in text.splitlines() if option[-1] == "-dM" or not line.startswith("#")]
        found |= set(re.findall(r"[A-Za-z_]\w*", "\n".join(lines)))
    return tuple(sorted(found))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_word_of_any_header_is_a_name_that_breaks_one(tmp_path: Path, language: str) -> None:
    words = [word for word in words_of_headers() if not word.startswith("_")]
    assert len(words) > 3000 and {"errno", "INT64_MAX", "size_t", "snprintf", "sigaction", "uint"} <= set(words)
    functions, taken = [], {f"lib_{suffix}" for suffix in LIBRARY_FUNCTIONS}
    for start in range(0, len(words), 50):
        some = words[start : start + 50]
        values = [Value(word, "float32", (word,)) for word in some]
        signature = Signature("f", tuple(values), (), (Value("result", "int64", ()),), {}, 0)
        functions.append(describe_function("lib", f"all_of_{start}", "e", signature))
    for word in words:
        function = describe_function("lib", word, "e", Signature("f", (), (), (Value(word, "int64", ()),), {}, 0))
        if function.name not in taken:  # a library with names that become the same is refused
            taken.add(function.name)
            functions.append(function)
    (tmp_path / "names.h").write_text(write_header("lib", functions))
    source = f'{includes(LANGUAGES[language][0])}#include "names.h"\n#include "names.h"\nint all(void);\n'
    compiles(tmp_path, source, *LANGUAGES[language])
    compiles(tmp_path, f'#include "names.h"\n{includes(LANGUAGES[language][0])}', *LANGUAGES[language])


def make_program(draw: random.Random) -> tuple[Any, str, list[str]]:
    """An algorithm of random names: the sum of two fields of a record, a further array and a scalar; its name and its fields."""
    name, array, record, scalar, size = draw.sample(NAMES, 5)
    if draw.random() < 0.3:
        array = name
    fields = ["".join(draw.choices(TEXTS, k=draw.randint(1, 3))) + str(k) for k in range(2)]
    kind = rd.record(**dict.fromkeys(fields, rd.f32))
    scope = {"rd": rd, "kind": kind}
    exec(
        f"def {name}({record}: kind[{size!r}], {array if array != record else 'other'}: rd.f32[{size!r}], {scalar}: rd.f32):\n"
        f"    return rd.map(lambda p, x: getattr(p, {fields[0]!r}) + getattr(p, {fields[1]!r}) + x, {record}, {array}) * {scalar}",
        scope,
    )
    return rd.algorithm(scope[name]), name, fields


@pytest.mark.parametrize("seed", range(6))
def test_libraries_of_random_names_compile_load_and_run(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    algorithm, name, fields = make_program(draw)
    stem = draw.choice(
        [*NAMES, "rd", "raido", "r", "math", "count", "mylibrary", "obstack", "3-d", "a,b", "-o", "a b", "%n"]
    )
    exe = algorithm.compile()
    path = exe.export(tmp_path / f"lib{stem}.so")
    header = export.header_of(path)
    text = header.read_text(encoding="ascii")
    for standard in LANGUAGES["C11"], LANGUAGES["C++17"]:
        compiles(tmp_path, f'#include "{header.name}"\n{includes(standard[0])}#include "{header.name}"\n', *standard)
    one, two, three = (np.arange(5, dtype="f4") * k for k in (1, 2, 3))
    loaded = export.load(path)
    np.testing.assert_array_equal(loaded({fields[0]: one, fields[1]: two}, three, np.float32(2)), 12 * np.arange(5))
    public, library = global_name(library_name(stem), name), library_name(stem)
    (prototype,) = re.findall(rf"int32_t {public}\((.*)\);", text)
    assert len(prototype.split(", ")) == len({part.split()[-1] for part in prototype.split(", ")}) == 6
    handle = ctypes.CDLL(str(path))
    out, arrays = np.zeros(5, "f4"), [ctypes.c_void_p(a.ctypes.data) for a in (one, two, three)]
    entry, message = getattr(handle, public), getattr(handle, f"{library}_message")
    message.restype = ctypes.c_char_p
    entry.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_float, ctypes.c_int64, ctypes.c_void_p]
    assert entry(*arrays, 2.0, 5, out.ctypes.data) == 0 and out.tolist() == [0, 12, 24, 36, 48]
    assert entry(*arrays, 2.0, -1, out.ctypes.data) == 2 and b"negative: -1" in message()
    assert entry(None, *arrays[1:], 2.0, 5, out.ctypes.data) == 1 and message().endswith(b" is NULL")
    assert entry(*arrays, 2.0, 5, arrays[0]) == 3 and b" overlaps " in message()


@pytest.mark.parametrize("seed", range(3))
def test_results_whose_size_data_decides_are_exported_under_random_names(tmp_path: Path, seed: int) -> None:
    draw = random.Random(f"sizes {seed}")
    name, array, counts, size = draw.sample(NAMES, 4)
    letters = ['"', "\\", "%n", "é", " ", "$", "@", "名", ";", "'", "{", "a"]
    stages = ["".join(draw.choices(letters, k=4)) + str(k) for k in range(3)]
    scope: dict[str, Any] = {"rd": rd}
    exec(
        f"def {name}({array}: rd.f32[{size!r}], {counts}: rd.i64[{size!r}]):\n"
        f"    kept = rd.filter(lambda x: x > 2, {array}, name={stages[0]!r})\n"
        f"    many = rd.repeat({array}, {counts}, name={stages[1]!r})\n"
        f"    return rd.map(lambda x: x * 2, kept, name={stages[2]!r}), many",
        scope,
    )
    exe = rd.algorithm(scope[name]).compile()
    loaded = export.load(exe.export(tmp_path / "libz.so"))
    for run in (exe, loaded):
        kept, many = run(np.array([1, 5, 3, 0], "f4"), np.array([0, 2, 1, 1]))
        assert kept.tolist() == [10, 6] and many.tolist() == [5, 5, 3, 0]
    for language in ("C99", "C++17"):
        compiles(tmp_path, f'#include "z.h"\n{includes(LANGUAGES[language][0])}', *LANGUAGES[language])


def text_of(draw: random.Random) -> str:
    return "".join(draw.choices([*TEXTS, "x", " "], k=draw.randint(0, 8)))


@pytest.mark.parametrize("seed", range(6))
def test_messages_say_what_users_wrote(tmp_path: Path, seed: int) -> None:
    """Names of owners, files (without their folders) and lines of code that hold anything, in a library that is really called."""
    draw = random.Random(seed)
    text = lambda: text_of(draw).replace("\0", "")
    base, gather = programs.differences_signature(), programs.gather_signature()
    check = replace(base.checks[0], left_owner=f'argument "{text()}"', right_owner=f'argument "{text()}"')
    site = FaultSite(text(), 12, text())
    rows = [
        ("differences", replace(base, checks=(check,)), programs.build_object(programs.DIFFERENCES)),
        ("gather", replace(gather, name=text(), sites=(site,)), programs.build_object(programs.GATHER)),
        ("empty", replace(base, checks=(replace(check, left_owner=""),)), programs.build_object(programs.DIFFERENCES)),
    ]
    path = export.write_library(tmp_path / "libtexts.so", rows)
    for standard in LANGUAGES.values():
        compiles(tmp_path, '#include "texts.h"\nint main(void) { return texts_abi_version(); }\n', *standard)
    handle = ctypes.CDLL(str(path))
    handle.texts_message.restype = ctypes.c_char_p
    data = (ctypes.c_double * 8)()
    size, address = ctypes.c_int64, ctypes.addressof
    pointer = ctypes.c_void_p(address(data))
    assert handle.differences(pointer, pointer, pointer, size(3), size(2), pointer) == 2
    want = f"differences: {check.left_owner} has size 3, {check.right_owner} has size 2; they must agree"
    assert handle.texts_message().decode() == want
    assert handle.empty(pointer, pointer, pointer, size(3), size(2), pointer) == 2
    assert handle.texts_message().decode() == f"empty: {check.right_owner} is empty"
    index, out = (ctypes.c_int64 * 1)(9), (ctypes.c_double * 1)()
    assert handle.gather(pointer, ctypes.c_void_p(address(index)), size(8), size(1), ctypes.c_void_p(address(out))) == 4
    want = f"{rows[1][1].name}: index 9 is out of range for dimension 0 of size 8\n  algorithm {site.file.rpartition('/')[2]}:12   {site.text}"
    assert handle.texts_message() == want.encode()
    assert list(export.load_all(path)) == ["differences", "gather", "empty"]


def test_a_file_may_be_called_by_bytes_that_are_no_text(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"rd": rd}
    source = "def pick(a: rd.f32['n'], i: rd.i64['k']):\n    return rd.gather(a, i)\n"
    exec(compile(source, os.fsdecode(b'%n\xff".py'), "exec"), scope)
    exe = rd.algorithm(scope["pick"]).compile()
    loaded = export.load(exe.export(tmp_path / "libpick.so"))
    for run in (exe, loaded):
        with pytest.raises(IndexOutOfRange, match=r'algorithm %n\\udcff"\.py:2'):
            run(np.ones(3, "f4"), np.array([9]))


def test_quoted_text_is_read_by_compilers_as_it_was(tmp_path: Path) -> None:
    draw = random.Random(7)
    texts = [text_of(draw).replace("\0", "") for _ in range(300)] + [
        "?" * 9,
        "\\" * 9,
        "%" * 9,
        "x" * 5000,
        "é" * 3000,
        "",
        "\ud800",
    ]
    rows = "".join(f"  if (strcmp({c_string(t)}, expected[{k}])) return {k + 1};\n" for k, t in enumerate(texts))
    rows += "".join(
        f"  snprintf(said, sizeof said, {c_format(t)}); if (strcmp(said, expected[{k}])) return {k + 1};\n  /* {c_comment(t)} */\n"
        f"  // {c_comment(t)}\n"
        for k, t in enumerate(texts)
    )
    bytes_of = lambda t: t.encode(errors="backslashreplace")
    expected = ",\n".join("(const char[]){" + ", ".join(map(str, [*bytes_of(t), 0])) + "}" for t in texts)
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-overflow", "-Wno-format-zero-length", "-trigraphs"]
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\n#include <string.h>\nstatic char said[20000];\nint main(void) {\n"
        f"const char* expected[] = {{{expected}}};\n{rows}  return 0;\n}}\n",
        encoding="ascii",
    )
    subprocess.run([*export.find_compiler(), "-std=c11", *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@pytest.mark.parametrize("seed", range(200))
def test_comments_end_where_they_should(seed: int) -> None:
    text = c_comment(text_of(random.Random(seed)) + "*" * (seed % 3))
    assert text.isascii() and text.isprintable() and "\\\n" not in f"{text}\n"
    assert not any(pair in text for pair in ("*/", "/*", "//", "??"))


def test_names_that_become_the_same_are_numbered_or_refused(tmp_path: Path) -> None:
    assert [identifier(n) for n in ("int32_t", "I", "NX", "N", "x_", "__a__b__", "é", "3d", "3_t", "new", "errno")] == [
        *("int32_t_", "I_", "NX_", "N", "x", "a_b", "value", "_3d", "_3_t_", "new_", "errno_")
    ]
    named = [global_name("lib", n) for n in ("rd_alloc", "exp", "isnan", "offsetof", "raido_x", "RdFault", "report")]
    assert named == [*("lib_rd_alloc", "lib_exp", "lib_isnan", "lib_offsetof", "lib_raido_x", "lib_RdFault", "report")]
    assert [library_name(n) for n in ("rd", "raido", "r", "math", "count", "obstack")] == [
        *("librd", "libraido", "libr", "libmath", "count", "libobstack")
    ]
    values = tuple(Value(name, "float32", ()) for name in ("a.b", "a_b", "a b", "f", "NN.", "NN"))
    function = describe_function("lib", "f", "e", Signature("f", values, ("a_b", "f"), (), {}, 0))
    names = ["a_b", "a_b_2", "a_b_3", "f_2", "NN_", "NN__2", "a_b_4", "f_3"]
    assert [p.name for p in function.parameters] == [n if n != "NN__2" else identifier("NN__2") for n in names]
    signature, data = programs.add_signature(), programs.build_object(programs.ADD)
    with pytest.raises(ExportError, match=r'the C name "value" twice, for algorithm .é. and for algorithm .ö.: give'):
        export.write_library(tmp_path / "libx.so", [("é", signature, data), ("ö", signature, data)])
    with pytest.raises(ExportError, match=r'"y_free" twice, for algorithm .y_free. and for the library itself'):
        export.write_library(tmp_path / "liby.so", [("y_free", signature, data)])
