"""Wide integers of which only 8 or 16 bits are used are computed in as many bits, and give NumPy's results."""

import random
from typing import Any

import numpy as np
import pytest

import raido as rd

WIDE, NARROW = ("i32", "i64", "u32"), ("u8", "i8", "u16", "i16")
TYPES = {
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u32": np.uint32,
}


def blend(a, t, b):
    return (a * t + b * (255 - t) + 127) // 255


def luma(r, g, b):
    return (77 * r + 150 * g + 29 * b + 128) >> 8


def chroma(r, g, b):
    return ((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128


def spread(a, b, c):
    return abs(a - b) + c // 3


def squared(a, b, c):
    return (a * a + b * (255 - a) + 127) // 255


def cubed(a, b, c):
    return (a * a * a) >> 8


def mixed(a, b, c):
    return ((a << 3) ^ (b * c) | (a & ~c)) >> 5


def too_wide(a, b, c):
    return (a * b + c * c) >> 9


@pytest.mark.parametrize(
    "function", [blend, luma, chroma, spread, squared, cubed, mixed, too_wide], ids=lambda f: f.__name__
)
def test_bytes_of_pixels(function):
    ends = np.array([0, 1, 127, 128, 254, 255], np.uint8)
    arrays = [each.ravel().copy() for each in np.meshgrid(ends, ends, ends)]
    algorithm = rd.algorithm(
        lambda a, b, c: rd.u8(function(rd.i32(a), rd.i32(b), rd.i32(c))), a="u8[n]", b="u8[n]", c="u8[n]"
    )
    want = function(*(x.astype(np.int32) for x in arrays)).astype(np.uint8)
    np.testing.assert_array_equal(algorithm(*arrays), want)
    text = algorithm.compile().source("gang")
    assert ("i32(" in text) == (function is too_wide)


def test_numbers_that_lanes_share_are_cast_once():
    """Whatever they are: only low bits of them are used."""
    algorithm = rd.algorithm(
        lambda a, b, x: rd.u8((rd.i32(a) * x + rd.i32(b) * (256 - x)) >> 8), a="u8[n]", b="u8[n]", x="i32"
    )
    a, b = (np.random.default_rng(k).integers(0, 256, 99).astype(np.uint8) for k in range(2))
    for x in (0, 77, 256, -5, 2**31 - 1, -(2**31)):
        with np.errstate(over="ignore"):
            scalar = np.int32(x)
            wanted = ((a.astype(np.int32) * scalar + b.astype(np.int32) * (np.int32(256) - scalar)) >> 8).astype(
                np.uint8
            )
        np.testing.assert_array_equal(algorithm(a, b, scalar), wanted)
    assert "i32(" not in algorithm.compile().source("gang")


def test_comparisons_of_narrow_numbers_are_narrow():
    made = lambda a, b: rd.where(rd.i32(a) * 49 > rd.i32(b) * 40 - 245, rd.u8(255), rd.u8(0))
    algorithm = rd.algorithm(made, a="u8[n]", b="u8[n]")
    a, b = (x.ravel().astype(np.uint8) for x in np.meshgrid(np.arange(256), np.arange(0, 256, 5)))
    np.testing.assert_array_equal(algorithm(a, b), np.where(a.astype(int) * 49 > b.astype(int) * 40 - 245, 255, 0))
    assert "i32(" not in algorithm.compile().source("gang")


def test_what_8_bits_hold_is_in_8_bits_but_for_products():
    """As the neighbours of a cell that live, or the classes of characters."""
    count = lambda a: rd.i32(a[:-2]) + 2 * rd.i32(a[1:-1]) + 4 * rd.i32(a[2:])
    rule = rd.algorithm(lambda a: (count(a) >= 2) & (count(a) != 5), a="bool[n]")
    letter = rd.algorithm(
        lambda a: rd.u8(rd.where((rd.i32(a) >= 97) & (rd.i32(a) < 123), rd.i32(a) - 32, a)), a="u8[n]"
    )
    threes = rd.algorithm(lambda a: 3 * rd.i32(a[:-2]) > rd.i32(a[2:]), a="bool[n]")
    a = np.random.default_rng(0).integers(0, 256, 333).astype(np.uint8)
    b = a > 128
    counts = b[:-2] + 2 * b[1:-1] + 4 * b[2:]
    for algorithm, given, wanted, products in (
        (rule, b, (counts >= 2) & (counts != 5), False),
        (letter, a, np.where((a >= 97) & (a < 123), a - 32, a), False),
        (threes, b, 3 * b[:-2] > b[2:], True),
    ):
        np.testing.assert_array_equal(algorithm(given), wanted)
        text = algorithm.compile().source("gang")
        assert ("u16(" in text) == products and "i32(" not in text


def test_sums_of_many_bytes_are_narrow():
    """Whatever their number, as far as 16 bits hold them: the mean of 49 neighbours."""
    mean = lambda a: rd.u8(sum(rd.i32(a[k : a.shape[0] - 48 + k]) for k in range(49)) // 49)
    algorithm = rd.algorithm(mean, a="u8[n]")
    a = np.random.default_rng(0).integers(0, 256, 333).astype(np.uint8)
    a[100:160] = 255
    wanted = np.lib.stride_tricks.sliding_window_view(a, 49).astype(int).sum(1) // 49
    np.testing.assert_array_equal(algorithm(a), wanted)
    assert "i32(" not in algorithm.compile().source("gang")


def expression(chance, names, depth):
    if depth == 0 or chance.random() < 0.15:
        return chance.choice(names) if chance.random() < 0.75 else str(chance.choice((1, 2, 3, 7, 127, 255, 1000)))
    one, other = (expression(chance, names, depth - 1) for _ in "ab")
    kind = chance.choice("+-*+-*nsdrmMa&|^lc")
    if kind in "+-*&|^":
        return f"({one} {kind} {other})"
    return {
        "n": f"(-{one})",
        "s": f"({one} >> {chance.choice((1, 4, 8, 15, 17))})",
        "d": f"({one} // {chance.choice((2, 3, 10, 255, 40000))})",
        "r": f"({one} % {chance.choice((2, 3, 10, 255, 40000))})",
        "m": f"least({one}, {other})",
        "M": f"most({one}, {other})",
        "a": f"abs({one})",
        "l": f"({one} << {chance.choice((1, 5, 11))})",
        "c": f"choose({one} < {other}, {one}, {other})",
    }[kind]


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions(seed):
    chance = random.Random(seed)
    wide, given = chance.choice(WIDE[:2]), [chance.choice(NARROW) for _ in "abc"]
    texts = [expression(chance, "abc", chance.choice((2, 3, 4))) for _ in range(12)]
    texts = [f"{text} + (a - a)" for text in texts]
    ends = [chance.choice(NARROW) for _ in texts]

    def evaluate(text, values, least, most, choose):
        known = {"least": least, "most": most, "abs": abs, "choose": choose}
        return eval(text, known, dict(zip("abc", values, strict=True)))

    def program(a, b, c):
        values = [getattr(rd, wide)(x) for x in (a, b, c)]
        return tuple(
            getattr(rd, end)(evaluate(text, values, rd.minimum, rd.maximum, rd.where))
            for text, end in zip(texts, ends, strict=True)
        )

    rng = np.random.default_rng(seed)
    arrays = []
    for name in given:
        limits = np.iinfo(TYPES[name])
        near = rng.choice([limits.min, limits.max, 0, 1, 2, limits.max - 1], 77)
        some = rng.integers(limits.min, limits.max, 77, endpoint=True)
        arrays.append(np.where(rng.random(77) < 0.5, near, some).astype(TYPES[name]))
    types: Any = {name: f"{t}[n]" for name, t in zip("abc", given, strict=True)}
    algorithm = rd.algorithm(program, **types)
    with np.errstate(over="ignore"):
        values = [x.astype(TYPES[wide]) for x in arrays]
        for got, text, end in zip(algorithm(*arrays), texts, ends, strict=True):
            want = evaluate(text, values, np.minimum, np.maximum, np.where).astype(TYPES[end])
            np.testing.assert_array_equal(got, want, err_msg=text)


def test_products_of_16_bits_keep_their_sign_whatever_is_shifted_out():
    b = np.array([-1, -5, -30000, 3] * 20, np.int16)
    algorithm = rd.algorithm(lambda b: rd.u16((3 * rd.i64(b)) >> 19), b="i16[n]")
    np.testing.assert_array_equal(algorithm(b), ((3 * b.astype(np.int64)) >> 19).astype(np.uint16))
