"""Solves the sizes of a call from the shapes of its arguments, and checks that dimensions agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from raido.algo.errors import ArgumentError, ArrayTooLarge, SizeMismatch, explain
from raido.algo.graph.limits import LARGEST_SIZE, limit_text
from raido.algo.graph.read_sizes import read_size
from raido.algo.trace.arguments import Placed
from raido.targets.signature import Signature, SizeExpr, evaluate_size, size_names, size_text, solve_size


def _read(size: SizeExpr, value: int) -> str:
    return size_text(size) if value == 0 else read_size(size)


def solve_sizes(
    signature: Signature, inputs: Sequence[np.ndarray | Placed], explicit: Mapping[str, int]
) -> dict[str, int]:
    """The value of every size by name: explicit ones, and those solved from the inputs' shapes. Raises `SizeMismatch` where shapes
    disagree, `ArrayTooLarge` above `LARGEST_SIZE`, `ArgumentError` where a size follows from no argument."""
    sizes = dict(explicit)
    owners = {name: f'argument "{name}"' for name in explicit}
    for value, array in zip(signature.inputs, inputs, strict=True):
        for k, size in enumerate(value.shape):
            if isinstance(size, str) and size not in sizes:
                sizes[size] = array.shape[k]
                owners[size] = f'"{value.name}" dimension {k}'
    for name, size in sizes.items():
        if size > LARGEST_SIZE:
            raise ArrayTooLarge(f"{signature.name}: {limit_text([size])}: {name} is {owners[name]}")
    _solve_formulas(signature, inputs, sizes, owners)
    for value, array in zip(signature.inputs, inputs, strict=True):
        for k, size in enumerate(value.shape):
            solved = solve_size(size, array.shape[k], sizes)
            sizes |= solved
            owners |= dict.fromkeys(solved, f'found from "{value.name}" dimension {k}')
    for value, array in zip(signature.inputs, inputs, strict=True):
        for k, size in enumerate(value.shape):
            if any(name not in sizes for name in size_names(size)):
                headline = f'{signature.name}: "{value.name}" has size {array.shape[k]} along dimension {k}'
                raise SizeMismatch(explain(f"{headline}, which {size_text(size)} cannot be", takes=str(value)))
            wanted = evaluate_size(size, sizes)
            if array.shape[k] != wanted:
                names = size_names(size)
                formula = size_text(size) + ("" if isinstance(size, int) else f" = {wanted}")
                raise SizeMismatch(
                    explain(
                        f'{signature.name}: "{value.name}" has size {array.shape[k]} along dimension {k}, '
                        f"which must be {formula}",
                        where=", ".join(f"{name} = {sizes[name]} is {owners[name]}" for name in names) or None,
                        takes=str(value),
                    )
                )
    for check in signature.checks:
        left, right = evaluate_size(check.left, sizes), evaluate_size(check.right, sizes)
        if left != right:
            from raido.algo.graph.bind_sizes import rank_remedy  # only in trouble

            site = signature.sites[check.site] if check.site >= 0 else None
            headline = (
                f"{check.left_owner} has size {left} ({_read(check.left, left)}), "
                f"{check.right_owner} has size {right} ({_read(check.right, right)}); they must agree"
            )
            if not check.left_owner:
                headline = f"{check.right_owner} is empty: {size_text(check.right)} = {right}"
            labelled = {"algorithm": f"{site.file}:{site.line}   {site.text}" if site else None}
            labelled["try"] = rank_remedy(check.left_owner, check.right_owner)
            if check.left_owner and 1 in (left, right):
                labelled["try"] = _to_broadcast(check.left_owner if left == 1 else check.right_owner)
            raise SizeMismatch(explain(f"{signature.name}: {headline}", **labelled))
    return sizes


def _to_broadcast(owner: str) -> str:
    """The remedy in the message for a dimension of size 1 that was meant to broadcast: only the literal 1 does."""
    if "another operand" not in owner:
        return "the literal 1 in the type of the parameter, where the dimension is to broadcast"
    return "a[:, 0, None] for the slice a[:, :1]: a dimension broadcasts where its size is the literal 1"


def _solve_formulas(
    signature: Signature, inputs: Sequence[np.ndarray | Placed], sizes: dict[str, int], owners: dict[str, str]
) -> None:
    """Solves size names that occur only inside expressions, as `n` in `n + 1`: repeatedly takes a dimension with one unknown name, in which
    it is linear, and adds the solution to `sizes`."""
    waiting = [
        (value, k, size, array.shape[k])
        for value, array in zip(signature.inputs, inputs, strict=True)
        for k, size in enumerate(value.shape)
    ]
    missing = set(signature.sizes) - sizes.keys()
    while missing:
        ready = next((row for row in waiting if len(missing.intersection(size_names(row[2]))) == 1), None)
        if ready is None:
            names = ", ".join(sorted(missing))
            raise ArgumentError(f"{signature.name}: the sizes {names} do not follow from the arguments")
        value, k, size, actual = ready
        (name,) = missing.intersection(size_names(size))
        start = evaluate_size(size, {**sizes, name: 0})
        slope = evaluate_size(size, {**sizes, name: 1}) - start
        solution = (actual - start) // slope if slope else -1
        if solution < 0 or evaluate_size(size, {**sizes, name: solution}) != actual:
            raise SizeMismatch(
                f'{signature.name}: "{value.name}" has size {actual} along dimension {k}, which {size_text(size)} cannot be'
            )
        sizes[name], owners[name] = solution, f'"{value.name}" dimension {k}'
        missing.discard(name)
