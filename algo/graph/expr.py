"""The graph's node classes: every scalar, size, index and array is one small immutable node.

The origin of a node (names, source lines) is kept outside its identity, in the tables of a `Program`. Binders (`Loop`, `While`, `Reduce`,
`Generate`) own the variables they bind; every bound `Var` is fresh, so substitution never captures.

Scalars are `Const, SizeVar, Count, Var, Op, Load, Checked, Item` and, behind `Item`, the forms with several results `Cond, Loop, While,
Reduce`. While stages are formed, loops of scalars get states that are private arrays (`Private`), which are made by `Fill` and `Changed`,
and read by `Element`.

Arrays are `Parameter, Constant, Result`; a `Result` is one output of `Generate` ("at every index, this expression": map, elementwise,
tabulate, stencil, reduce and index moves alike), of `Scan, Update, Filter, Segmented, Sort`, whose elements depend on one another, or of
`ArrayLoop, ArrayWhile, ArrayCond` over whole arrays. A form inside the body of another may mention the outer one's axis variables: it is
then *open*. A size that data decides is a `Count`.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import DType, bf16, bool_, i64
from raido.algo.graph.narrow import convert
from raido.algo.graph.node import Node, Opaque, node

_serials = itertools.count(1)


@node
class Const(Node):
    """A literal. `bits` holds the integer value, or the IEEE bit pattern of a float, so that NaN and −0.0 keep their identity."""

    dtype: DType
    bits: int

    @property
    def value(self) -> Any:
        """The literal as a Python bool, int or float."""
        if self.dtype.is_float:
            bits, code = self.bits, {16: "He", 32: "If", 64: "Qd"}[self.dtype.bits]
            if self.dtype is bf16:
                bits, code = bits << 16, "If"
            return struct.unpack("<" + code[1], struct.pack("<" + code[0], bits))[0]
        return bool(self.bits) if self.dtype is bool_ else self.bits


@node
class SizeVar(Node):
    """A size by name: a non-negative i64."""

    name: str

    @property
    def dtype(self) -> DType:
        return i64


@node
class Count(Node):
    """A size that data decides: the value of an i64 array of rank 0, non-negative, at most `bound` (None: unknown)."""

    array: Array
    bound: Expr | None

    @property
    def dtype(self) -> DType:
        return i64


@node
class Var(Node):
    """A bound scalar variable: an axis index, a loop counter, a loop state, an operand of an operator."""

    name: str
    dtype: DType
    serial: int


@node
class Private(Var):
    """A bound variable for an array of constant shape: the state of a loop of scalars, in memory of its own for each element."""

    shape: tuple[Expr, ...]


@node
class Op(Node):
    """A primitive of `raido.algo.graph.primitives` applied to scalars."""

    name: str
    dtype: DType
    args: tuple[Expr, ...]


@node
class Load(Node):
    """An element of an array. `checked`: the indices come from the user and may be out of range."""

    array: Array
    indices: tuple[Expr, ...]
    checked: bool

    @property
    def dtype(self) -> DType:
        return self.array.dtype


@node
class Checked(Node):
    """`value`, if `holds`; else a fault of that kind ("size", "bounds", "negative", "offsets": the first three) with the numbers `details`."""

    value: Expr
    holds: Expr
    kind: str
    details: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@node
class Cond(Node):
    """Several results, evaluated in the chosen branch only."""

    predicate: Expr
    then: tuple[Expr, ...]
    orelse: tuple[Expr, ...]


@node
class Loop(Node):
    """`count` iterations; iteration `index` replaces `state`, initially `init`, by `body`. Results: the last state."""

    count: Expr
    index: Var
    state: tuple[Var, ...]
    init: tuple[Expr, ...]
    body: tuple[Expr, ...]


@node
class While(Node):
    """Replaces `state`, initially `init`, by `body` while `condition` holds. Results: the last state."""

    condition: Expr
    state: tuple[Var, ...]
    init: tuple[Expr, ...]
    body: tuple[Expr, ...]


@node
class Axis(Node):
    """An index variable with values 0 … extent − 1."""

    var: Var
    extent: Expr

    @property
    def name(self) -> str:
        return self.var.name


@node
class Reduce(Node):
    """A fold of `values` at every index of `axes` (first outermost) from `neutral`, by an associative operator.

    The operator maps the k-tuples `left` and `right` to `combine`. `monoid` is the primitive's name ("add", "minimum", …) where the
    operator is that single primitive on one value, else "". Results: k scalars.
    """

    axes: tuple[Axis, ...]
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    values: tuple[Expr, ...]
    commutative: bool
    monoid: str


@node
class Item(Node):
    """Result `index` of a form with several results."""

    form: Cond | Loop | While | Reduce
    index: int

    @property
    def dtype(self) -> DType:
        form = self.form
        if isinstance(form, Cond):
            return form.then[self.index].dtype
        if isinstance(form, Reduce):
            return form.left[self.index].dtype
        return form.state[self.index].dtype


@node
class Fill(Node):
    """A private array of constant shape, made for one element of a map: at every index of `axes`, the scalar `body`."""

    axes: tuple[Axis, ...]
    body: Expr

    @property
    def dtype(self) -> DType:
        return self.body.dtype


@node
class Changed(Node):
    """The private array `array` with elements replaced, in order: where `tests[k]` holds, the one at the k-th of `indices` by `values[k]`.
    `indices` holds those of all dimensions, change after change. All expressions see the array as it was."""

    array: Private | Item | Fill
    tests: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.array.dtype


@node
class Element(Node):
    """An element of a private array, at indices in range."""

    array: Private | Item | Fill
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.array.dtype


@node
class Parameter(Node):
    """An input array, or the state of a whole-array loop (with a non-zero `serial`; 0 for inputs). Rank 0 is a scalar."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    serial: int


@node
class Constant(Node):
    """An array known while tracing; its contents enter the program's identity."""

    data: Data
    dtype: DType
    shape: tuple[Expr, ...]


@node
class Generate(Node):
    """Arrays of shape `axes`: at every index, one scalar of `bodies` each."""

    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]


@node
class Scan(Node):
    """Prefixes along axis number `along`: element i combines `neutral` and the values at 0 … i (`exclusive`: 0 … i − 1), in order.

    The operator, associative, maps the k-tuples `left` and `right` to `combine`; `neutral` takes part, whatever it is. The other axes are
    mapped over: `combine` and `neutral` may mention their variables, `values` all. Results: k arrays of shape `axes`. `monoid` as in
    `Reduce`. Products are not contracted into the operator.
    """

    axes: tuple[Axis, ...]
    along: int
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    values: tuple[Expr, ...]
    exclusive: bool
    monoid: str


@node
class Update(Node):
    """The k arrays `dest`, of one shape, with elements replaced: at every index of `axes`, row-major, the one at `indices`.

    `indices` has an entry for each dimension of `dest` (rows appear as trailing axes). `mode` gives the element's new value: "set":
    `values`, the last one of several; "unique": `values`, promised to be the only one; "combine": `combine` of the old one (`left`) and
    `values` (`right`), associative and commutative with `neutral`; both may mention the variables of axes that are rows. An index out of
    range is a fault when `checked`; otherwise it is ignored. Results: k arrays of the shape of `dest`.
    """

    dest: tuple[Array, ...]
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    values: tuple[Expr, ...]
    mode: str
    checked: bool
    monoid: str


@node
class Filter(Node):
    """Along the first of `axes` (the others are rows), the `values` where `predicate` of the first axis holds, in order.

    Results: k arrays of shape (count, *rows), the last one the count, of rank 0 and i64. With `partition` the others follow, in
    order, and the shape is that of `axes`.
    """

    axes: tuple[Axis, ...]
    predicate: Expr
    values: tuple[Expr, ...]
    partition: bool


@node
class Segmented(Node):
    """A reduction or, with `scan`, an inclusive scan of each segment of the first of `axes` (the others are rows), from `neutral`.

    Segment s is offsets[s] … offsets[s + 1] − 1; the i64 array `offsets` is checked to lie in 0 … n and not to decrease. Results: k arrays
    of shape (segments, *rows), for a scan of shape `axes`; outside all segments a scan gives `neutral`. Operator, `neutral` and `values` as
    in `Scan`.
    """

    axes: tuple[Axis, ...]
    offsets: Array
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    values: tuple[Expr, ...]
    scan: bool
    monoid: str


@node
class Sort(Node):
    """`values` along axis number `along`, in increasing order of the first `keys` of them (the first decides first); stable.

    −0.0 equals 0.0, NaN comes last, as in NumPy. Results: k arrays of shape `axes`.
    """

    axes: tuple[Axis, ...]
    along: int
    keys: int
    values: tuple[Expr, ...]


@node
class ArrayLoop(Node):
    """`count` iterations over whole arrays: `state` (fresh parameters) starts as `init` and becomes `results`.

    A dimension that changes from iteration to iteration is the `Count` of a state of rank 0.
    """

    count: Expr
    index: Var
    state: tuple[Parameter, ...]
    init: tuple[Array, ...]
    results: tuple[Array, ...]


@node
class ArrayWhile(Node):
    """As `ArrayLoop`, while the scalar `condition` over the state holds."""

    condition: Expr
    state: tuple[Parameter, ...]
    init: tuple[Array, ...]
    results: tuple[Array, ...]


@node
class ArrayCond(Node):
    """Whole arrays from the chosen branch only. A dimension in which they differ is, in each branch, the `Count` of its result of rank 0."""

    predicate: Expr
    then: tuple[Array, ...]
    orelse: tuple[Array, ...]


@node
class Result(Node):
    """Array `index` of an array form."""

    form: ArrayForm
    index: int

    @property
    def dtype(self) -> DType:
        form = self.form
        if isinstance(form, Generate):
            return form.bodies[self.index].dtype
        if isinstance(form, ArrayCond):
            return form.then[self.index].dtype
        if isinstance(form, (Scan, Segmented)):
            return form.left[self.index].dtype
        if isinstance(form, Update):
            return form.dest[self.index].dtype
        if isinstance(form, (Filter, Sort)):
            return form.values[self.index].dtype if self.index < len(form.values) else i64
        return form.state[self.index].dtype

    @property
    def shape(self) -> tuple[Expr, ...]:
        form = self.form
        if isinstance(form, (Generate, Scan, Sort)):
            return tuple(axis.extent for axis in form.axes)
        if isinstance(form, ArrayCond):
            sides = zip(form.then[self.index].shape, form.orelse[self.index].shape, strict=True)
            return tuple(a if a is b else _after(form, form.then, a) for a, b in sides)
        if isinstance(form, Update):
            return form.dest[self.index].shape
        if isinstance(form, Filter):
            return _filtered_shape(form, self.index)
        if isinstance(form, Segmented):
            return _segmented_shape(form)
        return tuple(_after(form, form.state, extent) for extent in form.state[self.index].shape)


def result_count(form: ArrayForm) -> int:
    """The number of arrays that a form returns."""
    if isinstance(form, Generate):
        return len(form.bodies)
    if isinstance(form, ArrayCond):
        return len(form.then)
    if isinstance(form, Update):
        return len(form.dest)
    if isinstance(form, (ArrayLoop, ArrayWhile)):
        return len(form.state)
    return len(form.values) + isinstance(form, Filter)


def _filtered_shape(form: Filter, index: int) -> tuple[Expr, ...]:
    if index == len(form.values):
        return ()
    extents = tuple(axis.extent for axis in form.axes)
    if form.partition:
        return extents
    return (Count(Result(form, len(form.values)), extents[0]), *extents[1:])


def _segmented_shape(form: Segmented) -> tuple[Expr, ...]:
    extents = tuple(axis.extent for axis in form.axes)
    if form.scan:
        return extents
    from raido.algo.graph.index import sub

    return (sub(form.offsets.shape[0], 1), *extents[1:])


def _after(form: ArrayLoop | ArrayWhile | ArrayCond, own: tuple[Array, ...], extent: Expr) -> Expr:
    """The extent of a result: of a loop's last state, or of the chosen branch."""
    if isinstance(extent, Count) and extent.array in own:
        return Count(Result(form, own.index(extent.array)), None)
    return extent


Expr: TypeAlias = Const | SizeVar | Count | Var | Op | Load | Checked | Item | Element | Opaque
Array: TypeAlias = Parameter | Constant | Result
ArrayForm: TypeAlias = Generate | Scan | Update | Filter | Segmented | Sort | ArrayLoop | ArrayWhile | ArrayCond
ARRAY_FORMS = (Generate, Scan, Update, Filter, Segmented, Sort, ArrayLoop, ArrayWhile, ArrayCond)


def const(dtype: DType, value: Any) -> Const:
    """The literal `value` of that type; integers wrap to its width."""
    if dtype.is_float:
        with np.errstate(all="ignore"):
            array = np.asarray(value) if dtype is bf16 else np.asarray(value, dtype=dtype.numpy)
            array = convert(array, dtype.numpy)
        return Const(dtype, int(array.view(f"u{dtype.itemsize}")))
    if dtype is bool_:
        return Const(dtype, int(bool(value)))
    bits = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind == "i" and bits >> (dtype.bits - 1):
        bits -= 1 << dtype.bits
    return Const(dtype, bits)


def new_serial() -> int:
    """A serial number unique in this process."""
    return next(_serials)


def zeros(values: Iterable[Expr]) -> tuple[Expr, ...]:
    """A zero for each value, of its type."""
    return tuple(const(value.dtype, 0) for value in values)


def if_else(test: Expr, then: Iterable[Expr], orelse: Iterable[Expr]) -> tuple[Expr, ...]:
    """`then` where the test holds, else `orelse`; only the chosen one is evaluated."""
    form = Cond(test, tuple(then), tuple(orelse))
    return tuple(Item(form, k) for k in range(len(form.then)))


def conjunction(parts: Iterable[Expr]) -> Expr:
    """The conjunction of conditions, all of them evaluated; true if there are none."""
    total: Expr | None = None
    for part in parts:
        total = part if total is None else Op("logical_and", bool_, (total, part))
    return const(bool_, True) if total is None else total


def fresh(name: str, dtype: DType = i64) -> Var:
    """A fresh variable."""
    return Var(name, dtype, next(_serials))


def fresh_axes(shape: Iterable[Expr]) -> tuple[Axis, ...]:
    """A fresh axis for each extent."""
    return tuple(Axis(fresh("x"), extent) for extent in shape)


def axes_like(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Fresh axes with the names and extents of others."""
    return tuple(Axis(fresh(axis.name), axis.extent) for axis in axes)


def fresh_parameter(name: str, dtype: DType, shape: tuple[Expr, ...]) -> Parameter:
    """A fresh array name: the state of a whole-array loop."""
    return Parameter(name, dtype, shape, next(_serials))
