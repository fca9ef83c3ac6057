"""The common matcher of arguments: calls, `interpret`, executables, timing and the tuner accept and refuse the same arguments."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import raido as rd
from raido.autotune.measure.inputs import given_inputs

V = np.array([3, 1, 2], np.float32)
Vec = rd.record(x=rd.f32, y=rd.i32)


class Pair(NamedTuple):
    first: Any
    second: Any


@rd.algorithm
def doubled(a: rd.f32["n"]):
    return a * 2


@rd.algorithm
def scaled(a: rd.f32["n"], k: rd.f32):
    return a * k


@rd.algorithm
def shifted(a: rd.u8["n"], k: rd.u8):
    return a + k


@rd.algorithm
def head(a: rd.f32["n"], q: rd.size):
    return a[:q]


@rd.algorithm
def summed(v: Vec["n"]):
    return v.x + v.y.astype(rd.f32)


@rd.algorithm
def added(p: (rd.f32["n"], rd.f32["n"])):
    return p[0] + p[1]


@rd.algorithm
def turned(z: rd.complex64["n"]):
    return z * 1j


@rd.algorithm
def weighed(a: rd.f32["n"], b: rd.f32["n"], *, by: int = 2):
    return a + by * b


@rd.algorithm
def untyped(a):
    return a + 1


STRUCTURED = np.array([(1.5, 2), (3, 4)], [("x", "f4"), ("y", "i4")])

TAKEN: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = {
    "a list": (doubled, ([3, 1, 2],), {}, V * 2),
    "an empty list": (doubled, ([],), {}, V[:0]),
    "a list of NumPy scalars": (doubled, ([np.float32(3), np.float32(1)],), {}, V[:2] * 2),
    "a list of wider NumPy scalars": (doubled, ([np.float64(3), 1],), {}, V[:2] * 2),
    "a memoryview": (doubled, (memoryview(V),), {}, V * 2),
    "an array of the standard library": (doubled, (array.array("f", [3, 1, 2]),), {}, V * 2),
    "bytes of the other order": (doubled, (V.astype(">f4"),), {}, V * 2),
    "strides": (doubled, (np.repeat(V, 2)[::2],), {}, V * 2),
    "a keyword": (doubled, (), {"a": V}, V * 2),
    "keywords in any order": (scaled, (), {"k": 3, "a": V}, V * 3),
    "one keyword": (scaled, (V,), {"k": np.float32(3)}, V * 3),
    "a whole number as a float": (scaled, (V, 3), {}, V * 3),
    "a large whole number as a float": (scaled, (V, 2**60 + 1), {}, V * np.float32(2**60)),
    "a wider float": (scaled, (V, np.float64(1 / 3)), {}, V * np.float32(1 / 3)),
    "a narrower float": (scaled, (V, np.float16(0.1)), {}, V * np.float32(np.float16(0.1))),
    "an integer of NumPy's as a float": (scaled, (V, np.int64(3)), {}, V * 3),
    "a boolean of NumPy's as a float": (scaled, (V, np.True_), {}, V),
    "an array of rank 0": (scaled, (V, np.float32(3).reshape(())), {}, V * 3),
    "an array of rank 0 and another dtype": (scaled, (V, np.array(3)), {}, V * 3),
    "an integer that fits": (shifted, (np.arange(3, dtype=np.uint8), np.int64(2)), {}, np.array([2, 3, 4], np.uint8)),
    "a size": (head, (V, 2), {}, V[:2]),
    "a size by keyword": (head, (V,), {"q": np.int64(2)}, V[:2]),
    "a structured array": (summed, (STRUCTURED,), {}, np.array([3.5, 7], np.float32)),
    "a dict of lists": (summed, ({"y": [2, 4], "x": [1.5, 3]},), {}, np.array([3.5, 7], np.float32)),
    "a tuple of lists": (added, (([1, 2], [3, 4]),), {}, np.array([4, 6], np.float32)),
    "a list of arrays": (added, ([V, V],), {}, V * 2),
    "a named tuple": (added, (Pair(V, V),), {}, V * 2),
    "a list of complex numbers": (turned, ([1 + 2j, 3],), {}, np.array([-2 + 1j, 3j], np.complex64)),
    "a static parameter beside keywords": (weighed, (), {"b": V, "by": 3, "a": [0, 0, 0]}, V * 3),
    "a list without a type": (untyped, ([3, 1],), {}, np.array([4, 2])),
    "a memoryview without a type": (untyped, (memoryview(V),), {}, V + 1),
}

REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "text": (doubled, ("abc",), '"a" must be f32'),
    "a list of text": (doubled, (["a"],), '"a" must be f32'),
    "a ragged list": (doubled, ([1, [2]],), '"a" must be f32'),
    "a list of complex numbers": (doubled, ([1j],), '"a" must be f32'),
    "None": (doubled, (None,), '"a" must be f32'),
    "another dtype": (doubled, (V.astype(float),), 'astype\\("float32"\\)'),
    "a list of arrays of another dtype": (doubled, ([np.ones(1), np.ones(1)],), '"a" must be f32'),
    "another rank": (doubled, ([[1, 2]],), '"a" must be f32'),
    "a masked array": (doubled, (np.ma.masked_array(V),), "masked"),
    "a field too few": (summed, ({"x": V},), '"v" must have the fields'),
    "a field of another dtype": (summed, ({"x": V, "y": V},), r'"v\.y" must be i32'),
    "a part of another dtype": (added, ((V, V.astype(int)),), r'"p\[1\]" must be f32'),
    "a tuple that is too short": (added, ((V,),), '"p" must be a tuple'),
    "dates": (doubled, (np.array(["2024-02-29"], "M8[D]"),), r'\.astype\("int64"\) counts its units'),
    "a number that is too large": (
        shifted,
        (np.zeros(3, np.uint8), np.int64(256)),
        r'"k" must be u8 \(a scalar\), got np.int64\(256\) \(dtype int64\)\n  why       uint8 holds 0 to 255',
    ),
    "a negative number for an unsigned one": (shifted, (np.zeros(3, np.uint8), -1), "holds 0 to 255"),
    "a float for an integer": (shifted, (np.zeros(3, np.uint8), np.float64(2)), r"int\(…\) makes it one"),
    "a complex number for a real one": (scaled, (V, np.complex128(1)), r"\.real is its real part"),
    "a size that is none": (head, (V, 2.0), '"q" is a size and must be an int'),
}


def ways(algorithm: Any, *arguments: Any, **named: Any) -> dict[str, Callable[[], Any]]:
    """The ways to run an algorithm that give its result."""
    static = {name: value for name, value in named.items() if name == "by"}
    arrays = {name: value for name, value in named.items() if name != "by"}
    like = tuple(np.asarray(argument) for argument in arguments) if algorithm is untyped else ()

    def bound() -> Any:
        call = algorithm.compile(like=like, **static).bind(*arguments, **arrays)
        call.run()
        return call.result()

    return {
        "interpret": lambda: algorithm.interpret(*arguments, **named),
        "call": lambda: algorithm(*arguments, **named),
        "executable": lambda: algorithm.compile(like=like, **static)(*arguments, **arrays),
        "bind": bound,
    }


@pytest.mark.parametrize("what", TAKEN)
def test_every_way_to_run_takes_the_same_arguments(what: str) -> None:
    algorithm, arguments, named, want = TAKEN[what]
    for way, run in ways(algorithm, *arguments, **named).items():
        got = run()
        assert got.dtype == want.dtype and np.array_equal(got, want), way


@pytest.mark.parametrize("what", REFUSED)
def test_every_way_to_run_refuses_the_same_arguments(what: str) -> None:
    algorithm, arguments, words = REFUSED[what]
    executable = algorithm.compile()
    messages = set()
    for run in (
        algorithm.interpret,
        algorithm,
        executable,
        executable.time,
        lambda *a: given_inputs(executable.signature, a),
    ):
        with pytest.raises(rd.ArgumentError, match=words) as caught:
            run(*arguments)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_timing_and_the_tuner_take_what_calls_take() -> None:
    executable = scaled.compile()
    assert executable.time(k=2, a=[1, 2, 3], repeat=2).bytes == 2 * 12 + 4
    inputs = given_inputs(executable.signature, (memoryview(V), 2))
    assert inputs.sizes == {"n": 3} and bytes(inputs.blobs[0]) == V.tobytes()


def test_algorithms_inside_others_take_keywords() -> None:
    @rd.algorithm
    def outer(a: rd.f32["n"]):
        return scaled(k=rd.f32(3), a=a) + weighed(a, b=a, by=1)

    assert np.array_equal(outer(V), outer.interpret(V)) and np.array_equal(outer(V), 5 * V)
