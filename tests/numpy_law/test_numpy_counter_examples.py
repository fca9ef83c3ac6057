"""Former counter-examples of the test against NumPy, each as a small program of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from numpy_law import oracle
from numpy_law.arguments import raido_name
from numpy_law.law import hold


def gives(program: Callable[..., Any], expected: Callable[..., Any], *arguments: Any, **types: str) -> None:
    """A program gives what NumPy gives, interpreted and compiled; `expected` has the program's parameters."""
    names = program.__code__.co_varnames[: len(arguments)]
    for name, a in zip(names, arguments, strict=True):
        sizes = ", ".join(f"{name}{k}" for k in range(np.ndim(a)))
        types.setdefault(name, raido_name(np.asarray(a).dtype) + (f"[{sizes}]" if sizes else ""))
    hold(rd.algorithm(**types)(program), arguments, {"result": expected})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32"])
def test_degrees_and_radians_are_numpys_to_the_last_bit(dtype: str) -> None:
    """NumPy takes the quotient 180 / π in the type, and computes f16 in f32."""
    x = np.linspace(-100, 100, 300).astype(dtype)
    gives(lambda x: rd.degrees(x), lambda x: np.degrees(x), x)
    gives(lambda x: rd.radians(x), lambda x: np.radians(x), x)


def test_an_array_broadcasts_to_sizes_that_are_found_equal_only_when_it_runs() -> None:
    """Of the same mask twice, or of two names of sizes."""
    a, mask, b = np.arange(4.0), np.array([True, False, True, True]), np.ones(4)
    again = lambda a, mask: rd.broadcast_to(a[mask], (2, a[mask].shape[0]))
    gives(again, lambda a, mask: np.broadcast_to(a[mask], (2, 3)), a, mask)
    named = lambda a, b: rd.broadcast_to(a, (3, b.shape[0]))
    gives(named, lambda a, b: np.broadcast_to(a, (3, 4)), a, b, a="f64[n]", b="f64[m]")
    with pytest.raises(rd.SizeMismatch):
        rd.algorithm(a="f64[n]", b="f64[m]")(named).interpret(a, b[:3])
    with pytest.raises(rd.ShapeError, match=r"does not broadcast to f64\[1\]"):
        rd.algorithm(a="f64[n]")(lambda a: rd.broadcast_to(a, (1,))).interpret(a)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_rounded_integers_stay_integers(dtype: str) -> None:
    """To tens as to decimals."""
    x = np.array([0, 4, 5, 15, 25, 55, 99, 120], dtype)
    gives(lambda x: rd.round(x, -2), lambda x: np.round(x, -2), x)
    gives(lambda x: rd.round(x, -1), lambda x: np.round(x, -1), x)
    gives(lambda x: rd.round(x, 1), lambda x: np.round(x, 1), x)


def test_operators_on_rows_whose_length_data_decide() -> None:
    """The length of a row is made by arrays of its own, which are no part of the row."""
    x, mask = np.arange(42.0, dtype=np.float32).reshape(3, 7, 2), np.arange(14).reshape(7, 2) % 3 > 0
    gives(lambda x, m: rd.reduce(rd.maximum, 0, x[:, m], axis=0), lambda x, m: np.max(x[:, m], axis=0), x, mask)
    gives(
        lambda x, m: rd.scan(rd.minimum, 99, x[:, m], axis=0),
        lambda x, m: oracle.accumulate(np.minimum, x[:, m], 0, 99, False),
        x,
        mask,
    )


@pytest.mark.parametrize("function", [rd.positive, rd.negative, rd.sign])
def test_signs_of_booleans_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(rd.DTypeError, match="on bool_"):
        rd.algorithm(lambda a: function(a)).interpret(np.array([True]))


def test_no_sum_is_negative_zero() -> None:
    """A sum begins with 0.0, be it of one number or along no axis."""
    gives(lambda x: rd.sum(x), lambda x: np.sum(x), np.float32(-0.0))
    gives(lambda x: rd.sum(x, axis=()), lambda x: np.sum(x, axis=()), np.array([-0.0, 1.0]))


def test_a_literal_beyond_a_type_is_infinite_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rd.algorithm(lambda x: x + 1e30).interpret(np.ones(1, np.float16)) == np.inf


MASK = np.array([True, True, True, True, False, True])
SIX = np.arange(6.0)


def test_a_value_of_another_size_than_the_places_that_data_chooses_is_refused() -> None:
    """A shorter one was read beyond its end, a longer one cut off; slices of what data sizes took no value at all."""
    short = rd.algorithm(a="f64[n]", m="bool_[n]", v="f64[k]")(lambda a, m, v: a.at[m].set(v))
    sliced = rd.algorithm(a="f64[n]", m="bool_[n]", v="f64[k]")(lambda a, m, v: a[m].at[1:].set(v))
    for run in (short.interpret, short, sliced.interpret, sliced):
        for size in (3, 7):
            with pytest.raises(rd.SizeMismatch, match=r"sizes \d and \d do not agree"):
                run(SIX, MASK, np.ones(size))
    gives(lambda a, m, v: a.at[m].set(v), lambda a, m, v: oracle.updated("set", a, m, v), SIX, MASK, np.ones(5))
    whole = lambda a, m, v: np.concatenate([a[:1], v])
    gives(lambda a, m, v: a[m].at[1:].set(v), whole, SIX, MASK, np.ones(4))


def test_what_a_mask_keeps_is_reshaped() -> None:
    """The number of elements is compared when it is known."""
    gives(lambda a, m: a[m].reshape(5, 1), lambda a, m: a[m].reshape(5, 1), SIX, MASK)
    gives(lambda a, m: rd.reshape(a[m], (-1, 5)), lambda a, m: a[m].reshape(-1, 5), SIX, MASK)
    gives(lambda a, m: a[m][:1].reshape(()), lambda a, m: a[m][:1].reshape(()), SIX, MASK)
    with pytest.raises(rd.SizeMismatch, match="sizes 0 and 1 do not agree"):
        rd.algorithm(lambda a, m: a[m].reshape(())).interpret(SIX, MASK & False)
    small = rd.algorithm(a="f64[n]", m="bool_[n]")(lambda a, m: a[m].reshape(2, 2))
    halves = rd.algorithm(a="f64[n]", m="bool_[n]")(lambda a, m: a[m].reshape(2, -1))
    for run in (small.interpret, small, halves.interpret, halves):
        with pytest.raises(rd.SizeMismatch, match="sizes 5 and 4 do not agree"):
            run(SIX, MASK)


def test_masks_of_what_masks_keep() -> None:
    """Of several dimensions, and among other indices: sizes are compared when they are known."""
    b, m2 = np.arange(12.0).reshape(6, 2), np.arange(10).reshape(5, 2) % 3 > 0
    gives(lambda b, m, n: b[m][n], lambda b, m, n: b[m][n], b, MASK, m2)
    gives(lambda b, m, n: b[m][n, 0], lambda b, m, n: b[m][n, 0], b, MASK, m2[:, 0].copy())
    for key in ((lambda b, m, n: b[m][n]), (lambda b, m, n: b[m][n[:, 0], 0])):
        program = rd.algorithm(b="f64[n, 2]", m="bool_[n]", n="bool_[k, 2]")(key)
        with pytest.raises(rd.SizeMismatch, match=r"sizes [45] and [45] do not agree"):
            program.interpret(b, MASK, m2[:4])


def test_stencils_over_arrays_whose_sizes_data_decides() -> None:
    stencil = lambda a, m: rd.stencil(lambda p, q: p[0] - q[1], a[:5], a[m], boundary="wrap")
    gives(stencil, lambda a, m: a[:5] - np.roll(a[m], -1), SIX, MASK)
    with pytest.raises(rd.SizeMismatch, match="sizes 5 and 6 do not agree"):
        rd.algorithm(stencil).interpret(SIX, ~MASK | True)
