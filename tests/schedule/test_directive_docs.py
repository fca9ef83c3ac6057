"""Every directive's docstring has its effect on the loops, an example that runs, and its refusals."""

from __future__ import annotations

import doctest

import pytest
import sample_graphs as graphs

import raido as rd
import raido.schedule.holes
import raido.schedule.schedule
from raido.schedule.directives import RULES, Directives
from raido.schedule.machine import Gpu, Machine
from raido.schedule.schedule import Schedule


class Algorithm:
    """Stands for a traced algorithm in examples."""

    def __init__(self, graph):
        self.graph = graph

    def schedule(self, target="llvm"):
        gpus = {"vulkan": Gpu(), "cuda:sm_80": Gpu(products=("f16", "bf16"))}
        return Schedule(self.graph(), (), Machine(gpu=gpus[target]) if target in gpus else target)


GLOBALS = {
    "blur": Algorithm(graphs.blur),
    "sgemm": Algorithm(graphs.matmul),
    "product": Algorithm(graphs.narrow_product),
    "both": Algorithm(graphs.map_and_sum),
    "heat": rd.algorithm(x="f32[h, w]")(
        lambda x: rd.loop(
            100, lambda t, y: rd.stencil(lambda p: (p[0, -1] + p[1, 0]) / 2, y, boundary="clamp", name="u"), x
        )
    ),
    "diamond": Algorithm(graphs.diamond),
    "running": rd.algorithm(x="f32[n]")(lambda x: rd.scan(rd.add, 0.0, x)),
}


@pytest.mark.parametrize("name", sorted(RULES))
def test_documentation(name):
    text = getattr(Directives, name).__doc__
    assert "Refuses" in text and (name == "strategy" or ("before" in text and "after" in text))
    test = doctest.DocTestParser().get_doctest(text, GLOBALS, name, None, 0)
    assert test.examples
    result = doctest.DocTestRunner().run(test)
    assert result.failed == 0


@pytest.mark.parametrize("module", [raido.schedule.schedule, raido.schedule.holes], ids=lambda module: module.__name__)
def test_examples_of_schedules(module):
    failed, tried = doctest.testmod(module, extraglobs=GLOBALS, optionflags=doctest.ELLIPSIS)
    assert tried and not failed
