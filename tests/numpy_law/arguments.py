"""Arguments for the test against NumPy: every dtype, its extremes, and memory in every layout."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

Kind: TypeAlias = Literal["plain", "whole", "mixed", "extreme", "bits", "signs"]
Layout: TypeAlias = Literal["plain", "fortran", "strided", "reversed", "odd", "frozen", "broadcast"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
FLOATS = ("f16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
DTYPES = ("bool_", *SIGNED, *UNSIGNED, *FLOATS)
COMPLEX = ("complex64", "complex128")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype for raido's name of it."""
    if name in COMPLEX:
        return np.dtype(name)
    words = {"b": "bool", "i": "int", "u": "uint", "f": "float"}
    return np.dtype("bool" if name == "bool_" else words[name[0]] + name[1:])


def raido_name(dtype: np.dtype[Any]) -> str:
    """raido's name of a NumPy dtype."""
    if dtype.kind == "c":
        return dtype.name
    return "bool_" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def extremes(dtype: np.dtype[Any]) -> np.ndarray:
    """The values at which operations differ most: ends of the range, zeros, infinities, NaN, denormals, neighbours of powers of two."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan, -np.nan]
        limits = [info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal]
        ends = [
            127.5,
            128.0,
            -129.0,
            255.5,
            32768.0,
            65504.0,
            2.0**31,
            -(2.0**31),
            2.0**32,
            2.0**63,
            -(2.0**63),
            2.0**64,
        ]
        with np.errstate(over="ignore"):
            return np.array([*values, *limits, info.eps, 1 + info.eps, *ends], dtype)
    info, bits = np.iinfo(dtype), 8 * dtype.itemsize
    values = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 1 << (bits - 2)]
    if dtype.kind == "i":
        values += [-1, -2, -3, -7, -bits]
    return np.array(values, dtype)


def argument(name: str, shape: tuple[int, ...], kind: Kind, layout: Layout, seed: int) -> np.ndarray:
    """An array of that dtype and shape.

    kind: "plain" are numbers within ±20, "whole" small whole ones, "mixed" plain ones of which a quarter are extremes, "extreme" these
    alone, "bits" any patterns of bits, "signs" zeros and ones of both signs. layout: how it lies in memory.
    """
    rng, dtype = np.random.default_rng(seed), numpy_dtype(name)
    if dtype.kind == "c":
        pair = np.empty(shape, dtype)
        part = "f32" if name == "complex64" else "f64"
        pair.real, pair.imag = (argument(part, shape, kind, "plain", seed + k) for k in (0, 10**7))
        return arranged(pair, layout)
    if dtype.kind == "b":
        values = rng.random(shape) < 0.5
    elif kind == "bits":
        words = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        values = words.view(dtype)[..., 0]
    elif kind == "extreme":
        values = rng.choice(extremes(dtype), shape)
    elif kind == "signs":
        signs = np.copysign(rng.choice([0, 0, 0, 0, 1], shape), rng.choice([-1, -1, 1], shape))
        values = signs if dtype.kind == "f" else np.abs(signs) if dtype.kind == "u" else signs
    else:
        span = 4 if kind == "whole" else 20
        values = rng.integers(0 if dtype.kind == "u" else -span, span + 1, shape)
        if dtype.kind == "f" and kind != "whole":
            values = np.round(rng.normal(0, 6, shape), 2)
        values = np.asarray(values).astype(dtype)
        if kind == "mixed":
            values = np.where(rng.random(shape) < 0.25, rng.choice(extremes(dtype), shape), values)
    return arranged(np.asarray(values, dtype), layout)


def indices(name: str, shape: tuple[int, ...], low: int, high: int, seed: int) -> np.ndarray:
    """Integers of low … high − 1, as far as the dtype holds them."""
    dtype = numpy_dtype(name)
    info = np.iinfo(dtype)
    low, high = max(low, info.min), min(high, info.max + 1)
    return np.random.default_rng(seed).integers(low, max(high, low + 1), shape).astype(dtype)


def arranged(values: np.ndarray, layout: Layout) -> np.ndarray:
    """The same numbers in memory of that layout ("broadcast" repeats the first of the outermost dimension, with a stride of 0)."""
    if layout == "odd":
        memory = np.zeros(values.nbytes + 1, np.uint8)
        odd = memory[1:].view(values.dtype).reshape(values.shape)
        odd[...] = values
        return odd
    if layout == "frozen":
        values = values.copy()
        values.flags.writeable = False
        return values
    if not values.ndim or layout == "plain":
        return values
    if layout == "fortran":
        return np.asfortranarray(values)
    if layout == "strided":
        return np.repeat(values, 2, axis=-1)[..., ::2]
    if layout == "broadcast":
        return np.broadcast_to(values[:1], values.shape) if len(values) else values
    backward = (slice(None, None, -1),) * values.ndim
    return values[backward].copy()[backward]
