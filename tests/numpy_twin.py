"""A program and the NumPy function that it must agree with: in structure, dtypes, shapes and bits, interpreted and, if asked, compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import raido as rd

SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (np.float16, np.float32, np.float64)
REAL = (np.bool_, *SIGNED, *UNSIGNED, *FLOATS)
NUMBERS = (*REAL, np.complex64, np.complex128)


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Numbers of a type, half of them negative where it has such; floats with zeros of both signs, infinity and NaN among them."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "u":
        return rng.integers(0, 200, shape).astype(dtype)
    if kind == "i":
        return rng.integers(-100, 100, shape).astype(dtype)
    if kind == "c":
        return (sample(shape, np.float64, seed) + 1j * finite(shape, np.float64, seed + 1)).astype(dtype)
    values = finite(shape, dtype, seed).ravel()
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    places = rng.permutation(values.size)[: len(special)]
    values[places] = special[: len(places)]
    return values.reshape(shape)


def finite(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Numbers of a type without infinities and NaN."""
    if np.dtype(dtype).kind not in "fc":
        return sample(shape, dtype, seed)
    rng = np.random.default_rng(seed)
    values = rng.integers(-64, 64, shape) / 8
    return (values + 1j * (rng.integers(-64, 64, shape) / 8) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def types_of(program: Callable[..., Any], arguments: tuple[np.ndarray, ...]) -> dict[str, str]:
    """Annotations for the parameters of a program: the types of these arguments, with their sizes."""
    names = inspect.signature(program).parameters
    return {name: f"{a.dtype.name}[{', '.join(map(str, a.shape))}]" for name, a in zip(names, arguments, strict=True)}


def same(
    program: Callable[..., Any],
    reference: Callable[..., Any],
    *arguments: Any,
    compiled: bool = False,
    rtol: float = 0.0,
    sized: bool = False,
) -> None:
    """The program gives what the reference gives; `rtol` 0 asks for the same bits, NaN standing for any NaN.

    `sized`: the program is traced for the sizes of these arguments, else for any.
    """
    types = types_of(program, arguments) if sized else {}
    algorithm = program if isinstance(program, rd.Algorithm) else rd.algorithm(**types)(program)
    with np.errstate(all="ignore"):
        expected = reference(*arguments)
    for run in (algorithm.interpret, algorithm)[: 2 if compiled else 1]:
        alike(run(*arguments), expected, rtol)


def alike(got: Any, want: Any, rtol: float = 0.0) -> None:
    """Equal structure, types, shapes and values."""
    if isinstance(want, (tuple, list)):
        assert isinstance(got, (tuple, list)) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            alike(g, w, rtol)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if rtol:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
        return
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind in "fc":
        parts = (np.real, np.imag) if want.dtype.kind == "c" else (np.asarray,)
        for part in parts:
            known = ~np.isnan(part(want))
            np.testing.assert_array_equal(np.signbit(part(got))[known], np.signbit(part(want))[known])
