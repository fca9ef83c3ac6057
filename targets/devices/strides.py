"""Largest strides of a launch's numbers and axes in index expressions, which limit the values for which 32-bit indices suffice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from raido.targets.devices import tir

Strides = Counter[Any]


def strides_of(function: Any) -> Strides:
    """For each parameter and each axis of a launch, the largest constant factor it has in any product, through names and sums."""
    known: dict[Any, Strides] = {parameter: Counter({parameter: 1}) for parameter in function.params}
    largest: Strides = Counter()
    for node in tir.walk(function.body):
        kind = tir.kind(node)
        if kind == "AttrStmt" and node.attr_key == "thread_extent":
            known[node.node.var] = Counter({node.node.var: 1})
        elif kind == "Bind":
            known[node.var] = _strides(node.value, known)
        elif kind == "For":
            known[node.loop_var] = _strides(node.min, known)
        elif kind == "Mul":
            largest |= _strides(node, known)
    return largest


def _strides(node: Any, known: dict[Any, Strides]) -> Strides:
    """Factors of the variables in an expression as a linear sum."""
    if node in known:
        return known[node]
    kind, found = tir.kind(node), Counter[Any]()
    if kind == "Cast":
        found = _strides(node.value, known)
    elif kind in ("Add", "Sub"):
        found = _strides(node.a, known) + _strides(node.b, known)
    elif kind in ("Min", "Max"):
        found = _strides(node.a, known) | _strides(node.b, known)
    elif kind == "Mul":
        for factor, other in ((node.a, node.b), (node.b, node.a)):
            if tir.kind(factor) == "IntImm":
                size = abs(int(factor.value))
                found = Counter({variable: size * each for variable, each in _strides(other, known).items() if size})
    elif kind == "Call" and tir.callee(node)[0] == "raido_within":
        found = _strides(tir.callee(node)[1][1], known)
    known[node] = found
    return found
