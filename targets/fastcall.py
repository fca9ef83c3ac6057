"""The call of an executable for the ordinary case, written out as straight Python code for one signature.

A call may cost a few microseconds in all, so checks that can be settled beforehand are, and the rest is generated without loops:
exact-type tests, sizes read from shapes, comparisons, one ctypes call. Whenever anything is unusual (another type, a strided array,
a wrong size), the generated code has done nothing yet and calls `general`, which handles or refuses it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import numpy_dtype
from raido.algo.graph.limits import LARGEST_SIZE
from raido.algo.trace.trees import branches
from raido.targets.native import LARGE_BLOCK, Fault, allocate_array
from raido.targets.outputs import build_namedtuple
from raido.targets.signature import Signature, SizeExpr, Tree, size_names

_SCALARS = {
    "bool": ctypes.c_bool,
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
        "trim": _trim,
        "read": ctypes.c_void_p.from_address,
        "byref": ctypes.byref,
        "int64": ctypes.c_int64,
        "entry": entry,
        "general": general,
        "fail": fail,
        "Fault": Fault,
        "faults": [],  # records not in use; list operations are atomic
        "divide": lambda a, b: a // b if b else 0,
        "modulo": lambda a, b: a % b if b else 0,
    }
    for i, value in enumerate((*signature.inputs, *signature.outputs)):
        names[f"d{i}"] = numpy_dtype(value.dtype)
        names[f"t{i}"] = numpy_dtype(value.dtype).type
        names[f"c{i}"] = _SCALARS.get(value.dtype)
    exec(compile(source, f"<call of {signature.name}>", "exec"), names)
    return names["call"]


def write_call(signature: Signature) -> str | None:
    """The source of the call, or None when the signature is not of the plain kind."""
    return _Writer(signature).write() if _is_plain(signature) else None


def _is_plain(signature: Signature) -> bool:
    """Whether sizes can be read off, scalars passed by ctypes, and existential sizes stand alone in front."""
    if any(signature.made):
        return False
    ghosts = {existential.name for existential in signature.existentials}
    explicit = set(_explicit_sizes(signature.input_tree))
    readable = {size for value in signature.inputs for size in value.shape if isinstance(size, str)}
    return (
        set(signature.sizes) <= explicit | readable
        and all(value.shape or value.dtype in _SCALARS for value in signature.inputs)
        and not any(name in ghosts for v in signature.outputs for size in v.shape[1:] for name in size_names(size))
        and not any(
            name in ghosts
            for v in signature.outputs
            for size in v.shape[:1]
            if isinstance(size, tuple)
            for name in size_names(size)
        )
    )


def _explicit_sizes(tree: Tree) -> list[str]:
    if isinstance(tree, int):
        return []
    ((kind, body),) = tree.items()
    return [body] if kind == "size" else [name for part in branches(kind, body) for name in _explicit_sizes(part)]


def _trim(array: np.ndarray, size: int) -> np.ndarray:
    """The first `size` rows, in memory of their own when that is much less."""
    view = array[:size]
    return view.copy() if 2 * size < len(array) else view


class _Writer:
    """The lines of one call. Names: a0 … inputs, n0 … sizes, r0 … results, p0 … and q0 … their addresses, k0 … existentials, b0 … bounds."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.sizes = {name: f"n{i}" for i, name in enumerate(signature.sizes)}
        self.lines: list[str] = []
        self.holders = 0

    def write(self) -> str:
        signature = self.signature
        self.unpack(signature.input_tree, "args")
        self.read_sizes()
        known = dict(self.sizes)
        for k, existential in enumerate(signature.existentials):
            assert existential.bound is not None
            self.lines.append(f"b{k} = {_python(existential.bound, known)}")
            self.unless(f"b{k} >= 0")
            known[existential.name] = f"b{k}"
        shapes = []
        for value in signature.outputs:
            shapes.append("(" + "".join(f"{_python(size, known)}, " for size in value.shape) + ")")
            if computed := [f"{_python(size, known)} >= 0" for size in value.shape if isinstance(size, tuple)]:
                self.unless(" and ".join(computed))
        self.take_results(shapes, known)
        self.enter()
        self.lines.append(f"return {self.result(signature.output_tree)}")
        return "\n  ".join(["def call(args, out):", *self.lines, ""])

    def unless(self, test: str) -> None:
        self.lines.append(f"if not ({test}): return general(args, out)")

    def unpack(self, tree: Tree, holder: str) -> None:
        """Names the leaves below `holder` a0, a1, … and tests what each is."""
        if isinstance(tree, int):
            return
        ((kind, body),) = tree.items()
        if kind == "size":
            return
        parts = branches(kind, body)
        names = []
        for part in parts:
            if isinstance(part, int):
                names.append(f"a{part}")
            elif "size" in part:
                names.append(self.sizes[part["size"]])
            else:
                names.append(f"h{self.holders}")
                self.holders += 1
        if kind == "record":
            self.unless(f"type({holder}) is dict and len({holder}) == {len(parts)}")
            self.lines += [f"{name} = {holder}.get({key!r})" for name, key in zip(names, body, strict=True)]
        else:
            self.unless(f"isinstance({holder}, tuple) and len({holder}) == {len(parts)}")
            if parts:
                self.lines.append(f"{', '.join(names)}, = {holder}")
        tests = [self.test(part, name) for part, name in zip(parts, names, strict=True)]
        if tests := [test for test in tests if test]:
            self.unless(" and ".join(tests))
        for part, name in zip(parts, names, strict=True):
            self.unpack(part, name)

    def test(self, tree: Tree, name: str) -> str:
        if not isinstance(tree, int):
            return f"type({name}) is int and 0 <= {name} <= {LARGEST_SIZE}" if "size" in tree else ""
        value = self.signature.inputs[tree]
        if value.shape:
            return f"type({name}) is array and {name}.dtype is d{tree} and {name}.flags.c_contiguous"
        dtype = numpy_dtype(value.dtype)
        if dtype.kind in "bf":
            return f"type({name}) in ({'bool' if dtype.kind == 'b' else 'float'}, t{tree})"
        limits = np.iinfo(dtype)
        return f"(type({name}) is t{tree} or type({name}) is int and {limits.min} <= {name} <= {limits.max})"

    def read_sizes(self) -> None:
        """Sizes from shapes, and the tests that everything agrees."""
        signature = self.signature
        ranked = [(i, value) for i, value in enumerate(signature.inputs) if value.shape]
        self.lines += [f"s{i} = a{i}.shape" for i, _ in ranked]
        if ranked:
            self.unless(" and ".join(f"len(s{i}) == {len(value.shape)}" for i, value in ranked))
        solved = set(_explicit_sizes(signature.input_tree))
        tests = []
        for i, value in ranked:
            for k, size in enumerate(value.shape):
                if isinstance(size, str) and size not in solved:
                    solved.add(size)
                    self.lines.append(f"{self.sizes[size]} = s{i}[{k}]")
                else:
                    tests.append(f"s{i}[{k}] == {_python(size, self.sizes)}")
        tests += [f"{_python(c.left, self.sizes)} == {_python(c.right, self.sizes)}" for c in signature.checks]
        if tests:
            self.unless(" and ".join(tests))

    def take_results(self, shapes: list[str], known: Mapping[str, str]) -> None:
        """Allocates results, or takes `out` where there is one array to give. Names addresses: p0 … of inputs, q0 … of results."""
        signature = self.signature
        ranked = [i for i, value in enumerate(signature.inputs) if value.shape]
        self.lines += [f"p{i} = {_ADDRESS.format(f'a{i}')}" for i in ranked]
        first = len(signature.inputs)
        create = []
        for k, (value, shape) in enumerate(zip(signature.outputs, shapes, strict=True)):
            made = f"r{k} = empty({shape}, d{first + k})"
            if value.shape:
                count = " * ".join(_python(size, known) for size in value.shape)
                limit = LARGE_BLOCK // numpy_dtype(value.dtype).itemsize
                made += f" if 0 < {count} < {limit} else allocate({shape}, d{first + k})"
            create += [made, f"q{k} = {_ADDRESS.format(f'r{k}')}"]
        create = [
            "try:",
            *("  " + line for line in create),
            "except (MemoryError, ValueError):",
            "  return general(args, out)",
        ]
        single = signature.output_tree == 0 and len(shapes) == 1 and signature.outputs[0].shape
        if not single or signature.existentials:
            self.unless("out is None")
            self.lines += create
            return
        self.lines += ["if out is None:", *("  " + line for line in create), "else:"]
        place = len(self.lines)
        self.unless(f"type(out) is array and out.dtype is d{first} and out.shape == {shapes[0]}")
        self.lines.append("flags = out.flags")
        self.unless("flags.c_contiguous and flags.writeable")
        self.lines += ["r0 = out", f"q0 = {_ADDRESS.format('out')}", "end = q0 + out.nbytes"]
        for i in ranked:
            self.unless(f"p{i} >= end or q0 >= p{i} + a{i}.nbytes")
        self.lines[place:] = ["  " + line for line in self.lines[place:]]

    def enter(self) -> None:
        """The call itself, with a fault record of its own."""
        signature = self.signature
        passed = []
        for i, value in enumerate(signature.inputs):
            if value.shape:
                passed.append(f"p{i}")
            else:
                passed.append(f"byref(c{i}({f'int(a{i})' if numpy_dtype(value.dtype).kind in 'iu' else f'a{i}'}))")
        passed += [self.sizes[name] for name in signature.sizes]
        passed += [f"q{k}" for k in range(len(signature.outputs))]
        for k in range(len(signature.existentials)):
            self.lines.append(f"k{k} = int64()")
            passed.append(f"byref(k{k})")
        self.lines += ["try:", "  fault, reference = both = faults.pop()", "except IndexError:", "  fault = Fault()"]
        self.lines += ["  both = fault, byref(fault)", "  reference = both[1]"]
        self.lines.append(f"status = entry({', '.join([*passed, 'reference'])})")
        self.lines += ["if status or fault.kind: fail(status, fault)", "faults.append(both)"]

    def result(self, tree: Tree) -> str:
        if isinstance(tree, int):
            shape = self.signature.outputs[tree].shape
            if not shape:
                return f"r{tree}[()]"
            for k, existential in enumerate(self.signature.existentials):
                if shape[0] == existential.name:
                    return f"trim(r{tree}, k{k}.value)"
            return f"r{tree}"
        ((kind, body),) = tree.items()
        parts = [self.result(part) for part in branches(kind, body)]
        if kind == "record":
            return "{" + ", ".join(f"{name!r}: {part}" for name, part in zip(body, parts, strict=True)) + "}"
        listed = "(" + "".join(f"{part}, " for part in parts) + ")"
        return listed if kind == "tuple" else f"build({body!r}, {listed})"


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
