"""The reference interpreter: the meaning of a program, over NumPy arrays.

Expressions are evaluated on demand, for many indices at once (`lanes.Frame`), each at most once in a frame, by `primitives.evaluate`. A
closed `Generate` is evaluated whole, in blocks along its first axis, and kept; one that mentions outer variables is evaluated where it is
read. `Cond` evaluates a branch in the lanes that take it, loops continue with the lanes that are not done, and an inactive lane never
faults. `Reduce` folds from `neutral` in the order of its axes, the last one fastest: `acc = combine(acc, value)`. Evaluation is written as
generators that yield the evaluations they need first (`run` drives them), so that depth is unlimited.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from raido.algo.errors import ArgumentError, ArrayTooLarge, explain
from raido.algo.graph.bind_sizes import EXACT, bind_sizes, evaluate_size
from raido.algo.graph.expr import (
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Checked,
    Cond,
    Const,
    Constant,
    Count,
    Filter,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    Result,
    Scan,
    Segmented,
    SizeVar,
    Sort,
    Update,
    While,
    result_count,
)
from raido.algo.graph.faults import fault_error, unsigned_kind
from raido.algo.graph.index import extents_brought_into
from raido.algo.graph.limits import (
    LARGEST_ARRAY,
    check_extents,
    divisor_text,
    reach,
    sized_arrays,
    sizes_within,
    too_large,
)
from raido.algo.graph.primitives import DIVISIONS, evaluate
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import children, scalar_nodes
from raido.algo.graph.size_numbers import is_size_arithmetic, numbers_within, require_divisors, size_numbers
from raido.algo.interpreter import forms as interpret_forms
from raido.algo.interpreter.blocks import generate, reduce
from raido.algo.interpreter.dependencies import NOTHING, dependencies
from raido.algo.interpreter.empty_forms import look_without_elements
from raido.algo.interpreter.iterations import loop, while_loop
from raido.algo.interpreter.lanes import Bound, Frame, find, grid, home, rank_of
from raido.algo.interpreter.machine import Task
from raido.algo.interpreter.ragged import group_by_sizes, put_lanes, uniform


def interpret(
    program: Program, arrays: Sequence[np.ndarray], sizes: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    """The program's results, flat, for flat arguments; `sizes` gives the `rd.size` arguments. No result shares memory with an argument."""
    arrays = [np.asarray(a) for a in arrays]
    if len(arrays) != len(program.parameters):
        raise ArgumentError(f"{program.name} takes {len(program.parameters)} arrays, not {len(arrays)}")
    for parameter, array in zip(program.parameters, arrays, strict=True):
        if array.dtype != parameter.dtype.numpy or array.ndim != len(parameter.shape):
            expected = f"{parameter.dtype} of rank {len(parameter.shape)}"
            raise ArgumentError(f'argument "{parameter.name}" is {array.dtype} of rank {array.ndim}, not {expected}')
    bound = bind_sizes(program, [a.shape for a in arrays], sizes)
    numbers = size_numbers(program)
    for number in numbers:
        if not any(isinstance(node, Count) for node in scalar_nodes(number.value)):
            require_divisors(number.value, bound, number.site)
    for array in sized_arrays(program):
        extents = [evaluate_size(extent, bound) for extent in array.shape]
        check_extents(extents, array.dtype, array.shape, array.site, bound)
    for number in numbers:
        data = any(isinstance(node, Count) for node in scalar_nodes(number.value))
        if not data and reach(number.value, bound) > LARGEST_ARRAY:
            raise too_large([bound[name.name] for name in sizes_within((number.value,))], number.site)
    values: dict[Node, np.ndarray] = dict(zip(program.parameters, arrays, strict=True))
    values |= {SizeVar(name): np.asarray(size, np.int64) for name, size in bound.items()}
    try:
        return run(_Interpreter(program, values).results())
    except ValueError as error:
        if "array is too big" not in str(error):
            raise
        raise ArrayTooLarge(
            f"{program.name}: {error}"
        ) from error  # NumPy's own limit, of the indices of an empty array


def run(task: Task) -> Any:
    """The value of a generator that yields the generators whose values it needs."""
    stack, value = [task], None
    while stack:
        try:
            request = stack[-1].send(value)
        except StopIteration as done:  # noqa: PERF203
            stack.pop()
            value = done.value
        else:
            stack.append(request)
            value = None
    return value


class _Interpreter:
    """Evaluates the nodes of one program for one set of arguments."""

    def __init__(self, program: Program, values: dict[Node, np.ndarray]) -> None:
        self.program = program
        self.root = Frame((), None, values)
        self.depends = dependencies(program, _FORMS)
        self.constants: dict[Node, np.ndarray] = {}
        self.numbers: dict[Node, list[Op]] = {}

    def results(self) -> Task:
        outputs = []
        for node in self.program.results:
            value = self.look(node, self.root)
            if value is None:
                value = yield self.value(node, self.root)
            outputs.append(np.array(value, dtype=node.dtype.numpy, order="C"))
        return outputs

    def look(self, node: Node, frame: Frame) -> np.ndarray | None:
        """The value of a node that needs no evaluation, or None."""
        value = frame.values.get(node)
        if value is not None:
            return value
        if isinstance(node, (Const, Constant)):
            value = self.constants.get(node)
            if value is None:
                value = self.constants[node] = constant_array(node)
            return value
        return find(node, frame, self.depends_on(node))

    def depends_on(self, node: Node) -> Bound:
        node = node.form if isinstance(node, (Item, Result)) else node
        found = self.depends.get(node)
        if found is None:  # a size that occurs in no expression of the program
            below = children(node) if isinstance(node, (Count, Op)) else ()
            found = self.depends[node] = NOTHING.union(*(self.depends_on(child) for child in below))
        return found

    def value(self, node: Node, frame: Frame) -> Task:
        """The value of a scalar or of a whole array in `frame`, kept in the outermost frame where it is the same."""
        owner = home(frame, self.depends_on(node))
        if owner is not frame:
            if self.look(node, owner) is None:
                yield self.value(node, owner)
            return self.look(node, frame)
        value: np.ndarray
        if isinstance(node, Op):
            value = yield from self._op(node, frame)
        elif isinstance(node, Load):
            value = yield from self._load(node, frame)
        elif isinstance(node, Count):
            (value,) = yield from self.values([node.array], frame)
        elif isinstance(node, Checked):
            value = yield from self._checked(node, frame)
        elif isinstance(node, (Item, Result)):
            form = node.form
            if isinstance(form, (Cond, ArrayCond)):
                value = yield from self._cond(form, node.index, rank_of(node), frame)
            else:
                values = yield from _FORMS[type(form)](self, form, frame)
                frame.values.update({type(node)(form, k): v for k, v in enumerate(values)})
                value = values[node.index]
        else:
            raise AssertionError(f"{node} is not bound here")
        frame.values[node] = value
        return value

    def values(self, nodes: Sequence[Node], frame: Frame) -> Task:
        """The values of several nodes."""
        answers = []
        for node in nodes:
            value = self.look(node, frame)
            if value is None:
                value = yield self.value(node, frame)
            answers.append(value)
        return answers

    def _op(self, node: Op, frame: Frame) -> Task:
        args = yield from self.values(node.args, frame)
        if node.dtype.is_integer:
            site = self.program.sites.get(
                node
            )  # index moves' own divisions have no site: for an empty array they are not evaluated
            if node.name in DIVISIONS and site is not None and (args[1] == 0).any():
                dividends, divisors = np.broadcast_arrays(*args)
                if is_size_arithmetic(node):
                    site = replace(site, array=divisor_text(node.args[1]))
                raise fault_error("division", (dividends[divisors == 0].flat[0],), site)
            if node.name == "ipow" and (args[1] < 0).any():
                raise fault_error("power", (args[1][args[1] < 0].flat[0],), site)
        return evaluate(node.name, node.dtype, args)

    def _checked(self, node: Checked, frame: Frame) -> Task:
        (holds,) = yield from self.values([node.holds], frame)
        if not holds.all():
            details = yield from self.values(node.details[:3], frame)
            found = [np.broadcast_to(d, holds.shape)[~holds].flat[0] if holds.ndim else d for d in details]
            raise fault_error(node.kind, [int(d) for d in found], self.program.sites.get(node))
        return (yield from self.values([node.value], frame))[0]

    def _load(self, node: Load, frame: Frame) -> Task:
        """An element. An unchecked load from an empty array gives 0, as does any from an empty part: `select` will not take it."""
        array = node.array
        where = yield from self.values(node.indices, frame)
        open_form = array.form if isinstance(array, Result) and isinstance(array.form, Generate) else None
        if open_form is not None and home(frame, self.depends_on(open_form)).shape == ():
            open_form = None
        if open_form is not None:
            extents = yield from self.values([axis.extent for axis in open_form.axes], frame)
            empty = _any_zero(extents)
            if empty.any() and not node.checked:
                return (yield from self._load_where(node, ~empty, frame))
            self._check(node, where, extents)
            key = (open_form, node.indices)
            inner = frame.branches.get(key)
            if inner is None:
                variables: list[Node] = [axis.var for axis in open_form.axes]
                inner = frame.branches[key] = frame.bind(dict(zip(variables, where, strict=True)))
            (value,) = yield from self.values([open_form.bodies[cast(Result, array).index]], inner)
            return value
        (data,) = yield from self.values([array], frame)
        rank = len(node.indices)
        lead = data.ndim - rank
        if data.size == 0 and not node.checked:
            return np.zeros((), node.dtype.numpy)
        extents = [np.asarray(n) for n in data.shape[lead:]]
        if frame.shape and any(self.depends_on(extent) for extent in array.shape):
            extents = yield from self.values(array.shape, frame)
            empty = _any_zero(extents)
            if empty.any() and not node.checked:
                return (yield from self._load_where(node, ~empty, frame))
        if _is_outside(where, extents).any():
            brought = yield from self.values(extents_brought_into(node.indices), frame)
            if (empty := _any_zero(brought)).any():
                return (yield from self._load_where(node, ~empty, frame))
        self._check(node, where, extents)
        if rank == 0:
            return data
        lanes = [np.zeros((), np.int64)] * lead
        if lead:
            lanes = [
                own if extent > 1 else zero
                for own, zero, extent in zip(grid((0,) * lead, frame.shape), lanes, data.shape, strict=False)
            ]
        value = np.asarray(data[(*lanes, *where)])
        return value.reshape((1,) * (len(frame.shape) - value.ndim) + value.shape) if value.ndim else value

    def _load_where(self, node: Load, mask: np.ndarray, frame: Frame) -> Task:
        """The element in the lanes whose array is not empty, 0 in the others."""
        if not mask.any():
            return np.zeros((), node.dtype.numpy)
        inner = frame.pick(np.broadcast_to(mask, frame.shape))
        (value,) = yield from self.values([node], inner)
        return put_lanes(None, frame, inner, value, 0)

    def _check(self, node: Load, where: Sequence[np.ndarray], extents: Sequence[np.ndarray]) -> None:
        for dimension, (indices, extent) in enumerate(zip(where, extents, strict=True)):
            wrong = (indices < 0) | (indices >= extent)
            if wrong.any():
                index = int(np.broadcast_to(indices, wrong.shape)[wrong].flat[0])
                size = int(np.broadcast_to(extent, wrong.shape)[wrong].flat[0])
                if not node.checked:
                    raise AssertionError(f"unchecked load of {node.array} at {index}, dimension {dimension} of {size}")
                kind = unsigned_kind("index", node.indices[dimension])
                raise fault_error(kind, (dimension, index, size), self.program.sites.get(node))

    def _cond(self, form: Cond | ArrayCond, index: int, rank: int, frame: Frame) -> Task:
        """One result of the chosen branch; where lanes disagree, each branch is evaluated in a frame of its own."""
        (predicate,) = yield from self.values([form.predicate], frame)
        if predicate.all() or not predicate.any():
            branch = form.then if predicate.flat[0] else form.orelse
            (value,) = yield from self.values([branch[index]], frame)
            return value
        if form not in frame.branches:
            mask = np.broadcast_to(predicate, frame.shape)
            frame.branches[form] = frame.pick(mask), frame.pick(~mask)
        result = None
        for inner, branch in zip(frame.branches[form], (form.then, form.orelse), strict=True):
            (value,) = yield from self.values([branch[index]], inner)
            result = put_lanes(result, frame, inner, value, rank)
        return result

    def _check_arithmetic(self, form: Any, frame: Frame) -> Task:
        """Raises `ArrayTooLarge` where an extent computed from sizes that data decides exceeds the limit."""
        if form not in self.numbers:
            self.numbers[form] = numbers_within(form)
        computed = [*(axis.extent for axis in form.axes), *self.numbers[form]]
        for size in computed:
            if not isinstance(size, Op):
                continue
            known: dict[Node, np.ndarray] = {}
            for node in scalar_nodes(size):
                if isinstance(node, Op) and node.name in EXACT:
                    parts = [known[a] for a in node.args]
                    known[node] = np.abs(parts[0] if len(parts) == 1 else _FLOAT.get(node.name, np.fmax)(*parts))
                else:
                    (value,) = yield from self.values([node], frame)
                    known[node] = np.abs(value.astype(np.float64))
            if (known[size] > LARGEST_ARRAY).any():
                sizes = [int(v.max()) for e, v in known.items() if isinstance(e, (SizeVar, Count))]
                raise too_large(sizes, self.program.sites.get(form))

    def _keep_to_limits(self, form: Any, frame: Frame, extents: Sequence[int]) -> None:
        """Raises `ArrayTooLarge` where an array, over all lanes of the frame, exceeds the limit."""
        if not isinstance(form, (Generate, Scan, Sort)):
            return
        result = max((Result(form, k) for k in range(result_count(form))), key=lambda r: r.dtype.itemsize)
        check_extents((*frame.shape, *extents), result.dtype, result.shape, self.program.sites.get(form))

    def _by_sizes(self, form: Any, frame: Frame) -> Task:
        """A form over axes, by its rule; lanes with different extents are evaluated in separate frames."""
        rule = _RULES[type(form)]
        rank = len(form.axes)
        whole = form.offsets.shape if isinstance(form, Segmented) else ()
        sizes = yield from self.values([*(axis.extent for axis in form.axes), *whole], frame)
        yield from self._check_arithmetic(form, frame)
        extents = uniform(sizes)
        if extents is not None:
            self._keep_to_limits(form, frame, extents[:rank])
            if 0 in extents[:rank]:
                yield from look_without_elements(self, form, frame, extents)
            try:
                return (yield from rule(self, form, frame, extents[:rank]))
            except MemoryError as error:
                site = self.program.sites.get(form)
                where = None if site is None else str(site)
                raise MemoryError(explain(f"{self.program.name}: {error}", algorithm=where)) from error
        scalar = isinstance(form, Reduce)
        if not scalar:
            self._keep_to_limits(form, frame, [int(np.max(size)) for size in sizes[:rank]])
        ranks = [0] * len(form.left) if scalar else [rank_of(Result(form, k)) for k in range(result_count(form))]
        wholes: list[np.ndarray | None] = [None] * len(ranks)
        for extents, inner in group_by_sizes(sizes, frame):
            values = yield from rule(self, form, inner, extents[:rank])
            triples = zip(wholes, values, ranks, strict=True)
            wholes = [put_lanes(whole, frame, inner, value, rank) for whole, value, rank in triples]
        return wholes


_FORMS: dict[type[Node], Callable[[_Interpreter, Any, Frame], Task]] = {
    Loop: loop,
    ArrayLoop: loop,
    While: while_loop,
    ArrayWhile: while_loop,
}
_RULES: dict[type[Node], Callable[..., Task]] = {
    Generate: generate,
    Reduce: reduce,
    Scan: interpret_forms.scan,
    Update: interpret_forms.update,
    Filter: interpret_forms.filtered,
    Segmented: interpret_forms.segmented,
    Sort: interpret_forms.sort,
}
_FORMS |= dict.fromkeys(_RULES, _Interpreter._by_sizes)


_FLOAT = {
    "add": np.add,
    "sub": np.add,
    "mul": np.multiply,
}  # operations that can exceed their operands in magnitude


def _any_zero(extents: Sequence[np.ndarray]) -> np.ndarray:
    """The mask of lanes in which any extent is 0."""
    return np.asarray(functools.reduce(np.logical_or, [extent == 0 for extent in extents], np.False_))


def _is_outside(where: Sequence[np.ndarray], extents: Sequence[np.ndarray]) -> np.ndarray:
    """The mask of lanes in which an index is out of range."""
    wrong = [(index < 0) | (index >= extent) for index, extent in zip(where, extents, strict=True)]
    return np.asarray(functools.reduce(np.logical_or, wrong, np.False_))


def constant_array(node: Const | Constant) -> np.ndarray:
    """A literal or a constant array in NumPy, bit for bit."""
    if isinstance(node, Constant):
        return node.data.array
    if node.dtype.is_float:
        return np.array(node.bits, f"u{node.dtype.itemsize}").view(node.dtype.numpy)
    return np.array(node.value, node.dtype.numpy)
