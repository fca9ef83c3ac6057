"""Construction of scalar expressions: operands are converted to a common type, and one `Op` is made.

The values have rank 0. Arithmetic of counters and sizes uses `raido.algo.graph.index`, which keeps indices canonical; operations that may
fault (integer division, integer power) have the user's line recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from raido.algo.errors import DTypeError
from raido.algo.graph import index
from raido.algo.graph.dtypes import DType, bool_, f64, i8, i64, u64
from raido.algo.graph.expr import Const, Count, Expr, Generate, Load, Op, Result, SizeVar, const
from raido.algo.graph.limits import LARGEST_ARRAY, reach
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.rewrite import scalar_nodes
from raido.algo.graph.size_numbers import is_size, is_size_arithmetic
from raido.algo.trace.context import running
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import check_fits, common_type, float_type, float_type_for
from raido.algo.trace.value import COUNTER, LITERAL, STRONG, WEAK, Array, computed

_INDEX: dict[str, Callable[..., Expr]] = {
    "add": index.add,
    "sub": index.sub,
    "mul": index.mul,
    "minimum": index.minimum,
    "maximum": index.maximum,
    "neg": lambda a: index.mul(a, -1),
}
LARGE = (
    1 << 32
)  # bound on the product of factors of counters and sizes, which are below 2**31 wherever such a factor occurs


def cast(value: Array, dtype: DType) -> Expr:
    """Returns the expression converted to a type; literals are converted exactly."""
    if value.weak == LITERAL:
        value = Array(_literal_of(value.node), LITERAL)
    check_fits(value, dtype)
    node = value.node
    if node.dtype is dtype:
        return node
    if isinstance(node, Const):
        if value.weak == LITERAL or not node.dtype.is_float or dtype.is_float:
            literal = node.value
            if dtype.is_float and isinstance(literal, int) and abs(literal) > 1 << 1000:
                literal = math.inf
            if not (node.dtype.is_float and dtype.is_integer):
                return const(dtype, literal)
        folded = evaluate("cast", dtype, [node.dtype.numpy.type(node.value)])
        return const(dtype, folded[()])
    return Op("cast", dtype, (node,))


def _literal_of(node: Expr) -> Expr:
    """Returns the literal where the expression is an element of an array filled with one literal; other expressions unchanged."""
    if not isinstance(node, Load) or node.checked or not isinstance(node.array, Result):
        return node
    form, trace = node.array.form, running()
    if not isinstance(form, Generate) or (trace is not None and form in trace.names):
        return node
    body = form.bodies[node.array.index]
    return body if isinstance(body, Const) else node


def without_bools(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Returns the operands of an operation that NumPy lacks on bool_: as i8 where all are bool_, else unchanged."""
    return tuple(Array(cast(v, i8), v.weak) for v in values) if common_type(values)[0] is bool_ else values


def operands(values: tuple[Array, ...]) -> tuple[list[Expr], DType, int]:
    """Returns the operands converted to their common type, that type and its weakness."""
    dtype, weak = common_type(values)
    return [cast(v, dtype) for v in values], dtype, weak


def _folded(name: str, dtype: DType, args: list[Expr], weak: int) -> Array | None:
    """Returns the value of an operation on literals, computed while tracing; None for other operands."""
    if weak != LITERAL or not all(isinstance(a, Const) for a in args):
        return None
    result = evaluate(name, dtype, [a.dtype.numpy.type(a.value) for a in args])  # type: ignore[union-attr]
    return Array(const(dtype, result[()]), LITERAL)


def arithmetic(name: str, *values: Array) -> Array:
    """Returns a primitive whose operands and result have one type."""
    args, dtype, weak = operands(values)
    if dtype is i64 and weak == COUNTER and name in _INDEX:
        return Array(_counted(name, args), COUNTER)
    if dtype is bool_ and name in _ON_BOOL:
        name = _ON_BOOL[name]
    if dtype is bool_ and name in ("sub", "neg", "positive", "sign"):
        sign = {"positive": "+", "sign": "rd.sign"}.get(name, "-")
        raise DTypeError(complaint(f"`{sign}` on bool_", remedy="a ^ b, ~a, or a.astype(rd.i8)"))
    if name == "positive":
        return Array(args[0], weak)
    if dtype.is_float and name.startswith(("bit_", "sh")):
        raise DTypeError(complaint(f"a bit operation on {dtype}", remedy=_remedy_for_bits(name, dtype, values)))
    known = _folded(name, dtype, args, weak)
    return Array(Op(name, dtype, tuple(args)), weak) if known is None else known


def _remedy_for_bits(name: str, dtype: DType, values: tuple[Array, ...]) -> str:
    """Returns the remedy for a bit operation on floats: a comparison or parentheses around one, or the bits of the float."""
    if any(value.dtype is bool_ for value in values):
        return "x != 0 for the float, and each comparison in parentheses: (a < b) & (b < c)"
    truth = "x == 0 for `not x`, " if name == "bit_not" else ""
    return f"{truth}x.view(rd.i{dtype.bits}) for the bits of a float"


def _counted(name: str, args: list[Expr]) -> Expr:
    """Returns arithmetic of counters and sizes as an index expression; where it may wrap, as u64 arithmetic, which is no index any more."""
    made = _INDEX[name](*args)
    constant, terms = index.linear(made)
    wraps = abs(constant) >= 1 << 62 or sum(map(abs, terms.values())) >= LARGE
    if name in ("minimum", "maximum") or not (wraps or any(_has_wrapped(a) for a in args)):
        trace = running()
        if name == "mul" and trace is not None and is_size_arithmetic(made) and reach(made) > LARGEST_ARRAY:
            trace.site(made)
        return made
    unsigned = [const(u64, a.bits % (1 << 64)) if isinstance(a, Const) else Op("cast", u64, (a,)) for a in args]
    return Op("cast", i64, (Op(name, u64, tuple(unsigned)),))


def has_wrapped_sizes(e: Expr) -> bool:
    """Whether a number is computed from sizes alone, with factors so large that it may have wrapped."""
    nodes = scalar_nodes(e)
    return _has_wrapped(e) and all(isinstance(node, (Const, SizeVar, Count, Op)) for node in nodes)


def _has_wrapped(e: Expr) -> bool:
    return any(isinstance(node, Op) and node.dtype is u64 for node in scalar_nodes(e))


_ON_BOOL = {
    "add": "logical_or",
    "mul": "logical_and",
    "bit_and": "logical_and",
    "bit_or": "logical_or",
    "bit_xor": "logical_xor",
    "bit_not": "logical_not",
    "minimum": "logical_and",
    "maximum": "logical_or",
}


def division(name: str, a: Array, b: Array) -> Array:
    """Returns `floordiv`, `floormod`, `truncdiv` or `truncrem`; the user's line is recorded where the divisor may be zero."""
    args, dtype, weak = operands(without_bools((a, b)))
    divisor = index.constant_value(args[1]) if dtype.is_integer else None
    if dtype is i64 and weak == COUNTER and divisor and divisor > 0:
        if name == "floordiv":
            return Array(index.floordiv(*args), COUNTER)
        if name == "floormod":
            return Array(index.mod(*args), COUNTER)
    if name == "truncrem" and dtype.is_float:
        name = "fmod"
    if not (dtype.is_integer and divisor == 0):
        known = _folded(name, dtype, args, weak)
        if known is not None:
            return known
    node = Op(name, dtype, tuple(args))
    trace = running()
    if dtype.is_integer and not divisor and trace is not None:
        trace.site(node)
    return Array(node, weak)


def true_division(a: Array, b: Array) -> Array:
    """Returns `a / b`: in f64 for integers."""
    dtype, weak = common_type((a, b))
    if not dtype.is_float:
        dtype, weak = f64, (WEAK if weak == COUNTER else weak)
    args = [cast(a, dtype), cast(b, dtype)]
    known = _folded("div", dtype, args, weak)
    return Array(Op("div", dtype, tuple(args)), weak) if known is None else known


def comparison(name: str, a: Array, b: Array) -> Array:
    """Returns a comparison, of type bool_."""
    args, _, weak = operands((a, b))
    known = _folded(name, bool_, args, weak)
    return Array(Op(name, bool_, tuple(args)), _truth_weakness(weak)) if known is None else known


def _truth_weakness(weak: int) -> int:
    """Returns the weakness of a truth value computed from values of the given weakness."""
    return STRONG if weak == STRONG else WEAK


def math_function(name: str, *values: Array) -> Array:
    """Returns a float function; integers are converted to NumPy's float type for them."""
    dtype, weak = float_type(values)
    args = [cast(v, dtype) for v in values]
    weak = WEAK if weak == COUNTER else weak
    known = _folded(name, dtype, args, weak)
    return Array(Op(name, dtype, tuple(args)), weak) if known is None else known


def rounding(name: str, value: Array) -> Array:
    """Returns floor, ceil or trunc; integers are returned unchanged."""
    if not value.dtype.is_float:
        return value
    return math_function(name, value)


def predicate(name: str, value: Array) -> Array:
    """Returns isnan or a similar predicate, of type bool_."""
    args = [cast(value, float_type_for(value.dtype, value.weak))]
    known = _folded(name, bool_, args, value.weak)
    return Array(Op(name, bool_, tuple(args)), _truth_weakness(value.weak)) if known is None else known


def shift(name: str, a: Array, b: Array) -> Array:
    """Returns a shift, in the left operand's type."""
    left = a
    if a.weak == LITERAL and b.weak != LITERAL:
        left = Array(cast(a, b.dtype), b.weak)
    if not left.dtype.is_integer or not (b.dtype.is_integer or b.dtype is bool_):
        raise DTypeError(complaint(f"a shift of {left.dtype} by {b.dtype}: both must be integers"))
    return arithmetic_same(name, left, b)


def arithmetic_same(name: str, a: Array, b: Array) -> Array:
    """Returns a shift in the type of `a`; counts too large for that type still shift out all bits."""
    count = b.node
    if b.dtype is not a.dtype:
        if isinstance(count, Const):
            value = int(count.value)
            count = const(a.dtype, value if 0 <= value < a.dtype.bits else a.dtype.bits)
        elif b.dtype.bits > a.dtype.bits or b.dtype.kind != a.dtype.kind:
            top = const(b.dtype, min(a.dtype.bits, 64))
            beyond = Op(
                "logical_or", bool_, (Op("lt", bool_, (count, const(b.dtype, 0))), Op("gt", bool_, (count, top)))
            )
            count = Op("cast", a.dtype, (Op("select", b.dtype, (beyond, top, count)),))
        else:
            count = Op("cast", a.dtype, (count,))
    node = Op(name, a.dtype, (a.node, count))
    weak = STRONG if STRONG in (a.weak, b.weak) and a.weak != LITERAL else a.weak
    return Array(node, WEAK if weak == COUNTER else weak)


def select(condition: Array, a: Array, b: Array) -> Array:
    """Returns `a` where the condition holds, else `b`; both are evaluated."""
    args, dtype, weak = operands((a, b))
    literal = weak == LITERAL and condition.weak == LITERAL
    weak = computed(weak)
    test = truth(condition).node
    if literal and isinstance(test, Const):
        return Array(args[0] if test.value else args[1], LITERAL)
    if args[0] is args[1]:
        return Array(args[0], weak)
    return Array(Op("select", dtype, (test, *args)), weak)


def truth(value: Array) -> Array:
    """Returns the value as bool_: whether it is not zero."""
    if value.dtype is bool_:
        return value
    if isinstance(value.node, Const):
        return Array(const(bool_, value.node.value != 0), value.weak)
    return Array(Op("ne", bool_, (value.node, const(value.dtype, 0))), _truth_weakness(value.weak))


def logical(name: str, *values: Array) -> Array:
    """Returns logical_and or a similar operation on truth values."""
    if all(v.weak == LITERAL for v in values):
        known = _folded(name, bool_, [truth(v).node for v in values], LITERAL)
        if known is not None:
            return known
    weak = STRONG if any(v.weak == STRONG for v in values) else WEAK
    return Array(Op(name, bool_, tuple(truth(v).node for v in values)), weak)


_CHAINED = (
    3,
    4,
)  # exponents by two products: errors below 2 ulp, where `pow` has 1.1 with some sixty operations


def power(a: Array, b: Array) -> Array:
    """Returns `a ** b`: small literal exponents by multiplication and sqrt (2 and 0.5 with NumPy's bits), integers by `ipow`, and sizes by
    multiplication, which is checked for overflow."""
    a, b = without_bools((a, b))
    dtype, weak = common_type((a, b))
    exponent = b.node.value if isinstance(b.node, Const) and b.weak == LITERAL else None
    if exponent == 2:
        base = Array(cast(a, dtype), weak)
        return arithmetic("mul", base, base)
    if exponent == 1:
        return Array(cast(a, dtype), weak)
    if (
        weak == COUNTER
        and type(exponent) is int
        and 0 < exponent < 64
        and not isinstance(a.node, Const)
        and is_size(a.node)
    ):
        total = a
        for _ in range(exponent - 1):
            total = arithmetic("mul", total, a)
        return total
    if dtype.is_float:
        if (
            exponent in _CHAINED and dtype.bits >= 32
        ):  # narrower dtypes would round each product, while `pow` computes in f32
            base = Array(cast(a, dtype), weak)
            squared = arithmetic("mul", base, base)
            return arithmetic("mul", squared, base if exponent == 3 else squared)
        if exponent == 0.5:
            return math_function("sqrt", Array(cast(a, dtype), weak))
        if exponent == -1:
            return true_division(Array(const(dtype, 1), weak), Array(cast(a, dtype), weak))
        return math_function("pow", a, b)
    if isinstance(exponent, int) and exponent < 0:
        raise DTypeError(complaint("an integer to a negative power", remedy="x.astype(rd.f64) ** -1"))
    args, dtype, weak = operands((a, b))
    if exponent is not None:
        known = _folded("ipow", dtype, args, weak)
        if known is not None:
            return known
    node = Op("ipow", dtype, tuple(args))
    trace = running()
    if dtype.kind == "i" and exponent is None and trace is not None:
        trace.site(node)
    return Array(node, WEAK if weak == COUNTER else weak)
