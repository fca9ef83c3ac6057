"""Golden programs for devices: plans and kernels of nests. `python tests/schedule/test_kernel_golden.py` writes the file anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from block_schedules import bound
from programs import PROGRAMS
from scheduled_programs import scheduled as with_strategy
from test_block_copies import chain, product

from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.kernels.printer import print_program
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

GOLDEN = Path(__file__).with_name("golden_kernels.txt")


def for_cpu(name: str) -> Nest:
    """The nest of a program under its default schedule for a CPU."""
    schedule = with_strategy(name) if "/" in name else Schedule(form_stages(PROGRAMS[name]()))
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


CASES: dict[str, Callable[[], Nest]] = {
    "blur, tiles of both stages in shared memory": lambda: bound(PROGRAMS["blur"](), *chain(4, 8, 32, 8)),
    "matmul, tiles in shared memory, sums in registers": lambda: bound(
        PROGRAMS["matmul"](), *product(8, 8, 4, 2, 16, 8)
    ),
    "jacobi, for a CPU": lambda: for_cpu("jacobi"),
    "checked_gather, for a CPU": lambda: for_cpu("checked_gather"),
    "filters/several_arrays count_write, for a CPU": lambda: for_cpu("filters/several_arrays count_write"),
}


def golden() -> dict[str, str]:
    sections = ("\n" + GOLDEN.read_text(encoding="utf-8")).split("\n## ")[1:]
    return {head: body.strip("\n") for head, _, body in (s.partition("\n") for s in sections)}


@pytest.mark.parametrize("name", CASES)
def test_programs_for_devices_read_as_they_did(name: str) -> None:
    assert print_program(outline_kernels(CASES[name]())).rstrip() == golden().get(name)


def main() -> None:
    GOLDEN.write_text(
        "".join(f"## {n}\n{print_program(outline_kernels(CASES[n]()))}\n" for n in CASES), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
