"""The public C header of an exported library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raido.targets.c_sizes import c_size
from raido.targets.c_text import c_comment
from raido.targets.devices.export import DevicePart
from raido.targets.export_functions import Function, prototype
from raido.targets.signature import SizeExpr, size_names

ABI_VERSION = 2
_REMARKS = {
    "bool": "bytes 0 or 1",
    "float16": "IEEE binary16 bits",
    "bfloat16": "bfloat16 bits: the upper half of IEEE binary32",
    "complex64": "interleaved pairs of real and imaginary part",
    "complex128": "interleaved pairs of real and imaginary part",
}


_ON_THREADS = """\
Work is shared among the library's own threads:
 * as many as {library}_set_threads says, else the environment variable RAIDO_NUM_THREADS, else the CPUs this process may use."""
_ON_DEVICE = """\
Work is done by a GPU ({devices}),
 * which is found and opened by the first call, and kept: see {library}_set_device. Arrays are copied there and back."""
_CODE = """\
  {upper}_BAD_DEVICE = 7       /* there is no driver or no such device, it cannot run this library, or it has failed */
"""
_CHOICE = """\
/* The device of later calls in this process: its number ("0"), a part of its name ("{example}"), or NULL for the default:
 * {default}. Waits for calls that run. Returns {upper}_OK or {upper}_BAD_DEVICE; after a
 * failure the device stays as it was. */
int32_t {library}_set_device(const char* device);
"""


def write_header(library: str, functions: Sequence[Function], device: DevicePart | None = None) -> str:
    """Text of the public C header; `device` is the device's part of a library that runs on one."""
    upper = library.upper()
    work = _ON_THREADS.format(library=library)
    code = choice = ""
    if device is not None:
        work = _ON_DEVICE.format(library=library, devices=device.devices)
        code = _CODE.format(upper=upper)
        choice = _CHOICE.format(library=library, upper=upper, example=device.example, default=device.default)
    guard = f"RAIDO_{upper}_H"
    declarations = "\n".join(_document(f) + prototype(f) + ";\n" for f in functions)
    return f"""\
/* {library}: made by raido. Plain C; no other library is needed.
 *
 * Functions return {upper}_OK (0) or one of the codes below; {library}_message() then says what was wrong, on the thread that called.
 * Arrays are dense and in row-major order (the last index runs fastest, no padding between rows), of any alignment. The caller owns
 * them all: nothing is kept after the call. Results must not overlap inputs or each other. Arrays of zero elements may be NULL.
 * A result whose size nothing bounds beforehand is a pointer to a pointer: the function allocates the array, once all has gone
 * well, and writes where it is; give it back with {library}_free. After a failure NULL is written.
 * All functions may be called from any number of threads at once. {work}
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
  {upper}_UNSUPPORTED_CPU = 6{" " if device is None else ","} /* the library was compiled for instructions that this CPU lacks */
{code}}};

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
{choice}
#ifdef __cplusplus
}}
#endif
#endif
"""


def _document(function: Function) -> str:
    lines = [f"/* {c_comment(function.algorithm)}"]
    width = max((len(p.name) for p in function.parameters), default=0)
    existentials = [e.name for e in function.signature.existentials]
    counts = [p.name for p in function.parameters if p.role == "existential"]
    called = dict(zip(existentials, counts, strict=True))
    bounds = {e.name: _rename(e.bound, function.sizes) for e in function.signature.existentials if e.bound is not None}
    for parameter in function.parameters:
        if parameter.value is not None:
            renamed = {**function.sizes, **called, **(bounds if parameter.role != "made" else {})}
            dims = "".join(f"[{c_size(_rename(size, renamed))}]" for size in parameter.value.shape)
            role = {"scalar": "input", "made": "output, allocated here"}.get(parameter.role, parameter.role)
            own = (
                {n for size in parameter.value.shape for n in size_names(size)} & {*called}
                if parameter.role != "made"
                else set()
            )
            written = ", ".join(called[name] for name in existentials if name in own and name in bounds)
            text = f"{role}, {parameter.value.dtype}{dims}" + (f", of which {written} are written" if written else "")
            if remark := _REMARKS.get(parameter.value.dtype):
                text += f" ({remark})"
        elif parameter.role == "size":
            text = "size, at least 0"
        else:
            name = existentials[counts.index(parameter.name)]
            theirs = [
                p.name
                for p in function.parameters
                if p.value is not None and name in {n for size in p.value.shape for n in size_names(size)}
            ]
            ranks = [len(p.value.shape) for p in function.parameters if p.value is not None and p.name in theirs]
            noun = "rows" if max(ranks, default=1) > 1 else "elements"
            text = f"output: the number of {noun} of {' and '.join(theirs)}" if theirs else "output: how many there are"
            text += f", at most {c_size(bounds[name])}" if name in bounds else ""
        lines.append(f" *   {parameter.name:<{width}}  {c_comment(text)}")
    for check in function.signature.checks:
        left, right = (c_size(_rename(size, function.sizes)) for size in (check.left, check.right))
        lines.append(c_comment(f" *   {left} must equal {right}"))
    return "\n".join(lines) + "\n */\n"


def _rename(size: SizeExpr, names: Mapping[str, SizeExpr]) -> SizeExpr:
    if isinstance(size, tuple):
        return (size[0], _rename(size[1], names), _rename(size[2], names))
    return names.get(size, size) if isinstance(size, str) else size
