"""`Program`, the result of tracing: the pure graph of one algorithm, with tables that are outside the identity of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph.expr import Array, ArrayForm, Expr, Node, Parameter, SizeVar, Var
from raido.algo.graph.read_sizes import read_extent

OF_RAIDO = "an array of raido's own"  # what messages call a state of a loop that no user has written


@dataclass(frozen=True, slots=True)
class Site:
    """A source location in the user's code: file, line and the line's text; `array`: the array there whose size is at fault, "f32[n, m]",
    or the name of a loop state."""

    file: str
    line: int
    text: str
    array: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}   {self.text}"


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """Two sizes that must be equal at the call, and the owners of both, for the message of `SizeMismatch`.

    An empty left owner means: the left side is the right one or 1, so the right one's dimension must not be empty.
    """

    left: Expr
    right: Expr
    left_owner: str
    right_owner: str
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """One algorithm, traced for one signature.

    `parameters` are the input arrays in call order, structures flattened; `results` the output arrays, flattened. `input_tree` and
    `output_tree` describe their nesting, as JSON data: an int is a leaf (an index into the flat tuple), {"tuple": [...]}, {"record":
    {field: ...}}, {"size": name} for an `rd.size` argument.

    `names[form]` are the user's names for an array form, in order; `kinds[form]` is the base of default names ("map", "reduce", "stencil",
    "elementwise", "tabulate", "move", "loop", …); `order` lists named and unnamed forms in program order; `sites` maps nodes to the user's
    lines; `named_axes` are the variables of axes that the user named. `complex_inputs` and `complex_outputs` are the indices of parameters
    and results whose last dimension, of 2, holds the parts of complex numbers. `known` are sizes by name that the program was specialised
    for, `sized_sorts` the sorts whose number of elements was one of them. `static` are the static parameters that a call must name to trace
    this program, as Python text by name (`trace/static_text.py`), `types` the arguments' types where they differ from the declared ones.
    """

    name: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[SizeVar, ...]
    results: tuple[Array, ...]
    input_tree: Any
    output_tree: Any
    size_checks: tuple[SizeCheck, ...] = ()
    order: tuple[ArrayForm, ...] = ()
    names: Mapping[ArrayForm, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[ArrayForm, str] = field(default_factory=dict)
    sites: Mapping[Node, Site] = field(default_factory=dict)
    named_axes: frozenset[Var] = frozenset()
    contract: bool = True
    complex_inputs: frozenset[int] = frozenset()
    complex_outputs: frozenset[int] = frozenset()
    known: Mapping[str, int] = field(default_factory=dict)
    sized_sorts: frozenset[ArrayForm] = frozenset()
    static: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = ()

    def __repr__(self) -> str:
        takes = ", ".join(f"{parameter.name}: {_type_text(parameter)}" for parameter in self.parameters)
        return f"<Program {self.name}({takes}) -> {', '.join(map(_type_text, self.results))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        from raido.algo.graph.packing import pack, unpack

        return unpack, pack(self)


def _type_text(array: Array) -> str:
    """The type of an array in source form, `f32[h, w]`."""
    sizes = ", ".join(map(read_extent, array.shape))
    return f"{array.dtype}[{sizes}]" if array.shape else str(array.dtype)
