"""The traced value, `rd.Array`: an array or a scalar of the graph, with NumPy's operators.

Rank 0 values hold a scalar expression; others an array node. `weak` determines how the type yields in promotion: `STRONG` never; `COUNTER`
(sizes, loop counters, tabulate indices, and the indices computed from them) and `WEAK` (other values computed from weak values alone, in
bool_, i64 or f64) take a float operand's dtype; `LITERAL` also an integer operand's.

Operations for which Python needs a plain value raise `TraceError` with a remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from raido.algo.errors import TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Const, Constant, Count, Expr, Op, Parameter, Result, SizeVar
from raido.algo.graph.rewrite import topological
from raido.algo.trace.context import running
from raido.algo.trace.locations import complaint, user_site
from raido.algo.trace.methods import Methods
from raido.algo.trace.numpy_calls import call_function, call_ufunc
from raido.algo.trace.operators import Operators
from raido.algo.trace.remedies import rd_function, remedy_in, size_remedy
from raido.algo.trace.tracebacks import bordered
from raido.algo.trace.types import describe

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, Axis, DTypeLike
    from raido.algo.language.updates import At

STRONG, COUNTER, LITERAL, WEAK = 0, 1, 2, 3
_ARRAY_NODES = (Parameter, Constant, Result)


class Array(Methods, Operators):
    """An array or scalar inside an algorithm: NumPy's operators, indexing, and `.dtype .shape .ndim .size .T .mT .real .imag`.

    Methods are named after the functions that they call: `.sum() .mean() .min() .argmax() .clip() .round() .reshape() .ravel() .transpose()
    .astype() .take() .dot() …`; `.at[key].set(v)` returns an updated array, `.named("rows")` names the stage.

    Example:
        >>> import raido as rd
        >>> @rd.algorithm
        ... def brighter(img: rd.f32["h", "w"]):
        ...     return img * 1.5 + 0.1
    """

    __slots__ = ("__weakref__", "made_in", "node", "weak")

    def __init__(self, node: Any, weak: int = STRONG) -> None:
        self.node: Any = node
        self.weak = weak
        self.made_in = trace = running()
        if trace is not None and trace.note is not None:
            trace.note(self)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.dtype

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The shape as expressions of the graph."""
        return self.node.shape if isinstance(self.node, _ARRAY_NODES) else ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions: ints, and i64 scalars where they are not known while tracing; type checkers see ints."""
        return tuple(size_value(extent) for extent in self.extents)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.extents)

    @property
    def size(self) -> int:
        """The number of elements: an int, or an i64 scalar, as in `shape`."""
        total: Expr = index.as_index(1)
        for extent in self.extents:
            total = index.mul(total, extent)
        return size_value(total)

    @property
    def T(self) -> Array:
        """The array with its axes in reverse order."""
        return _moves().transpose(self)

    @property
    def real(self) -> Array:
        """The real part: this array itself."""
        return self

    @property
    def imag(self) -> Array:
        """The imaginary part: zeros."""
        from raido.algo.language import complex_functions

        return complex_functions.imag(self)

    def transpose(self, *axes: Any) -> Array:
        """Returns the array with its axes in the given order, by default reversed."""
        chosen = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return _moves().transpose(self, chosen or None)

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Returns the elements, in row-major order (column-major for `order="F"`), in another shape; one −1 is computed."""
        dims = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return _moves().reshape(self, dims, order)

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Array:
        """Returns the elements converted: floats to integers truncate and saturate, NaN becomes 0; `copy` has no effect."""
        return _moves().astype(self, dtype)

    def view(self, dtype: DTypeLike) -> Array:
        """Returns the bits of the elements reinterpreted as another type of the same width."""
        return _moves().view(self, dtype)

    def named(self, name: str) -> Array:
        """Returns this value as a stage of that name."""
        return _moves().named(self, name)

    @property
    def at(self) -> At:
        """The updates of this array: `a.at[i, j:k].set(v)` and `.add .multiply .min .max` return a new array."""
        from raido.algo.language import updates

        return updates.At(self)

    def sum(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
        """`rd.sum` of this array."""
        return rd_function("sum")(self, axis, dtype, **options)

    def prod(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
        """`rd.prod` of this array."""
        return rd_function("prod")(self, axis, dtype, **options)

    def min(self, axis: Axes = None, **options: Any) -> Array:
        """`rd.min` of this array."""
        return rd_function("min")(self, axis, **options)

    def max(self, axis: Axes = None, **options: Any) -> Array:
        """`rd.max` of this array."""
        return rd_function("max")(self, axis, **options)

    def any(self, axis: Axes = None, **options: Any) -> Array:
        """`rd.any` of this array."""
        return rd_function("any")(self, axis, **options)

    def all(self, axis: Axes = None, **options: Any) -> Array:
        """`rd.all` of this array."""
        return rd_function("all")(self, axis, **options)

    def mean(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
        """`rd.mean` of this array."""
        return rd_function("mean")(self, axis, dtype, **options)

    def argmin(self, axis: Axis = None, **options: Any) -> Array:
        """`rd.argmin` of this array."""
        return rd_function("argmin")(self, axis, **options)

    def argmax(self, axis: Axis = None, **options: Any) -> Array:
        """`rd.argmax` of this array."""
        return rd_function("argmax")(self, axis, **options)

    def clip(self, min: Any = None, max: Any = None, out: None = None) -> Array:
        """`rd.clip` of this array."""
        return rd_function("clip")(self, min, max, out)

    def round(self, decimals: int = 0, out: None = None) -> Array:
        """`rd.round` of this array."""
        return rd_function("round")(self, decimals, out)

    def __getitem__(self, key: Any) -> Array:
        from raido.algo.language import indexing

        return indexing.get_item(self, key)

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise TraceError(complaint("cannot iterate over a traced scalar"))
        count = index.constant_value(self.extents[0])
        if count is None:
            called = re.search(r"(?<![.\w])(sum|min|max|any|all|sorted)\(", user_site().text)
            form = f"rd.{'sort' if called.group(1) == 'sorted' else called.group(1)}(a), " if called else ""
            raise TraceError(
                complaint(
                    f"cannot iterate over {describe(self.dtype, self.extents)}: its size is not known while tracing",
                    remedy=f"{form}rd.map over its elements, rd.filter to keep some, or rd.loop with a[i]",
                )
            )
        return iter([self[i] for i in range(count)])

    def __len__(self) -> int:
        count = index.constant_value(self.extents[0]) if self.ndim else None
        if count is None:
            raise TraceError(complaint("`len()` of a traced value is not a plain int", remedy="a.shape[0]"))
        return count

    def __bool__(self) -> bool:
        if isinstance(self.node, Const) and self.weak == LITERAL:
            return bool(self.node.value)
        raise TraceError(_truth_complaint(self))

    def __contains__(self, item: Any) -> bool:
        raise TraceError(complaint("`in` on a traced value", remedy="rd.any(a == x)"))

    def __index__(self) -> int:
        _refuse_outside(self)
        if (text := _function_complaint(self, "math", "np", "numpy")) is not None:
            raise TraceError(text)
        raise TraceError(
            complaint(
                "a traced value where Python needs a plain int (`range`, an index of a list, …)",
                remedy="rd.loop(n, body, init) for a loop, rd.array(values)[i] for a table",
            )
        )

    def __int__(self) -> int:
        _refuse_outside(self)
        raise TraceError(_number_complaint(self, "int", "rd.i64(x)"))

    def __float__(self) -> float:
        _refuse_outside(self)
        raise TraceError(_number_complaint(self, "float", "rd.f64(x)"))

    def __complex__(self) -> complex:
        raise TraceError(_number_complaint(self, "complex", "rd.complex128(x)"))

    def __format__(self, specification: str) -> str:
        if not specification:
            return repr(self)
        why = "its value is known when the program runs, not while tracing"
        raise TraceError(
            complaint(
                f"the format {specification!r} of a traced value", why=why, remedy="return it, and format the result"
            )
        )

    def __round__(self, decimals: int = 0) -> Array:
        return self.round(decimals)

    if not TYPE_CHECKING:  # so that an assignment to an element is an error for type checkers, too

        def __setitem__(self, key: Any, value: Any) -> NoReturn:
            raise TraceError(complaint("arrays do not change", remedy="b = a.at[i].set(v)"))

        def __delitem__(self, key: Any) -> NoReturn:
            raise TraceError(complaint("arrays do not change", remedy="b = rd.delete(a, i)"))

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        from raido.algo.trace.libraries import library_complaint

        _refuse_outside(self)
        if (text := library_complaint() or _function_complaint(self, "np", "numpy")) is not None:
            raise TraceError(text)
        raise TraceError(
            complaint(
                "a traced value is not a NumPy array",
                remedy="rd.array(values)[i] where an array is indexed; else the function of rd of NumPy's name",
            )
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return call_function(function, args, options)

    def __repr__(self) -> str:
        return f"<traced {describe(self.dtype, self.extents)}>"


def _refuse_outside(value: Array) -> None:
    """Raises `TraceError` where Python or NumPy asks for a number outside of every algorithm."""
    if running() is None:
        why = "rd.array(values), rd.f32(x) and their like make values of algorithms, which have no numbers of Python's"
        remedy = "np.array(values) or np.float32(x) outside: algorithms take and contain NumPy's"
        if value.made_in is not None:
            why = f"it was made while {value.made_in.algorithm} was traced, and has no numbers"
            remedy = f"return it from {value.made_in.algorithm}: what a call gives is NumPy's"
        raise TraceError(complaint("a value of raido's outside of an algorithm", why=why, remedy=remedy))


def _refuse_assignment(name: str, remedy: str) -> None:
    """Replaces a property of `Array` by one whose assignment raises `TraceError` with the remedy."""
    found: property = vars(Array)[name]

    def assign(self: Array, value: Any) -> NoReturn:
        raise TraceError(complaint(f"arrays do not change: `.{name}` is assigned", remedy=remedy))

    setattr(Array, name, property(found.fget, assign, doc=found.__doc__))


for _name, _remedy in (
    ("shape", "b = a.reshape(shape)"),
    ("dtype", "b = a.astype(dtype), or a.view(dtype) of its bits"),
):
    _refuse_assignment(_name, _remedy)
bordered(Array, special=())


def size_value(extent: Expr) -> Any:
    """Returns a size as the user sees it: an int, or an i64 scalar."""
    known = index.constant_value(extent)
    return Array(extent, COUNTER) if known is None else known


def scalar(node: Expr, weak: int = STRONG) -> Array:
    """Returns a value of rank 0."""
    return Array(node, weak)


def computed(weak: int) -> int:
    """Returns the weakness of a value computed from values of the given weakness: it is no literal any more, which could be checked to fit
    a type."""
    return WEAK if weak == LITERAL else weak


def is_scalar(value: Array) -> bool:
    """Whether the value has rank 0."""
    return not isinstance(value.node, _ARRAY_NODES)


def is_of_sizes(value: Any) -> bool:
    """Whether a value is a size that is not known while tracing, or is computed from sizes, counters and literals alone."""
    return isinstance(value, Array) and value.weak in (COUNTER, WEAK)


def _function_complaint(value: Array, *modules: str) -> str | None:
    """Returns the error message where a function of the given modules, in the user's line, needs a plain number; None where there is none."""
    found = remedy_in(user_site().text, *modules)
    if found is None:
        return None
    special = size_remedy(found[0].rpartition(".")[2]) if is_of_sizes(value) else None
    return complaint(f"`{found[0]}` of {_kind(value)}", remedy=special or found[1])


def _number_complaint(value: Array, name: str, remedy: str) -> str:
    """Returns the error message for the conversion of a traced value to a Python number, which functions of `math` request."""
    special = size_remedy(name) if is_of_sizes(value) else None
    text = _function_complaint(value, "c?math")
    return text or complaint(f"`{name}()` of {_kind(value)}", remedy=special or remedy)


def _kind(value: Array) -> str:
    return "a size, which is known when the program runs" if is_of_sizes(value) else "a traced value"


def _truth_complaint(value: Array) -> str:
    line = user_site().text
    if re.search(r"(?<![.\w])(min|max)\(", line):
        found = re.search(r"(?<![.\w])(min|max)\(", line)
        name = found.group(1) if found else "min"
        return complaint(f"`{name}()` on a traced value", remedy=f"rd.{name}imum(a, b)")
    if re.search(r"(?<![.\w])(any|all)\(", line):
        return complaint("`any()` or `all()` on traced values", remedy="rd.any(a) or rd.all(a)")
    for word, form in (("and", "a & b, with each comparison in parentheses"), ("or", "a | b"), ("not", "~a")):
        if re.search(rf"(?<![.\w]){word}\b", line):
            return complaint(f"`{word}` on a traced value", remedy=form)
    if re.search(r"\bin\b", line) and not re.search(r"\bfor\b", line):
        return complaint("`in` on a traced value", remedy="rd.any(a == x)")
    if re.search(r"\bwhile\b", line):
        return complaint("`while` on a traced value", remedy="rd.while_loop(cond, body, init)")
    if re.search(r"[<>]=?[^<>=]+[<>]=?", line):
        return complaint("a chained comparison of traced values", remedy="(a < b) & (b < c)")
    if all(isinstance(node, (Const, Count, Op, SizeVar)) for node in topological(value.node)):
        return complaint(
            "`if` on a size, which is known when the program runs",
            remedy="rd.cond(n > 3, then, else_); a number in the type, f32[640]; or a keyword-only parameter, which is plain",
        )
    return complaint(
        "`if` on a traced value, which is not known while tracing",
        remedy="rd.where(p, a, b), or rd.cond(p, then, else_) to evaluate one branch only",
    )


def _moves() -> Any:
    from raido.algo.language import moves

    return moves
