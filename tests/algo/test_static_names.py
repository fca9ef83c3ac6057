"""Static parameters and the options of calls share keywords: a parameter with the name of an option is refused at its declaration."""

from __future__ import annotations

import inspect

import pytest

import raido as rd
from raido.algo.trace.reserved import option_names

METHODS = ("run", "inline", "compile", "schedule")
OPTIONS = sorted(
    {
        name
        for method in METHODS
        for name, parameter in inspect.signature(getattr(rd.Algorithm, method)).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
)


def declared(name: str, other: str = "") -> object:
    """A function with a static parameter of that name."""
    namespace: dict[str, object] = {}
    exec(f"def blend(x, *, {other}{name}=2.0):\n    return x * {name}\n", namespace)
    return namespace["blend"]


@pytest.mark.parametrize("name", OPTIONS)
def test_the_name_of_an_option_is_refused_when_the_function_is_decorated(name: str) -> None:
    with pytest.raises(rd.TraceError, match=f"blend: a static parameter cannot be called '{name}'") as caught:
        rd.algorithm(declared(name, "radius=1, "))
    assert "try       another name" in str(caught.value)


def test_the_message_quotes_the_line_of_the_parameter() -> None:
    with pytest.raises(rd.TraceError, match=rf"{__file__}:\d+   name: float = 2.0,"):

        @rd.algorithm(x="f32[n]")
        def blend(
            x: rd.Array,
            *,
            name: float = 2.0,
        ) -> rd.Array:
            return x * name


def test_the_options_are_those_of_every_method_that_takes_static_parameters() -> None:
    assert {"name", "out", "schedule", "target", "sizes", "db", "like", "unchecked"} <= set(OPTIONS)
    assert set(option_names(rd.Algorithm)) == set(OPTIONS)


def test_other_names_and_positional_parameters_stay() -> None:
    @rd.algorithm
    def blend(out: rd.f32["n"], name: rd.f32, *, radius=2.0, algorithm=1.0):
        return out * name * radius * algorithm

    assert blend.trace().parameters[0].name == "out"
    assert rd.capture(blend, algorithm=3.0).trace().name == "blend"
