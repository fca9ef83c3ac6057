"""The rows that MetaSchedule can run, as TVM's tensor expressions, for fixed sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any

from rows.images import W9
from rows.stencils import CROSS, star
from tvm import te, tirx

Tensors = list[te.Tensor]


def clamped(array: te.Tensor, point: tuple[Any, ...], offset: tuple[int, ...]) -> Any:
    """A neighbour of a point, the edge repeated."""
    places = (
        tirx.max(tirx.min(p + d, n - 1), 0) if d else p for p, d, n in zip(point, offset, array.shape, strict=True)
    )
    return array(*places)


def weighted(shape: tuple[int, ...], taps: Mapping[tuple[int, ...], float], array: te.Tensor, name: str) -> te.Tensor:
    """A sum of neighbours, each with a weight."""
    terms = lambda point: [clamped(array, point, offset) * tirx.const(w, "float32") for offset, w in taps.items()]
    return te.compute(shape, lambda *point: reduce(add, terms(point)), name=name)


def total(n: int) -> Tensors:
    a, r = te.placeholder((n,), "float32", "a"), te.reduce_axis((0, n), "r")
    return [a, te.compute((1,), lambda _: te.sum(a[r], axis=r), name="out")]


def jacobi2d(h: int, w: int) -> Tensors:
    a = te.placeholder((h, w), "float32", "a")
    return [a, weighted((h, w), dict.fromkeys(CROSS, 0.2), a, "out")]


def jacobi3d(d: int, h: int, w: int) -> Tensors:
    a = te.placeholder((d, h, w), "float32", "a")
    return [a, weighted((d, h, w), dict.fromkeys(star(1), 1 / 7), a, "out")]


def blur(h: int, w: int) -> Tensors:
    image, three = te.placeholder((h, w), "uint16", "image"), tirx.const(3, "uint16")
    thirds = lambda *values: tirx.truncdiv(reduce(add, values), three)
    bx = te.compute((h, w - 2), lambda y, x: thirds(*(image[y, x + k] for k in range(3))), name="bx")
    return [image, te.compute((h - 2, w - 2), lambda y, x: thirds(*(bx[y + k, x] for k in range(3))), name="by")]


def gauss(h: int, w: int) -> Tensors:
    a = te.placeholder((h, w), "float32", "a")
    g1 = weighted((h, w), {(k - 4, 0): W9[k] for k in range(9)}, a, "g1")
    return [a, weighted((h, w), {(0, k - 4): W9[k] for k in range(9)}, g1, "out")]


def sgemm(n: int, k: int, m: int) -> Tensors:
    a, b = te.placeholder((n, k), "float32", "a"), te.placeholder((k, m), "float32", "b")
    r = te.reduce_axis((0, k), "r")
    return [a, b, te.compute((n, m), lambda y, x: te.sum(a[y, r] * b[r, x], axis=r), name="out")]


def black_scholes(n: int) -> Tensors:
    """Calls and puts from the same stages, which TVM inlines."""
    f32 = lambda value: tirx.const(value, "float32")
    spot, strike, years = (te.placeholder((n,), "float32", name) for name in ("spot", "strike", "years"))
    stage = lambda name, body: te.compute((n,), body, name=name)
    spread = stage("spread", lambda i: f32(0.3) * tirx.sqrt(years[i]))
    d1 = stage("d1", lambda i: (tirx.log(spot[i] / strike[i]) + f32(0.065) * years[i]) / spread[i])
    d2 = stage("d2", lambda i: d1[i] - spread[i])
    later = stage("later", lambda i: strike[i] * tirx.exp(f32(-0.02) * years[i]))
    weights = (-1.821255978, 1.781477937, -0.356563782, 0.319381530)

    def below(d: te.Tensor, name: str) -> te.Tensor:
        k = stage(f"{name}_k", lambda i: f32(1) / (f32(1) + f32(0.2316419) * tirx.abs(d[i])))
        series = lambda i: reduce(lambda p, w: f32(w) + k[i] * p, weights, f32(1.330274429))
        tail = stage(f"{name}_tail", lambda i: f32(0.39894228) * tirx.exp(f32(-0.5) * d[i] * d[i]) * k[i] * series(i))
        return stage(name, lambda i: tirx.Select(d[i] > f32(0), f32(1) - tail[i], tail[i]))

    n1, n2 = below(d1, "n1"), below(d2, "n2")
    calls = stage("calls", lambda i: spot[i] * n1[i] - later[i] * n2[i])
    puts = stage("puts", lambda i: later[i] * (f32(1) - n2[i]) - spot[i] * (f32(1) - n1[i]))
    return [spot, strike, years, calls, puts]


TENSOR_PROGRAMS: dict[str, Callable[..., Tensors]] = {
    "sum": total,
    "jacobi2d_5": jacobi2d,
    "jacobi3d_7": jacobi3d,
    "blur_u16": blur,
    "gauss_separable": gauss,
    "sgemm_1024": sgemm,
    "black_scholes": black_scholes,
}
