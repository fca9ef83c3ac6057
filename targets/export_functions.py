"""C functions of an exported library: one per algorithm, over typed pointers and int64_t sizes.

Every name in the header starts with the algorithm's or the library's own name; `c_names` makes identifiers of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.errors import ExportError
from raido.targets.c_names import DEVICE_FUNCTIONS, LIBRARY_FUNCTIONS, global_name, identifier
from raido.targets.signature import Signature, Value

LIBRARY_SYMBOL = "raido_library_v1"
_C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float",
    "complex128": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a public function: C name and type, and the array or scalar it passes (None: a size or a count)."""

    name: str
    type: str
    value: Value | None
    role: str  # "input", "scalar" (by value), "size", "output", "made" (an output that the library allocates), "existential"


@dataclass(frozen=True, slots=True)
class Function:
    """An algorithm in the library: its exported name and public C name, the linked entry symbol, its parameters in order.

    `on_device`: whether it runs on a device rather than the CPU.
    """

    algorithm: str
    name: str
    entry: str
    signature: Signature
    parameters: tuple[Parameter, ...]
    sizes: dict[str, str]  # size name -> C name
    on_device: bool = False


def describe_function(library: str, name: str, entry: str, signature: Signature, on_device: bool = False) -> Function:
    """The public function of a signature, with C names that are all different (see `c_names`)."""
    public = global_name(library, name)
    taken: set[str] = {public}

    def unique(wanted: str) -> str:
        base = chosen = identifier(wanted)
        number = 2
        while chosen in taken:
            chosen, number = identifier(f"{base}_{number}"), number + 1
        taken.add(chosen)
        return chosen

    parameters: list[Parameter] = []
    for value in signature.inputs:
        if value.shape or value.dtype.startswith("complex"):
            parameters.append(Parameter(unique(value.name), f"const {c_type(value)}*", value, "input"))
        else:
            parameters.append(Parameter(unique(value.name), c_type(value), value, "scalar"))
    sizes = {}
    for size in signature.sizes:
        sizes[size] = unique(size)
        parameters.append(Parameter(sizes[size], "int64_t", None, "size"))
    for value, made in zip(signature.outputs, signature.made, strict=True):
        role = "made" if made else "output"
        parameters.append(Parameter(unique(value.name), f"{c_type(value)}*{'*' * made}", value, role))
    parameters += [Parameter(unique(e.name), "int64_t*", None, "existential") for e in signature.existentials]
    return Function(name, public, entry, signature, tuple(parameters), sizes, on_device)


def public_names(library: str, functions: Sequence[Function]) -> tuple[str, ...]:
    """All symbols that the library exports; raises `ExportError` when two of them coincide."""
    owners: dict[str, str] = {}
    suffixes = [*LIBRARY_FUNCTIONS, *(DEVICE_FUNCTIONS if any(f.on_device for f in functions) else ())]
    own = [(f"{library}_{suffix}", "the library itself") for suffix in suffixes]
    for name, owner in [(f.name, f"algorithm {f.algorithm!r}") for f in functions] + own:
        if name in owners:
            raise ExportError(
                f'the library would define the C name "{name}" twice, for {owners[name]} and for {owner}: '
                "give the algorithms other names"
            )
        owners[name] = owner
    return (*owners, LIBRARY_SYMBOL)


def write_version_script(names: Sequence[str]) -> str:
    """The linker's version script, which makes only these symbols visible."""
    return "{ global: " + " ".join(f'"{name}";' for name in names) + " local: *; };\n"


def prototype(function: Function, names: Sequence[str] | None = None) -> str:
    """A public function's C declaration, without the semicolon; `names` replaces the parameters' names."""
    called = [p.name for p in function.parameters] if names is None else names
    declared = [f"{p.type} {name}" for p, name in zip(function.parameters, called, strict=True)]
    return f"int32_t {function.name}({', '.join(declared) or 'void'})"


def flat_prototype(function: Function, names: Sequence[str], fault: str) -> str:
    """The C declaration of a function's entry, where every array and scalar is a pointer, with these parameter names."""
    declared = [_flat_declaration(p, name) for p, name in zip(function.parameters, names, strict=True)]
    return f"int32_t {function.entry}({', '.join([*declared, f'RdFault* {fault}'])})"


def _flat_declaration(parameter: Parameter, name: str) -> str:
    if parameter.role != "scalar" or parameter.value is None:
        return f"{parameter.type} {name}"
    return f"const {c_type(parameter.value)}* {name}"


def c_type(value: Value) -> str:
    """The C type of an array's elements, for complex numbers of their parts. Raises `ExportError` for a dtype without one."""
    try:
        return _C_TYPES[value.dtype]
    except KeyError:
        raise ExportError(f"arrays of {value.dtype} have no C form") from None
