"""Random programs trace, and the interpreter runs them; the generator is a function of its seed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from raido import ArithmeticFault, IndexOutOfRange

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from random_programs import disagreement, random_program

GRAMMARS = {"plain": {}, "wide": {"wide": True}, "forms": {"new": True}}


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("block", range(4))
def test_random_programs_run(block: int, grammar: str) -> None:
    options = GRAMMARS[grammar]
    for seed in range(block * 25, block * 25 + 25):
        program = random_program(seed, **options)
        try:
            first = program.algorithm.interpret(*program.arguments)
        except (ArithmeticFault, IndexOutOfRange):
            assert program.may_fault, program
            continue
        again = random_program(seed, **options)
        assert again.source == program.source
        assert disagreement(program, again.algorithm.interpret(*again.arguments), first) is None


def test_fewer_statements_are_a_prefix() -> None:
    for seed in range(30):
        new = seed % 2 == 0
        long, short = random_program(seed, 5, new=new).source, random_program(seed, 2, new=new).source
        assert long.startswith(short[: short.index("    return")])
