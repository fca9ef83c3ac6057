"""Primitive operations in kernels: TIR's own operator where it has the same meaning, else a call of the operation by name.

Back ends expand these calls (`algo/recipes`), except those on bf16, which is u16 in TIR: their recipes are expanded here, down to native
operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import DType, bf16, bool_, i64, u16
from raido.algo.graph.expr import Op, const
from raido.algo.graph.primitives import evaluate
from raido.algo.recipes.native import is_native
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import INDEX_OPERATIONS, Term, fold_known, index_operation, tir
from raido.targets.kernels.literals import known_term, literal
from raido.targets.kernels.unit import Unit, operation

if TYPE_CHECKING:
    from raido.targets.kernels.values import Values

_ARITHMETIC = {"add": T.Add, "sub": T.Sub, "mul": T.Mul, "minimum": T.Min, "maximum": T.Max}
_COMPARISONS = {"lt": T.LT, "le": T.LE, "gt": T.GT, "ge": T.GE, "eq": T.EQ}


def emit_operation(values: Values, e: Op) -> Term:
    """A primitive operation as TIR."""
    unit = values.unit
    terms = [values.memo[a] for a in e.args]
    if (folded := fold_known(e.name, terms)) is not None:
        return folded
    if e.name == "select" and isinstance(terms[0], bool):
        return terms[1] if terms[0] else terms[2]
    types = [a.dtype for a in e.args]
    if all(isinstance(t, int) for t in terms):
        number = evaluate(e.name, e.dtype, [of.numpy.type(t) for of, t in zip(types, terms, strict=True)])
        return known_term(const(e.dtype, number[()]))
    if e.dtype is i64 and e.name in INDEX_OPERATIONS:
        return index_operation(e.name, terms, 1)
    args = [tir(t, of) for t, of in zip(terms, types, strict=True)]
    if bf16 in (e.dtype, *types):
        return _expanded(unit, e.name, e.dtype, list(zip(types, args, strict=True)))
    return _written(e.name, e.dtype, types, args)


def _written(name: str, dtype: DType, types: list[DType], args: list[Any]) -> Any:
    """An operation as TIR's operator, or as a call by name."""
    first = types[0]
    if is_native(name, dtype, types):
        if name in _ARITHMETIC:
            return _ARITHMETIC[name](*args)
        if name in _COMPARISONS:
            return _COMPARISONS[name](*args)
    if name == "cast" and first is dtype:
        return args[0]
    return operation(name, dtype, *args)


def _expanded(unit: Unit, name: str, dtype: DType, operands: list[tuple[DType, Any]]) -> Any:
    """An operation expanded by its recipe, down to native operations and to primitives of types other than bf16."""
    from raido.algo.recipes.builder import Value

    builder = _Builder(unit)
    return _build(builder, name, dtype, [Value(builder, of, (of, unit.bind("x", of, x))) for of, x in operands])[1]


def _build(builder: _Builder, name: str, dtype: DType, given: list[Any]) -> tuple[DType, Any]:
    from raido.algo.recipes import build_recipe

    types = [value.dtype for value in given]
    if is_native(name, dtype, types):
        return builder.operation(name, dtype, *(value.raw for value in given))
    return build_recipe(name, dtype, *given).raw


class _Builder:
    """`raido.algo.recipes.builder.Builder` over the statements of a kernel; every value is bound to a name."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def constant(self, dtype: DType, value: Any) -> tuple[DType, Any]:
        return dtype, literal(dtype, const(dtype, value).bits)

    def operation(self, name: str, dtype: DType, *args: tuple[DType, Any]) -> tuple[DType, Any]:
        from raido.algo.recipes.builder import Value

        types, operands = [of for of, _ in args], [x for _, x in args]
        if name == "bitcast" and {dtype, *types} == {bf16, u16}:
            return dtype, operands[0]
        if bf16 in (dtype, *types) and not is_native(name, dtype, types):
            return _build(self, name, dtype, [Value(self, of, (of, x)) for of, x in args])
        return dtype, self.unit.bind("y", dtype, _written(name, dtype, types, operands))

    def rare(
        self, condition: tuple[DType, Any], usual: tuple[DType, Any], unusual: Callable[[], tuple[DType, Any]]
    ) -> tuple[DType, Any]:
        dtype, value = usual
        return dtype, operation("select", dtype, tir(condition[1], bool_), unusual()[1], value)
