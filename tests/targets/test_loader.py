"""The loader: relocations, stubs, data, undefined symbols, and one clear error for each unsupported case."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

import pytest

from raido.algo.errors import TargetError
from raido.targets.elf import parse_object, rename_globals
from raido.targets.loader import LoadedObject, load_object

Compile = Callable[..., bytes]

PROGRAM = r"""
#include <stdlib.h>
static int64_t counter = 40;          /* .data */
static int64_t zeroed[1000];          /* .bss */
int64_t shared;                       /* COMMON with -fcommon */
static const double table[] = {1, 2, 4, 8};
int (*chosen)(int) = abs;             /* an address of a far function in data */
const char* names[] = {"zero", "one"};
__attribute__((weak)) extern int nowhere(void);
static int twice(int x) { return 2 * x; }
static int (*const operations[])(int) = {abs, twice};
int64_t next(void) { return ++counter + zeroed[17] + shared++; }
double lookup(int i) { return table[i]; }
double power(double x) { return pow(x, 0.5) + exp(0); }
int through(int i, int x) { return operations[i](x) + chosen(-1); }
const char* name(int i) { return names[i]; }
int weak_is_null(void) { return nowhere == 0; }
void copy(char* to, const char* from, long n) { memcpy(to, from, n); }
int switched(int x) {
  switch (x) { case 0: return 5; case 1: return 7; case 2: return 1; case 3: return 9; case 4: return 2; case 5: return 8; }
  return -1;
}
"""


def function(loaded: LoadedObject, name: str, result: object, *arguments: object) -> Callable[..., object]:
    return ctypes.CFUNCTYPE(result, *arguments)(loaded.address(name))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "flags", [("-fPIC",), ("-fno-pic", "-mcmodel=small"), ("-fPIC", "-fcommon", "-g"), ("-mcmodel=large", "-fno-pic")]
)
def test_code_data_and_libraries_are_linked(compile_c: Compile, flags: tuple[str, ...]) -> None:
    loaded = load_object(compile_c(PROGRAM, *flags))
    advance = function(loaded, "next", ctypes.c_int64)
    assert [advance(), advance()] == [41, 43]
    assert function(loaded, "lookup", ctypes.c_double, ctypes.c_int)(3) == 8.0
    assert function(loaded, "power", ctypes.c_double, ctypes.c_double)(9.0) == 4.0
    through = function(loaded, "through", ctypes.c_int, ctypes.c_int, ctypes.c_int)
    assert [through(0, -3), through(1, -3)] == [4, -5]
    assert function(loaded, "name", ctypes.c_char_p, ctypes.c_int)(1) == b"one"
    assert function(loaded, "weak_is_null", ctypes.c_int)() == 1
    assert [function(loaded, "switched", ctypes.c_int, ctypes.c_int)(i) for i in range(7)] == [5, 7, 1, 9, 2, 8, -1]
    buffer = ctypes.create_string_buffer(3)
    function(loaded, "copy", None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_long)(buffer, b"ab", 3)
    assert buffer.value == b"ab"


def test_two_loads_share_nothing(compile_c: Compile) -> None:
    data = compile_c(PROGRAM)
    first, second = load_object(data), load_object(data)
    assert function(first, "next", ctypes.c_int64)() == 41
    assert function(second, "next", ctypes.c_int64)() == 41


def test_nothing_is_writable_and_executable(compile_c: Compile) -> None:
    loaded = load_object(compile_c(PROGRAM))
    found = {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, *_ = line.split()
            low, high = (int(x, 16) for x in span.split("-"))
            for name in ("lookup", "chosen"):
                if low <= loaded.address(name) < high:
                    found[name] = rights[:3]
    assert found == {"lookup": "r-x", "chosen": "rw-"}


def test_weak_pointers_of_the_code_generator_receive_the_runtime(compile_c: Compile) -> None:
    source = """
    __attribute__((weak)) int (*__TVMBackendParallelLaunch)(RdTask, void*, int) = 0;
    static int task(int i, RdTaskEnv* env, void* data) { (void)env; __atomic_fetch_add((long*)data, i, 5); return 0; }
    int run(long* sum) { return __TVMBackendParallelLaunch(task, sum, 101); }
    """
    loaded = load_object(compile_c(source))
    total = ctypes.c_long()
    assert function(loaded, "run", ctypes.c_int, ctypes.c_void_p)(ctypes.byref(total)) == 0
    assert total.value == 5050


def test_constructors_run(compile_c: Compile) -> None:
    loaded = load_object(compile_c("int ready; __attribute__((constructor)) static void start(void) { ready = 7; }"))
    assert ctypes.c_int.from_address(loaded.address("ready")).value == 7


def test_externals_come_first(compile_c: Compile) -> None:
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 99)
    address = ctypes.cast(answer, ctypes.c_void_p).value
    loaded = load_object(compile_c("int ask(void); int run(void) { return ask() + 1; }"), {"ask": address})  # type: ignore[dict-item]
    assert function(loaded, "run", ctypes.c_int)() == 100


def test_what_cannot_be_loaded_is_one_clear_error(compile_c: Compile) -> None:
    good = compile_c(PROGRAM)
    with pytest.raises(TargetError, match="needs 'no_such_function'"):
        load_object(compile_c("int no_such_function(void); int run(void) { return no_such_function(); }"))
    with pytest.raises(TargetError, match="thread-local"):
        load_object(compile_c("__thread int x = 1; int run(void) { return x; }"))
    with pytest.raises(TargetError, match=r"no symbol 'absent'; it defines: .*lookup"):
        load_object(good).address("absent")
    with pytest.raises(TargetError, match="not an object file"):
        load_object(b"\x7fELF nonsense")
    with pytest.raises(TargetError, match="damaged"):
        load_object(good[:-200])
    with pytest.raises(TargetError, match="not a relocatable object"):
        load_object(good[:16] + b"\x03\x00" + good[18:])


def test_damaged_bytes_never_crash_the_parser(compile_c: Compile) -> None:
    good = compile_c(PROGRAM)
    for at in range(16, len(good), 7):
        bad = bytearray(good)
        bad[at] ^= 0xFF
        with contextlib.suppress(TargetError):
            parse_object(bytes(bad))


def test_renamed_objects_keep_working(compile_c: Compile) -> None:
    renamed = rename_globals(compile_c(PROGRAM), "mine_")
    loaded = load_object(renamed)
    assert function(loaded, "mine_next", ctypes.c_int64)() == 41
    assert "next" not in loaded.addresses
