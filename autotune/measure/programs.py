"""Serialises a program for another process: JSON, and the bytes of its constant arrays.

Nodes are listed in postorder, each as the name of its class and its fields, which refer to earlier nodes by number, so the depth is
unbounded. Bound variables get new serial numbers on arrival, which keeps them apart from those created there. The law: an unpacked program
has the fingerprint of the packed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raido.algo.graph import expr
from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import DType, dtype_named, numpy_dtype, text_of
from raido.algo.graph.expr import Parameter, Var, fresh, fresh_parameter
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.program import Program, Site, SizeCheck
from raido.algo.graph.rewrite import topological
from raido.targets.target import Target


def pack_target(target: Target) -> dict[str, Any]:
    """The target's constructor arguments, as JSON data."""
    return {name: getattr(target, name) for name in ("kind", "cpu", "threads", "device", "arch")}


def pack_program(program: Program) -> tuple[dict[str, Any], list[bytes]]:
    """The program as JSON data and blobs."""
    blobs: list[bytes] = []
    numbers: dict[Node, int] = {}

    def pack(value: Any) -> Any:
        if isinstance(value, Node):
            return {"n": numbers[value]}
        if isinstance(value, tuple):
            return [pack(each) for each in value]
        if isinstance(value, DType):
            return {"d": value.name}
        if isinstance(value, Data):
            blobs.append(value.array.tobytes())
            return {"a": len(blobs) - 1, "dtype": text_of(value.array.dtype), "shape": list(value.array.shape)}
        return value

    checks = [(check.left, check.right) for check in program.size_checks]
    roots = (
        *program.parameters,
        *program.sizes,
        *program.results,
        *program.order,
        *(e for pair in checks for e in pair),
    )
    nodes = []
    for node in topological(*roots):
        numbers[node] = len(numbers)
        nodes.append([type(node).__name__, *(pack(getattr(node, name)) for name in field_names(type(node)))])
    data = {
        "name": program.name,
        "nodes": nodes,
        "parameters": pack(program.parameters),
        "sizes": pack(program.sizes),
        "results": pack(program.results),
        "input_tree": program.input_tree,
        "output_tree": program.output_tree,
        "checks": [
            [pack(c.left), pack(c.right), c.left_owner, c.right_owner, _packed_site(c.site)]
            for c in program.size_checks
        ],
        "order": pack(program.order),
        "names": [[numbers[form], list(names)] for form, names in program.names.items() if form in numbers],
        "kinds": [[numbers[form], kind] for form, kind in program.kinds.items() if form in numbers],
        "sites": [[numbers[node], _packed_site(site)] for node, site in program.sites.items() if node in numbers],
        "named_axes": sorted(numbers[var] for var in program.named_axes if var in numbers),
        "contract": program.contract,
        "complex": [sorted(program.complex_inputs), sorted(program.complex_outputs)],
    }
    return data, blobs


def unpack_program(data: dict[str, Any], blobs: Sequence[bytes | bytearray]) -> Program:
    """The program of `pack_program`'s data and blobs."""
    nodes: list[Any] = []

    def unpack(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(unpack(each) for each in value)
        if not isinstance(value, dict):
            return value
        if "n" in value:
            return nodes[value["n"]]
        if "d" in value:
            return dtype_named(value["d"])
        return Data(np.frombuffer(bytes(blobs[value["a"]]), numpy_dtype(value["dtype"])).reshape(value["shape"]))

    for kind, *fields in data["nodes"]:
        nodes.append(_made(getattr(expr, kind), [unpack(each) for each in fields]))
    return Program(
        name=data["name"],
        parameters=unpack(data["parameters"]),
        sizes=unpack(data["sizes"]),
        results=unpack(data["results"]),
        input_tree=data["input_tree"],
        output_tree=data["output_tree"],
        size_checks=tuple(
            SizeCheck(unpack(left), unpack(right), left_owner, right_owner, _unpacked_site(site))
            for left, right, left_owner, right_owner, site in data["checks"]
        ),
        order=unpack(data["order"]),
        names={nodes[number]: tuple(names) for number, names in data["names"]},
        kinds={nodes[number]: kind for number, kind in data["kinds"]},
        sites={nodes[number]: Site(*site) for number, site in data["sites"]},
        named_axes=frozenset(nodes[number] for number in data["named_axes"]),
        contract=data["contract"],
        complex_inputs=frozenset(data["complex"][0]),
        complex_outputs=frozenset(data["complex"][1]),
    )


def _made(kind: type[Node], fields: list[Any]) -> Node:
    """A node; variables and loop states get a serial number of this process."""
    if kind is Var:
        return fresh(fields[0], fields[1])
    if kind is Parameter and fields[3]:
        return fresh_parameter(fields[0], fields[1], fields[2])
    return kind(*fields)


def _packed_site(site: Site | None) -> list[Any] | None:
    return None if site is None else [site.file, site.line, site.text]


def _unpacked_site(site: list[Any] | None) -> Site | None:
    return None if site is None else Site(*site)
