"""The interpreters of nests read u64 indices of 2**63 and more as the interpreter of the graph does, and name them in their faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.interpreter.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

A = np.arange(7)
WIDE = np.array([2**63, 2**63 + 3, 2**64 - 6, 2**64 - 1], np.uint64)
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "clamp": lambda a, i: rd.gather(a, i, mode="clamp"),
    "wrap": lambda a, i: rd.gather(a, i, mode="wrap"),
    "mirror": lambda a, i: rd.gather(a, i, mode="mirror"),
    "symmetric": lambda a, i: rd.gather(a, i, mode="symmetric"),
    "ignored": lambda a, i: rd.scatter(a, i, 9),
    "checked": lambda a, i: a[i],
    "updated": lambda a, i: a.at[i].add(1),
    "sliced": lambda a, i: a[i[0] :],
    "counted": lambda a, i: rd.repeat(i, i),
}


def outcome(run: Callable[[], Any]) -> Any:
    try:
        return [np.asarray(array).tolist() for array in run()]
    except rd.RaidoError as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.parametrize("case", PROGRAMS)
def test_all_interpreters_agree_on_wide_indices(case: str) -> None:
    program = rd.algorithm(PROGRAMS[case]).trace(A, WIDE)
    expected = outcome(lambda: interpret(program, [A, WIDE]))
    if isinstance(expected, tuple):
        assert str(2**63) in expected[1]
    machine = Target.parse("llvm:znver4").machine
    complete = Schedule(form_stages(program)).complete(machine)
    nest = lower(complete.graph, complete.variants())
    for each in (nest, form_gangs(nest, machine.vector_bits)):
        assert outcome(lambda each=each: interpret_nest(each, [A, WIDE], {}, seed=1)) == expected
