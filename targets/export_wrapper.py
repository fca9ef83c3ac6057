"""Generates the C source behind the header of an exported library.

The wrapper refuses invalid arguments (NULL, negative or disagreeing sizes, results that overlap inputs), turns recorded faults into
messages, and carries the signatures as JSON for `load`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from raido.algo.errors import CompileError
from raido.algo.graph.limits import LARGEST_ARRAY, LARGEST_SIZE, limit_text
from raido.targets.c_text import c_format, c_string
from raido.targets.devices.library import BAD_DEVICE, LOST, NO_MEMORY
from raido.targets.export_functions import LIBRARY_SYMBOL, Function, flat_prototype, prototype
from raido.targets.faults import FAULT_CODES, FAULT_KINDS
from raido.targets.features import FEATURES
from raido.targets.signature import Signature, SizeExpr


def write_wrapper(library: str, functions: Sequence[Function]) -> str:
    """The C source of a library's public functions, with checks, messages and metadata. It is compiled together with the runtime."""
    upper = library.upper()
    words = {"library": library, "LIBRARY": upper, "count": str(len(functions)), "symbol": LIBRARY_SYMBOL}
    words["largest"] = str(LARGEST_ARRAY)
    on_device = any(f.on_device for f in functions)
    parts = [_fill(_PREAMBLE, words)]
    parts.append(_write_report(upper, on_device))
    parts.append(_write_cpu_check(functions))
    parts += [_write_function(upper, i, function) for i, function in enumerate(functions)]
    entries = [{"name": f.algorithm, "function": f.name, "signature": f.signature.to_json()} for f in functions]
    parts.append(f"static const char rd_metadata[] = {c_string(json.dumps(entries))};\n")
    parts.append(f"static void* const rd_entries[] = {{{', '.join(f'(void*){f.entry}' for f in functions)}}};\n")
    parts.append(_fill(_EPILOGUE, words))
    if on_device:
        parts.append(_fill(_CHOICE, words))
    return "\n".join(parts)


def _fill(text: str, words: Mapping[str, str]) -> str:
    """The text with every `@word@` replaced in one pass, so that `@…@` inside a replacement stays as it is."""
    return re.sub(r"@(\w+)@", lambda match: words[match[1]], text)


_PREAMBLE = """\
#include "@library@.h"
#include "raido_runtime.h"

#include <stdio.h>

#define PUBLIC __attribute__((visibility("default")))
#define ENTRY extern __attribute__((visibility("hidden")))

typedef struct RdSite {
  const char* file;
  int line;
  const char* text;
  const char* array;
} RdSite;

static _Thread_local char rd_message[1024];

static inline int64_t rd_floor_divide(int64_t a, int64_t b) { return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0; }
static inline int64_t rd_floor_modulo(int64_t a, int64_t b) { return b ? a - rd_floor_divide(a, b) * b : 0; }
static inline int64_t rd_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rd_larger(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t rd_checked_sum(int64_t a, int64_t b, int* overflow) {
  *overflow |= __builtin_add_overflow(a, b, &a);
  return a;
}
static inline int64_t rd_checked_difference(int64_t a, int64_t b, int* overflow) {
  *overflow |= __builtin_sub_overflow(a, b, &a);
  return a;
}
static inline int64_t rd_checked_product(int64_t a, int64_t b, int* overflow) {
  *overflow |= __builtin_mul_overflow(a, b, &a);
  return a;
}

/* Bytes of an array, or -1 when an extent is negative or the product is too large, where dimensions of size 0 count as 1. */
static int64_t rd_count_bytes(int64_t itemsize, int rank, const int64_t* shape) {
  int64_t bytes = itemsize, some = 1;
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) return -1;
    if (shape[i] == 0) some = 0;
    if (__builtin_mul_overflow(bytes, shape[i] ? shape[i] : 1, &bytes) || bytes > INT64_C(@largest@)) return -1;
  }
  return bytes * some;
}

static inline int rd_overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes && b_bytes && x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

#define FAIL(code, ...) return snprintf(rd_message, sizeof rd_message, __VA_ARGS__), (code)
"""
_EPILOGUE = """\
PUBLIC const char* @library@_message(void) { return rd_message; }
PUBLIC int32_t @library@_abi_version(void) { return @LIBRARY@_ABI_VERSION; }
PUBLIC const char* @library@_metadata(void) { return rd_metadata; }
PUBLIC void @library@_set_threads(int32_t count) { rd_set_threads(count); }
PUBLIC void @library@_free(void* array) { rd_free(array); }

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
} rd_library = {@LIBRARY@_ABI_VERSION, @count@, rd_metadata, rd_entries, rd_missing_feature, rd_set_threads, rd_set_thread_limit, rd_last_error,
             rd_clear_error, rd_free};
PUBLIC const void* @symbol@(void);
PUBLIC const void* @symbol@(void) { return &rd_library; }
"""


_CHOICE = """\
#include "raido_program.h"

PUBLIC int32_t @library@_set_device(const char* device) {
  if (rd_library_choose(device ? device : "")) FAIL(@LIBRARY@_BAD_DEVICE, "%s", rd_error());
  return @LIBRARY@_OK;
}
"""


def _write_report(upper: str, on_device: bool) -> str:
    cases = []
    for kind in FAULT_KINDS:
        order = [int(n) for n in re.findall(r"\{(\d)\}", kind.message)]
        sign = "unsigned " if kind.unsigned else ""
        text = re.sub(r"\{\d\}", "%llu" if kind.unsigned else "%lld", kind.message.replace("%", "%%"))
        values = "".join(f", ({sign}long long)fault->values[{i}]" for i in order)
        cases.append(f"    case {kind.code}: snprintf(what, sizeof what, {c_string(text)}{values}); break;")
    too_large = [kind.code for kind in FAULT_KINDS if kind.name.startswith("limit_") or kind.name == "total"]
    codes = "".join(f"    case {code}: code = {upper}_BAD_SIZE; break;\n" for code in too_large)
    codes += f"    case {FAULT_CODES['memory']}: code = {upper}_NO_MEMORY; break;\n"
    device = f'    if (status == {BAD_DEVICE} || status == {LOST}) FAIL({upper}_BAD_DEVICE, "%s: %s", name, rd_last_error());\n'
    device += f'    if (status == {NO_MEMORY}) FAIL({upper}_NO_MEMORY, "%s: %s", name, rd_last_error());\n'
    return f"""\
static int32_t rd_report(const char* name, int32_t status, const RdFault* fault, const RdSite* sites, int32_t count) {{
  if (!fault->kind) {{
{device if on_device else ""}    if (rd_last_error()[0]) FAIL({upper}_FAULT, "%s: %s", name, rd_last_error());
    FAIL({upper}_NO_MEMORY, "%s: not enough memory for its temporary buffers (status %d)", name, (int)status);
  }}
  char what[256] = "";
  switch (fault->kind) {{
{chr(10).join(cases)}
    default: snprintf(what, sizeof what, "fault %d", (int)fault->kind);
  }}
  int32_t code = {upper}_FAULT;
  switch (fault->kind) {{
{codes}    default: break;
  }}
  if (fault->site < 0 || fault->site >= count) FAIL(code, "%s: %s", name, what);
  const RdSite* site = sites + fault->site;
  char where[640] = "";
  if (site->line) snprintf(where, sizeof where, "\\n  algorithm %s:%d   %s", site->file, site->line, site->text);
  const char* label = fault->kind == {FAULT_CODES["division"]} ? "\\n  size      " : "\\n  array     ";
  FAIL(code, "%s: %s%s%s%s", name, what, where, site->array[0] ? label : "", site->array);
}}
"""


def _write_cpu_check(functions: Sequence[Function]) -> str:
    required = {name for function in functions for name in function.signature.requires}
    if unknown := required - set(FEATURES):
        raise CompileError(f"internal: no check for the processor features {', '.join(sorted(unknown))}")
    wanted = [feature for feature in FEATURES.values() if feature.name in required]
    if not wanted:
        return "static const char* rd_missing_feature(void) { return 0; }\n"
    tests = [
        f"  if (!rd_has_bit(0x{f.leaf:x}u, {f.subleaf}, '{f.register}', {f.bit})) return \"{f.name}\";" for f in wanted
    ]
    saved = {feature.saved: feature.name for feature in reversed(wanted) if feature.saved}
    for mask, name in sorted(saved.items()):
        words = f"{name} (the system does not save its registers)"
        tests.append(f'  if ((rd_saved_registers() & 0x{mask:x}u) != 0x{mask:x}u) return "{words}";')
    return _CPUID + "\n".join(["static const char* rd_missing_feature(void) {", *tests, "  return 0;", "}", ""])


_CPUID = """\
#include <cpuid.h>

static int rd_has_bit(unsigned leaf, unsigned subleaf, char reg, int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d)) return 0;
  return (reg == 'a' ? a : reg == 'b' ? b : reg == 'c' ? c : d) >> bit & 1;
}

/* XCR0: the register files that the operating system saves. */
static unsigned rd_saved_registers(void) {
  unsigned low = 0, high = 0;
  if (rd_has_bit(1, 0, 'c', 27)) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

"""


def _write_function(upper: str, number: int, function: Function) -> str:
    """The definition of a public function. Its parameters are renamed `a0, a1, …`, so that a user's name cannot shadow one used in the
    body."""
    signature, name = function.signature, function.name
    local = {parameter.name: f"a{k}" for k, parameter in enumerate(function.parameters)}
    sites = "".join(
        f"{{{c_string(s.file)}, {s.line}, {c_string(s.text)}, {c_string(s.array)}}}, " for s in signature.sites
    )
    lines = [f"static const RdSite rd_sites_{number}[] = {{{sites}{{0, 0, 0, 0}}}};"]
    lines.append(f"ENTRY {flat_prototype(function, list(local.values()), 'fault')};")
    lines += [f"PUBLIC {prototype(function, list(local.values()))} {{"]

    def fail(test: str, code: str, words: str, *values: str) -> None:
        """Appends a return with an error code under the C condition `test`; `words` are C format literals, `values` the numbers they print."""
        given = "".join(f", {value}" for value in values)
        lines.append(f"  if ({test}) FAIL({upper}_{code}, {c_format(f'{name}: ')} {words}{given});")

    lines.append("  const char* missing = rd_missing_feature();")
    fail("missing", "UNSUPPORTED_CPU", '"this CPU lacks %s"', "missing")
    for parameter in function.parameters:
        called, here = c_format(parameter.name), local[parameter.name]
        if parameter.role == "size":
            fail(f"{here} < 0", "BAD_SIZE", f'"size " {called} " is negative: %lld"', f"(long long){here}")
            words = f'"size " {called} " is larger than any array can be: %lld"'
            fail(f"{here} > INT64_C({LARGEST_SIZE})", "BAD_SIZE", words, f"(long long){here}")
        elif parameter.role in ("existential", "made"):
            fail(f"!{here}", "NULL_POINTER", f'{called} " is NULL"')
    made = [local[p.name] for p in function.parameters if p.role == "made"]
    lines += [f"  *{here} = 0;" for here in made]
    sizes = {size: local[called] for size, called in function.sizes.items()}
    numbers = [f"(long long){size}" for size in sizes.values()]
    lines.append("  int overflow = 0;")

    def fail_too_large(test: str, what: str, site: int) -> None:
        """Appends the failure, under the C condition `test`, of sizes that make too large an array; `site` is the line that the message
        names."""
        location = c_format(_line_of(signature, site))
        fail(test, "BAD_SIZE", f"{what} {c_string(limit_text(['%lld'] * len(numbers)))} {location}", *numbers)

    for k, check in enumerate(signature.checks):
        left, right = f"left_{k}", f"right_{k}"
        lines.append(f"  const int64_t {left} = {_c_size(check.left, sizes)}, {right} = {_c_size(check.right, sizes)};")
        fail_too_large("overflow", "", check.site)
        one, other = c_format(check.left_owner), c_format(check.right_owner)
        if check.left_owner:
            words = f'{one} " has size %lld, " {other} " has size %lld; they must agree"'
            fail(f"{left} != {right}", "BAD_SIZE", words, f"(long long)({left})", f"(long long)({right})")
        else:
            fail(f"{left} != {right}", "BAD_SIZE", f'{other} " is empty"')
    for k, existential in enumerate(signature.existentials):
        if existential.bound is None:
            continue
        lines.append(f"  const int64_t bound_{k} = rd_larger(0, {_c_size(existential.bound, sizes)});")
        sizes[existential.name] = f"bound_{k}"
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    for k, parameter in enumerate(arrays):
        value, called, here = parameter.value, c_format(parameter.name), local[parameter.name]
        assert value is not None
        shape = ", ".join(_c_size(size, sizes) for size in value.shape)
        pair = "2 * " if value.dtype.startswith("complex") else ""
        dims = f"(const int64_t[]){{{shape}}}" if shape else "0"
        lines.append(f"  const int64_t bytes_{k} = rd_count_bytes({pair}sizeof *{here}, {len(value.shape)}, {dims});")
        fail_too_large(f"bytes_{k} < 0 || overflow", f'{called} ": "', value.site)
        fail(f"bytes_{k} && !{here}", "NULL_POINTER", f'{called} " is NULL"')
    for k, parameter in enumerate(arrays):
        for j, other in enumerate(arrays[:k]):
            if parameter.role == "output":
                one, two = local[parameter.name], local[other.name]
                words = f'{c_format(parameter.name)} " overlaps " {c_format(other.name)}'
                fail(f"rd_overlap({one}, bytes_{k}, {two}, bytes_{j})", "OVERLAP", words)
    passed = [f"&{local[p.name]}" if p.role == "scalar" else local[p.name] for p in function.parameters]
    lines.append("  RdFault fault = {0, 0, {0, 0, 0, 0}};")
    lines.append(f"  int32_t status = {function.entry}({', '.join([*passed, '&fault'])});")
    failed = f"rd_report({c_string(signature.name)}, status, &fault, rd_sites_{number}, {len(signature.sites)})"
    released = "".join(f"rd_free(*{here}), *{here} = 0; " for here in made)
    lines.append(
        f"  if (status || fault.kind) {{ {released}return {failed}; }}"
        if made
        else f"  if (status || fault.kind) return {failed};"
    )
    return "\n".join([*lines, f"  return {upper}_OK;", "}", ""])


def _c_size(size: SizeExpr, names: dict[str, str]) -> str:
    if isinstance(size, int):
        return f"INT64_C({size})"
    if isinstance(size, str):
        return names[size]
    op, left, right = size[0], _c_size(size[1], names), _c_size(size[2], names)
    functions = {"//": "rd_floor_divide", "%": "rd_floor_modulo", "min": "rd_smaller", "max": "rd_larger"}
    if op in functions:
        return f"{functions[op]}({left}, {right})"
    checked = {"+": "rd_checked_sum", "-": "rd_checked_difference", "*": "rd_checked_product"}
    return f"{checked[op]}({left}, {right}, &overflow)"


def _line_of(signature: Signature, site: int) -> str:
    """The user's line as the last line of a message, "" where it is unknown."""
    if site < 0 or not signature.sites[site].line:
        return ""
    line = signature.sites[site]
    return f"\n  algorithm {line.file}:{line.line}   {line.text}"
