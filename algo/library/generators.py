"""Counter-based generators of random bits: each block of words is a function of a key and the block's number alone.

Threefry-2x32-20 and Philox-4x32-10 of J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC '11. No state is carried from element to element, so any element may be computed anywhere, in any order; the arithmetic is on
integers, which wrap, so the bits are the same on every target.

A generator is known by the length of its keys: two words (u32) for Threefry, four for Philox, of which two are the key of the cipher and
two the upper half of its counter. Threefry's blocks, derived keys and bits are those of JAX with `jax_threefry_partitionable`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, ShapeError
from raido.algo.graph import index
from raido.algo.graph.dtypes import u32, u64
from raido.algo.language.ufuncs import where
from raido.algo.trace.building import structure
from raido.algo.trace.context import current
from raido.algo.trace.locations import complaint
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array

Words = tuple[Any, ...]

_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits; Salmon et al., table 2
_THREEFRY_PARITY = 0x1BD11BDA  # Skein's constant C240, its upper half exclusive-or its lower half
_PHILOX_FACTORS = 0xD2511F53, 0xCD9E8D57  # Salmon et al., section 3.3
_PHILOX_STEPS = (
    0x9E3779B9,
    0xBB67AE85,
)  # of the key from iteration to iteration: the golden ratio, and the square root of 3 minus 1


@dataclass(frozen=True, slots=True)
class Generator:
    """A block cipher under a key, from the number of a block (u64) to the words of the block (u32)."""

    name: str
    key_words: int
    block_words: int
    block: Callable[[Words, Any], Words]
    shares_blocks: bool  # whether elements that need part of a block share it; else each folds a block of its own to the needed size


def threefry2x32(key: Words, counter: Words) -> Words:
    """The two words of Threefry-2x32, with 20 rounds, for a counter of two words under a key of two words."""
    schedule = (*key, key[0] ^ key[1] ^ _THREEFRY_PARITY)
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for injection in range(1, 6):
        for rotation in _THREEFRY_ROTATIONS[(injection - 1) % 2]:
            x = x + y
            y = ((y << rotation) | (y >> (32 - rotation))) ^ x
        x = x + schedule[injection % 3]
        y = y + (schedule[(injection + 1) % 3] + injection)
    return x, y


def philox4x32(key: Words, counter: Words) -> Words:
    """The four words of Philox-4x32, with 10 rounds, for a counter of four words under a key of two words."""
    (a, b), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        high0, low0 = _product(_PHILOX_FACTORS[0], c0)
        high1, low1 = _product(_PHILOX_FACTORS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ a, low1, high0 ^ c3 ^ b, low0
        a, b = a + _PHILOX_STEPS[0], b + _PHILOX_STEPS[1]
    return c0, c1, c2, c3


def _product(factor: int, x: Any) -> tuple[Any, Any]:
    """The upper and the lower word of the product of two words."""
    product = u64(x) * factor
    return u32(product >> 32), u32(product & 0xFFFFFFFF)


def halves(number: Any) -> tuple[Any, Any]:
    """The upper and the lower word (u32) of a u64."""
    return u32(number >> 32), u32(number & 0xFFFFFFFF)


def joined(high: Any, low: Any) -> Any:
    """The u64 of an upper and a lower word."""
    return (u64(high) << 32) | u64(low)


def _threefry_block(key: Words, number: Any) -> Words:
    return threefry2x32(key, halves(number))


def _philox_block(key: Words, number: Any) -> Words:
    high, low = halves(number)
    return philox4x32(key[:2], (low, high, key[2], key[3]))


THREEFRY = Generator("threefry", 2, 2, _threefry_block, shares_blocks=False)
PHILOX = Generator("philox", 4, 4, _philox_block, shares_blocks=True)
GENERATORS = {generator.name: generator for generator in (THREEFRY, PHILOX)}


def draw(generator: Generator, key: Words, position: Any, count: int) -> Words:
    """The `count` words (1, 2 or 4) of the element at index `position` (u64) of an array drawn with a key."""
    per_block = generator.block_words
    if count >= per_block:
        blocks = count // per_block
        numbers = [position * blocks + k for k in range(blocks)] if blocks > 1 else [position]
        return tuple(word for number in numbers for word in generator.block(key, number))
    if not generator.shares_blocks:
        return (functools.reduce(operator.xor, generator.block(key, position)),)
    words, sharing = generator.block(key, position // (per_block // count)), per_block // count
    while sharing > 1:  # selects the half that has the element's words
        sharing //= 2
        upper = (position & sharing) != 0
        middle = len(words) // 2
        words = tuple(where(upper, b, a) for a, b in zip(words[:middle], words[middle:], strict=True))
    return words


def opened(key: Any, what: str) -> tuple[Generator, Words]:
    """The generator of a key, and the words of the key; DTypeError or ShapeError for an array that is not a key.

    A key whose length is not known while tracing is taken as the default generator's; its length is checked at the call.
    """
    if not isinstance(key, (Array, tuple, list, int, np.ndarray, np.generic)):
        raise DTypeError(complaint(f"{what} needs a key, not {type(key).__name__}", remedy="rd.random.key(seed)"))
    given = structure(key)
    if not isinstance(given, Array) or given.dtype is not u32:
        kind = given.dtype if isinstance(given, Array) else "a tuple"
        remedy = "rd.random.key(seed); of a parameter, key: rd.u32[2]"
        raise DTypeError(complaint(f"{what} needs a key of u32, not {kind}", remedy=remedy))
    lengths = {generator.key_words: generator for generator in GENERATORS.values()}
    count = index.constant_value(given.extents[0]) if given.ndim == 1 else None
    if given.ndim == 1 and count is None:
        count = THREEFRY.key_words
        owners = f"the length of the key of {what}", f"that of the keys of generator {THREEFRY.name!r}"
        current().equal_sizes(given.extents[0], index.as_index(count), *owners)
    if count in lengths:
        return lengths[count], tuple(given[k] for k in range(count))
    why = f"a key is {' or '.join(f'u32[{n}]' for n in lengths)}; this is {describe(given.dtype, given.extents)}"
    raise ShapeError(complaint(f"{what} needs one key", why=why, remedy="keys[i], or rd.map over an array of keys"))


def seeded(generator: Generator, seed: Sequence[Any]) -> list[Any]:
    """The words of the key for a seed, given as its upper and its lower word."""
    high, low = seed
    return [high, low] if generator.key_words == 2 else [low, high, 0, 0]
