"""Golden nests of lowered schedules. `python tests/schedule/test_lower_golden.py` writes the file anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from programs import PROGRAMS
from random_schedules import scheduled
from scheduled_programs import scheduled as with_strategy
from test_lower_schedules import BLUR, GAUSS, JACOBI, MAP_AND_SUM, PACKED, ROW_SUMS, Directives

from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest

GOLDEN = Path(__file__).with_name("golden_nests.txt")
COLUMNS_IN_CHUNKS: Directives = [
    ("s", "reorder", {"axes": ("r", "x")}),
    ("s", "parallel", {"axis": "r", "grain": 64}),
    ("s", "vectorize", {"axis": "x"}),
]
CASES: dict[str, tuple[str, Directives]] = {
    "blur, nothing said": ("blur", []),
    "blur, tiled, partitioned, rows inside": ("blur", BLUR),
    "gauss, rolling rows": ("gauss", GAUSS),
    "matmul, nothing said": ("matmul", []),
    "matmul, packed panels, tile in registers": ("matmul", PACKED),
    "row sums in lanes": ("row_sums", ROW_SUMS),
    "map and sum in one loop": ("map_and_sum", MAP_AND_SUM),
    "column sums, rows in chunks": ("column_sums", COLUMNS_IN_CHUNKS),
    "jacobi, four rows in registers": ("jacobi", JACOBI),
    "mandelbrot, nothing said": ("mandelbrot", []),
    "argmin, nothing said": ("argmin", []),
    "gather, checked": ("checked_gather", []),
}


STRATEGIES = (
    "scans/exclusive_from_five three_phase",
    "scans/exclusive_from_five chain",
    "filters/several_arrays count_write",
    "filters/several_arrays chain",
    "sorts/narrow_ones",
    "segments/sums flat",
    "updates/weights private",
    "updates/weights sorted",
    "updates/histogram atomic",
)


def text(name: str) -> str:
    if name in STRATEGIES:
        complete = with_strategy(name).complete(Machine())
        return print_nest(lower(complete.graph, complete.variants())).rstrip()
    program, steps = CASES[name]
    return print_nest(scheduled(PROGRAMS[program](), steps)).rstrip()


def golden() -> dict[str, str]:
    sections = GOLDEN.read_text(encoding="utf-8").split("## ")[1:]
    return {head: body.strip("\n") for head, _, body in (s.partition("\n") for s in sections)}


@pytest.mark.parametrize("name", (*CASES, *STRATEGIES))
def test_nests_read_as_they_did(name: str) -> None:
    assert text(name) == golden().get(name)


def main() -> None:
    GOLDEN.write_text("".join(f"## {name}\n{text(name)}\n\n" for name in (*CASES, *STRATEGIES)), encoding="utf-8")


if __name__ == "__main__":
    main()
