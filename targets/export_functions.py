"""What an exported library offers: each algorithm as one C function over typed pointers and int64_t sizes.

Every name in the header starts with the algorithm's or the library's own name.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.errors import ExportError
from raido.targets.signature import Signature, Value

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
        c_name, kind = unique(value.name), c_type(value)
        if value.shape or value.dtype.startswith("complex"):
            parameters.append(Parameter(c_name, f"const {kind}* {c_name}", value, "input"))
        else:
            parameters.append(Parameter(c_name, f"{kind} {c_name}", value, "scalar"))
    sizes = {}
    for size in signature.sizes:
        sizes[size] = unique(size)
        parameters.append(Parameter(sizes[size], f"int64_t {sizes[size]}", None, "size"))
    for value, made in zip(signature.outputs, signature.made, strict=True):
        c_name = unique(value.name)
        role = "made" if made else "output"
        parameters.append(Parameter(c_name, f"{c_type(value)}*{'*' * made} {c_name}", value, role))
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


def prototype(function: Function) -> str:
    """Its declaration in C, without the semicolon."""
    return f"int32_t {function.name}({', '.join(p.declaration for p in function.parameters) or 'void'})"


def c_type(value: Value) -> str:
    """The C type of its elements; of parts, for complex numbers. ExportError when C has none."""
    try:
        return _C_TYPES[value.dtype]
    except KeyError:
        raise ExportError(f"arrays of {value.dtype} have no C form") from None
