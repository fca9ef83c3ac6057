"""A few hundred calls of programs with enormous sizes: right answers or one clear error (the draws are described in `huge_sizes.py`)."""

from __future__ import annotations

import pytest
from huge_sizes import attack, describe

PROGRAMS = 40


@pytest.mark.parametrize("part", range(2))
def test_enormous_sizes_give_right_answers_or_clear_errors(part: int) -> None:
    first = 10_000 + part * PROGRAMS // 2
    kinds: dict[str, int] = {}
    for number, call, outcome in attack(range(first, first + PROGRAMS // 2)):
        kind = outcome.split(":")[0]
        assert kind not in ("WRONG", "DEAD"), f"{describe(number, call)}\n{outcome}"
        kinds[kind] = kinds.get(kind, 0) + 1
    assert sum(kinds.values()) == PROGRAMS // 2 * 8
    assert min(kinds.get("answer", 0), kinds.get("ArrayTooLarge", 0), kinds.get("MemoryError", 0)) > 0
