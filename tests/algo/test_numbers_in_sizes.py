"""Numbers in the sizes of types: exact, within 64 bits, or refused with one line that shows the size."""

from __future__ import annotations

import random

import pytest

import raido as rd
from raido.algo.errors import RaidoError, ShapeError
from raido.algo.graph import index

BIG = [2**31 - 1, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**64 + 5, 10**22]
OPERATORS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__}


@pytest.mark.parametrize(
    "size, message",
    [
        ("9999999999999999999999", "the numbers in the size '9999999999999999999999' are beyond 64 bits"),
        ("n + 9223372036854775807 + 1", "beyond 64 bits"),
        ("4611686018427387904 * n * 4", "beyond 64 bits"),
        ("n // 4611686018427387904 // 4", "beyond 64 bits"),
        ("min(n, 99999999999999999999)", "beyond 64 bits"),
        ("-(-9223372036854775808)", "beyond 64 bits"),
        (2**63, "the size '9223372036854775808' is beyond 64 bits"),
        ("-5", "a size cannot be negative: '-5' is -5"),
        ("3 - 5", "a size cannot be negative: '3 - 5' is -2"),
        ("n // 0", "a division by zero in the size 'n // 0'"),
        ("n % (2 - 2)", "a division by zero in the size"),
        ("min()", r"cannot read a size in 'min\(\)'"),
        ("max(n, key=2)", "cannot read a size"),
        ("n\0", "cannot read the size"),
        ("n m", r'cannot read the size .n m.; .* rd\.f32\["h", "w"\]'),
        ("9" * 5000, r"cannot read the size '9+\.\.\.9+'"),
        ("(" * 500 + "n" + ")" * 500, r"cannot read the size '\(+\.\.\.\)+'"),
        ("+" * 50_000 + "n", "cannot read the size"),
        ("n" + " + 1" * 20_000, "cannot read the size"),
    ],
)
def test_a_size_that_means_nothing_is_refused_in_one_line(size, message):
    with pytest.raises(ShapeError, match=message) as caught:
        rd.f32[size]
    assert len(str(caught.value)) < 200 and "\n" not in str(caught.value)
    if isinstance(size, str):
        with pytest.raises(RaidoError) as caught:

            @rd.algorithm(a=f"f32[{size}]")
            def program(a):
                return a

            program.trace()
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("seed", range(300))
def test_a_size_is_the_number_it_says_or_refused(seed):
    """Random sums, products and divisions of numbers near the ends of 32 and 64 bits."""
    draw = random.Random(seed)
    text, value = str(first := draw.choice([*BIG, 3, 7])), first
    exact = first < 2**63
    for _ in range(draw.randint(1, 3)):
        name, number = draw.choice(list(OPERATORS)), draw.choice([*BIG, 1, 2, 5, 0])
        if name in ("//", "%") and not number:
            continue
        text, value = f"({text}) {name} {number}", OPERATORS[name](value, number)
        exact &= number < 2**63 and -(2**63) <= value < 2**63
    try:
        (found,) = rd.f32[text].shape
    except ShapeError as error:
        assert "beyond 64 bits" in str(error) or value < 0
        return
    assert exact and index.constant_value(found) == value
