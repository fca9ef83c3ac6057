"""Random programs trace, and the interpreter runs them; the generator is a function of its seed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from raido import ArithmeticFault, IndexOutOfRange

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from random_programs import Grammar, disagreement, random_program


@pytest.mark.parametrize("grammar", ["plain", "wide", "forms", "full", "whole"])
@pytest.mark.parametrize("block", range(4))
def test_random_programs_run(block: int, grammar: Grammar) -> None:
    for seed in range(block * 25, block * 25 + 25):
        program = random_program(seed, grammar=grammar)
        try:
            first = program.algorithm.interpret(*program.arguments)
        except (ArithmeticFault, IndexOutOfRange):
            assert program.may_fault, program
            continue
        again = random_program(seed, grammar=grammar)
        assert again.source == program.source
        assert disagreement(program, again.algorithm.interpret(*again.arguments), first) is None


def test_fewer_statements_are_a_prefix() -> None:
    for seed in range(30):
        grammar: Grammar = "whole" if seed % 2 else "plain"
        long, short = random_program(seed, 5, grammar).source, random_program(seed, 2, grammar).source
        assert long.startswith(short[: short.index("    return")])
