"""Small handwritten nests, and the check that the gang nest computes the scalar nest's results, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, f32, i64
from raido.algo.graph.expr import Const, Op, SizeVar, Var, const, fresh
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, Let, Nest, Store
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest

n, w = SizeVar("n"), SizeVar("w")
zero = const(i64, 0)


def parameter(name: str, dtype: DType, *shape) -> Buffer:
    """An input or output."""
    return Buffer(name, dtype, tuple(shape), "parameter", 0, (), 1, None)


def scratch(name: str, dtype: DType, *shape, scope: str = "register") -> Buffer:
    """Memory of the nest."""
    shape = tuple(const(i64, e) if isinstance(e, int) else e for e in shape)
    return Buffer(name, dtype, shape, scope, fresh("b").serial, (), 1, None)


def at(buffer: Buffer, *indices) -> Read:
    """An element."""
    return Read(buffer, tuple(const(i64, i) if isinstance(i, int) else i for i in indices), None)


def op(name: str, *args, dtype: DType | None = None) -> Op:
    """An operation; the type of its last operand unless told (comparisons: bool)."""
    compare = name in ("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not")
    return Op(name, bool_ if compare else dtype or args[-1].dtype, tuple(args))


def f(value: float) -> Const:
    """An f32."""
    return const(f32, value)


def loop(var: Var, high, *body, low=zero, **how) -> For:
    """`for var in low..high`."""
    return For(var, low, high, how.pop("step", 1), Block(body), **how)


def put(buffer: Buffer, *rest) -> Store:
    """buffer[rest[:-1]] = rest[-1]."""
    return Store(buffer, rest[:-1], rest[-1])


def name(var_name: str, value) -> tuple[Var, Let]:
    """A variable for a value, and the statement that binds it."""
    var = fresh(var_name, value.dtype)
    return var, Let(var, value)


def add_up(buffer: Buffer, indices: tuple, value) -> Fold:
    """buffer[indices] += value."""
    left, right = fresh("left", buffer.dtype), fresh("right", buffer.dtype)
    step, both = op("add", left, value), op("add", left, right)
    return Fold((buffer,), indices, (step,), (left,), (right,), (both,), (const(buffer.dtype, 0),), "add")


def scalar_register(name: str, start) -> tuple[Buffer, Alloc, Store]:
    """A mutable scalar and the statements that make it."""
    b = scratch(name, start.dtype)
    return b, Alloc(b), Store(b, (), start)


def nest(inputs: Sequence[Buffer], outputs: Sequence[Buffer], *body, sizes=(n,), sites=()) -> Nest:
    """A nest called "test"."""
    return Nest("test", tuple(inputs), tuple(sizes), tuple(outputs), Block(body), sites)


def hold(
    scalar: Nest,
    arrays: Sequence[np.ndarray],
    bits: Sequence[int] = (128, 512),
    close: bool = False,
    look: Callable[[str], None] | None = None,
    **sizes: int,
) -> list[np.ndarray]:
    """Scalar and gang nest give the same (float reductions: `close`); `look` sees the text of each gang nest."""
    check_nest(scalar, "scalar")
    expected = interpret_nest(scalar, arrays, sizes)
    for width in bits:
        gang = check_nest(form_gangs(scalar, width), "gang")
        text = print_nest(gang)
        assert "by vector" not in text
        if look is not None:
            look(text)
        for e, g in zip(expected, interpret_nest(gang, arrays, sizes), strict=True):
            if close:
                np.testing.assert_allclose(g, e, rtol=1e-5)
            else:
                np.testing.assert_array_equal(g.view(f"u{g.itemsize}"), e.view(f"u{e.itemsize}"), err_msg=text)
    return expected
