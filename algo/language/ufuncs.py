"""NumPy's universal functions under `rd`, on scalars and, element by element with broadcasting, on arrays.

Names, argument order and result types are NumPy's, with the promotion of the contract; `rd.fma`, `rd.rsqrt`, `rd.erf`, `rd.erfc`, `rd.clz`,
`rd.ctz` and `rd.popcount` have no NumPy counterpart of that name. Operators on traced values use these functions too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, overload

import numpy as np

from raido.algo.errors import DTypeError, TraceError
from raido.algo.graph.dtypes import DType, bool_, computed_in, f64, i64, u8, u64, unsigned
from raido.algo.graph.expr import Op, const
from raido.algo.language.complexes import Complex, complex_constant, is_complex
from raido.algo.trace import scalars
from raido.algo.trace.building import Zipped, elementwise
from raido.algo.trace.dtype_reading import read_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import float_type, lift
from raido.algo.trace.remedies import method_remedies, rd_form
from raido.algo.trace.tracebacks import border
from raido.algo.trace.trees import map_leaves
from raido.algo.trace.value import STRONG, Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Binary, DTypeLike, Ternary, Unary

OPERATOR_OF_UFUNC: dict[str, Callable[..., Any]] = {}
Function = Callable[..., Any]
One: TypeAlias = Callable[[Any], Any]
Two: TypeAlias = Callable[[Any, Any], Any]
Three: TypeAlias = Callable[[Any, Any, Any], Any]


def is_operand(value: Any) -> bool:
    """Whether a value may be an operand beside a traced one."""
    return isinstance(
        value, (Array, Complex, bool, int, float, complex, np.ndarray, np.generic, list, dict, set, str, bytes)
    )


@overload
def _define(name: str, function: One, doc: str, *aliases: str) -> Unary: ...
@overload
def _define(name: str, function: Two, doc: str, *aliases: str) -> Binary: ...
@overload
def _define(name: str, function: Three, doc: str, *aliases: str) -> Ternary: ...
def _define(name: str, function: Function, doc: str, *aliases: str) -> Any:
    """Returns a function on scalars as a public one on scalars and arrays; on constants alone it also works outside of algorithms."""
    parameters = _PARAMETERS.get(name) or _NUMBERED[len(inspect.signature(function).parameters)]
    is_numpys = isinstance(getattr(np, name, None), np.ufunc)

    def ufunc(*values: Any, out: Any = None, where: Any = True, dtype: Any = None, name: str | None = None) -> Any:
        if out is not None or where is not True:
            refuse_out(out, ufunc.__name__, where)
        if len(values) != len(parameters):
            raise TraceError(_arity_complaint(ufunc.__name__, parameters, len(values)))
        if dtype is not None:
            return computed_as(dtype, ufunc, values, name=name)
        if any(is_complex(v) for v in values):
            from raido.algo.language.complex_functions import function_of

            return elementwise(function_of(ufunc.__name__), values, name=name)
        if any(isinstance(v, (tuple, Zipped)) for v in values):
            raise TraceError(complaint(f"a tuple in rd.{ufunc.__name__}", remedy="apply it to the parts"))
        if name is None:
            lifted = [lift(v) for v in values]
            if all(v.ndim == 0 for v in lifted):
                return function(*lifted)
            return elementwise(function, lifted)
        return elementwise(function, values, name=name)

    ufunc.__name__ = ufunc.__qualname__ = name
    ufunc.__doc__ = doc
    ufunc.__signature__ = _signature(parameters, is_numpys)
    ufunc.primitive = function
    if is_numpys and len(parameters) == 2:
        for method in method_remedies(name):
            setattr(ufunc, method, _refused_method(name, method))
    for alias in (name, *aliases):
        OPERATOR_OF_UFUNC[alias] = ufunc
    return ufunc


def _refused_method(name: str, method: str) -> Function:
    """Returns a method of NumPy's universal functions of two operands that raises `TraceError`, with raido's form as the remedy."""

    @border
    def refuse(*_: Any, **__: Any) -> NoReturn:
        remedy = method_remedies(name)[method]
        raise TraceError(complaint(f"rd.{name}.{method}: functions have no methods", remedy=remedy))

    return refuse


_NUMBERED = {1: ("x",), 2: ("x1", "x2"), 3: ("x1", "x2", "x3")}
_PARAMETERS = {"where": ("condition", "x", "y")}
OPTIONS = {"out": None, "where": True, "dtype": None}  # of a ufunc, with their defaults


def _signature(names: Sequence[str], is_numpys: bool) -> inspect.Signature:
    """Returns NumPy's signature of a ufunc, operands by position and its options, and the name of the stage."""
    kinds = inspect.Parameter
    options = [kinds(own, kinds.KEYWORD_ONLY, default=default) for own, default in OPTIONS.items()]
    named = kinds("name", kinds.KEYWORD_ONLY, default=None, annotation="str | None")
    operands = [kinds(own, kinds.POSITIONAL_ONLY, annotation=Any) for own in names]
    return inspect.Signature([*operands, *(options if is_numpys else ()), named])


def refuse_out(out: Any, name: str, where: Any = True) -> None:
    """Raises `TraceError` for an `out` that is not None, and for a mask `where`, which would leave elements of `out` unchanged."""
    if where is not True:
        remedy = f"rd.where(mask, rd.{name}(…), otherwise)"
        why = "the elements of no array stay where the mask does not hold: arrays are values, which do not change"
        raise TraceError(complaint(f"`where=` of rd.{name}", why=why, remedy=remedy))
    if out is not None:
        why = "arrays inside an algorithm are values, which do not change"
        remedy = "the result itself; memory is given to the whole program, exe(a, out=b)"
        raise TraceError(complaint(f"`out=` of rd.{name}", why=why, remedy=remedy))


def computed_as(dtype: DTypeLike, function: Function, values: Sequence[Any], **options: Any) -> Any:
    """The result of `function` on operands converted to `dtype`, which is the dtype of the result, too.

    Raises `DTypeError` for an operand of a higher kind (a float for an integer dtype), or where the result has another dtype.
    """
    from raido.algo.language.moves import astype

    kind, what = read_dtype(dtype), f"rd.{function.__name__}"
    given = [complex_constant(v) if is_complex(v) else lift(v) for v in values]
    for value in given:
        if value.weak == STRONG and _rank(value.dtype) > _rank(kind):
            text = f"`dtype={kind}` of {what}, an operand of which is {value.dtype}"
            raise DTypeError(complaint(text, remedy=f".astype(rd.{kind}) on the operand"))
    result = function(*(astype(value, kind) for value in given), **options)
    for part in result if type(result) is tuple else (result,):
        if part.dtype is not kind:
            raise DTypeError(complaint(f"`dtype={kind}` of {what}, which gives {part.dtype}", remedy="no `dtype`"))
    return result


def _rank(dtype: Any) -> int:
    return "buif".index(dtype.kind) if isinstance(dtype, DType) else len("buif")


def _arity_complaint(name: str, parameters: Sequence[str], given: int) -> str:
    takes = f"{len(parameters)} value{'s' if len(parameters) > 1 else ''}, ({', '.join(parameters)})"
    remedy = "rd.where(condition, x, y)" if name == "where" else None
    if remedy and rd_form("nonzero"):
        remedy += ", or rd.nonzero(condition) for the indices"
    return complaint(f"rd.{name} takes {takes}, not {given}", remedy=remedy)


def _two(build: Function, primitive: str) -> Two:
    return lambda a, b: build(primitive, a, b)


def _one(build: Function, primitive: str) -> One:
    return lambda a: build(primitive, a)


_m, _a, _c, _d = scalars.math_function, scalars.arithmetic, scalars.comparison, scalars.division

add = _define("add", _two(_a, "add"), "a + b; on bool_, `or`.")
subtract = _define("subtract", _two(_a, "sub"), "a - b.")
multiply = _define("multiply", _two(_a, "mul"), "a * b; on bool_, `and`.")
divide = _define("divide", scalars.true_division, "a / b; f64 for integers.", "true_divide")
floor_divide = _define("floor_divide", _two(_d, "floordiv"), "a // b, rounded down.")
remainder = _define("remainder", _two(_d, "floormod"), "a % b, with b's sign.", "mod")
trunc_divide = _define("trunc_divide", _two(_d, "truncdiv"), "a / b rounded towards zero, C's division.")
fmod = _define("fmod", _two(_d, "truncrem"), "The remainder of C's division, with a's sign.")
power = _define("power", scalars.power, "a ** b.", "pow")
negative = _define("negative", _one(_a, "neg"), "-a.")
positive = _define("positive", lambda a: scalars.arithmetic("positive", a), "+a.")
minimum = _define("minimum", _two(_a, "minimum"), "The smaller of two; NaN if either is.")
maximum = _define("maximum", _two(_a, "maximum"), "The larger of two; NaN if either is.")
sign = _define("sign", _one(_a, "sign"), "-1, 0 or 1; of a complex number z, z / |z|.")
copysign = _define("copysign", _two(_m, "copysign"), "The size of a with the sign of b.")
less = _define("less", _two(_c, "lt"), "a < b.")
less_equal = _define("less_equal", _two(_c, "le"), "a <= b.")
greater = _define("greater", _two(_c, "gt"), "a > b.")
greater_equal = _define("greater_equal", _two(_c, "ge"), "a >= b.")
equal = _define("equal", _two(_c, "eq"), "a == b.")
not_equal = _define("not_equal", _two(_c, "ne"), "a != b.")
bitwise_and = _define("bitwise_and", _two(_a, "bit_and"), "a & b.")
bitwise_or = _define("bitwise_or", _two(_a, "bit_or"), "a | b.")
bitwise_xor = _define("bitwise_xor", _two(_a, "bit_xor"), "a ^ b.")
invert = _define("invert", _one(_a, "bit_not"), "~a; on bool_, `not`.", "bitwise_not", "bitwise_invert")
left_shift = _define("left_shift", _two(scalars.shift, "shl"), "a << b, in a's type.", "bitwise_left_shift")
right_shift = _define("right_shift", _two(scalars.shift, "shr"), "a >> b, in a's type.", "bitwise_right_shift")
_l = scalars.logical
logical_and = _define("logical_and", lambda a, b: _l("logical_and", a, b), "Both are not zero.")
logical_or = _define("logical_or", lambda a, b: _l("logical_or", a, b), "One is not zero.")
logical_xor = _define("logical_xor", lambda a, b: _l("logical_xor", a, b), "Exactly one is not zero.")
logical_not = _define("logical_not", lambda a: _l("logical_not", a), "It is zero.")
isnan = _define("isnan", _one(scalars.predicate, "isnan"), "Whether it is NaN.")
isinf = _define("isinf", _one(scalars.predicate, "isinf"), "Whether it is infinite.")
isfinite = _define("isfinite", _one(scalars.predicate, "isfinite"), "Whether it is neither infinite nor NaN.")
signbit = _define("signbit", _one(scalars.predicate, "signbit"), "Whether the sign is minus, -0.0 included.")
floor = _define("floor", _one(scalars.rounding, "floor"), "Rounded down.")
ceil = _define("ceil", _one(scalars.rounding, "ceil"), "Rounded up.")
trunc = _define("trunc", _one(scalars.rounding, "trunc"), "Rounded towards zero.")
rint = _define("rint", _one(_m, "rint"), "Rounded to the nearest, ties to even; of a float type.")
sqrt = _define("sqrt", _one(_m, "sqrt"), "The square root, correctly rounded.")
rsqrt = _define("rsqrt", _one(_m, "rsqrt"), "1 / sqrt(a).")
cbrt = _define("cbrt", _one(_m, "cbrt"), "The cube root.")
exp = _define("exp", _one(_m, "exp"), "e ** a.")
exp2 = _define("exp2", _one(_m, "exp2"), "2 ** a.")
expm1 = _define("expm1", _one(_m, "expm1"), "exp(a) - 1, exact near 0.")
log = _define("log", _one(_m, "log"), "The natural logarithm.")
log2 = _define("log2", _one(_m, "log2"), "The logarithm to base 2.")
log10 = _define("log10", _one(_m, "log10"), "The logarithm to base 10.")
log1p = _define("log1p", _one(_m, "log1p"), "log(1 + a), exact near 0.")
sin = _define("sin", _one(_m, "sin"), "The sine of an angle in radians.")
cos = _define("cos", _one(_m, "cos"), "The cosine of an angle in radians.")
tan = _define("tan", _one(_m, "tan"), "The tangent of an angle in radians.")
arcsin = _define("arcsin", _one(_m, "asin"), "The inverse sine, in radians.", "asin")
arccos = _define("arccos", _one(_m, "acos"), "The inverse cosine, in radians.", "acos")
arctan = _define("arctan", _one(_m, "atan"), "The inverse tangent, in radians.", "atan")
arctan2 = _define("arctan2", _two(_m, "atan2"), "The angle of the point (b, a), in radians.", "atan2")
sinh = _define("sinh", _one(_m, "sinh"), "The hyperbolic sine.")
cosh = _define("cosh", _one(_m, "cosh"), "The hyperbolic cosine.")
tanh = _define("tanh", _one(_m, "tanh"), "The hyperbolic tangent.")
arcsinh = _define("arcsinh", _one(_m, "asinh"), "The inverse hyperbolic sine.", "asinh")
arccosh = _define("arccosh", _one(_m, "acosh"), "The inverse hyperbolic cosine.", "acosh")
arctanh = _define("arctanh", _one(_m, "atanh"), "The inverse hyperbolic tangent.", "atanh")
erf = _define("erf", _one(_m, "erf"), "The error function.")
erfc = _define("erfc", _one(_m, "erfc"), "1 - erf(a), exact for large a.")
hypot = _define("hypot", _two(_m, "hypot"), "sqrt(a*a + b*b) without overflow.")
fma = _define("fma", lambda a, b, c: _m("fma", a, b, c), "a * b + c, rounded once.")
where = _define("where", scalars.select, "x where the condition holds, else y; both are evaluated, checks included.")


def _absolute(a: Array) -> Array:
    return a if a.dtype is bool_ or a.dtype.kind == "u" else scalars.arithmetic("abs", a)


def _fabs(a: Array) -> Array:
    return scalars.arithmetic("abs", Array(scalars.cast(a, scalars.float_type_for(a.dtype, a.weak)), a.weak))


def _fmin(name: str) -> Two:
    def pick(a: Array, b: Array) -> Array:
        args, dtype, weak = scalars.operands((a, b))
        x, y = (Array(arg, weak) for arg in args)
        least = scalars.arithmetic(name, x, y)
        if not dtype.is_float:
            return least
        return scalars.select(scalars.predicate("isnan", x), y, scalars.select(scalars.predicate("isnan", y), x, least))

    return pick


def _square(a: Array) -> Array:
    (a,) = scalars.without_bools((a,))
    return scalars.arithmetic("mul", a, a)


def _reciprocal(a: Array) -> Array:
    (a,) = scalars.without_bools((a,))
    one = Array(const(a.dtype, 1), a.weak)
    return scalars.true_division(one, a) if a.dtype.is_float else scalars.division("truncdiv", one, a)


def _scaled(numerator: float, denominator: float) -> One:
    """Returns a multiplication by a quotient that is computed in the type (f16 and bf16 in f32), to match NumPy's to the last bit."""

    def scale(a: Array) -> Array:
        dtype = scalars.float_type_for(a.dtype, a.weak)
        inside = computed_in(dtype)
        factor = inside.numpy.type(numerator) / inside.numpy.type(denominator)
        scaled = scalars.arithmetic("mul", Array(scalars.cast(a, inside), a.weak), Array(const(inside, factor), a.weak))
        return Array(scalars.cast(scaled, dtype), a.weak)

    return scale


def _counting(primitive: str, result: DType | None) -> One:
    def count(a: Array) -> Array:
        if primitive == "popcount":
            (a,) = scalars.without_bools((a,))
        if not a.dtype.is_integer:
            raise DTypeError(complaint(f"counting the bits of {a.dtype}", remedy="x.view(rd.u32) for those of a float"))
        node = a.node
        if primitive == "popcount" and a.dtype.kind == "i":
            node = Op("bitcast", unsigned(a.dtype.bits), (Op("abs", a.dtype, (node,)),))
        return Array(Op(primitive, result or a.dtype, (node,)))

    return count


def _logaddexp(a: Array, b: Array) -> Array:
    high = scalars.arithmetic("maximum", *_floats(a, b))
    low = scalars.arithmetic("minimum", *_floats(a, b))
    gap = scalars.arithmetic("sub", low, high)
    total = scalars.arithmetic("add", high, _m("log1p", _m("exp", gap)))
    return scalars.select(
        scalars.comparison("eq", low, high), scalars.arithmetic("add", high, lift(math.log(2.0))), total
    )


def _floats(*values: Array) -> list[Array]:
    dtype, weak = float_type(values)
    return [Array(scalars.cast(v, dtype), weak) for v in values]


absolute = _define("absolute", _absolute, "The absolute value.", "abs")
abs = absolute
fabs = _define("fabs", _fabs, "The absolute value, of a float type.")
fmin = _define("fmin", _fmin("minimum"), "The smaller of two; a NaN gives way to the other.")
fmax = _define("fmax", _fmin("maximum"), "The larger of two; a NaN gives way to the other.")
square = _define("square", _square, "a * a.")
reciprocal = _define("reciprocal", _reciprocal, "1 / a.")
radians = _define("radians", _scaled(math.pi, 180.0), "Degrees in radians.", "deg2rad")
degrees = _define("degrees", _scaled(180.0, math.pi), "Radians in degrees.", "rad2deg")
bitwise_count = _define("bitwise_count", _counting("popcount", u8), "The ones in |a|, as u8.", "popcount")
popcount = bitwise_count
clz = _define("clz", _counting("clz", None), "The zeros above the highest one.")
ctz = _define("ctz", _counting("ctz", None), "The zeros below the lowest one.")
logaddexp = _define("logaddexp", _logaddexp, "log(exp(a) + exp(b)) without overflow.")
true_divide, mod, deg2rad, rad2deg = divide, remainder, radians, degrees
asin, acos, atan, atan2, asinh, acosh, atanh = arcsin, arccos, arctan, arctan2, arcsinh, arccosh, arctanh
pow, bitwise_not, bitwise_invert = power, invert, invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: None = None,
    *,
    min: Any = None,
    max: Any = None,
    name: str | None = None,
) -> Array:
    """Limits elements to a range: `minimum(maximum(a, a_min), a_max)`; a bound that is None is left out.

    Shapes broadcast; the type is the common one. The bounds may also be called `min` and `max`.
    """
    refuse_out(out, "clip")
    low, high = a_min if min is None else min, a_max if max is None else max
    if any(is_complex(v) for v in (a, low, high)):
        from raido.algo.language.complex_functions import function_of

        function_of("clip")  # refuses
    if low is not None:
        a = maximum(a, low, name=name if high is None else None)
    return a if high is None else minimum(a, high, name=name)


def round(a: Any, decimals: int = 0, out: None = None, *, name: str | None = None) -> Array:
    """The elements rounded to that many decimals, ties to even (as in NumPy: scaled, `rint`, scaled back)."""
    refuse_out(out, "round")
    if is_complex(a):
        parts = map_leaves(lambda part: round(part, decimals), complex_constant(a))
        return parts if name is None else parts.named(name)
    given = lift(a)
    whole = given.dtype.is_integer
    if whole and decimals >= 0:
        return positive(given, name=name)
    if decimals == 0:
        return rint(given, name=name)
    if given.dtype is bool_:
        raise DTypeError(complaint("rd.round of bool_ to decimals", remedy="x.astype(rd.i8)"))
    if whole:  # in f64 and back; beyond the type it wraps, as in NumPy
        rounded = round(given.astype(f64), decimals).astype(given.dtype if given.dtype is u64 else i64)
        return elementwise(lambda v: Array(scalars.cast(v, given.dtype)), [rounded], name=name)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return divide(rint(multiply(a, scale)), scale, name=name)
    return multiply(rint(divide(a, scale)), scale, name=name)


around = round


def _matmul(a: Any, b: Any, *, name: str | None = None) -> Any:
    from raido.algo.language.reductions import matmul

    return matmul(a, b, name=name)


OPERATOR_OF_UFUNC["matmul"] = _matmul
__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "ctz",
    "deg2rad",
    "degrees",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "floor_divide",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "popcount",
    "positive",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "rsqrt",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "trunc_divide",
    "where",
]
