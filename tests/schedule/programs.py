"""Small programs for tests of schedules and lowering, built from graph nodes by hand (without the tracer)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, f32, i32, i64
from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    Axis,
    Expr,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    SizeVar,
    While,
    const,
    fresh,
    fresh_parameter,
)
from raido.algo.graph.program import Program

H, W, N, K = SizeVar("h"), SizeVar("w"), SizeVar("n"), SizeVar("k")


def parameter(name: str, shape: Sequence[Any], dtype: DType = f32) -> Parameter:
    return Parameter(name, dtype, tuple(ix.as_index(s) for s in shape), 0)


def op(name: str, *args: Any) -> Expr:
    """An operation whose result has its operands' dtype (bool for comparisons); plain numbers take it too."""
    dtype = next(a.dtype for a in args if isinstance(a, Node) and (name != "select" or a.dtype is not bool_))
    exprs = tuple(a if isinstance(a, Node) else const(dtype, a) for a in args)
    return Op(name, bool_ if name in ("lt", "le", "gt", "ge", "eq", "ne") else dtype, exprs)


def generate(shape: Sequence[Any], body: Callable[..., Any], names: str = "") -> Any:
    """`tabulate`: an array, or a tuple of arrays when `body` returns a tuple."""
    named = (
        names.split() or ["z", "y", "x"][3 - len(shape) :] if len(shape) <= 3 else [f"d{i}" for i in range(len(shape))]
    )
    axes = tuple(Axis(fresh(n), ix.as_index(s)) for n, s in zip(named, shape, strict=True))
    bodies = body(*(a.var for a in axes))
    several = isinstance(bodies, tuple)
    form = Generate(axes, bodies if several else (bodies,))
    return tuple(Result(form, k) for k in range(len(form.bodies))) if several else Result(form, 0)


def at(array: Array, *indices: Any, checked: bool = False) -> Load:
    return Load(array, tuple(ix.as_index(i) for i in indices), checked)


def clamp(e: Any, n: Any) -> Expr:
    return Op("clamp_index", i64, (ix.as_index(e), ix.as_index(n)))


def wrap(e: Any, n: Any) -> Expr:
    return Op("wrap_index", i64, (ix.as_index(e), ix.as_index(n)))


def reduction(shape: Sequence[Any], value: Callable[..., Expr], monoid: str = "add", neutral: Any = 0) -> Expr:
    """The fold of `value(r, …)` by a primitive."""
    axes = tuple(Axis(fresh("r"), ix.as_index(s)) for s in shape)
    v = value(*(a.var for a in axes))
    left, right = fresh("l", v.dtype), fresh("r", v.dtype)
    step = (Op(monoid, v.dtype, (left, right)),)
    return Item(Reduce(axes, (left,), (right,), step, (const(v.dtype, neutral),), (v,), True, monoid), 0)


def program(
    name: str, results: Any, names: dict[str, Array] | None = None, kinds: dict[Array, str] | None = None
) -> Program:
    """A Program around these results; parameters and sizes are those that are mentioned, by name."""
    from raido.algo.graph.rewrite import topological

    results = results if isinstance(results, tuple) else (results,)
    nodes = topological(*results)
    inputs = sorted((n for n in nodes if isinstance(n, Parameter) and n.serial == 0), key=lambda p: p.name)
    sizes = tuple(sorted((n for n in nodes if isinstance(n, SizeVar)), key=lambda s: s.name))
    forms = tuple(n for n in nodes if isinstance(n, Generate | ArrayLoop))
    table: dict[Any, tuple[str, ...]] = {}
    for label, array in (names or {}).items():
        table[array.form] = (*table.get(array.form, ()), label)  # type: ignore[union-attr]
    kinds_of = {array.form: kind for array, kind in (kinds or {}).items()}  # type: ignore[union-attr]
    return Program(name, tuple(inputs), sizes, results, None, None, (), forms, table, kinds_of)


def blur() -> Program:
    img = parameter("img", (H, W))
    rows = generate(
        (H, W),
        lambda y, x: op(
            "div",
            op("add", op("add", at(img, y, clamp(ix.sub(x, 1), W)), at(img, y, x)), at(img, y, clamp(ix.add(x, 1), W))),
            3.0,
        ),
    )
    cols = generate(
        (H, W),
        lambda y, x: op(
            "div",
            op(
                "add",
                op("add", at(rows, clamp(ix.sub(y, 1), H), x), at(rows, y, x)),
                at(rows, clamp(ix.add(y, 1), H), x),
            ),
            3.0,
        ),
    )
    return program("blur", cols, {"rows": rows, "cols": cols})


def total(values: Sequence[Expr]) -> Expr:
    out = values[0]
    for v in values[1:]:
        out = op("add", out, v)
    return out


def harris() -> Program:
    """A small Harris chain: gradients, three products (inlined or not), box sums, response."""
    img = parameter("img", (H, W))

    def d(array: Array, dy: int, dx: int) -> Callable[..., Expr]:
        return lambda y, x: at(array, clamp(ix.add(y, dy), H), clamp(ix.add(x, dx), W))

    ix_ = generate((H, W), lambda y, x: op("sub", d(img, 0, 1)(y, x), d(img, 0, -1)(y, x)))
    iy = generate((H, W), lambda y, x: op("sub", d(img, 1, 0)(y, x), d(img, -1, 0)(y, x)))
    pairs = {"xx": (ix_, ix_), "yy": (iy, iy), "xy": (ix_, iy)}
    products = {
        n: generate((H, W), lambda y, x, a=a, b=b: op("mul", at(a, y, x), at(b, y, x))) for n, (a, b) in pairs.items()
    }
    sums = {
        n: generate((H, W), lambda y, x, p=p: total([d(p, i, j)(y, x) for i in (-1, 0, 1) for j in (-1, 0, 1)]))
        for n, p in products.items()
    }
    out = generate(
        (H, W),
        lambda y, x: op(
            "sub",
            op("mul", at(sums["xx"], y, x), at(sums["yy"], y, x)),
            op("mul", at(sums["xy"], y, x), at(sums["xy"], y, x)),
        ),
    )
    names = {"ix": ix_, "iy": iy, **products, **{f"s{n}": s for n, s in sums.items()}, "out": out}
    return program("harris", out, names)


def gauss(radius: int = 4) -> Program:
    img = parameter("img", (H, W))
    taps = range(-radius, radius + 1)
    g1 = generate(
        (H, W), lambda y, x: total([op("mul", at(img, y, clamp(ix.add(x, k), W)), 1.0 / (2 + abs(k))) for k in taps])
    )
    g2 = generate(
        (H, W), lambda y, x: total([op("mul", at(g1, clamp(ix.add(y, k), H), x), 1.0 / (2 + abs(k))) for k in taps])
    )
    return program("gauss", g2, {"g1": g1, "g2": g2})


def stencil3d() -> Program:
    """Thirteen points, radius 2, wrapped along x and clamped along the others."""
    a = parameter("a", (N, H, W))

    def body(z: Expr, y: Expr, x: Expr) -> Expr:
        points = (
            [(dz, 0, 0) for dz in (-2, -1, 1, 2)]
            + [(0, dy, 0) for dy in (-2, -1, 1, 2)]
            + [(0, 0, dx) for dx in (-2, -1, 0, 1, 2)]
        )
        return total(
            [at(a, clamp(ix.add(z, p), N), clamp(ix.add(y, q), H), wrap(ix.add(x, r), W)) for p, q, r in points]
        )

    out = generate((N, H, W), body)
    return program("stencil3d", out, {"out": out})


def two_consumers() -> Program:
    img = parameter("img", (H, W))
    base = generate((H, W), lambda y, x: op("mul", at(img, y, x), 2.0))
    left = generate((H, W), lambda y, x: op("add", at(base, y, clamp(ix.sub(x, 1), W)), at(base, y, x)))
    right = generate((H, W), lambda y, x: op("sub", at(base, clamp(ix.add(y, 1), H), x), at(base, y, x)))
    return program("two", (left, right), {"base": base, "left": left, "right": right})


def matmul() -> Program:
    a, b = parameter("a", (N, K)), parameter("b", (K, W))
    c = generate((N, W), lambda y, x: reduction((K,), lambda r: op("mul", at(a, y, r), at(b, r, x))))
    return program("matmul", c, {"c": c})


def row_sums() -> Program:
    a = parameter("a", (H, W))
    s = generate((H,), lambda y: reduction((W,), lambda r: at(a, y, r)))
    return program("row_sums", s, {"s": s})


def column_sums() -> Program:
    a = parameter("a", (H, W))
    s = generate((W,), lambda x: reduction((H,), lambda r: at(a, r, x)))
    return program("column_sums", s, {"s": s})


def argmin() -> Program:
    """Value and place of the smallest element: an operator on pairs, ties to the first."""
    a = parameter("a", (N,), i32)
    axis = Axis(fresh("r"), N)
    lv, rv = fresh("lv", i32), fresh("rv", i32)
    li, ri = fresh("li"), fresh("ri")
    first = op("le", lv, rv)
    combine = (Op("select", i32, (first, lv, rv)), Op("select", i64, (first, li, ri)))
    neutral = (const(i32, 2**31 - 1), const(i64, 2**62))
    form = Reduce((axis,), (lv, li), (rv, ri), combine, neutral, (at(a, axis.var), axis.var), False, "")
    out = generate((), lambda: (Item(form, 0), Item(form, 1)))
    return program("argmin", out, {"best": out[0]})


def mandelbrot(limit: int = 12) -> Program:
    cx, cy = parameter("cx", (W,)), parameter("cy", (H,))

    def body(y: Expr, x: Expr) -> Expr:
        re, im, n = fresh("re", f32), fresh("im", f32), fresh("n")
        square = op("add", op("mul", re, re), op("mul", im, im))
        going = Op("logical_and", bool_, (op("lt", square, 4.0), op("lt", n, limit)))
        step = (
            op("add", op("sub", op("mul", re, re), op("mul", im, im)), at(cx, x)),
            op("add", op("mul", op("mul", re, im), 2.0), at(cy, y)),
            op("add", n, 1),
        )
        zero = const(f32, 0)
        return Item(While(going, (re, im, n), (zero, zero, const(i64, 0)), step), 2)

    out = generate((H, W), body)
    return program("mandelbrot", out, {"out": out})


def scalar_loop() -> Program:
    """A loop of fixed count in every element, with two states."""
    a = parameter("a", (N,))

    def body(x: Expr) -> Expr:
        t, u, v = fresh("t"), fresh("u", f32), fresh("v", f32)
        return Item(Loop(const(i64, 5), t, (u, v), (at(a, x), const(f32, 1)), (op("add", u, v), op("mul", u, 0.5))), 0)

    out = generate((N,), body)
    return program("scalar_loop", out, {"out": out})


def checked_gather() -> Program:
    a, index = parameter("a", (N,)), parameter("index", (K,), i64)
    out = generate((K,), lambda x: at(a, at(index, x), checked=True))
    return program("checked_gather", out, {"out": out})


def jacobi(steps: Any = 5) -> Program:
    grid = parameter("grid", (H, W))
    state = fresh_parameter("u", f32, (H, W))
    t = fresh("t")
    around = ((-1, 0), (1, 0), (0, -1), (0, 1))
    body = generate(
        (H, W),
        lambda y, x: op(
            "mul", total([at(state, clamp(ix.add(y, i), H), clamp(ix.add(x, j), W)) for i, j in around]), 0.25
        ),
    )
    loop = ArrayLoop(ix.as_index(steps), t, (state,), (grid,), (body,))
    out = Result(loop, 0)
    return program("jacobi", out, {"life": body, "steps": out})


def two_reductions() -> Program:
    """Variance-like: a mean, and the sum of squared distances to it, for every row."""
    a = parameter("a", (H, K))

    def body(y: Expr) -> Expr:
        mean = op("div", reduction((K,), lambda r: at(a, y, r)), 8.0)
        return reduction((K,), lambda r: op("mul", op("sub", at(a, y, r), mean), op("sub", at(a, y, r), mean)))

    out = generate((H,), body)
    return program("two_reductions", out, {"out": out})


def reversed_rows() -> Program:
    """A producer read backwards, and by a consumer with strides: windows that do not simply slide."""
    img = parameter("img", (H, W))
    base = generate((H, W), lambda y, x: op("mul", at(img, y, x), 2.0))
    flipped = generate(
        (H, W),
        lambda y, x: op("sub", at(base, ix.sub(ix.sub(H, 1), y), x), at(base, clamp(ix.sub(ix.sub(H, y), 3), H), x)),
    )
    half = generate(
        (ix.floordiv(ix.add(H, 1), 2), W),
        lambda y, x: op(
            "add", at(flipped, ix.mul(y, 2), x), at(flipped, clamp(ix.add(ix.mul(y, 2), 1), H), wrap(ix.add(x, y), W))
        ),
    )
    return program("reversed_rows", half, {"base": base, "flipped": flipped, "half": half})


def map_and_sum() -> Program:
    """A map that is kept, and its sum."""
    a = parameter("a", (N,))
    y = generate((N,), lambda x: op("add", op("mul", at(a, x), 2.0), 1.0))
    s = generate((), lambda: reduction((N,), lambda r: at(y, r)))
    return program("map_and_sum", (y, s), {"y": y, "sum": s})


def flat_sum() -> Program:
    """The sum of a matrix that is read flat, and the flat matrix."""
    a = parameter("a", (H, W))
    size = ix.mul(H, W)
    s = generate((), lambda: reduction((size,), lambda r: at(a, ix.floordiv(r, W), ix.mod(r, W))))
    flat = generate((size,), lambda x: at(a, ix.floordiv(x, W), ix.mod(x, W)))
    return program("flat_sum", (s, flat), {"sum": s, "flat": flat})


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        blur, harris, gauss, stencil3d, two_consumers, matmul, row_sums, column_sums, argmin, mandelbrot, scalar_loop,
        checked_gather, jacobi, two_reductions, reversed_rows, map_and_sum, flat_sum,
    )
}  # fmt: skip
