"""The corpus, compiled, gives NumPy's results for every instruction set of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from emission import every_cpu

sys.path.append(str(Path(__file__).resolve().parent.parent / "algo"))
from corpus import CASES, Case
from test_corpus import check

import raido as rd

PROGRAMS: dict[str, list[Case]] = {}
for case in CASES:
    PROGRAMS.setdefault(case.algorithm.name, []).append(case)


@every_cpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_give_what_numpy_gives(name: str, cpu: str) -> None:
    """Recipes stay within one unit in the last place of what NumPy's own functions give, which are no better."""
    executable = PROGRAMS[name][0].algorithm.compile(rd.Target("llvm", cpu=cpu))
    for case in PROGRAMS[name]:
        check(executable(*case.arguments), case.expected, case.close)
