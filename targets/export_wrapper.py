"""The C source behind the header of an exported library.

The wrapper refuses what it can see is wrong (NULL, negative or disagreeing sizes, results that overlap inputs), turns recorded faults
into messages, and carries the signatures as JSON for `load`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from raido.targets.export_functions import LIBRARY_SYMBOL, Function, Parameter, c_type, identifier, prototype
from raido.targets.faults import FAULT_KINDS
from raido.targets.signature import SizeExpr

# Where CPUID reports what compiled code may rely on: leaf, register, bit. (Intel SDM, volume 2A, CPUID.) Asked directly, since not
# every compiler's library has __builtin_cpu_supports.
_CPU_FEATURES = {
    "fma": (1, "c", 12),
    "sse4.2": (1, "c", 20),
    "popcnt": (1, "c", 23),
    "avx": (1, "c", 28),
    "f16c": (1, "c", 29),
    "bmi": (7, "b", 3),
    "avx2": (7, "b", 5),
    "bmi2": (7, "b", 8),
    "avx512f": (7, "b", 16),
    "avx512dq": (7, "b", 17),
    "avx512cd": (7, "b", 28),
    "avx512bw": (7, "b", 30),
    "avx512vl": (7, "b", 31),
}


def write_wrapper(library: str, functions: Sequence[Function]) -> str:
    """The C source behind the header: checks, messages, metadata. It is compiled together with the runtime."""
    upper = library.upper()
    parts = [_PREAMBLE.replace("LIBRARY_UPPER", upper).replace("LIBRARY", library)]
    parts.append(_write_report(upper))
    parts.append(_write_cpu_check(functions))
    parts += [_write_function(upper, i, function) for i, function in enumerate(functions)]
    entries = [{"name": f.algorithm, "function": f.name, "signature": f.signature.to_json()} for f in functions]
    parts.append(f"static const char metadata[] = {_c_text(json.dumps(entries))};\n")
    parts.append(f"static void* const entries[] = {{{', '.join(f'(void*){f.entry}' for f in functions)}}};\n")
    parts.append(
        _EPILOGUE.replace("LIBRARY_UPPER", upper)
        .replace("LIBRARY", library)
        .replace("SYMBOL", LIBRARY_SYMBOL)
        .replace("COUNT", str(len(functions)))
    )
    return "\n".join(parts)


_PREAMBLE = """\
#include "LIBRARY.h"
#include "raido_runtime.h"

#include <stdio.h>

#define PUBLIC __attribute__((visibility("default")))
#define ENTRY extern __attribute__((visibility("hidden"))) int32_t

typedef struct Site {
  const char* file;
  int line;
  const char* text;
} Site;

static _Thread_local char message[1024];

static inline int64_t floor_divide(int64_t a, int64_t b) { return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0; }
static inline int64_t floor_modulo(int64_t a, int64_t b) { return b ? a - floor_divide(a, b) * b : 0; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes of an array, or -1 when an extent is negative or the product overflows. */
static int64_t count_bytes(int64_t itemsize, int rank, const int64_t* shape) {
  int64_t bytes = itemsize;
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) return -1;
    if (shape[i] == 0) bytes = 0;
  }
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(bytes, shape[i], &bytes)) return -1;
  return bytes;
}

static inline int overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes && b_bytes && x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

#define FAIL(code, ...) return snprintf(message, sizeof message, __VA_ARGS__), (code)
"""
_EPILOGUE = """\
PUBLIC const char* LIBRARY_message(void) { return message; }
PUBLIC int32_t LIBRARY_abi_version(void) { return LIBRARY_UPPER_ABI_VERSION; }
PUBLIC const char* LIBRARY_metadata(void) { return metadata; }
PUBLIC void LIBRARY_set_threads(int32_t count) { rd_set_threads(count); }
PUBLIC void LIBRARY_free(void* array) { rd_free(array); }

/* For raido itself: the flat entries, so that a loaded library raises the same errors as a compiled program. */
static const struct {
  int64_t abi_version, count;
  const char* metadata;
  void* const* entries;
  const char* (*missing_feature)(void);
  void (*set_threads)(int);
  int (*set_thread_limit)(int);
  const char* (*last_error)(void);
  void (*clear_error)(void);
  void (*free)(void*);
} library = {LIBRARY_UPPER_ABI_VERSION, COUNT, metadata, entries, missing_feature, rd_set_threads, rd_set_thread_limit, rd_last_error,
             rd_clear_error, rd_free};
PUBLIC const void* SYMBOL(void);
PUBLIC const void* SYMBOL(void) { return &library; }
"""


def _write_report(upper: str) -> str:
    cases = []
    for kind in FAULT_KINDS:
        order = [int(n) for n in re.findall(r"\{(\d)\}", kind.message)]
        sign = "unsigned " if kind.unsigned else ""
        text = re.sub(r"\{\d\}", "%llu" if kind.unsigned else "%lld", kind.message.replace("%", "%%"))
        values = "".join(f", ({sign}long long)fault->values[{i}]" for i in order)
        cases.append(f"    case {kind.code}: snprintf(what, sizeof what, {_c_text(text)}{values}); break;")
    return f"""\
static int32_t report(const char* name, int32_t status, const RdFault* fault, const Site* sites, int32_t count) {{
  if (!fault->kind) {{
    if (rd_last_error()[0]) FAIL({upper}_FAULT, "%s: %s", name, rd_last_error());
    FAIL({upper}_NO_MEMORY, "%s: not enough memory for its temporary buffers (status %d)", name, (int)status);
  }}
  char what[256] = "";
  switch (fault->kind) {{
{chr(10).join(cases)}
    default: snprintf(what, sizeof what, "fault %d", (int)fault->kind);
  }}
  if (fault->site < 0 || fault->site >= count) FAIL({upper}_FAULT, "%s: %s", name, what);
  const Site* site = sites + fault->site;
  FAIL({upper}_FAULT, "%s: %s\\n  algorithm %s:%d   %s", name, what, site->file, site->line, site->text);
}}
"""


def _write_cpu_check(functions: Sequence[Function]) -> str:
    wanted = sorted({feature for f in functions for feature in f.signature.requires} & set(_CPU_FEATURES))
    if not wanted:
        return "static const char* missing_feature(void) { return 0; }\n"
    tests = []
    for feature in wanted:
        leaf, register, bit = _CPU_FEATURES[feature]
        tests.append(f"  if (!has_bit({leaf}, '{register}', {bit})) return \"{feature}\";")
    for prefix, mask in (("avx", 0x6), ("avx512", 0xE6)):
        if any(feature.startswith(prefix) for feature in wanted):
            tests.append(
                f'  if ((saved_registers() & {mask}) != {mask}) return "{prefix} (the system does not save its registers)";'
            )
    return _CPUID + "\n".join(["static const char* missing_feature(void) {", *tests, "  return 0;", "}", ""])


_CPUID = """\
#include <cpuid.h>

static int has_bit(unsigned leaf, char reg, int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(leaf, 0, &a, &b, &c, &d)) return 0;
  return (reg == 'b' ? b : c) >> bit & 1;
}

/* XCR0: the register files that the operating system saves. */
static unsigned saved_registers(void) {
  unsigned low = 0, high = 0;
  if (has_bit(1, 'c', 27)) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

"""


def _write_function(upper: str, number: int, function: Function) -> str:
    signature, name = function.signature, function.name
    sites = "".join(f"{{{_c_text(s.file)}, {s.line}, {_c_text(s.text)}}}, " for s in signature.sites)
    flat = [_flat_declaration(parameter) for parameter in function.parameters]
    lines = [f"static const Site sites_{number}[] = {{{sites}{{0, 0, 0}}}};"]
    lines.append(f"ENTRY {function.entry}({', '.join([*flat, 'RdFault* fault'])});")
    lines += [f"PUBLIC {prototype(function)} {{"]
    lines.append("  const char* missing = missing_feature();")
    lines.append(f'  if (missing) FAIL({upper}_UNSUPPORTED_CPU, "{name}: this CPU lacks %s", missing);')
    for parameter in function.parameters:
        if parameter.role == "size":
            lines.append(
                f'  if ({parameter.name} < 0) FAIL({upper}_BAD_SIZE, "{name}: size {parameter.name} is negative: %lld", '
                f"(long long){parameter.name});"
            )
        elif parameter.role in ("existential", "made"):
            lines.append(f'  if (!{parameter.name}) FAIL({upper}_NULL_POINTER, "{name}: {parameter.name} is NULL");')
    made = [p for p in function.parameters if p.role == "made"]
    lines += [f"  *{p.name} = 0;" for p in made]
    for check in signature.checks:
        left, right = _c_size(check.left, function.sizes), _c_size(check.right, function.sizes)
        if check.left_owner:
            words = f"{check.left_owner} has size %lld, {check.right_owner} has size %lld; they must agree"
            values = f", (long long)({left}), (long long)({right})"
        else:
            words, values = f"{check.right_owner} is empty", ""
        lines.append(f"  if ({left} != {right}) FAIL({upper}_BAD_SIZE, {_c_text(f'{name}: {words}')}{values});")
    sizes = dict(function.sizes)
    for existential in signature.existentials:
        if existential.bound is None:
            continue
        bound = f"rd_bound_{identifier(existential.name)}"
        lines.append(f"  const int64_t {bound} = larger(0, {_c_size(existential.bound, sizes)});")
        sizes[existential.name] = bound
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    for k, parameter in enumerate(arrays):
        value = parameter.value
        assert value is not None
        shape = ", ".join(_c_size(size, sizes) for size in value.shape)
        pair = "2 * " if value.dtype.startswith("complex") else ""
        dims = f"(const int64_t[]){{{shape}}}" if shape else "0"
        lines.append(
            f"  const int64_t rd_bytes_{k} = count_bytes({pair}sizeof *{parameter.name}, {len(value.shape)}, {dims});"
        )
        lines.append(
            f'  if (rd_bytes_{k} < 0) FAIL({upper}_BAD_SIZE, "{name}: {parameter.name} has an impossible shape");'
        )
        lines.append(
            f'  if (rd_bytes_{k} && !{parameter.name}) FAIL({upper}_NULL_POINTER, "{name}: {parameter.name} is NULL");'
        )
    for k, parameter in enumerate(arrays):
        for j, other in enumerate(arrays[:k]):
            if parameter.role == "output":
                lines.append(
                    f"  if (overlap({parameter.name}, rd_bytes_{k}, {other.name}, rd_bytes_{j})) "
                    f'FAIL({upper}_OVERLAP, "{name}: {parameter.name} overlaps {other.name}");'
                )
    passed = [f"&{p.name}" if p.role == "scalar" else p.name for p in function.parameters]
    lines.append("  RdFault fault = {0, 0, {0, 0, 0, 0}};")
    lines.append(f"  int32_t status = {function.entry}({', '.join([*passed, '&fault'])});")
    failed = f"report({_c_text(signature.name)}, status, &fault, sites_{number}, {len(signature.sites)})"
    released = "".join(f"rd_free(*{p.name}), *{p.name} = 0; " for p in made)
    lines.append(
        f"  if (status || fault.kind) {{ {released}return {failed}; }}"
        if made
        else f"  if (status || fault.kind) return {failed};"
    )
    return "\n".join([*lines, f"  return {upper}_OK;", "}", ""])


def _flat_declaration(parameter: Parameter) -> str:
    if parameter.role != "scalar" or parameter.value is None:
        return parameter.declaration
    return f"const {c_type(parameter.value)}* {parameter.name}"


def _c_size(size: SizeExpr, names: dict[str, str]) -> str:
    if isinstance(size, int):
        return f"INT64_C({size})"
    if isinstance(size, str):
        return names[size]
    op, left, right = size[0], _c_size(size[1], names), _c_size(size[2], names)
    functions = {"//": "floor_divide", "%": "floor_modulo", "min": "smaller", "max": "larger"}
    return f"{functions[op]}({left}, {right})" if op in functions else f"({left} {op} {right})"


def _c_text(text: str) -> str:
    """A C string literal; bytes outside printable ASCII are written in octal, long literals in pieces."""
    pieces = []
    data = text.encode()
    for start in range(0, max(len(data), 1), 2000):
        escaped = "".join(
            chr(b) if 32 <= b < 127 and b not in (34, 92, 63) else f"\\{b:03o}" for b in data[start : start + 2000]
        )
        pieces.append(f'"{escaped}"')
    return "\n  ".join(pieces)
