"""The C runtime, driven from C: launches, nesting, many hosts, fork, tickets, memory."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from raido.algo.errors import TargetError
from raido.targets import native
from raido.targets.export import find_compiler

DRIVER = r"""
#include "raido_runtime.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define MUST(x) do { if (!(x)) { printf("failed: %s, line %d\n", #x, __LINE__); abort(); } } while (0)

static int add(int task, RdTaskEnv* env, void* sum) {
  (void)env;
  __atomic_fetch_add((long*)sum, task + 1, __ATOMIC_RELAXED);
  return 0;
}
static int nested(int task, RdTaskEnv* env, void* sum) { (void)task; (void)env; return rd_parallel_launch(add, sum, 10); }
static int count_of(int task, RdTaskEnv* env, void* seen) {
  (void)task;
  __atomic_fetch_add((long*)seen, 1, __ATOMIC_RELAXED);
  return env->num_task < 1;
}
static int failing(int task, RdTaskEnv* env, void* data) {
  (void)env; (void)data;
  if (task != 37) return 0;
  TVMFFIErrorSetRaisedFromCStr("ValueError", "thirty-seven");
  return -7;
}
typedef struct { int64_t counter, turn; uint64_t sum; int64_t n; } Chain;
static int chained(int task, RdTaskEnv* env, void* data) {
  (void)task; (void)env;
  Chain* c = data;
  for (;;) {
    int64_t ticket = rd_next_ticket(&c->counter);
    if (ticket >= c->n) return 0;
    rd_ordered_wait(&c->turn, ticket);
    c->sum = c->sum * 31 + (uint64_t)ticket;
    rd_ordered_done(&c->turn, ticket);
  }
}
static long patience; /* nanoseconds of processor time that waiting took */
static int64_t processor_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}
static void* wait_long(void* data) {
  int64_t before = processor_time();
  rd_ordered_wait(data, 1);
  patience = processor_time() - before;
  return NULL;
}
static int faulting(int task, RdTaskEnv* env, void* data) { (void)env; rd_fault(data, 1, task, task, 2, 3, 4); return 0; }
static void* host(void* unused) {
  (void)unused;
  for (int i = 0; i < 300; i++) {
    long sum = 0;
    MUST(rd_parallel_launch(add, &sum, 20) == 0 && sum == 210);
    char *p = rd_alloc(1000 + i), *q = rd_alloc(64);
    MUST(p && q && (uintptr_t)p % 64 == 0 && (uintptr_t)q % 64 == 0);
    memset(p, i, 1000 + i);
    memset(q, 1, 64);
    rd_free(p);
    rd_free(q);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 0;
  if (threads) rd_set_threads(threads);
  MUST(rd_get_threads() >= 1 && (!threads || rd_get_threads() == threads));
  for (int round = 0; round < 200; round++) {
    long sum = 0;
    MUST(__TVMBackendParallelLaunch(add, &sum, 100) == 0 && sum == 5050);
  }
  long sum = 0, seen = 0;
  MUST(rd_parallel_launch(nested, &sum, 100) == 0 && sum == 5500);
  MUST(rd_parallel_launch(count_of, &seen, 0) == 0 && seen == rd_get_threads());
  MUST(rd_set_thread_limit(1) == 0 && rd_get_threads() == 1 && rd_set_thread_limit(0) == 1);
  MUST(rd_parallel_launch(failing, 0, 100) == -7 && !strcmp(rd_last_error(), "ValueError: thirty-seven"));
  rd_clear_error();
  MUST(!*rd_last_error());
  Chain chain = {0, 0, 0, 3000};
  rd_parallel_launch(chained, &chain, 0);
  uint64_t want = 0;
  for (int64_t k = 0; k < chain.n; k++) want = want * 31 + (uint64_t)k;
  MUST(chain.sum == want);
  int64_t turn = 0;
  pthread_t waiting;
  pthread_create(&waiting, 0, wait_long, &turn);
  usleep(200000);
  rd_ordered_done(&turn, 0);
  pthread_join(waiting, 0);
  MUST(patience < 50000000); /* whoever waits long leaves the processor to others */
  RdFault fault = {0, 0, {0}};
  rd_parallel_launch(faulting, &fault, 50);
  MUST(fault.kind == 1 && fault.values[0] == fault.site && fault.values[3] == 4);
  pthread_t hosts[4];
  for (int i = 0; i < 4; i++) pthread_create(&hosts[i], 0, host, 0);
#ifndef __SANITIZE_ADDRESS__ /* whose own allocator may be locked in the child for good */
  pid_t child = fork(); /* while others launch */
  if (child == 0) {
    host(0);
    chain = (Chain){0, 0, 0, 500};
    rd_parallel_launch(chained, &chain, 0);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  MUST(status == 0);
#endif
  for (int i = 0; i < 4; i++) pthread_join(hosts[i], 0);
  size_t large = (size_t)5 << 20;
  char* p = __TVMBackendAllocWorkspace(1, 0, large, 2, 32);
  MUST((uintptr_t)p % (2 << 20) == 0);
  memset(p, 1, large);
  MUST(__TVMBackendFreeWorkspace(1, 0, p) == 0 && rd_cached_bytes() >= large);
  MUST(rd_alloc(large) == p);
  char* q = malloc(large);
  for (size_t i = 0; i < large; i++) p[i] = (char)(i * 7 >> 3);
  for (size_t size = large; size; size /= 3) {
    memset(q, 99, large);
    rd_copy(q, p, size - 1);
    MUST(!memcmp(q, p, size - 1) && q[size - 1] == 99);
  }
  free(q);
  rd_free(p);
  rd_trim();
  MUST(rd_cached_bytes() == 0 && rd_alloc((uint64_t)1 << 62) == NULL);
  rd_free(NULL);
  puts("ok");
  return 0;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "driver.c").write_text(DRIVER)
    runtime = native.RUNTIME_SOURCES
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{runtime}"]
    command = [*find_compiler(), *flags, "driver.c", str(runtime / "raido_runtime.c"), "-o", "driver"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "driver"


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_launches_tickets_memory_and_fork_on_any_number_of_threads(driver: Path, threads: int) -> None:
    done = subprocess.run([driver, str(threads)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ok\n", done.stdout + done.stderr


def test_the_environment_sets_the_number_of_threads(driver: Path) -> None:
    script = "from raido.targets.native import get_threads; print(get_threads())"
    for text, threads in (("3", 3), ("", len(os.sched_getaffinity(0)))):
        environment = {**os.environ, "RAIDO_NUM_THREADS": text}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert int(done.stdout) == threads
    subprocess.run([driver], env={**os.environ, "RAIDO_NUM_THREADS": "5"}, timeout=60, check=True)


def test_threads_can_be_set_and_reset() -> None:
    before = native.get_threads()
    native.set_threads(3)
    assert native.get_threads() == 3
    native.set_threads()
    assert native.get_threads() == before
    with pytest.raises(TargetError, match="at least 1"):
        native.set_threads(0)


def test_large_arrays_are_aligned_and_recycled() -> None:
    native.runtime_library().rd_trim()
    array = native.allocate_array((3, 1 << 20), np.dtype("float32"))
    address = array.ctypes.data
    assert address % (2 << 20) == 0 and array.flags.c_contiguous and array.flags.writeable
    view = array[1:]
    del array
    assert native.runtime_library().rd_cached_bytes() == 0  # a view keeps the memory
    del view
    assert native.runtime_library().rd_cached_bytes() >= 12 << 20
    again = native.allocate_array((12 << 20,), np.dtype("uint8"))
    assert again.ctypes.data == address
    del again
    native.runtime_library().rd_trim()
    assert native.allocate_array((2, 0, 5), np.dtype("float64")).shape == (2, 0, 5)


def segments(library: Path) -> dict[int, tuple[int, int, int]]:
    """The program headers of an ELF file of 64 bits by type: offset, size in the file, size in memory."""
    image = library.read_bytes()
    start, size, count = *struct.unpack_from("<Q", image, 32), *struct.unpack_from("<HH", image, 54)
    headers = [struct.unpack_from("<IIQQQQQ", image, start + k * size) for k in range(count)]
    return {kind: (offset, stored, held) for kind, _, offset, _, _, stored, held in headers}


@pytest.mark.skipif(sys.platform != "linux" or sys.maxsize < 1 << 32, reason="the library is no ELF file of 64 bits")
def test_allocations_and_launches_find_what_a_thread_has_without_a_call() -> None:
    """Thread-local variables of the initial-exec model, so few that there is room for them beside those of other libraries."""
    library = Path(str(native.runtime_library()._name))
    dynamic, thread_local, static = 2, 7, 0x10
    found = segments(library)
    assert found[thread_local][2] <= 64
    offset, stored, _ = found[dynamic]
    flags = dict(struct.iter_unpack("<QQ", library.read_bytes()[offset : offset + stored])).get(30, 0)
    assert bool(flags & static) == (platform.libc_ver()[0] == "glibc")


def test_small_blocks_of_a_thread_are_given_back_at_its_end() -> None:
    library = native.runtime_library()

    def work() -> None:
        address = library.rd_alloc(1 << 20)
        ctypes.memset(address, 1, 1 << 20)
        library.rd_free(address)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = resident()
    for _ in range(200):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert resident() - before < 50 << 20


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "2 threads"])
def test_numbers_of_threads_in_the_environment_are_numbers(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RAIDO_NUM_THREADS", text)
    with pytest.raises(TargetError, match="is no number of threads"):
        native.check_number_of_threads()


@pytest.mark.parametrize("text", ["", "0", " 2 "])
def test_an_empty_number_of_threads_says_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RAIDO_NUM_THREADS", text)
    native.check_number_of_threads()
