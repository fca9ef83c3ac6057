"""Records: structures of arrays inside, dicts of arrays (or structured arrays) outside."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import raido as rd

Vec = rd.record(x=rd.f32, y=rd.f32)
Body = rd.record(place=Vec, mass=rd.f64)


def vectors(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    x, y = np.random.default_rng(seed).integers(-9, 9, (2, n)).astype(np.float32)
    return {"x": x, "y": y}


def equal(result, expected) -> None:
    """Dicts of arrays, nested, equal in values and types."""
    if isinstance(expected, dict):
        assert list(result) == list(expected)
        for name, part in expected.items():
            equal(result[name], part)
        return
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_records_with_equal_fields_are_one_class() -> None:
    assert rd.record(x=rd.f32, y=rd.f32) is Vec
    assert rd.record(y=rd.f32, x=rd.f32) is not Vec


def test_fields_are_read_and_replaced() -> None:
    @rd.algorithm
    def turned(v: Vec["n"]):
        return rd.map(lambda p: p.replace(x=-p.y, y=p.x), v), v.x + v.y

    v = vectors(7)
    for run in (turned.interpret, turned):
        result, total = run(v)
        equal(result, {"x": -v["y"], "y": v["x"]})
        equal(total, v["x"] + v["y"])


def test_structured_arrays_are_accepted_and_records_nest() -> None:
    @rd.algorithm
    def moved(b: Body["n"], step: Vec):
        def move(body):
            return body.replace(place=Vec(x=body.place.x + step.x, y=body.place.y + step.y))

        return rd.map(move, b), rd.sum(b.mass * b.place.x)

    kind = np.dtype([("place", [("x", "f4"), ("y", "f4")]), ("mass", "f8")])
    bodies = np.zeros(4, kind)
    bodies["place"]["x"], bodies["mass"] = np.arange(4), np.arange(4) + 1
    step = {"x": np.float32(0.5), "y": np.float32(-1)}
    for run in (moved.interpret, moved):
        result, total = run(bodies, step)
        place = {"x": bodies["place"]["x"] + np.float32(0.5), "y": np.full(4, -1, np.float32)}
        equal(result, {"place": place, "mass": bodies["mass"]})
        assert total == (bodies["mass"] * bodies["place"]["x"]).sum()


def test_combinators_take_records_as_elements() -> None:
    @rd.algorithm
    def used(v: Vec["n"]):
        add = lambda a, b: Vec(x=a.x + b.x, y=a.y + b.y)
        total = rd.reduce(add, Vec(x=0, y=0), v)
        prefixes = rd.scan(add, Vec(x=0, y=0), v)
        kept = rd.filter(lambda p: p.x > p.y, v)
        ordered = rd.sort(v)
        walked = rd.loop(3, lambda t, s: add(s, v[0]), Vec(x=1, y=2))
        longest = rd.cond(v[0].x > 0, lambda: v[0], lambda: Vec(x=0, y=0))
        return total, prefixes, kept, ordered, walked, longest, v[v.y > 0], v[::2], v[1]

    v = vectors(20, 3)
    both = np.stack([v["x"], v["y"]], axis=1)
    keep, order, first = v["x"] > v["y"], np.lexsort((v["y"], v["x"])), both[0]
    expected = [
        both.sum(axis=0),
        both.cumsum(axis=0),
        both[keep],
        both[order],
        np.float32([1, 2]) + 3 * first,
        first if first[0] > 0 else 0 * first,
        both[v["y"] > 0],
        both[::2],
        both[1],
    ]
    for result, array in zip(used.interpret(v), expected, strict=True):
        equal(result, {"x": array[..., 0], "y": array[..., 1]})


def test_records_in_updates_and_histograms() -> None:
    @rd.algorithm
    def used(v: Vec["n"], i: rd.i64["n"]):
        zero = Vec(x=rd.full(4, rd.f32(0)), y=rd.full(4, rd.f32(0)))
        sums = rd.reduce_by_index(zero, lambda a, b: Vec(x=a.x + b.x, y=rd.maximum(a.y, b.y)), Vec(x=0, y=0), i, v)
        return sums, v.at[i].set(v[0]), rd.scatter(zero, i, v)

    v, i = vectors(9, 4), np.random.default_rng(0).integers(0, 4, 9)
    sums, put, scattered = used.interpret(v, i)
    x, y = np.zeros((2, 4), np.float32)
    np.add.at(x, i, v["x"])
    np.maximum.at(y, i, v["y"])
    equal(sums, {"x": x, "y": y})
    for name in "xy":
        expected = v[name].copy()
        expected[i] = v[name][0]
        np.testing.assert_array_equal(put[name], expected)
        np.testing.assert_array_equal(scattered[name], [v[name][i == b][-1] if (i == b).any() else 0 for b in range(4)])


def test_parameters_without_a_type_and_inlined_algorithms() -> None:
    @rd.algorithm
    def length(v: Vec["k"]):
        return rd.sqrt(v.x * v.x + v.y * v.y)

    @rd.algorithm
    def ratio(v):
        return length(v) / rd.max(length(v), initial=1.0)

    v = vectors(5, 5)
    size = np.sqrt(v["x"] ** 2 + v["y"] ** 2)
    np.testing.assert_allclose(ratio.interpret(v), size / max(1, size.max()), rtol=1e-6)


def test_types_and_named_tuples_keep_their_names() -> None:
    class Pair(NamedTuple):
        x: Any
        y: Any

    added = rd.algorithm(lambda v: (v.x + v.y).named("out"))
    a = np.ones(3, np.float32)
    for like in (Vec["n"], Pair(rd.f32["n"], rd.f32["n"]), Pair(a, a)):
        assert [parameter.dtype for parameter in added.trace(like).parameters] == [rd.f32, rd.f32]
    np.testing.assert_array_equal(added.interpret(Pair(a, a)), 2 * a)


def test_errors_name_what_is_wrong() -> None:
    get = rd.algorithm(lambda v: v.x, v=Vec["n"])
    v = vectors(3)
    with pytest.raises(rd.ArgumentError, match=r'"v" must have the fields .*, got the fields x'):
        get.interpret({"x": v["x"]})
    with pytest.raises(rd.ArgumentError, match='"v" must be a dict of arrays or a structured array'):
        get.interpret(v["x"])
    with pytest.raises(rd.ArgumentError, match=r'"v\.y" must be f32\[n\], got an array of dtype float64'):
        get.interpret({"x": v["x"], "y": v["y"].astype(float)})
    for function, error, words in [
        (lambda v: Vec(x=v.x), rd.TraceError, "the field 'y' is missing"),
        (lambda v: Vec(x=v.x, z=v.x), rd.TraceError, "'z' is no field; there are x, y"),
        (lambda v: Vec(x=v.x, y=rd.f64(0)), rd.DTypeError, "the field 'y' is f32, not f64"),
        (lambda v: v + v, rd.TraceError, "arithmetic of records"),
        (lambda v: v.z, AttributeError, "z"),
    ]:
        with pytest.raises(error, match=words):
            rd.algorithm(function, v=Vec["n"]).trace()
    with pytest.raises(rd.TraceError, match="has a dtype such as"):
        rd.record(x="f4")


def test_only_records_stand_among_records() -> None:
    @rd.algorithm
    def changed(v: Vec["n"]):
        return v.at[0].set(2.0)

    with pytest.raises(rd.TraceError, match="among records"):
        changed.trace()


def test_a_window_over_records_gives_records() -> None:
    turned = rd.algorithm(lambda v: rd.stencil(lambda p: Vec(x=p[1].y, y=p[-1].x), v, boundary="wrap"))
    v = vectors(5)
    equal(turned.interpret(v), {"x": np.roll(v["y"], -1), "y": np.roll(v["x"], 1)})
