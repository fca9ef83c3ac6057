"""Default schedules for 64 cores have work for all of them, where sizes are large.

A nest is walked with its sizes known: statements inside a parallel loop of at least 64 iterations count as shared, all others as
running alone. Sizes that data decides are taken for 32, branches that data decides for the longer one.

    python tests/schedule/test_many_cores.py

prints, for each program, the share of its statements that run alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))
from scheduled_programs import corpus_programs, strategy_programs

from raido.algo.graph.expr import Const, Node, Op, SizeVar
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Block, For, If, Let
from raido.schedule.nest.values import NestExpr
from raido.schedule.nest.walk import blocks_of
from raido.schedule.schedule import Schedule

CORES = 64
MACHINE = Machine(vector_bits=512, registers=32, cores=CORES, l1=48 << 10, l2=2 << 20, l3=64 << 20)
EXTENT_BY_RANK = {1: 1 << 24, 2: 1 << 14, 3: 1 << 9}
UNKNOWN = 32

EXCEPTIONS = {
    "updates/the_last_wins": "steps write in order",
    "updates/inverse": "steps write in order",
    "segments/means": "steps that mark where segments begin write in order",
}


def large_sizes(program: Program) -> dict[str, int]:
    """Sizes for which arrays of every rank are large."""
    sizes: dict[str, int] = {}
    for parameter in program.parameters:
        unknown = [extent for extent in parameter.shape if isinstance(extent, SizeVar)]
        for size in unknown:
            sizes[size.name] = min(sizes.get(size.name, 1 << 60), EXTENT_BY_RANK.get(len(unknown), 64))
    return sizes


def value(e: NestExpr, known: dict[Node, int]) -> int | None:
    """A value made of sizes and of loops that have one."""
    memo: dict[Node, int | None] = {}
    for node in topological(e):
        if isinstance(node, Const):
            memo[node] = node.value  # type: ignore[assignment]
        elif isinstance(node, Op) and all(memo[a] is not None for a in node.args):
            args = [a.dtype.numpy.type(memo[a]) for a in node.args]
            memo[node] = evaluate(node.name, node.dtype, args)[()]
        else:
            memo[node] = known.get(node)
    return memo[e]


def statements(block: Block, known: dict[Node, int]) -> tuple[int, int]:
    """How many statements run, and how many of them alone."""
    total = alone = 0
    for s in block.statements:
        if isinstance(s, Let) and (named := value(s.value, known)) is not None:
            known[s.var] = named
        if isinstance(s, For):
            low, high = value(s.low, known), value(s.high, known)
            count = UNKNOWN if low is None or high is None else max(0, -((low - high) // s.step))
            every, own = statements(s.body, {**known, s.var: low or 0})
            shared = s.kind == "parallel" and (count >= CORES or high is None)  # data may decide on as many
            total, alone = total + every * count, alone + (0 if shared else own * count)
        elif isinstance(s, If):
            holds = value(s.condition, known)
            sides = [
                side for side, taken in ((s.then, True), (s.orelse, False)) if holds is None or bool(holds) == taken
            ]
            each = [statements(side, dict(known)) for side in sides if side is not None]
            every, own = max(each, default=(0, 0))
            total, alone = total + every, alone + own
        else:
            inner = [statements(each, known) for each in blocks_of(s)] or [(1, 1)]
            total, alone = total + sum(a for a, _ in inner), alone + sum(b for _, b in inner)
    return total, alone


def default_programs() -> Iterator[tuple[str, Program, Schedule]]:
    """The corpus, and the programs of the laws of strategies, of which nothing is said."""
    yield from corpus_programs()
    yield from ((name, program, schedule) for name, program, schedule in strategy_programs() if not schedule.directives)


def share_alone(program: Program, schedule: Schedule) -> tuple[int, float]:
    """How many statements run alone, and which part of all they are."""
    sizes = large_sizes(program)
    complete = schedule.complete(MACHINE, sizes)
    nest = lower(complete.graph, complete.variants(), MACHINE)
    total, alone = statements(nest.body, {SizeVar(name): size for name, size in sizes.items()})
    return alone, alone / max(total, 1)


PROGRAMS = {name: (program, schedule) for name, program, schedule in default_programs()}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_core_has_work(name: str) -> None:
    alone, share = share_alone(*PROGRAMS[name])
    assert (alone < CORES * MACHINE.task or share < 1 / CORES) != (name in EXCEPTIONS), (alone, share)


def main() -> None:
    for name, each in PROGRAMS.items():
        alone, share = share_alone(*each)
        print(f"{name:40s} {share:6.3f} {alone:.2g}")


if __name__ == "__main__":
    main()
