"""Interpretation of `Generate` and `Reduce`: their expressions at every index of their axes, in blocks of indices."""

from __future__ import annotations

import math

import numpy as np

from raido.algo.graph.expr import Generate, Node, Reduce
from raido.algo.graph.reduction import contracted_product
from raido.algo.interpreter.fold import fold_fma, fold_primitive, rounds_floats
from raido.algo.interpreter.lanes import Frame, grid
from raido.algo.interpreter.machine import Machine, Task

BLOCK = 1 << 16  # lanes at once: large enough to hide Python, small enough for the cache


def generate(machine: Machine, form: Generate, frame: Frame, extents: tuple[int, ...]) -> Task:
    """Every element: in blocks along the first axis, or, where it depends on the lanes, for all of them at once."""
    variables: list[Node] = [axis.var for axis in form.axes]
    if frame.shape != () or not extents:
        shape = frame.shape + extents
        if 0 in extents:
            return [np.empty(extents, body.dtype.numpy) for body in form.bodies]
        inner = frame.extend(extents, dict(zip(variables, grid((0,) * len(extents), extents), strict=True)))
        values = yield from machine.values(form.bodies, inner)
        return [np.broadcast_to(v, extents if v.ndim == 0 else shape) for v in values]
    outputs = [np.empty(extents, body.dtype.numpy) for body in form.bodies]
    if 0 in extents:
        return outputs
    chunk = max(1, BLOCK // math.prod(extents[1:]))
    for start in range(0, extents[0], chunk):
        stop = min(start + chunk, extents[0])
        indices = grid((start, *(0,) * (len(extents) - 1)), (stop, *extents[1:]))
        inner = frame.extend((stop - start, *extents[1:]), dict(zip(variables, indices, strict=True)))
        for output, body in zip(outputs, form.bodies, strict=True):
            (value,) = yield from machine.values([body], inner)
            output[start:stop] = value
    return outputs


def reduce(machine: Machine, form: Reduce, frame: Frame, extents: tuple[int, ...]) -> Task:
    """The fold, in blocks of the reduction's indices."""
    state = yield from machine.values(form.neutral, frame)
    total = math.prod(extents)
    chunk = max(1, BLOCK // math.prod(frame.shape))
    product = contracted_product(form, machine.program.contract)
    for start in range(0, total, chunk):
        count = min(chunk, total - start)
        indices = np.unravel_index(np.arange(start, start + count, dtype=np.int64), extents)
        shaped = [np.asarray(i, np.int64).reshape((1,) * len(frame.shape) + (-1,)) for i in indices]
        variables: list[Node] = [axis.var for axis in form.axes]
        block = frame.extend((count,), dict(zip(variables, shaped, strict=True)))
        if product is not None:
            a, b = yield from machine.values(product, block)
            state = [fold_fma(state[0], np.atleast_1d(a), np.atleast_1d(b), count)]
            continue
        values = yield from machine.values(form.values, block)
        values = [v if v.ndim else v.reshape((1,) * len(block.shape)) for v in values]
        values = [np.broadcast_to(v, (*v.shape[:-1], count)) for v in values]
        folded = fold_primitive(form.monoid, form.left[0].dtype, state[0], values[0])
        state = [folded] if folded is not None else (yield from _fold(machine, form, state, values, frame))
    return state


def _fold(machine: Machine, form: Reduce, state: list[np.ndarray], values: list[np.ndarray], frame: Frame) -> Task:
    """Applies `combine` once per index of the block; in pairs where it does not round, so that the grouping cannot show."""
    count = values[0].shape[-1]
    if count > 64 and not rounds_floats(form.combine):
        while count > 1:
            even = count - count % 2
            left = [v[..., 0:even:2] for v in values]
            right = [v[..., 1:even:2] for v in values]
            inner = frame.extend((even // 2,), _operands(form, left, right))
            joined = yield from machine.values(form.combine, inner)
            joined = [v if v.ndim else v.reshape((1,) * len(inner.shape)) for v in joined]
            joined = [np.broadcast_to(v, (*v.shape[:-1], even // 2)) for v in joined]
            pairs = zip(joined, values, strict=True)
            values = [np.concatenate(_same_lead(v, old[..., even:]), axis=-1) for v, old in pairs]
            count = values[0].shape[-1]
    for j in range(count):
        inner = frame.bind(_operands(form, state, [v[..., j] for v in values]))
        state = yield from machine.values(form.combine, inner)
    return state


def _operands(form: Reduce, left: list[np.ndarray], right: list[np.ndarray]) -> dict[Node, np.ndarray]:
    return dict(zip(form.left + form.right, left + right, strict=True))


def _same_lead(*values: np.ndarray) -> list[np.ndarray]:
    """The arrays with all dimensions but the last broadcast to each other."""
    lead = np.broadcast_shapes(*(v.shape[:-1] for v in values))
    return [np.broadcast_to(v, (*lead, v.shape[-1])) for v in values]
