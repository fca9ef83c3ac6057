"""Binds sizes to their values, from the shapes of the arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from raido.algo.errors import ArrayTooLarge, SizeMismatch, explain
from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar
from raido.algo.graph.limits import LARGEST_SIZE, limit_text
from raido.algo.graph.primitives import DIVISIONS, evaluate
from raido.algo.graph.program import Program
from raido.algo.graph.read_sizes import read_extent
from raido.algo.graph.rewrite import topological

EXACT: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "floormod": operator.mod,
    "minimum": min,
    "maximum": max,
}


def evaluate_size(size: Expr | int, sizes: Mapping[str, int]) -> int:
    """The value of a size expression, in unbounded arithmetic. Division by 0 gives 0: `require_divisors` has refused the user's divisions
    by zero, and the values of others are not used."""
    if isinstance(size, int):
        return size
    values: dict[Node, int] = {}
    for e in topological(size):
        if isinstance(e, Const):
            values[e] = int(e.value)
        elif isinstance(e, SizeVar):
            values[e] = sizes[e.name]
        elif isinstance(e, Op):
            args = [values[a] for a in e.args]
            if e.name in DIVISIONS and args[1] == 0:
                values[e] = 0
                continue
            exact = EXACT.get(e.name) if e.dtype is i64 else None
            if exact is not None:
                values[e] = exact(*args)
                continue
            values[e] = int(
                evaluate(e.name, e.dtype, [np.asarray(a, o.dtype.numpy) for a, o in zip(args, e.args, strict=True)])
            )
        else:
            raise TypeError(f"{index.text(size)} is not a size: it depends on {type(e).__name__}")
    return values[size]


def bind_sizes(
    program: Program, shapes: Sequence[tuple[int, ...]], given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Every size of the program, from the shapes of its arguments and the `rd.size` arguments. Raises `SizeMismatch` if they disagree,
    `ArrayTooLarge` for a size above `LARGEST_SIZE`."""
    sizes = {name: int(value) for name, value in (given or {}).items()}
    origin = {name: f'argument "{name}"' for name in sizes}
    pairs: list[tuple[Expr, int, str]] = []
    for parameter, shape in zip(program.parameters, shapes, strict=True):
        for dimension, (size, actual) in enumerate(zip(parameter.shape, shape, strict=True)):
            owner = f'dimension {dimension} of "{parameter.name}"'
            if isinstance(size, SizeVar) and size.name not in sizes:
                sizes[size.name], origin[size.name] = int(actual), owner
            else:
                pairs.append((size, int(actual), owner))
    for size, actual, owner in pairs:
        _solve(size, actual, owner, sizes, origin)
    for name, size in sizes.items():
        if size > LARGEST_SIZE:
            raise ArrayTooLarge(explain(limit_text([size]), why=f"{name} is {origin[name]}"))
    for size, actual, owner in pairs:
        expected = evaluate_size(size, sizes)
        if expected != actual:
            names = [e.name for e in topological(size) if isinstance(e, SizeVar)]
            why = "; ".join(f"{name} = {sizes[name]} is {origin[name]}" for name in dict.fromkeys(names))
            raise SizeMismatch(explain(f"{owner} is {actual}, not {index.text(size)} = {expected}", why=why or None))
    for check in program.size_checks:
        left, right = evaluate_size(check.left, sizes), evaluate_size(check.right, sizes)
        if left != right:
            sides = (check.left_owner, check.left, left), (check.right_owner, check.right, right)
            headline = ", ".join(f"{owner} is {read_extent(size, value)} = {value}" for owner, size, value in sides)
            if not check.left_owner:
                headline = f"{check.right_owner} is empty: {index.text(check.right)} = {right}"
            labelled = {"algorithm": None if check.site is None else str(check.site)}
            labelled["try"] = rank_remedy(check.left_owner, check.right_owner)
            raise SizeMismatch(explain(headline, **labelled))
    return sizes


def rank_remedy(*owners: str) -> str | None:
    """The remedy where one of two dimensions that must agree belongs to an array of lower rank; else None."""
    if not any(" (rank " in owner for owner in owners):
        return None
    return "a[:, None] for one number to each row; keepdims=True where a reduction along the last dimension gives it"


def _solve(size: Expr, actual: int, owner: str, sizes: dict[str, int], origin: dict[str, str]) -> None:
    """Solves `size` = `actual` for its one unknown name, if it is linear in it."""
    constant, terms = index.linear(index.canonical(size))
    unknown = [atom for atom in terms if any(isinstance(e, SizeVar) and e.name not in sizes for e in topological(atom))]
    if len(unknown) != 1 or not isinstance(unknown[0], SizeVar):
        return
    name, factor = unknown[0].name, terms[unknown[0]]
    rest = actual - constant - sum(c * evaluate_size(a, sizes) for a, c in terms.items() if a is not unknown[0])
    if rest % factor == 0 and rest // factor >= 0:
        sizes[name], origin[name] = rest // factor, owner
    else:
        raise SizeMismatch(explain(f"{owner} is {actual}, which {index.text(size)} cannot be"))
