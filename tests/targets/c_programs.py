"""Small programs in C that follow the execution ABI, with their signatures; shared by the tests of calling and of exporting."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from raido.targets.executable import Executable
from raido.targets.export import find_compiler
from raido.targets.loader import load_object
from raido.targets.native import RUNTIME_SOURCES
from raido.targets.signature import Existential, FaultSite, Signature, SizeCheck, Value

PRELUDE = '#include "raido_runtime.h"\n#include <math.h>\n#include <stddef.h>\n#include <string.h>\n'


@functools.cache
def build_object(source: str, *flags: str) -> bytes:
    """The relocatable object for a C source that may use raido_runtime.h."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "k.c").write_text(PRELUDE + source)
        options = flags or ("-fPIC",)
        command = [*find_compiler(), "-std=gnu11", "-O2", f"-I{RUNTIME_SOURCES}", *options, "-c", "k.c", "-o", "k.o"]
        subprocess.run(command, cwd=here, check=True)
        return (here / "k.o").read_bytes()


SITE = (FaultSite("user.py", 12, "return table[i]"),)

ADD = """
typedef struct { const float* a; const float* b; float* out; int64_t n; } Job;
static int part(int task, RdTaskEnv* env, void* data) {
  Job* job = data;
  int64_t step = (job->n + env->num_task - 1) / env->num_task, end = (task + 1) * step;
  for (int64_t i = task * step; i < job->n && i < end; i++) job->out[i] = job->a[i] + 2 * job->b[i];
  return 0;
}
__attribute__((weak)) int (*__TVMBackendParallelLaunch)(RdTask, void*, int) = 0;
int32_t entry(const float* a, const float* b, int64_t h, int64_t w, float* out, RdFault* fault) {
  Job job = {a, b, out, h * w};
  (void)fault;
  return __TVMBackendParallelLaunch(part, &job, 0);
}
"""

GATHER = """
static double secret = 1;
typedef struct { const double* table; const int64_t* index; double* out; int64_t n, m; RdFault* fault; } Job;
static int part(int task, RdTaskEnv* env, void* data) {
  Job* j = data;
  for (int64_t i = task; i < j->m; i += env->num_task) {
    int64_t k = j->index[i];
    if (k < 0 || k >= j->n) { rd_fault(j->fault, 1, 0, 0, k, j->n, 0); k = 0; }
    j->out[i] = j->n ? j->table[k] * secret : 0;
  }
  return 0;
}
int32_t entry(const double* table, const int64_t* index, int64_t n, int64_t m, double* out, RdFault* fault) {
  Job job = {table, index, out, n, m, fault};
  rd_parallel_launch(part, &job, 16);
  return 0;
}
"""

STATISTICS = """
int32_t entry(const float* x, const float* gain, int64_t n, float* total, int64_t* count, float* scaled, RdFault* fault) {
  (void)fault;
  *total = 0;
  *count = n;
  for (int64_t i = 0; i < n; i++) *total += scaled[i] = x[i] * *gain;
  return 0;
}
"""

POSITIVE = """
int32_t entry(const int32_t* x, int64_t n, int32_t* kept, int64_t* count, RdFault* fault) {
  (void)fault;
  *count = 0;
  for (int64_t i = 0; i < n; i++) if (x[i] > 0) kept[(*count)++] = x[i];
  return 0;
}
"""

FAILING = """
int32_t entry(int64_t how, int64_t* out, RdFault* fault) {
  *out = how;
  if (how == 3) { rd_fault(fault, 8, -1, 1 << 20, 0, 0, 0); return 0; }
  if (how == 1) TVMFFIErrorSetRaisedFromCStr("ValueError", "it went wrong");
  return how ? -1 : 0;
}
"""


def make_executable(source: str, signature: Signature) -> Executable:
    data = build_object(source)
    loaded = load_object(data)
    address = loaded.address(signature.entry)
    return Executable(signature, address, loaded, {"c": source, "lazy": lambda: "made when asked"}, object_bytes=data)


def add_signature() -> Signature:
    array = lambda name: Value(name, "float32", ("h", "w"))
    return Signature("add", (array("a"), array("b")), ("h", "w"), (array("result"),), {"tuple": [0, 1]}, 0)


def gather_signature() -> Signature:
    return Signature(
        "gather",
        (Value("table", "float64", ("n",)), Value("index", "int64", ("m",))),
        ("n", "m"),
        (Value("result", "float64", ("m",)),),
        {"tuple": [0, 1]},
        0,
        sites=SITE,
    )


def statistics_signature() -> Signature:
    return Signature(
        "statistics",
        (Value("x", "float32", ("n",)), Value("gain", "float32", ())),
        ("n",),
        (Value("result[0]", "float32", ()), Value("result[1].n", "int64", ()), Value("result[1].y", "float32", ("n",))),
        {"tuple": [0, 1]},
        {"tuple": [0, {"record": {"n": 1, "y": 2}}]},
    )


def positive_signature() -> Signature:
    return Signature(
        "positive",
        (Value("x", "int32", ("n",)),),
        ("n",),
        (Value("result", "int32", ("k",)),),
        {"tuple": [0]},
        0,
        existentials=(Existential("k", "n"),),
    )


def failing_signature() -> Signature:
    return Signature("failing", (), ("how",), (Value("result", "int64", ()),), {"tuple": [{"size": "how"}]}, 0)


def differences_signature() -> Signature:
    """x: f32[n + 1], y: f32[m], n == m checked -> f32[n - 1]."""
    return Signature(
        "differences",
        (Value("base", "float32", ("n",)), Value("x", "float32", (("+", "n", 1),)), Value("y", "float32", ("m",))),
        ("n", "m"),
        (Value("result", "float32", (("-", "n", 1),)),),
        {"tuple": [0, 1, 2]},
        0,
        checks=(SizeCheck("n", "m", 'argument "base"', 'argument "y"', 0),),
        sites=(FaultSite("user.py", 7, "return base + y"),),
    )


DIFFERENCES = """
int32_t entry(const float* base, const float* x, const float* y, int64_t n, int64_t m, float* out, RdFault* fault) {
  (void)m, (void)fault;
  for (int64_t i = 0; i + 1 < n; i++) out[i] = base[i] + x[i + 1] - x[i] + y[i];
  return 0;
}
"""
