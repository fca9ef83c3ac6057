"""Schedules of algorithms with static parameters, which a schedule brings along: as Python, as JSON, in `compile`, and for other values."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import numpy as np
import pytest

import raido as rd


class Window(enum.Enum):
    FLAT = 1
    HANN = 2


class Kept(enum.Flag):
    FIRST = 1
    LAST = 2


def halved(v: rd.Array) -> rd.Array:
    return v / 2


@rd.algorithm
def spectrogram(x: rd.f32["n"], *, width=100, hop=25, weights=None, scale=1.0, op=rd.add, window=Window.FLAT):
    shifted = op(x[:: int(hop)], width * scale)
    return shifted if weights is None or window is Window.FLAT else shifted * rd.array(weights).sum()


def rebuilt(text: str, **names: Any) -> rd.Schedule:
    scope = {"spectrogram": spectrogram, "rd": rd, "np": np, "Window": Window, "halved": halved, **names}
    exec(text, scope)
    return scope["s"]


STATIC: dict[str, dict[str, Any]] = {
    "": {},
    "width=200, hop=50": {"width": 200, "hop": 50},
    "hop=50": {"hop": 50, "width": 100},
    "width=200.0": {"width": 200.0},
    'scale=float("-inf")': {"scale": -np.inf},
    "scale=np.float32(0.5)": {"scale": np.float32(0.5)},
    "scale=True": {"scale": True},
    "op=rd.maximum": {"op": rd.maximum},
    "weights=(1.0, 2.0), window=Window.HANN": {"weights": (1.0, 2.0), "window": Window.HANN},
    "weights=[1, 2], window=Window.HANN": {"weights": [1, 2], "window": Window.HANN},
    'weights=np.array([1.0, 2.0], "float32")': {"weights": np.float32([1, 2])},
}


@pytest.mark.parametrize("printed", STATIC)
def test_a_printed_schedule_names_its_static_parameters(printed: str) -> None:
    s = spectrogram.schedule(**STATIC[printed])
    s[s.stages[-1]].split("x", 8)
    assert str(s).splitlines()[0] == f"s = spectrogram.schedule({printed})"
    again = rebuilt(str(s))
    assert again == s and str(again) == str(s) and again.graph.program is s.graph.program
    assert str(pickle.loads(pickle.dumps(s))) == str(s.copy()) == str(s)
    assert rd.Schedule.from_json(s.to_json(), spectrogram.schedule(**STATIC[printed])) == s


def test_what_was_captured_is_printed_even_where_it_is_the_default() -> None:
    s = rd.capture(spectrogram, width=100).schedule(hop=50)
    assert str(s) == "s = spectrogram.schedule(width=100, hop=50)"
    assert rebuilt(str(s)) == s == rebuilt(str(s), spectrogram=rd.capture(spectrogram, width=300))


TYPES: dict[str, tuple[Any, ...]] = {
    '"f32[n]", "f64[m]"': (rd.f32["n"], rd.f64["m"]),
    '"f32[n, max(0, n - 2), 3]", "i32"': ("f32[n, max(0, n - 2), 3]", rd.i32),
    '"complex64[n]", "complex128"': ("complex64[n]", "complex128"),
    'rd.size, ("f32[n]", ("bool_[2*(n//2)]",))': (rd.size, ("f32[n]", ("bool_[n//2*2]",))),
    '"f64[x_0]", "i64[y_0, y_1]"': (np.ones(2), np.ones((2, 3), int)),
}


@pytest.mark.parametrize("printed", TYPES)
def test_a_printed_schedule_names_types_that_are_not_declared(printed: str) -> None:
    first = rd.algorithm(lambda x, y, *, by=2: rd.iota(3) * by, name="first")
    s = first.schedule(*TYPES[printed], by=3)
    assert str(s) == f"s = first.schedule({printed}, by=3)"
    assert rebuilt(str(s), first=first).graph.program is s.graph.program
    of_default = first.schedule(*TYPES[printed])
    assert f"rd.Schedule.from_json(text, first.schedule({printed}, by=3))" in message(
        lambda: rd.Schedule.from_json(s.to_json(), of_default)
    )
    declared = rd.algorithm(lambda x: x + 1, x="f32[n]", name="declared")
    assert str(declared.schedule("f32[n]")) == str(declared.schedule()) == "s = declared.schedule()"
    assert str(declared.schedule("f64[n]")) == 's = declared.schedule("f64[n]")'


def test_a_target_is_printed_behind_static_parameters() -> None:
    s = spectrogram.schedule(hop=50, target="cuda:sm_80")
    assert str(s) == 's = spectrogram.schedule(hop=50, target="cuda")'
    assert rebuilt(str(s)) == s


def lambda_of(value: Any) -> Any:
    return lambda a, b: rd.minimum(a, b) + value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("op", lambda_of(1)),
        ("weights", np.ones(2000)),
        ("weights", object()),
        ("weights", Kept.FIRST | Kept.LAST),
        ("weights", np.longdouble(3)),
    ],
)
def test_a_value_that_is_no_expression_is_printed_as_its_parameter(name: str, value: Any) -> None:
    s = spectrogram.schedule(**{name: value})
    assert str(s) == f"s = spectrogram.schedule({name}={name})"
    assert rebuilt(str(s), **{name: value}) == s
    assert str(pickle.loads(pickle.dumps(s))) == str(s)


def message(call: Any) -> str:
    with pytest.raises(rd.ScheduleError) as caught:
        call()
    return str(caught.value)


def test_compiling_with_other_static_parameters_names_those_that_differ() -> None:
    s = spectrogram.schedule(width=200, hop=50)
    assert spectrogram.compile(schedule=s)(np.zeros(100, np.float32)).tolist() == [200, 200]
    assert spectrogram.compile(schedule=s, width=200, hop=50)(np.zeros(100, np.float32)).tolist() == [200, 200]
    assert message(lambda: spectrogram.compile(schedule=s, width=200)) == (
        "the schedule belongs to another program\n"
        "  why       it was made with hop=50; this is spectrogram with hop=25\n"
        "  try       spectrogram.compile(schedule=s), without static parameters: the schedule has them"
    )
    assert "made with width=200, hop=50; this is spectrogram with width=300, hop=25" in message(
        lambda: spectrogram.compile(schedule=s, width=300)
    )


def test_a_schedule_that_another_process_made_is_compiled_with_its_static_parameters() -> None:
    s = pickle.loads(pickle.dumps(spectrogram.schedule(width=200, hop=50)))
    assert message(lambda: spectrogram.compile(schedule=s, scale=2.0)) == (
        "the schedule belongs to another program\n"
        "  why       it was made with width=200, hop=50, scale=1.0; this is spectrogram with width=100, hop=25, scale=2.0\n"
        "  try       spectrogram.compile(schedule=s, width=200, hop=50, scale=1.0)"
    )
    captured = rd.capture(spectrogram, scale=2.0)
    for call in (spectrogram, captured):
        exe = call.compile(schedule=s, width=200, hop=50, scale=1.0)
        assert exe(np.zeros(100, np.float32)).tolist() == [200, 200]


def test_a_schedule_of_another_algorithm_is_answered_with_its_name() -> None:
    other = rd.algorithm(lambda x, *, width=3: x * width, x="f32[n]", name="other")
    assert message(lambda: spectrogram.compile(schedule=other.schedule(width=5), width=5)) == (
        "the schedule belongs to another program\n"
        '  why       it schedules "other"; this is "spectrogram"\n'
        "  try       build it from spectrogram.schedule(width=5)"
    )


def test_json_of_other_static_parameters_is_answered_with_the_schedule_that_takes_it() -> None:
    s = spectrogram.schedule(width=200, hop=50)
    s[s.stages[-1]].split("x", 8)
    assert message(lambda: rd.Schedule.from_json(s.to_json(), spectrogram)) == (
        "the schedule belongs to another program\n"
        "  why       it was made for spectrogram with width=200, hop=50; this is spectrogram with the defaults\n"
        "  try       rd.Schedule.from_json(text, spectrogram.schedule(width=200, hop=50)), "
        "or rd.capture(spectrogram, width=200, hop=50)"
    )
    assert rd.Schedule.from_json(s.to_json(), spectrogram.schedule(width=200, hop=50)) == s
    assert rd.Schedule.from_json(s.to_json(), rd.capture(spectrogram, width=200, hop=50)) == s
    plain = spectrogram.schedule().to_json()
    assert "static" not in plain
    assert "with the defaults; this is spectrogram with hop=50" in message(
        lambda: rd.Schedule.from_json(plain, spectrogram.schedule(hop=50))
    )


@pytest.mark.parametrize("static", ["3", "[1]", '{"width": 3}'])
def test_json_whose_static_parameters_are_no_texts_is_refused(static: str) -> None:
    text = spectrogram.schedule(width=3).to_json().replace('{"width": "3"}', static)
    assert "not a schedule in JSON" in message(lambda: rd.Schedule.from_json(text, spectrogram))
