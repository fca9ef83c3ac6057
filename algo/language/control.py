"""`loop`, `while_loop` and `cond`: in functions of elements (each element has its own control flow) and over whole arrays.

The state is any nesting of tuples; its types may not change, except that a weak value in `init` takes the type that the body gives it. With
scalar state the loop is an expression. So it is in a function of elements where the state has rows of few elements, which become scalars; a
short one of constant length and without branches is unrolled. State that holds other arrays, or a body that makes arrays from its state,
becomes a loop of stages (`ArrayLoop` …). A dimension that an iteration may change has a size that depends on data, in every iteration and
after the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

from raido.algo.errors import DTypeError, ShapeError, TraceError, explain
from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Cond,
    Count,
    Expr,
    Generate,
    Item,
    Loop,
    Parameter,
    Result,
    SizeVar,
    Var,
    While,
    fresh,
    fresh_parameter,
)
from raido.algo.graph.expr import (
    Array as Node,
)
from raido.algo.graph.rewrite import free_variables, topological
from raido.algo.language.complexes import Complex, as_complex, fitted, of_one_type
from raido.algo.language.moves import moved
from raido.algo.trace.building import (
    Number,
    Part,
    Several,
    Single,
    Tuples,
    Value,
    check_result,
    collect,
    make_axes,
    nesting_text,
    new_form,
    structure,
    wrap,
)
from raido.algo.trace.calling import run
from raido.algo.trace.context import Trace, current, load
from raido.algo.trace.existential import count_from, counted, next_size, size_from
from raido.algo.trace.locations import complaint, user_site
from raido.algo.trace.origins import type_origin
from raido.algo.trace.promotion import common_type, is_above, takes
from raido.algo.trace.remedies import ROUNDED_SIZE
from raido.algo.trace.scalars import cast, truth
from raido.algo.trace.small_rows import MOST, indices_of, loop_written_out, row_of, scalars_of, small_shape
from raido.algo.trace.trees import leaves, rebuild_tuple, same_nesting, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import COUNTER, LITERAL, STRONG, WEAK, Array, is_of_sizes, is_scalar
from raido.algo.trace.weak import strengthened
from raido.algo.trace.whole_numbers import checked_count


@overload
def loop(n: Any, body: Callable[[Any, Several], Several], init: Tuples, *, name: str | None = None) -> Several: ...
@overload
def loop(n: Any, body: Callable[[Any, Array], Array | Number], init: Single, *, name: str | None = None) -> Array: ...
def loop(n: Any, body: Callable[[Any, Any], Any], init: Any, *, name: str | None = None) -> Any:
    """Returns the state after n iterations of `state = body(i, state)`, i = 0 … n − 1, from `init`.

    The state is a scalar, an array, a record or a tuple of these. `body` takes it as one argument and returns one of the same structure,
    dtypes and ranks; sizes may change from iteration to iteration. Literals in `init` take the type that the body gives them. A value of
    every iteration is kept by writing it into an array of the state: `out.at[i].set(v)`. Raises `TraceError` where `body` takes other
    arguments or returns another structure, `DTypeError` and `ShapeError` where it changes a dtype or a rank.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def powers(x: rd.f32["n"]):
        ...     return rd.map(lambda v: rd.loop(3, lambda i, p: p * v, rd.f32(1)), x)
        >>> powers.interpret(np.float32([2, 3]))
        array([ 8., 27.], dtype=float32)
        >>> @rd.algorithm
        ... def fibonacci(n: rd.size):
        ...     def step(i, state):
        ...         (a, b), out = state
        ...         return (b, a + b), out.at[i].set(a)
        ...     return rd.loop(n, step, ((0, 1), rd.zeros(n, int)))[1]
        >>> fibonacci.interpret(7)
        array([0, 1, 1, 2, 3, 5, 8])
    """
    if isinstance(n, range):
        remedy = "rd.loop(n, body, init), i = 0 … n - 1; rd.fori_loop(lower, upper, body, init) for other bounds"
        raise TraceError(complaint(f"rd.loop(n, ...): n must be an integer, got {n!r}", remedy=remedy))
    count = structure(n)
    if isinstance(count, tuple) or count.ndim or not count.dtype.is_integer:
        remedy = ROUNDED_SIZE if is_of_sizes(count) else "rd.i64(n) of a float"
        raise TraceError(complaint(f"rd.loop(n, ...): n must be an integer, got {nesting_text(count)}", remedy=remedy))
    iterations = checked_count(count)
    iterate = lambda i, state: run(body, i, state, form="body(i, state)")
    return _Iteration("loop", init, body, iterate, None, iterations, name).value()


@overload
def while_loop(
    condition: Callable[[Several], Any], body: Callable[[Several], Several], init: Tuples, *, name: str | None = None
) -> Several: ...
@overload
def while_loop(
    condition: Callable[[Array], Any], body: Callable[[Array], Array | Number], init: Single, *, name: str | None = None
) -> Array: ...
def while_loop(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, *, name: str | None = None
) -> Any:
    """Returns the first state for which `condition(state)` does not hold, `state = body(state)` from `init`.

    The state is as in `rd.loop`; `condition` returns one bool. Raises `TraceError`, `DTypeError` and `ShapeError` as `rd.loop` does.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def halvings(x: rd.i64["n"]):
        ...     return rd.map(lambda v: rd.while_loop(lambda s: s[0] > 1, lambda s: (s[0] // 2, s[1] + 1), (v, 0))[1], x)
        >>> halvings.interpret(np.array([1, 8, 9]))
        array([0, 3, 3])
    """
    iterations = lambda _, state: run(body, state, form="body(state)")
    return _Iteration("while", init, body, iterations, condition, None, name).value()


class _BecomesComplex(Exception):
    """Raised where a weak value of the state meets a complex number in the body: the loop is traced again, from the complex `init`."""

    def __init__(self, init: Any) -> None:
        super().__init__()
        self.init = init


def _complex_where(init: Any, value: Any) -> Any:
    """Returns `init` with its weak values made complex where `value` is complex; None where there are none."""
    if isinstance(value, Complex):
        becomes = isinstance(init, Array) and init.weak != STRONG
        return as_complex(init) if becomes else None
    if (
        not isinstance(init, tuple)
        or not isinstance(value, tuple)
        or isinstance(init, Complex)
        or len(init) != len(value)
    ):
        return None
    parts = [_complex_where(own, after) for own, after in zip(init, value, strict=True)]
    if all(part is None for part in parts):
        return None
    return rebuild_tuple(init, [own if part is None else part for own, part in zip(init, parts, strict=True)])


class _Iteration:
    """The tracing of one loop, repeated until the types of its state are stable."""

    def __init__(
        self,
        kind: str,
        init: Any,
        written: Callable[..., Any],
        body: Callable[[Any, Any], Any],
        condition: Callable[[Any], Any] | None,
        count: Expr | None,
        name: str | None,
    ) -> None:
        self.kind, self.body, self.condition, self.count, self.name = kind, body, condition, count, name
        self.written = written  # the body as the user gave it
        self.trace: Trace = current()
        self._start(structure(init))

    def _start(self, init: Any) -> None:
        self.init = init
        self.flat: list[Array] = leaves(self.init)
        self.dtypes = [leaf.dtype for leaf in self.flat]
        self.open = [leaf.weak != STRONG for leaf in self.flat]
        self.changing: dict[tuple[int, int], int] = {}
        if not self.flat:
            raise TraceError(complaint("the state of a loop is empty"))

    def value(self) -> Any:
        """Returns the state after the loop; a weak initial value that becomes complex in an iteration is complex from the start."""
        tables = self.trace.snapshot()
        try:
            return self._attempts()
        except _BecomesComplex as found:
            self.trace.restore(tables)
            self._start(found.init)
            return self.value()

    def _attempts(self) -> Any:
        scalars = all(leaf.ndim == 0 for leaf in self.flat)
        if scalars or (self.trace.depth and self._fits_registers()):
            tables, dtypes, open_state = self.trace.snapshot(), list(self.dtypes), list(self.open)
            found = self._settle(self._as_scalars if scalars else self._in_registers)
            if found is not None:
                return found
            self.trace.restore(tables)
            self.dtypes, self.open = dtypes, open_state
        return self._settle(self._over_arrays)

    def _fits_registers(self) -> bool:
        """Whether the arrays of the state consist of few enough scalars to be kept in registers."""
        shapes = [small_shape(leaf.extents) for leaf in self.flat]
        known = [math.prod(shape) for shape in shapes if shape is not None]
        return len(known) == len(shapes) and sum(known) <= 2 * MOST  # half of them in use at a time

    def _settle(self, attempt: Callable[[], Any]) -> Any:
        """Repeats `attempt` until the types of weak state and the set of changing sizes are stable, and returns its last result."""
        for _ in range(4 + 2 * len(self.flat)):
            tables = self.trace.snapshot()
            before = list(self.dtypes), dict(self.changing)
            found = attempt()
            if (self.dtypes, self.changing) == before:
                return found
            self.trace.restore(tables)
        raise DTypeError(complaint("the types of the loop's state never settle", remedy="rd.f32(…) in `init`"))

    def _counter(self) -> Var:
        var = fresh("t" if self.trace.depth == 0 else "k")
        if self.count is not None:
            self.trace.range(var, self.count)
        return var

    def _state_value(self, position: int, node: Any) -> Array:
        weak = LITERAL if self.flat[position].weak == LITERAL else WEAK
        return Array(node, weak if self.open[position] else STRONG)

    def _weakness(self) -> int:
        """Returns the weakness of the state after the loop: strong where any of its parts is strong."""
        return WEAK if all(self.open) else STRONG

    def _run(self, counter: Var, state: Any) -> tuple[list[Array], Expr | None]:
        """Traces one iteration; returns the leaves of the next state, and the condition's expression, None without a condition."""
        self.latest = counter, state
        test: Expr | None = None
        if self.condition is not None:
            given = check_result(run(self.condition, state, form="condition(state)"))
            if isinstance(given, tuple) or given.ndim or given.dtype is not bool_:
                raise TraceError(
                    complaint(
                        f"the condition of rd.while_loop must return one bool, not {_type_of(given)}",
                        remedy="rd.any or rd.all of an array; rd.map with a loop inside where every element goes its own way",
                    )
                )
            test = truth(given).node
        value = check_result(self.body(Array(counter, COUNTER), state))
        complex_init = _complex_where(self.init, value)
        if complex_init is not None:
            raise _BecomesComplex(complex_init)
        value = fitted(value, self.init, "the loop's state after an iteration")
        if not same_nesting(value, self.init):
            came, wanted = nesting_text(value), nesting_text(self.init)
            remedy = f"a body that returns {wanted}, or an `init` like {came}"
            raise TraceError(
                complaint(f"the loop's body returns another structure than `init`: {came}, not {wanted}", remedy=remedy)
            )
        return leaves(value), test

    def _next_state(self, results: list[Array]) -> list[Array]:
        """Returns the results, weak ones converted to the state's types; the types of weak state follow their results."""
        settled: list[Array] = []
        for k, result in enumerate(results):
            dtype = self.dtypes[k]
            if result.weak != STRONG and self.open[k] and is_above(result.dtype, dtype):
                self.dtypes[k] = result.dtype
            elif result.weak != STRONG and takes(result, dtype):
                settled.append(strengthened(result, dtype))
                continue
            elif result.weak == STRONG and self.open[k] and not is_above(self.flat[k].dtype, result.dtype):
                self.dtypes[k], self.open[k] = result.dtype, False
            elif result.dtype is not dtype:
                raise DTypeError(self._changed_type(k, dtype, result))
            settled.append(result)
        return settled

    def _changed_type(self, position: int, dtype: DType, result: Array) -> str:
        """Returns the message for a body that changes the type of the state, with the line in which the new type arose."""
        origin = type_origin(lambda: self._run(*self.latest)[0][position])
        labelled: dict[str, str | None] = {
            "algorithm": str(user_site()),
            "why": None if origin is None else f"{result.dtype} arises in {origin}",
            "try": f"`.astype(rd.{dtype})` in the body, or rd.{result.dtype}(…) in `init`",
        }
        return explain(f"the loop's state is {dtype}, its body returns {result.dtype}", **labelled)

    def _as_scalars(self) -> Any:
        """Returns the loop as an expression; None where its body makes arrays from its state, or types are not stable yet."""
        counter = self._counter()
        state = tuple(fresh(f"s{k}", dtype) for k, dtype in enumerate(self.dtypes))
        given = unflatten(self.init, [self._state_value(k, var) for k, var in enumerate(state)])
        results, test = self._run(counter, given)
        if any(result.ndim for result in results):
            remedy = "rd.sum(v), v[0] … in the body for one number; rd.full(n, 0.0) in `init` for an array"
            raise ShapeError(complaint("the loop's state is a scalar, its body returns an array", remedy=remedy))
        before = list(self.dtypes)
        results = self._next_state(results)
        if self.dtypes != before:
            return None  # types changed: another attempt follows
        if self._makes_arrays([result.node for result in results], test, (counter, *state)):
            return None
        init = tuple(cast(leaf, dtype) for leaf, dtype in zip(self.flat, self.dtypes, strict=True))
        form = self._scalar_form(counter, state, init, tuple(result.node for result in results), test)
        items = [Array(Item(form, k), self._weakness()) for k in range(len(state))]
        value = unflatten(self.init, items)
        if self.trace.depth and self.name is None:
            return value
        return collect((), value, self.kind, self.name)

    def _scalar_form(
        self, counter: Var, state: tuple[Var, ...], init: tuple[Expr, ...], body: tuple[Expr, ...], test: Expr | None
    ) -> Loop | While:
        if test is not None:
            form = While(test, state, init, body)
            self.trace.site(form)
            return form
        assert self.count is not None
        return Loop(self.count, counter, state, init, body)

    def _makes_arrays(self, results: Sequence[Expr], test: Expr | None, variables: tuple[Var, ...]) -> bool:
        """Whether an iteration needs arrays of its own; in a function of elements a `Generate` needs none, as it is an expression at every
        index."""
        own = frozenset(variables)
        made = tuple(form for form in ARRAY_FORMS if form is not Generate or self.trace.depth == 0)
        nodes = topological(*results, *([test] if test is not None else []))
        return any(isinstance(n, Result) and isinstance(n.form, made) and free_variables(n) & own for n in nodes)

    def _in_registers(self) -> Any:
        """Returns the loop as an expression in which every element of its arrays is a scalar; None where arrays remain, or types are not
        stable yet."""
        counter = self._counter()
        shapes = [small_shape(leaf.extents) or () for leaf in self.flat]
        groups = [
            tuple(fresh(f"s{k}", dtype) for _ in indices_of(shape))
            for k, (shape, dtype) in enumerate(zip(shapes, self.dtypes, strict=True))
        ]
        rows = [row_of(group, shape).node for group, shape in zip(groups, shapes, strict=True)]
        results, test = self._run(counter, unflatten(self.init, [self._state_value(k, r) for k, r in enumerate(rows)]))
        before = list(self.dtypes)
        results = self._next_state(results)
        if self.dtypes != before or any(a.extents != b.extents for a, b in zip(self.flat, results, strict=True)):
            return None
        body = tuple(e for result, shape in zip(results, shapes, strict=True) for e in scalars_of(result, shape))
        state = tuple(var for group in groups for var in group)
        if self._makes_arrays(body, test, (counter, *state)):
            return None
        init = [strengthened(leaf, dtype) for leaf, dtype in zip(self.flat, self.dtypes, strict=True)]
        start = tuple(e for leaf, shape in zip(init, shapes, strict=True) for e in scalars_of(leaf, shape))
        form = self._scalar_form(counter, state, start, body, test)
        values = loop_written_out(form) if isinstance(form, Loop) and self.name is None else None
        values = values or tuple(Item(form, k) for k in range(len(state)))
        items = tuple(map(Array, values))
        parts = iter(leaf.node for leaf in collect((), items, self.kind, self.name))
        return unflatten(self.init, [row_of([next(parts) for _ in indices_of(s)], s) for s in shapes])

    def _over_arrays(self) -> Any:
        """Returns the loop over whole arrays; None where types or sizes are not stable yet."""
        counter = self._counter()
        sizes = [fresh_parameter(f"size{group}", i64, ()) for group in range(len(set(self.changing.values())))]
        state = tuple(
            fresh_parameter(f"state{k}", dtype, self._extents(k, leaf, sizes))
            for k, (leaf, dtype) in enumerate(zip(self.flat, self.dtypes, strict=True))
        )
        values = [self._state_value(k, p if p.shape else load(p, ())) for k, p in enumerate(state)]
        results, test = self._run(counter, unflatten(self.init, values))
        before = list(self.dtypes)
        results = self._next_state(results)
        if self.dtypes != before or self._sizes_change(state, results):
            return None
        init = tuple(as_node(strengthened(a, dtype)) for a, dtype in zip(self.flat, self.dtypes, strict=True))
        outcome = tuple(as_node(result) for result in results)
        for group in range(len(sizes)):
            k, axis = next(dimension for dimension, own in self.changing.items() if own == group)
            init += (as_node(Array(self.flat[k].extents[axis])),)
            outcome += (as_node(Array(next_size(results[k].extents[axis]))),)
        state += tuple(sizes)
        form: ArrayLoop | ArrayWhile
        if test is not None:
            form = ArrayWhile(test, state, init, outcome)
        else:
            assert self.count is not None
            form = ArrayLoop(self.count, counter, state, init, outcome)
        self.trace.form(form, self.kind, self.name)
        line = user_site()
        from raido.algo.language.state_names import state_names

        for parameter, own in zip(state, state_names(self.written, self.init), strict=False):
            self.trace.sites.setdefault(parameter, replace(line, array=own))
        return unflatten(self.init, [wrap(Result(form, k), self._weakness()) for k in range(len(self.flat))])

    def _extents(self, position: int, leaf: Array, sizes: list[Parameter]) -> tuple[Expr, ...]:
        """Returns the extents of a part of the state; changing ones are the values of additional states of rank 0."""
        extents = list(leaf.extents)
        for axis in range(leaf.ndim):
            group = self.changing.get((position, axis))
            if group is not None:
                extents[axis] = Count(sizes[group], None)
        return tuple(extents)

    def _sizes_change(self, state: Sequence[Parameter], results: list[Array]) -> bool:
        """Whether this iteration shows that more dimensions change, or that other dimensions change together; `changing` is updated."""
        found: dict[tuple[int, int], tuple[Any, Expr]] = {}
        for k, (parameter, result) in enumerate(zip(state, results, strict=True)):
            if len(parameter.shape) != result.ndim:
                shapes = f"{describe(parameter.dtype, parameter.shape)} and {describe(result.dtype, result.extents)}"
                remedy = (
                    "a body that returns the rank of `init`: v[0] takes an axis away, v[None] adds one, in `init` too"
                )
                raise ShapeError(complaint(f"the loop's state changes its rank: {shapes}", remedy=remedy))
            for axis, (a, b) in enumerate(zip(parameter.shape, result.extents, strict=True)):
                if (k, axis) in self.changing:
                    found[k, axis] = self.changing[k, axis], b
                elif may_differ(a, b, f"dimension {axis} of the loop's state {k}", "that after an iteration"):
                    found[k, axis] = a, b
        numbers: dict[tuple[Any, Expr], int] = {}
        groups = {dimension: numbers.setdefault(pair, len(numbers)) for dimension, pair in found.items()}
        changed, self.changing = groups != self.changing, groups
        return changed


def may_differ(a: Expr, b: Expr, owner_a: str, owner_b: str) -> bool:
    """Whether two sizes may differ at run time. Sizes of two names are assumed to be equal, which is checked at the call."""
    trace = current()
    if isinstance(a, SizeVar) and isinstance(b, SizeVar):
        trace.equal_sizes(a, b, owner_a, owner_b)
        return False
    return not trace.assumptions.equal(a, b)


def as_node(value: Array) -> Node:
    """Returns a value as an array node; a scalar becomes an array of rank 0."""
    if not is_scalar(value):
        return value.node
    return new_form((), (value.node,), "elementwise")[0]


def _type_of(value: Any) -> str:
    return "several values" if isinstance(value, tuple) else describe(value.dtype, value.extents)


def _branch(function: Any, form: str) -> Any:
    """Returns the value of one branch of `rd.cond`."""
    if not callable(function):
        problem = f"a branch of rd.cond is a function without parameters, not {type(function).__name__}"
        raise TraceError(complaint(problem, remedy="lambda: x; or rd.where(p, x, y), which evaluates both"))
    return check_result(run(function, form=form))


@overload
def cond(
    predicate: Any, then: Callable[[], Array | Number], orelse: Callable[[], Any], *, name: str | None = None
) -> Array: ...
@overload
def cond(
    predicate: Any,
    then: Callable[[], tuple[Number, Part | Number]],
    orelse: Callable[[], Any],
    *,
    name: str | None = None,
) -> tuple[Array, Part]: ...
@overload
def cond(
    predicate: Any,
    then: Callable[[], tuple[Part, Number]],
    orelse: Callable[[], Any],
    *,
    name: str | None = None,
) -> tuple[Part, Array]: ...
@overload
def cond(
    predicate: Any, then: Callable[[], Value | Number], orelse: Callable[[], Any], *, name: str | None = None
) -> Value: ...
def cond(predicate: Any, then: Callable[[], Any], orelse: Callable[[], Any], *, name: str | None = None) -> Any:
    """Returns `then()` where the scalar predicate holds, else `orelse()`; the branch not taken is not evaluated.

    Both return values of the same structure, dtypes and ranks; a size in which they may differ depends on data in the result.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def safe_inverse(x: rd.i64["n"]):
        ...     return rd.map(lambda v: rd.cond(v == 0, lambda: 0, lambda: 100 // v), x)
        >>> safe_inverse.interpret(np.array([0, 4]))
        array([ 0, 25])
    """
    trace = current()
    given = structure(predicate)
    if isinstance(given, tuple) or given.ndim:
        raise TraceError(complaint("the predicate of rd.cond is one scalar", remedy="rd.where for arrays"))
    test = truth(given).node
    known = len(trace.order)
    first, second = alike_branches(_branch(then, "then()"), _branch(orelse, "orelse()"))
    made_forms = len(trace.order) > known
    if not same_nesting(first, second):
        both = f"{nesting_text(first)} and {nesting_text(second)}"
        raise TraceError(complaint(f"the branches of rd.cond return different structures: {both}"))
    pairs = [_matched(a, b) for a, b in zip(leaves(first), leaves(second), strict=True)]
    weak = [STRONG if STRONG in (a.weak, b.weak) else WEAK for a, b in zip(leaves(first), leaves(second), strict=True)]
    scalars = all(a.ndim == 0 for a, _ in pairs)
    if trace.depth == 0 and not (scalars and not made_forms):
        form = _branches(test, pairs)
        trace.form(form, "cond", name)
        return unflatten(first, [wrap(Result(form, k), own) for k, own in enumerate(weak)])
    if scalars:
        form_of = Cond(test, tuple(a.node for a, _ in pairs), tuple(b.node for _, b in pairs))
        value = unflatten(first, [Array(Item(form_of, k), own) for k, own in enumerate(weak)])
        return collect((), value, "cond", name) if trace.depth == 0 or name else value
    return unflatten(first, [_rowwise(test, a, b, name) for a, b in pairs])


def alike_branches(first: Any, second: Any) -> tuple[Any, Any]:
    """Returns the values of two branches unified: a weak value beside a complex number becomes complex."""
    if isinstance(first, Complex) or isinstance(second, Complex):
        like = first if isinstance(first, Complex) and first.weak == STRONG else second
        like = like if isinstance(like, Complex) else first
        if first.weak != STRONG and second.weak != STRONG:
            first, second = of_one_type((first, second))
        return fitted(first, like, "a branch of rd.cond"), fitted(second, like, "a branch of rd.cond")
    if not isinstance(first, tuple) or not isinstance(second, tuple) or len(first) != len(second):
        return first, second
    pairs = [alike_branches(a, b) for a, b in zip(first, second, strict=True)]
    return rebuild_tuple(first, [a for a, _ in pairs]), rebuild_tuple(second, [b for _, b in pairs])


def _matched(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the values of the two branches in one type; raises `ShapeError` where their ranks differ."""
    if a.ndim != b.ndim:
        raise ShapeError(complaint(f"the branches of rd.cond have rank {a.ndim} and {b.ndim}"))
    dtype = _branch_type(a, b)
    return strengthened(a, dtype), strengthened(b, dtype)


def _branches(test: Expr, pairs: list[tuple[Array, Array]]) -> ArrayCond:
    """Returns a conditional between whole arrays; sizes that may differ are additional results of rank 0, at the end."""
    sizes: dict[tuple[Expr, Expr], tuple[Count, Count]] = {}
    for a, b in pairs:
        for m, n in zip(a.extents, b.extents, strict=True):
            if may_differ(m, n, "a dimension of one branch of rd.cond", "that of the other"):
                sizes.setdefault((m, n), (_as_count(m), _as_count(n)))

    def side(which: int) -> tuple[Node, ...]:
        arrays = []
        for pair in pairs:
            extents = zip(*(value.extents for value in pair), strict=True)
            chosen = [sizes[m, n][which] if (m, n) in sizes else (m, n)[which] for m, n in extents]
            value = pair[which]
            same = tuple(chosen) == value.extents
            arrays.append(as_node(value) if same else moved(chosen, lambda *p, v=value: load(v.node, p)).node)
        return (*arrays, *(pair[which].array for pair in sizes.values()))

    return ArrayCond(test, side(0), side(1))


def _as_count(size: Expr) -> Count:
    return size if isinstance(size, Count) else size_from(size)


def _branch_type(a: Array, b: Array) -> DType:
    if a.weak == STRONG and takes(b, a.dtype):
        return a.dtype
    if b.weak == STRONG and takes(a, b.dtype):
        return b.dtype
    if a.weak != STRONG and b.weak != STRONG:
        return common_type((a, b))[0]
    if a.dtype is not b.dtype:
        raise DTypeError(
            complaint(
                f"the branches of rd.cond are {a.dtype} and {b.dtype}", remedy=f".astype(rd.{a.dtype}) on the second"
            )
        )
    return a.dtype


def _rowwise(test: Expr, a: Array, b: Array, name: str | None) -> Array:
    """Returns a conditional between rows, element by element; a size that may differ is that of the branch taken."""
    owners = "a dimension of one branch of rd.cond", "that of the other"
    extents = [
        counted(Item(Cond(test, (count_from(m),), (count_from(n),)), 0), None) if may_differ(m, n, *owners) else m
        for m, n in zip(a.extents, b.extents, strict=True)
    ]
    axes = make_axes(extents)
    indices = tuple(axis.var for axis in axes)
    x = a.node if is_scalar(a) else load(a.node, indices)
    y = b.node if is_scalar(b) else load(b.node, indices)
    return collect(axes, Array(Item(Cond(test, (x,), (y,)), 0)), "cond", name)
