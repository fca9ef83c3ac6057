"""Differential tests of rows as values: loops of rows, operators that mix them and guarded branches, under random legal schedules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "algo"))
from law import difference, outcome, random_schedule
from test_contract_rows import BRANCHES, LOOPS, OPERATORS

from raido.algo.interpreter.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.oracles.interpret import interpret_nest
from raido.targets.target import Target

TABLES = {"loop": LOOPS, "operator": OPERATORS, "branch": BRANCHES}
CASES = {f"{kind}: {name}": row for kind, rows in TABLES.items() for name, row in rows.items()}


@pytest.mark.parametrize("case", CASES)
def test_rows_mean_the_same_under_any_schedule(case: str) -> None:
    row = CASES[case]
    program = row.program.program_for(row.arguments, {}, call=True)
    arguments = row.program.flatten(row.arguments)
    want = outcome(lambda: interpret(program, *arguments))
    machine = Target.parse("llvm:x86-64-v3").machine
    for seed in range(2):
        schedule = random_schedule(program, len(case) + 1000 * seed, 6)
        complete = schedule.complete(machine)
        nest = lower(complete.graph, complete.variants())
        gang = form_gangs(nest, machine.vector_bits)
        for level in (nest, gang):
            got = outcome(lambda level=level, seed=seed: interpret_nest(level, *arguments, seed=seed))
            assert not difference(want, got, (False,) * len(program.results)), str(schedule)
