"""C under sanitizers: the runtime with its threads, memory, faults and forks, and an exported library.

AddressSanitizer, with UndefinedBehaviorSanitizer and, at the end of a process, LeakSanitizer, sees the C that is compiled here; of the
programs' own code, which LLVM has compiled before, it sees calls of the runtime only. So arrays end at an inaccessible page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_runtime import DRIVER

import raido as rd
from raido.targets import native
from raido.targets.export import find_compiler, write_library

MEMORY, THREADS = "address,undefined", "thread"
ENVIRONMENT = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # A child of the driver launches work though others held locks when it was forked; it ends without joining threads it never had.
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:report_thread_leaks=0",
}


def compiler(sanitizer: str) -> list[str]:
    """The C compiler with a sanitizer that ends the process at the first finding."""
    flags = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1", "-pthread")
    return [*find_compiler(), *flags]


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program's end. Without random addresses where that can be had: ThreadSanitizer knows few layouts of memory."""
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    if fixed and subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode:
        fixed = []  # a container may forbid it
    command = [*fixed, str(program), *arguments]
    environment = {**os.environ, **ENVIRONMENT}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module", params=[MEMORY, THREADS])
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    (folder / "driver.c").write_text(DRIVER)
    runtime = native.RUNTIME_SOURCES
    command = [*compiler(request.param), "-std=gnu11", f"-I{runtime}", "driver.c", str(runtime / "raido_runtime.c")]
    subprocess.run([*command, "-o", "driver"], cwd=folder, check=True)
    return folder / "driver"


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_runtime_is_clean(driver: Path, threads: int) -> None:
    done = run(driver, str(threads))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


FAULTY = {
    MEMORY: "char* p = rd_alloc(64); rd_free(p); long x[2] = {0}; return (int)x[argc + 1];",
    THREADS: "long sum = 0; rd_set_threads(4); rd_parallel_launch(race, &sum, 500); return (int)(sum & 0);",
}
RACE = "static int race(int k, RdTaskEnv* e, void* sum) { (void)e; usleep(500); *(long*)sum += k; return 0; }"


@pytest.mark.parametrize("sanitizer", FAULTY)
def test_a_fault_would_be_seen(tmp_path: Path, sanitizer: str) -> None:
    """The two tests of a clean runtime are worth what this one is."""
    main = f"int main(int argc, char** argv) {{ (void)argv; (void)race; (void)argc; {FAULTY[sanitizer]} }}"
    source = "\n".join(['#include "raido_runtime.h"', "#include <unistd.h>", RACE, main, ""])
    (tmp_path / "faulty.c").write_text(source)
    runtime = native.RUNTIME_SOURCES
    command = [*compiler(sanitizer), "-std=gnu11", f"-I{runtime}", "faulty.c", str(runtime / "raido_runtime.c")]
    subprocess.run([*command, "-o", "faulty"], cwd=tmp_path, check=True)
    done = run(tmp_path / "faulty")
    assert done.returncode and ("runtime error" if sanitizer == MEMORY else "data race") in done.stderr


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name="cols")


@rd.algorithm
def kept(a: rd.i32["n"]):
    return rd.filter(lambda x: x > 3, rd.sort(a))


@rd.algorithm
def looked_up(table: rd.f64["n"], index: rd.i64["m"]):
    return table[index]


@rd.algorithm
def spread(a: rd.i32["n"], counts: rd.i64["n"]):
    return rd.repeat(a, counts)


LIBRARY_DRIVER = r"""
#include "raster.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define MUST(x) do { if (!(x)) { printf("failed: %s, line %d: %s\n", #x, __LINE__, raster_message()); exit(1); } } while (0)

/* So many bytes that end where a page begins that nobody may touch. */
static void* guarded(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  char* p = mmap(0, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + room, page, PROT_NONE)) exit(2);
  return p + room - bytes;
}

static void try_blur(int64_t h, int64_t w) {
  float* img = guarded((size_t)(h * w) * 4), *out = guarded((size_t)(h * w) * 4);
  for (int64_t k = 0; k < h * w; k++) img[k] = 3;
  MUST(blur(img, h, w, out) == RASTER_OK);
  for (int64_t k = 0; k < h * w; k++) MUST(out[k] == 3);
}

static void try_kept(int64_t n) {
  int32_t* a = guarded((size_t)n * 4), *out = guarded((size_t)n * 4);
  int64_t count = -1, want = 0;
  for (int64_t k = 0; k < n; k++) want += (a[k] = (int32_t)((n - k) % 7)) > 3;
  MUST(kept(a, n, out, &count) == RASTER_OK && count == want);
  for (int64_t k = 0; k < count; k++) MUST(out[k] > 3 && (k == 0 || out[k - 1] <= out[k]));
}

static void try_looked_up(int64_t n, int64_t m) {
  double* table = guarded((size_t)n * 8), *out = guarded((size_t)m * 8);
  int64_t* index = guarded((size_t)m * 8);
  for (int64_t k = 0; k < n; k++) table[k] = (double)k;
  for (int64_t k = 0; k < m; k++) index[k] = n - 1 - k % n;
  MUST(looked_up(table, index, n, m, out) == RASTER_OK);
  for (int64_t k = 0; k < m; k++) MUST(out[k] == (double)(n - 1 - k % n));
  index[m / 2] = n;
  MUST(looked_up(table, index, n, m, out) == RASTER_FAULT && strstr(raster_message(), "out of range"));
  MUST(looked_up(0, index, n, m, out) == RASTER_NULL_POINTER);
  MUST(looked_up(table, index, -1, m, out) == RASTER_BAD_SIZE);
  MUST(looked_up(table, index, n, m, (double*)index) == RASTER_OVERLAP);
}

static void try_spread(int64_t n) {
  int32_t* a = guarded((size_t)n * 4), *out = 0;
  int64_t* counts = guarded((size_t)n * 8), count = 0, want = 0;
  for (int64_t k = 0; k < n; k++) want += counts[k] = (a[k] = (int32_t)k) % 5;
  MUST(spread(a, counts, n, &out, &count) == RASTER_OK && count == want);
  for (int64_t k = 0; k < count; k++) MUST(k == 0 || out[k - 1] <= out[k]);
  raster_free(out);
}

static void* everything(void* unused) {
  (void)unused;
  for (int64_t n = 1; n < 70; n += 3) {
    try_blur(n, 71 - n);
    try_kept(n);
    try_looked_up(n, 2 * n);
    try_spread(n);
  }
  try_blur(300, 517);
  try_kept(30001);
  try_looked_up(5000, 60000);
  try_spread(20000);
  return 0;
}

int main(void) {
  MUST(raster_abi_version() == RASTER_ABI_VERSION);
  for (int32_t threads = 1; threads <= 4; threads *= 2) {
    raster_set_threads(threads);
    everything(0);
  }
  pthread_t hosts[3];
  for (int k = 0; k < 3; k++) MUST(!pthread_create(&hosts[k], 0, everything, 0));
  for (int k = 0; k < 3; k++) pthread_join(hosts[k], 0);
  puts("ok");
  return 0;
}
"""


@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_an_exported_library_is_clean(tmp_path: Path, sanitizer: str) -> None:
    made = [(each.name, each.compile()) for each in (blur, kept, looked_up, spread)]
    parts = [(name, exe.signature, exe._object) for name, exe in made]
    library = write_library(tmp_path / "libraster.so", parts, cc=compiler(sanitizer))  # type: ignore[arg-type]
    (tmp_path / "driver.c").write_text(LIBRARY_DRIVER)
    command = [*compiler(sanitizer), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "driver.c", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}", "-o", "driver"], cwd=tmp_path, check=True)
    done = run(tmp_path / "driver")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
