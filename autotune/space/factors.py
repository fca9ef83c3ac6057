"""Candidate tile sizes: powers of two, numbers between them, and divisors of the extent."""

from __future__ import annotations

BETWEEN = 0.3  # how good 3 · 2^k and 5 · 2^k are, against powers of two


def factors(extent: int, least: int, most: int) -> dict[int, float]:
    """Split factors with weights for a loop of `extent` iterations, from `least` to `most` and below the extent.

    In each octave the power of two, 5/4 and 3/2 of it, and the largest divisor of the extent.

    >>> factors(1000, 8, 64)
    {8: 1.0, 10: 1.0, 12: 0.3, 16: 1.0, 20: 0.3, 24: 0.3, 25: 1.0, 32: 1.0, 40: 0.3, 48: 0.3, 50: 1.0, 64: 1.0}
    """
    found: dict[int, float] = {}
    top = min(most, extent - 1)
    power = 1
    while power <= top:
        for number, weight in ((power, 1.0), (power * 5 // 4, BETWEEN), (power * 3 // 2, BETWEEN)):
            found[number] = max(weight, found.get(number, 0.0))
        divisor = next((d for d in range(2 * power - 1, power, -1) if extent % d == 0), 0) if power < 1 << 12 else 0
        if divisor:
            found[divisor] = 1.0
        power *= 2
    return {number: found[number] for number in sorted(found) if least <= number <= top}


def powers(least: int, most: int) -> list[int]:
    """Powers of two from `least` to `most`."""
    return [1 << k for k in range(most.bit_length()) if least <= 1 << k <= most]
