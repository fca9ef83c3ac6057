"""Stencils, against `scipy.ndimage` where it has the form, else against borders of `np.pad` and slices."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from numpy_law.elementwise import literal
from numpy_law.writer import Draft, Value, Writer

MODES = {"clamp": "edge", "wrap": "wrap", "mirror": "reflect", "symmetric": "symmetric"}
SCIPY = {"clamp": "nearest", "wrap": "grid-wrap", "mirror": "mirror", "symmetric": "reflect", "constant": "constant"}
REACH = (1, 1, 2, 3)


def _offsets(w: Writer, rank: int) -> list[tuple[int, ...]]:
    """What a stencil touches: a few places around, on one side, or far off."""
    reach = [w.random.choice(REACH) if rank < 3 else 1 for _ in range(rank)]
    low = [w.random.choice((-r, 0, -r, r - 1)) for r in reach]
    box = list(product(*(range(a, max(a, r) + 1) for a, r in zip(low, reach, strict=True))))
    return w.random.sample(box, min(len(box), w.random.randint(1, 5)))


def _boundary(w: Writer, x: Value, rank: int) -> tuple[list[str], str, str]:
    """A rule for each axis; how raido spells them; the fill."""
    fill = literal("True" if x.kind == "b" else w.random.choice(("0", "1", "5")))
    names = (*MODES, "valid", "constant")
    one = w.random.choice(names)
    rules = [w.random.choice(names) for _ in range(rank)] if rank > 1 and w.random.random() < 0.4 else [one] * rank
    spell = lambda rule: f"rd.constant({fill.raido})" if rule == "constant" else repr(rule)
    same = len(set(rules)) == 1
    text = spell(rules[0]) if same and w.random.random() < 0.8 else "(" + "".join(f"{spell(r)}, " for r in rules) + ")"
    return rules, text, fill.numpy


def windowed(w: Writer) -> Draft | None:
    """Any neighbourhood and any boundaries: minima, differences, selections, exactly; against padded slices."""
    x = w.take(ranks=range(1, 5), fits=lambda v: v.array.size < 700)
    offsets = _offsets(w, x.ndim)
    rules, boundary, fill = _boundary(w, x, x.ndim)
    stride = tuple(w.random.choice((1, 1, 1, 2, 3)) for _ in range(x.ndim))
    stride = stride if w.random.random() < 0.4 else (1,) * x.ndim
    spread = [max(0, *(o[k] for o in offsets)) - min(0, *(o[k] for o in offsets)) for k in range(x.ndim)]
    if prod(n + s for n, s in zip(x.shape, spread, strict=True)) > 3000:
        return None
    taps = [f"p[{', '.join(map(str, o))}]" for o in offsets]
    names = [f"q[{k}]" for k in range(len(taps))]
    form = w.random.choice(("min", "max", "combine", "select", "one"))
    if form in ("min", "max"):
        function = {"min": "minimum", "max": "maximum"}[form]
        body, want = taps[0], names[0]
        for tap, name in zip(taps[1:], names[1:], strict=True):
            body, want = f"rd.{function}({body}, {tap})", f"oracle.{function}({want}, {name})"
    elif form == "select" and len(taps) > 2:
        body = f"rd.where({taps[0]} == {taps[1]}, {taps[2]}, {taps[0]})"
        want = f"np.where({names[0]} == {names[1]}, {names[2]}, {names[0]})"
    elif form == "combine" and len(taps) > 1 and x.kind != "b":
        body, want = f"{taps[0]} - {taps[1]}", f"{names[0]} - {names[1]}"
    else:
        body, want = taps[0], names[0]
        offsets = offsets[:1] if len(offsets) > 1 else offsets
    if body == taps[0]:
        offsets = offsets[:1]
    used = offsets if form in ("min", "max") else offsets[: 3 if form == "select" else 2]
    options = f", stride={stride}" if stride != (1,) * x.ndim else ""
    if len(offsets) > 1 and x.kind != "b" and w.random.random() < 0.3:
        return _of_two(w, x, offsets[:2], (rules, boundary, fill, stride), options)
    raido = f"rd.stencil(lambda p: {body}, {x.raido}, boundary={boundary}{options})"
    numpy = f"(lambda q: {want})(neighbours.windows({x.numpy}, {used}, {rules}, {fill}, {stride}))"
    return Draft(raido, numpy, (x,))


def _of_two(w: Writer, x: Value, offsets: list[tuple[int, ...]], rule: tuple[Any, ...], options: str) -> Draft:
    """The difference of elements of two arrays of one shape."""
    y = w.pick(x.kind, fits=lambda v: v.dtype == x.dtype and v.shape == x.shape) or w.new(x.dtype, x.shape)
    rules, boundary, fill, stride = rule
    first, second = (", ".join(map(str, o)) for o in offsets)
    raido = f"rd.stencil(lambda p, q: p[{first}] - q[{second}], {x.raido}, {y.raido}, boundary={boundary}{options})"
    sides = (f"neighbours.windows({v.numpy}, {offsets}, {rules}, {fill}, {stride})" for v in (x, y))
    return Draft(raido, "{}[0] - {}[1]".format(*sides), (x, y))


def correlated(w: Writer) -> Draft | None:
    """Weighted sums of small whole numbers, against `scipy.ndimage.correlate`."""
    rank = w.random.choice((1, 1, 2, 2, 3))
    shape = tuple(w.random.choice((1, 2, 3, 4, 7, 9)) for _ in range(rank))
    x = w.new(w.random.choice(("i32", "i64", "f32", "f64")), shape, "whole")
    offsets = _offsets(w, rank)
    weights = [w.random.choice((-2, -1, 1, 2, 3)) for _ in offsets]
    mode, fill = w.random.choice(list(SCIPY)), w.random.choice((0, 5))
    body = " + ".join(f"{c} * p[{', '.join(map(str, o))}]" for c, o in zip(weights, offsets, strict=True))
    boundary = f"rd.constant({fill})" if mode == "constant" else repr(mode)
    if x.kind == "f":
        body = f"({body}) + 0.0"  # scipy's sums begin with 0.0, so that none is -0.0
    raido = f"rd.stencil(lambda p: {body}, {x.raido}, boundary={boundary})"
    taps = dict(zip(offsets, weights, strict=True))
    return Draft(raido, f"neighbours.correlate({x.numpy}, {taps}, {SCIPY[mode]!r}, {fill})", (x,))


def ranked(w: Writer) -> Draft | None:
    """The least or the greatest of a neighbourhood, against `scipy.ndimage.minimum_filter`."""
    rank = w.random.choice((1, 2, 2, 3))
    shape = tuple(w.random.choice((1, 2, 3, 5, 8)) for _ in range(rank))
    x = w.new(w.random.choice(("i8", "i16", "u8", "i32", "f32", "f64")), shape, "plain")
    offsets = _offsets(w, rank)
    mode, up = w.random.choice(list(SCIPY)), w.random.random() < 0.5
    fill = w.random.choice((0, 5))
    function = "maximum" if up else "minimum"
    body = f"p[{', '.join(map(str, offsets[0]))}]"
    for o in offsets[1:]:
        body = f"rd.{function}({body}, p[{', '.join(map(str, o))}])"
    boundary = f"rd.constant({fill})" if mode == "constant" else repr(mode)
    raido = f"rd.stencil(lambda p: {body}, {x.raido}, boundary={boundary})"
    return Draft(raido, f"neighbours.ranked({function!r}, {x.numpy}, {offsets}, {SCIPY[mode]!r}, {fill})", (x,))


STENCILS: list[tuple[Any, float]] = [(windowed, 4), (correlated, 1.5), (ranked, 1)]
