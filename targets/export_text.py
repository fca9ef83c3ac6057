"""The C text of an exported library: its public header, the wrapper that checks arguments, the linker's list of public names.

Each algorithm becomes one C function over typed pointers and int64_t sizes. The wrapper refuses what it can see is wrong (NULL,
negative or disagreeing sizes, results that overlap inputs), turns recorded faults into messages, and carries the signatures as JSON
for `load`. Every name in the header starts with the algorithm's or the library's own name.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.errors import ExportError
from raido.targets.faults import FAULT_KINDS
from raido.targets.signature import Signature, SizeExpr, Value, size_text

ABI_VERSION = 2
LIBRARY_SYMBOL = "raido_library_v1"
_C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float",
    "complex128": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_REMARKS = {
    "bool": "bytes 0 or 1",
    "float16": "IEEE binary16 bits",
    "complex64": "interleaved pairs of real and imaginary part",
    "complex128": "interleaved pairs of real and imaginary part",
}
# Words of C and C++, macros of their headers, and names that the wrapper itself uses.
_RESERVED_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue
default delete do double else enum explicit export extern false float for friend goto if inline int long mutable
namespace new not not_eq nullptr operator or or_eq private protected public register restrict return short signed
sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile
wchar_t while xor xor_eq main linux unix I NULL EOF stdin stdout stderr errno fault status missing message site
library metadata entries report overlap count_bytes smaller larger floor_divide floor_modulo missing_feature FAIL
PUBLIC ENTRY Site RdFault
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
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


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a public function: C name and declaration, and the value it stands for (None: a size)."""

    name: str
    declaration: str
    value: Value | None
    role: str  # "input", "scalar" (by value), "size", "output", "made" (an output that the library allocates), "existential"


@dataclass(frozen=True, slots=True)
class Function:
    """One algorithm in the library: the name it was given and its public C name, the linked entry symbol, its parameters in order."""

    algorithm: str
    name: str
    entry: str
    signature: Signature
    parameters: tuple[Parameter, ...]
    sizes: dict[str, str]  # size name -> C name


def identifier(name: str) -> str:
    """`name` as a C (and C++) identifier."""
    text = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "value"
    return f"{text}_" if text in _RESERVED else f"_{text}" if text[0].isdigit() else text


def describe_function(library: str, name: str, entry: str, signature: Signature) -> Function:
    """The public function for a signature, with C names that are all different.

    An algorithm that has the name of a C library function (`exp`, `read`) gets the library's name in front of its own.
    """
    public = identifier(name)
    if _is_c_function(public):
        public = f"{library}_{public}"
    taken: set[str] = {public}

    def unique(wanted: str) -> str:
        base = chosen = identifier(wanted)
        number = 2
        while chosen in taken:
            chosen, number = f"{base}_{number}", number + 1
        taken.add(chosen)
        return chosen

    parameters: list[Parameter] = []
    for value in signature.inputs:
        c_name, c_type = unique(value.name), _c_type(value)
        if value.shape or value.dtype.startswith("complex"):
            parameters.append(Parameter(c_name, f"const {c_type}* {c_name}", value, "input"))
        else:
            parameters.append(Parameter(c_name, f"{c_type} {c_name}", value, "scalar"))
    sizes = {}
    for size in signature.sizes:
        sizes[size] = unique(size)
        parameters.append(Parameter(sizes[size], f"int64_t {sizes[size]}", None, "size"))
    for value, made in zip(signature.outputs, signature.made, strict=True):
        c_name = unique(value.name)
        role = "made" if made else "output"
        parameters.append(Parameter(c_name, f"{_c_type(value)}*{'*' * made} {c_name}", value, role))
    for existential in signature.existentials:
        c_name = unique(existential.name)
        parameters.append(Parameter(c_name, f"int64_t* {c_name}", None, "existential"))
    return Function(name, public, entry, signature, tuple(parameters), sizes)


def _is_c_function(name: str) -> bool:
    for library in ("libc.so.6", "libm.so.6"):
        with contextlib.suppress(OSError):
            if hasattr(ctypes.CDLL(library), name):
                return True
    return False


def public_names(library: str, functions: Sequence[Function]) -> tuple[str, ...]:
    """All symbols the library shows; ExportError when two of them are the same."""
    names = [f.name for f in functions]
    names += [f"{library}_{suffix}" for suffix in ("message", "metadata", "abi_version", "set_threads", "free")]
    for name in names:
        if names.count(name) > 1:
            raise ExportError(f'the library would define the C name "{name}" twice: give the algorithms other names')
    return (*names, LIBRARY_SYMBOL)


def write_version_script(names: Sequence[str]) -> str:
    """The linker's list of what is visible."""
    return "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"


# --- the header


def write_header(library: str, functions: Sequence[Function]) -> str:
    """The public C header."""
    upper = library.upper()
    guard = f"RAIDO_{upper}_H"
    declarations = "\n".join(_document(f) + _prototype(f) + ";\n" for f in functions)
    return f"""\
/* {library}: made by raido. Plain C; no other library is needed.
 *
 * Functions return {upper}_OK (0) or one of the codes below; {library}_message() then says what was wrong, on the thread that called.
 * Arrays are dense and in row-major order (the last index runs fastest, no padding between rows), of any alignment. The caller owns
 * them all: nothing is kept after the call. Results must not overlap inputs or each other. Arrays of zero elements may be NULL.
 * A result whose size nothing bounds beforehand is a pointer to a pointer: the function allocates the array, once all has gone
 * well, and writes where it is; give it back with {library}_free. After a failure NULL is written.
 * All functions may be called from any number of threads at once. Work is shared among the library's own threads:
 * as many as {library}_set_threads says, else the environment variable RAIDO_NUM_THREADS, else the CPUs this process may use.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
  {upper}_OK = 0,
  {upper}_NULL_POINTER = 1,    /* an array with elements is NULL */
  {upper}_BAD_SIZE = 2,        /* a size is negative, too large, or disagrees with another */
  {upper}_OVERLAP = 3,         /* a result overlaps an input or another result */
  {upper}_FAULT = 4,           /* a check of the algorithm failed: an index out of range, a division by zero */
  {upper}_NO_MEMORY = 5,       /* no memory for temporary buffers */
  {upper}_UNSUPPORTED_CPU = 6  /* the library was compiled for instructions that this CPU lacks */
}};

#define {upper}_ABI_VERSION {ABI_VERSION}

{declarations}
/* What the last failing call on this thread found wrong; "" when none failed. Valid until the next failing call on this thread. */
const char* {library}_message(void);
/* {upper}_ABI_VERSION of the library that is loaded: compare it with the header's. */
int32_t {library}_abi_version(void);
/* A JSON list with the name and signature of each algorithm. */
const char* {library}_metadata(void);
/* Gives back an array that a function of this library has allocated, from any thread; NULL is ignored. */
void {library}_free(void* array);
/* Threads of later calls in this process; 0: the default. */
void {library}_set_threads(int32_t count);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _document(function: Function) -> str:
    lines = [f"/* {_comment(function.algorithm)}"]
    width = max((len(p.name) for p in function.parameters), default=0)
    existentials = [e.name for e in function.signature.existentials]
    counts = [p.name for p in function.parameters if p.role == "existential"]
    called = dict(zip(existentials, counts, strict=True))
    capacities = {
        e.name: None if e.bound is None else size_text(_rename(e.bound, function.sizes))
        for e in function.signature.existentials
    }
    for parameter in function.parameters:
        if parameter.value is not None:
            most = {name: f"({bound})" for name, bound in capacities.items() if bound is not None}
            renamed = {**function.sizes, **called, **(most if parameter.role != "made" else {})}
            dims = "".join(f"[{size_text(_rename(size, renamed))}]" for size in parameter.value.shape)
            role = {"scalar": "input", "made": "output, allocated here"}.get(parameter.role, parameter.role)
            text = f"{role}, {parameter.value.dtype}{dims}"
            if remark := _REMARKS.get(parameter.value.dtype):
                text += f" ({remark})"
        elif parameter.role == "size":
            text = "size, at least 0"
        else:
            most = capacities[existentials[counts.index(parameter.name)]]
            text = "output: how many there are" + ("" if most is None else f", at most {most}")
        lines.append(f" *   {parameter.name:<{width}}  {_comment(text)}")
    for check in function.signature.checks:
        left, right = (size_text(_rename(size, function.sizes)) for size in (check.left, check.right))
        lines.append(f" *   {left} must equal {right}")
    return "\n".join(lines) + "\n */\n"


def _prototype(function: Function) -> str:
    return f"int32_t {function.name}({', '.join(p.declaration for p in function.parameters) or 'void'})"


def _rename(size: SizeExpr, names: dict[str, str]) -> SizeExpr:
    if isinstance(size, tuple):
        return (size[0], _rename(size[1], names), _rename(size[2], names))
    return names.get(size, size) if isinstance(size, str) else size


# --- the wrapper


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
    lines += [f"PUBLIC {_prototype(function)} {{"]
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
    return f"const {_c_type(parameter.value)}* {parameter.name}"


def _c_type(value: Value) -> str:
    try:
        return _C_TYPES[value.dtype]
    except KeyError:
        raise ExportError(f"arrays of {value.dtype} have no C form") from None


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


def _comment(text: str) -> str:
    return text.replace("*/", "* /")
