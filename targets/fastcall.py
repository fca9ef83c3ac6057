"""The call of an executable for the ordinary case, written out as straight Python code for one signature.

A call may cost a few microseconds in all, so checks that can be settled beforehand are, and the rest is generated without loops:
exact-type tests, sizes read from shapes, comparisons, one ctypes call. Whenever anything is unusual (another type, a strided array,
a wrong size, structures), the generated code does nothing and calls `general`, which handles or refuses it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raido.targets.arguments import build_namedtuple
from raido.targets.native import LARGE_BLOCK, Fault, allocate_array
from raido.targets.signature import Signature, SizeExpr, Tree

_SCALARS = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# A NumPy array starts with the object header and then the data pointer: part of NumPy's binary interface for C extensions, and
# eight times faster to read there than through `__array_interface__`. Believed only after a look at a real array.
_DATA_OFFSET = object.__basicsize__


def _layout_holds() -> bool:
    probes = [np.zeros(3, np.float32), np.zeros((4, 6))[1:, 2:]]
    read = ctypes.c_void_p.from_address
    return all(read(id(probe) + _DATA_OFFSET).value == probe.__array_interface__["data"][0] for probe in probes)


_ADDRESS = f"read(id({{0}}) + {_DATA_OFFSET}).value" if _layout_holds() else "{0}.__array_interface__['data'][0]"


def quick_call(
    signature: Signature,
    entry: Callable[..., int],
    general: Callable[[tuple[Any, ...], Any], Any],
    fail: Callable[[int, Any], None],
) -> Callable[[tuple[Any, ...], Any], Any]:
    """A function of (arguments, out) that calls `entry`; `general` where the signature or the arguments are not plain."""
    source = write_call(signature)
    if source is None:
        return general
    names: dict[str, Any] = {
        "array": np.ndarray,
        "empty": np.empty,
        "allocate": allocate_array,
        "build": build_namedtuple,
        "read": ctypes.c_void_p.from_address,
        "byref": ctypes.byref,
        "entry": entry,
        "general": general,
        "fail": fail,
        "Fault": Fault,
        "faults": [],
        "never": ctypes.byref(Fault()),
        "divide": lambda a, b: a // b if b else 0,
        "modulo": lambda a, b: a % b if b else 0,
    }
    for i, value in enumerate((*signature.inputs, *signature.outputs)):
        names[f"d{i}"] = np.dtype(value.dtype)
        names[f"t{i}"] = np.dtype(value.dtype).type
        names[f"c{i}"] = _SCALARS.get(value.dtype)
    exec(compile(source, f"<call of {signature.name}>", "exec"), names)
    return names["call"]


def write_call(signature: Signature) -> str | None:
    """The source of the call, or None when the signature is not of the plain kind."""
    parts = signature.input_tree["tuple"]
    plain = all(isinstance(part, int) or "size" in part for part in parts)
    if not plain or signature.existentials or any(not v.shape and v.dtype not in _SCALARS for v in signature.inputs):
        return None
    size_names = {name: f"n{i}" for i, name in enumerate(signature.sizes)}
    arguments = [f"a{part}" if isinstance(part, int) else size_names[part["size"]] for part in parts]
    explicit = [part["size"] for part in parts if not isinstance(part, int)]
    lines = ["def call(args, out):", f"  if len(args) == {len(parts)}:"]
    if parts:
        lines.append(f"    {', '.join(arguments)}, = args")
    tests = [f"type({size_names[name]}) is int and {size_names[name]} >= 0" for name in explicit]
    pointers: list[str] = []
    for i, value in enumerate(signature.inputs):
        if value.shape:
            tests.append(f"type(a{i}) is array and a{i}.dtype is d{i} and a{i}.flags.c_contiguous")
            pointers.append(_ADDRESS.format(f"a{i}"))
        else:
            tests.append(_scalar_test(i, value.dtype))
            pointers.append(f"byref(c{i}(a{i}))" if np.dtype(value.dtype).kind == "f" else f"byref(c{i}(int(a{i})))")
    lines.append(f"    if {' and '.join(tests) or 'True'}:")
    ranks: list[str] = []
    dims: list[tuple[SizeExpr, str]] = []
    for i, value in enumerate(signature.inputs):
        if value.shape:
            lines.append(f"      s{i} = a{i}.shape")
            ranks.append(f"len(s{i}) == {len(value.shape)}")
            dims.extend((size, f"s{i}[{k}]") for k, size in enumerate(value.shape))
    lines.append(f"      if {' and '.join(ranks) or 'True'}:")
    solved = set(explicit)
    equalities: list[str] = []
    for size, actual in dims:
        if isinstance(size, str) and size not in solved:
            solved.add(size)
            lines.append(f"        {size_names[size]} = {actual}")
        else:
            equalities.append(f"{actual} == {_python(size, size_names)}")
    if solved != set(signature.sizes):
        return None
    equalities += [f"{_python(c.left, size_names)} == {_python(c.right, size_names)}" for c in signature.checks]
    shapes: list[str] = []
    for value in signature.outputs:
        shapes.append("(" + "".join(f"{_python(size, size_names)}, " for size in value.shape) + ")")
        equalities += [f"{_python(size, size_names)} >= 0" for size in value.shape if isinstance(size, tuple)]
    lines.append(f"        if {' and '.join(equalities) or 'True'}:")
    body = _write_body(signature, size_names, shapes, pointers)
    return "\n".join([*lines, *(" " * 10 + line for line in body), "  return general(args, out)", ""])


def _write_body(
    signature: Signature, size_names: Mapping[str, str], shapes: list[str], pointers: list[str]
) -> list[str]:
    first = len(signature.inputs)
    create: list[str] = []
    for k, (value, shape) in enumerate(zip(signature.outputs, shapes, strict=True)):
        limit = LARGE_BLOCK // np.dtype(value.dtype).itemsize
        count = " * ".join(_python(size, size_names) for size in value.shape) or "1"
        small = f"empty({shape}, d{first + k})"
        if count == "1":
            create.append(f"r{k} = {small}")
        else:
            create.append(f"r{k} = {small} if {count} < {limit} else allocate({shape}, d{first + k})")
    body: list[str] = []
    result = _result(signature.output_tree, signature)
    if len(signature.outputs) == 1 and signature.outputs[0].shape and isinstance(signature.output_tree, int):
        body += ["if out is None:", *("  " + line for line in create), "else:"]
        body += [
            f"  if type(out) is not array or out.dtype is not d{first} or out.shape != {shapes[0]}: return general(args, out)"
        ]
        body += ["  flags = out.flags", "  if not (flags.c_contiguous and flags.writeable): return general(args, out)"]
        body += ["  r0 = out", f"  low = {_ADDRESS.format('out')}", "  high = low + out.nbytes"]
        for i, value in enumerate(signature.inputs):
            if value.shape:
                body.append(f"  start = {_ADDRESS.format(f'a{i}')}")
                body.append(f"  if start < high and low < start + a{i}.nbytes: return general(args, out)")
    else:
        body += ["if out is not None: return general(args, out)", *create]
    pointers = [*pointers, *(size_names[name] for name in signature.sizes)]
    pointers += [_ADDRESS.format(f"r{k}") for k in range(len(signature.outputs))]
    if signature.sites:
        body += ["try:", "  fault, reference = both = faults.pop()", "except IndexError:"]
        body += ["  fault = Fault()", "  both = fault, byref(fault)", "  reference = both[1]"]
        body += [f"status = entry({', '.join([*pointers, 'reference'])})"]
        body += ["if status or fault.kind: fail(status, fault)", "faults.append(both)"]
    else:
        body += [f"status = entry({', '.join([*pointers, 'never'])})", "if status: fail(status, None)"]
    return [*body, f"return {result}"]


def _scalar_test(i: int, dtype: str) -> str:
    if np.dtype(dtype).kind == "f":
        return f"type(a{i}) in (float, t{i})"
    limits = np.iinfo(dtype)
    return f"(type(a{i}) is t{i} or type(a{i}) is int and {limits.min} <= a{i} <= {limits.max})"


def _python(size: SizeExpr, names: Mapping[str, str]) -> str:
    if isinstance(size, int):
        return f"({size})" if size < 0 else str(size)
    if isinstance(size, str):
        return names[size]
    op, left, right = size[0], _python(size[1], names), _python(size[2], names)
    if op in ("min", "max"):
        return f"({left} if {left} {'<' if op == 'min' else '>'} {right} else {right})"
    if op in ("//", "%") and not (isinstance(size[2], int) and size[2]):
        return f"{'divide' if op == '//' else 'modulo'}({left}, {right})"
    return f"({left} {op} {right})"


def _result(tree: Tree, signature: Signature) -> str:
    if isinstance(tree, int):
        return f"r{tree}" if signature.outputs[tree].shape else f"r{tree}[()]"
    ((kind, body),) = tree.items()
    if kind == "tuple":
        return "(" + "".join(_result(part, signature) + ", " for part in body) + ")"
    if kind == "record":
        return "{" + ", ".join(f"{name!r}: {_result(part, signature)}" for name, part in body.items()) + "}"
    return f"build({body!r}, ({''.join(f'{_result(part, signature)}, ' for part in body['fields'].values())}))"
