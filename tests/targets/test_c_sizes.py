"""Sizes in C headers: C computes raido's values of them, and nothing in them begins or ends a comment."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import raido as rd
from raido.targets.c_sizes import c_size
from raido.targets.c_text import c_comment
from raido.targets.signature import OPERATIONS


class CInt(int):
    """An integer of C: `/` and `%` round towards 0; a quotient remembers what it was before."""

    exact = Fraction(0)

    def __truediv__(self, other: int) -> CInt:
        rounded = CInt(int(Fraction(self, other)))
        rounded.exact = Fraction(self, other)
        return rounded

    def __mod__(self, other: int) -> CInt:
        return CInt(int(math.fmod(self, other)))

    def __add__(self, other: int) -> CInt:
        return CInt(int(self) + int(other))

    def __sub__(self, other: int) -> CInt:
        return CInt(int(self) - int(other))

    def __mul__(self, other: int) -> CInt:
        return CInt(int(self) * int(other))


def random_size(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("n", "m", rng.randint(-3, 5), 0))
    op = rng.choice(("+", "-", "*", "//", "//", "%", "min", "max"))
    return op, random_size(rng, depth - 1), random_size(rng, depth - 1)


def value_of(size: Any, sizes: dict[str, int]) -> int:
    if not isinstance(size, tuple):
        return sizes.get(size, size)
    left, right = (value_of(part, sizes) for part in size[1:])
    if size[0] in ("//", "%") and right == 0:
        raise ZeroDivisionError
    return OPERATIONS[size[0]](left, right)


def test_a_size_has_its_value_in_c() -> None:
    rng, compared = random.Random(0), 0
    for _ in range(4000):
        size, sizes = random_size(rng, rng.randint(1, 4)), {name: rng.randint(0, 9) for name in "nm"}
        try:
            expected = value_of(size, sizes)
        except ZeroDivisionError:
            continue
        text = c_size(size)
        assert c_comment(text) == text
        scope = {"C": CInt, "min": min, "max": max, "floor": lambda q: CInt(math.floor(q.exact))}
        scope |= {name: CInt(value) for name, value in sizes.items()}
        try:
            found = eval(re.sub(r"(?<!\w)(-?\d+)", r"C(\1)", text), scope)
        except ZeroDivisionError:
            continue
        assert found == expected, (size, text, sizes)
        compared += 1
    assert compared > 1500


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (("max", 0, ("min", ("max", 0, ("*", ("//", "n", 2), 2)), "n")), "min((n / 2) * 2, n)"),
        (("max", 0, ("-", "n", 2)), "max(0, n - 2)"),
        (("//", ("-", "n", 5), 2), "floor((n - 5) / 2)"),
        (("%", ("-", "n", 5), 2), "(n - 5) - (2 * floor((n - 5) / 2))"),
        (("+", ("%", "n", 4), ("//", 7, 2)), "(n % 4) + 3"),
    ],
)
def test_sizes_read_as_c(size: Any, text: str) -> None:
    assert c_size(size) == text


def test_a_header_has_them(tmp_path: Path) -> None:
    even = rd.algorithm(lambda x: x[: x.shape[0] // 2 + 3] + 1, x="f32[n]", name="even")
    header = even.compile().export(tmp_path / "even.so").with_suffix(".h").read_text()
    assert " output, float32[min(n, (n / 2) + 3)]\n" in header and "/ /" not in header
