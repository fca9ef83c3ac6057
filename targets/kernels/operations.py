"""Primitive operations in kernels: TIR's own operator where that means the same, else the call of an operation by its name.

Calls are expanded by each back end (`algo/recipes`), except where TIR does not say all that matters: bf16, which TIR knows as u16, and
divisions by numbers that are known. Their recipes are written here, as far down as native operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import DType, bf16, bool_, i64, u16
from raido.algo.graph.expr import Const, Op
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.recipes.native import is_native
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import INDEX_OPERATIONS, Term, fold_known, index_operation, is_plain_index, tir
from raido.targets.kernels.literals import literal
from raido.targets.kernels.unit import Unit, operation

if TYPE_CHECKING:
    from raido.targets.kernels.values import Values

_ARITHMETIC = {"add": T.Add, "sub": T.Sub, "mul": T.Mul}
_COMPARISONS = {"lt": T.LT, "le": T.LE, "gt": T.GT, "ge": T.GE, "eq": T.EQ}
_BY_CONSTANT = (*DIVISIONS, "wrap_index", "shl", "shr")


def emit_operation(values: Values, e: Op, plain: dict[Any, bool]) -> Term:
    """A primitive operation as TIR."""
    unit = values.unit
    terms = [values.memo[a] for a in e.args]
    if (folded := fold_known(e.name, terms)) is not None:
        return folded
    if e.name == "select" and isinstance(terms[0], bool):
        return terms[1] if terms[0] else terms[2]
    types = [a.dtype for a in e.args]
    args = [tir(t, of) for t, of in zip(terms, types, strict=True)]
    if e.dtype is i64 and e.name in INDEX_OPERATIONS and is_plain_index(e, unit.index_like, plain):
        return index_operation(e.name, terms, args)
    divisor = e.args[-1]
    if e.name in _BY_CONSTANT and types[0].is_integer and isinstance(divisor, Const):
        return _by_constant(unit, e.name, e.dtype, types[0], args[0], int(divisor.bits), divisor.dtype)
    if bf16 in (e.dtype, *types):
        return _expanded(unit, e.name, e.dtype, list(zip(types, args, strict=True)))
    return _written(e.name, e.dtype, types, args)


def _written(name: str, dtype: DType, types: list[DType], args: list[Any]) -> Any:
    """An operation by TIR's operator or by its name."""
    first = types[0]
    if is_native(name, dtype, types):
        if name in _ARITHMETIC:
            return _ARITHMETIC[name](*args)
        if name in _COMPARISONS:
            return _COMPARISONS[name](*args)
    if name == "cast" and first is dtype:
        return args[0]
    return operation(name, dtype, *args)


def _by_constant(unit: Unit, name: str, dtype: DType, of: DType, x: Any, divisor: int, by: DType) -> Any:
    """Quotient, remainder or shift by a known number; powers of two need no division."""
    power = divisor.bit_length() - 1 if divisor > 0 and divisor & (divisor - 1) == 0 else -1
    constant = lambda number: literal(of, number % (1 << of.bits) if of.kind == "u" else number)
    if power >= 0 and (name == "floordiv" or (name == "truncdiv" and of.kind == "u")):
        return operation("shift_right", of, x, constant(power)) if power else x
    if power >= 0 and (name in ("floormod", "mod", "wrap_index") or (name == "truncrem" and of.kind == "u")):
        return operation("bit_and", of, x, constant(divisor - 1))
    return _expanded(unit, name, dtype, [(of, x), (by, None)], {1: divisor})


def _expanded(
    unit: Unit, name: str, dtype: DType, operands: list[tuple[DType, Any]], known: dict[int, int] | None = None
) -> Any:
    """An operation from its recipe, down to native operations and to primitives of other types than bf16."""
    from raido.algo.recipes.builder import Value

    builder = _Builder(unit)
    given = []
    for k, (of, x) in enumerate(operands):
        if known and k in known:
            number = of.numpy.type(known[k])
            given.append(Value(builder, of, builder.constant(of, number), number))
        else:
            given.append(Value(builder, of, (of, unit.bind("x", of, x))))
    return _build(builder, name, dtype, given)[1]


def _build(builder: _Builder, name: str, dtype: DType, given: list[Any]) -> tuple[DType, Any]:
    from raido.algo.recipes import build_recipe

    types = [value.dtype for value in given]
    if is_native(name, dtype, types):
        return builder.operation(name, dtype, *(value.raw for value in given))
    return build_recipe(name, dtype, *given).raw


class _Builder:
    """`raido.algo.recipes.builder.Builder` over the statements of a kernel; every value has a name."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def constant(self, dtype: DType, value: Any) -> tuple[DType, Any]:
        from raido.algo.graph.expr import const

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
