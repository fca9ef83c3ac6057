"""Schedules of algorithms with static parameters, which a schedule brings along: as Python, as JSON, in `compile`, and of other values."""

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


def test_a_target_is_printed_behind_static_parameters() -> None:
    s = spectrogram.schedule(hop=50, target="cuda:sm_80")
    assert str(s) == 's = spectrogram.schedule(hop=50, target="cuda")'
    assert rebuilt(str(s)) == s


def lambda_of(value: Any) -> Any:
    return lambda a, b: rd.minimum(a, b) + value


@pytest.mark.parametrize(("name", "value"), [("op", lambda_of(1)), ("weights", np.ones(2000)), ("weights", object())])
def test_a_value_that_is_no_expression_is_printed_as_its_parameter(name: str, value: Any) -> None:
    s = spectrogram.schedule(**{name: value})
    assert str(s) == f"s = spectrogram.schedule({name}={name})"
    assert rebuilt(str(s), **{name: value}) == s
    assert str(pickle.loads(pickle.dumps(s))) == str(s)
