"""Device programs inside an exported library: kernels, constants and plans as tables in C, executed by raido_program.c.

A program's entry has the form that `signature` describes. Two plans are added around the program's own: one uploads the caller's arrays,
the other reads the fault record and downloads the results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from raido.algo.graph.dtypes import i32, numpy_dtype
from raido.schedule.kernels.host_plan import Allocate, Download, If, Let, Number, ReadBack, Statement, Upload
from raido.targets.c_text import c_string
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.plan import Plan, encode_plan
from raido.targets.export_functions import Function, flat_prototype
from raido.targets.native import Fault
from raido.targets.signature import Signature, SizeExpr, Value


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A device API's part of an exported library: the C sources linked in addition to every library's; `prepare`, which makes a program fit
    for export; and `write_needs`, which writes the C file with the requirements of all programs. `devices`, `default` and `example` (a
    device name) are texts for the header."""

    sources: tuple[str, ...]
    prepare: Callable[[DeviceCode], DeviceCode]
    write_needs: Callable[[Iterable[DeviceCode]], str]
    devices: str
    default: str
    example: str


_RECORD = 40
_FAULT, _KIND = "the caller's fault", "kind of fault"


def write_program(function: Function, code: DeviceCode) -> str:
    """The C file of a program: its tables and its entry."""
    before, after = _surround(function.signature, code)
    plans = (before.words, code.plan.words, after.words)
    parts = ['#include "raido_program.h"\n#include "raido_runtime.h"\n']
    for k, words in enumerate(plans):
        parts.append(write_table("int64_t", f"plan_{k}", [f"INT64_C({word})" for word in words]))
    kernels = [code.kernels[name] for name in code.plan.kernels]
    tables, rows = write_kernels(kernels)
    parts += [*tables, write_table("RdKernelInfo", "kernels", rows)]
    constants = {name: array for name, array in code.constants.items() if name in after.slots}
    for k, array in enumerate(constants.values()):
        parts.append(write_table("uint32_t", f"constant_{k}", words_of(np.ascontiguousarray(array).tobytes())))
    rows = [f"{{{after.slots[name]}, {a.nbytes}, constant_{k}}}" for k, (name, a) in enumerate(constants.items())]
    parts.append(write_table("RdConstant", "constants", rows))
    sizes = [after.registers[name] for name in code.sizes]
    counts = [after.registers[code.counts[e.name]] for e in function.signature.existentials]
    parts.append(write_table("uint32_t", "sizes", map(str, sizes)))
    parts.append(write_table("uint32_t", "counts", map(str, counts)))
    made = [(after.slots[name], after.registers[_bytes_of(name)]) for name in _made_names(function.signature, code)]
    parts.append(write_table("RdMade", "made", [f"{{{slot}, {size}}}" for slot, size in made]))
    words = ", ".join(f"{{plan_{k}, {len(words)}}}" for k, words in enumerate(plans))
    parts.append(
        f"static const RdProgram program = {{kernels, constants, {{{words}}}, sizes, counts, made, {len(kernels)}, {len(constants)},\n"
        f"  {len(sizes)}, {len(counts)}, {len(made)}, {after.register_count}, {len(after.slots)}, {len(after.hosts)}}};\n"
        "static RdLoaded loaded;\n"
    )
    parts.append(_entry(function, after))
    return "\n".join(parts)


def _entry(function: Function, plan: Plan) -> str:
    """The C entry function: sorts its arguments by role, runs the program, and passes its error message on."""
    names = [f"a{k}" for k in range(len(function.parameters))]
    by_role: dict[str, list[str]] = {role: [] for role in ("size", "made", "existential")}
    hosts = dict.fromkeys(plan.hosts, "0")
    for parameter, name in zip(function.parameters, names, strict=True):
        if parameter.role in by_role:
            by_role[parameter.role].append(name)
        elif parameter.value is not None and _host_of(parameter.value) in hosts:
            hosts[_host_of(parameter.value)] = f"(void*){name}"
    if _FAULT in hosts:
        hosts[_FAULT] = "fault"
    made = [f"(void**){name}" for name in by_role["made"]]
    return f"""\
RD_HIDDEN {flat_prototype(function, names, "fault")} {{
  (void)fault;
  void* const arrays[] = {{{", ".join([*hosts.values(), "0"])}}};
  const int64_t given[] = {{{", ".join([*by_role["size"], "0"])}}};
  void** const results[] = {{{", ".join([*made, "0"])}}};
  int64_t* const found[] = {{{", ".join([*by_role["existential"], "0"])}}};
  int32_t code = rd_program_run(&program, &loaded, arrays, given, results, found);
  if (code) rd_set_error(rd_error());
  return code;
}}
"""


# --- the plans around a program's own


def _surround(signature: Signature, code: DeviceCode) -> tuple[Plan, Plan]:
    """The plans before and after a program's own; the second one has the names of all three."""
    bounds = {e.name: ("max", 0, e.bound) for e in signature.existentials if e.bound is not None}
    sizes: dict[str, Number] = dict(zip(signature.sizes, code.sizes, strict=True))
    capacities = sizes | {name: _number(bound, sizes) for name, bound in bounds.items()}
    exact = sizes | dict(code.counts)
    used = code.plan.slots
    there: list[Statement] = []
    for value, name in zip(signature.inputs, code.inputs, strict=True):
        if name in used:
            there += [Allocate(name, _nbytes(value, sizes)), Upload(name, _host_of(value), _nbytes(value, sizes))]
    back: list[Statement] = []
    for value, name, made in zip(signature.outputs, code.outputs, signature.made, strict=True):
        if made:
            back.append(Let(_bytes_of(name), _nbytes(value, exact)))
        elif name in used:
            there.append(Allocate(name, _nbytes(value, capacities)))
            back.append(Download(_host_of(value), name, _nbytes(value, capacities)))
    if code.fault:
        there += [Allocate(code.fault, _RECORD), Upload(code.fault, _FAULT, _RECORD)]
        look = [Download(_FAULT, code.fault, _RECORD), ReadBack(_KIND, code.fault, i32, Fault.kind.offset)]
        back = [*look, If(("==", _KIND, 0), tuple(back))]
    before = encode_plan(there, code.kernels, code.sizes, beside=code.plan)
    return before, encode_plan(back, code.kernels, beside=before)


def _nbytes(value: Value, sizes: Mapping[str, Number]) -> Number:
    found: Number = numpy_dtype(value.dtype).itemsize
    for size in value.shape:
        found = ("*", found, _number(size, sizes))
    return found


def _number(size: SizeExpr, sizes: Mapping[str, Number]) -> Number:
    """A size expression over the plan's numbers."""
    if isinstance(size, tuple):
        return (size[0], _number(size[1], sizes), _number(size[2], sizes))
    return sizes[size] if isinstance(size, str) else size


def _made_names(signature: Signature, code: DeviceCode) -> list[str]:
    return [name for name, made in zip(code.outputs, signature.made, strict=True) if made]


def _host_of(value: Value) -> str:
    """The plan's name for an array of the caller; inputs and outputs never share a name in a signature."""
    return f"the caller's {value.name}"


def _bytes_of(array: str) -> str:
    return f"bytes of {array}"


# --- tables


def write_table(kind: str, name: str, rows: Iterable[str]) -> str:
    """A C array with a row of zeros at its end, since C has no empty arrays."""
    texts = [*rows, "{0}" if kind.startswith("Rd") else "0"]
    lines = [", ".join(texts[k : k + 12]) for k in range(0, len(texts), 12)]
    body = ",\n  ".join(lines)
    return f"static const {kind} {name}[] = {{\n  {body}}};\n"


def words_of(data: bytes) -> list[str]:
    """Bytes as 32-bit C literals, little-endian."""
    data += bytes(-len(data) % 4)
    return [f"0x{word:x}" for word in struct.unpack(f"<{len(data) // 4}I", data)]


def write_kernels(kernels: Sequence[Kernel]) -> tuple[list[str], list[str]]:
    """C tables of kernels, each code once, and the `RdKernelInfo` of each kernel, which points into them."""
    codes = list(dict.fromkeys(code for kernel in kernels for code in (kernel.code, kernel.narrow) if code))
    tables = [write_table("uint32_t", f"code_{k}", words_of(code)) for k, code in enumerate(codes)]
    for k, kernel in enumerate(kernels):
        columns = {"offsets": [argument.offset for argument in kernel.arguments if argument.pointer]}
        columns |= {"widths": list(kernel.widths)}
        columns |= {"number_offsets": list(kernel.number_offsets), "narrow_limits": list(kernel.narrow_limits)}
        tables += [write_table("uint32_t", f"{name}_{k}", map(str, column)) for name, column in columns.items()]
    return tables, [_kernel_row(k, kernel, codes) for k, kernel in enumerate(kernels)]


def _kernel_row(number: int, kernel: Kernel, codes: Sequence[bytes]) -> str:
    """The `RdKernelInfo` of kernel `number`, which points into the tables of that number and those of the codes."""
    fields = {
        "name": c_string(kernel.name),
        "code": f"code_{codes.index(kernel.code)}",
        "bytes": len(kernel.code),
        "addresses": int(kernel.mode == "addresses"),
        "inline_arguments": int(kernel.inline),
        "pointers": sum(argument.pointer for argument in kernel.arguments),
        "argument_bytes": kernel.argument_bytes,
        "block": f"{{{', '.join(map(str, kernel.block))}}}",
        "shared_bytes": kernel.shared_bytes,
        "offsets": f"offsets_{number}",
        "widths": f"widths_{number}",
        "narrow": f"code_{codes.index(kernel.narrow)}" if kernel.narrow else 0,
        "narrow_bytes": len(kernel.narrow),
        "narrow_grid": f"{{{', '.join(map(str, kernel.narrow_grid))}}}",
        "numbers": len(kernel.number_offsets),
        "number_offsets": f"number_offsets_{number}",
        "narrow_limits": f"narrow_limits_{number}",
    }
    return "{" + ", ".join(f".{name} = {text}" for name, text in fields.items()) + "}"
