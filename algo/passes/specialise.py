"""`specialise(program, sizes)`: the same program for known sizes.

Every size variable in `sizes` becomes its value, in shapes, extents and bodies, so that compilation can use it. A size that is an argument
of its own (`rd.size`) stays a variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from raido.algo.errors import ShapeError
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Node, SizeVar, Sort, const
from raido.algo.graph.index import constant_value
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import transform


def specialise(program: Program, sizes: Mapping[str, int]) -> Program:
    """The program with these sizes fixed; raises `ShapeError` for an unknown name, or a value that is no non-negative int."""
    names = [size.name for size in program.sizes]
    for name, value in sizes.items():
        if name not in names:
            raise ShapeError(f'{program.name} has no size "{name}"; its sizes: {", ".join(names) or "none"}')
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ShapeError(f'size "{name}" must be an int, not {value!r}')
        if value < 0:
            raise ShapeError(f'size "{name}" must not be negative, not {value}')
    explicit = _size_arguments(program.input_tree)
    values = {name: int(value) for name, value in sizes.items() if name not in explicit}
    if not values:
        return program
    memo: dict[Node, Node] = {SizeVar(name): const(i64, value) for name, value in values.items()}
    fixed = lambda node: transform(node, lambda n: n, memo)
    return replace(
        program,
        parameters=tuple(fixed(p) for p in program.parameters),
        sizes=tuple(size for size in program.sizes if size.name not in values),
        results=tuple(fixed(r) for r in program.results),
        size_checks=tuple(replace(c, left=fixed(c.left), right=fixed(c.right)) for c in program.size_checks),
        order=tuple(fixed(form) for form in program.order),
        names={fixed(form): names for form, names in program.names.items()},
        kinds={fixed(form): kind for form, kind in program.kinds.items()},
        sites={fixed(node): site for node, site in program.sites.items()},
        known={**program.known, **values},
        sized_sorts=frozenset(fixed(form) for form in {*program.sized_sorts, *_sorts_of_sizes(program)}),
    )


def _sorts_of_sizes(program: Program) -> Iterator[Sort]:
    """Sorts along an axis whose extent is not constant."""
    for form in program.order:
        if isinstance(form, Sort) and constant_value(form.axes[form.along].extent) is None:
            yield form


def _size_arguments(tree: Any) -> set[str]:
    """Sizes that the caller passes as arguments."""
    if isinstance(tree, dict):
        if "size" in tree:
            return {tree["size"]}
        return set().union(*(_size_arguments(value) for value in tree.values()), set())
    if isinstance(tree, (list, tuple)):
        return set().union(*(_size_arguments(value) for value in tree), set())
    return set()
