"""Golden nests: cooperation of the threads of a block. `python tests/schedule/test_block_nests.py` writes the file anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import golden
import test_block_bins
import test_thread_scans
from block_schedules import bound
from programs import PROGRAMS
from test_block_copies import chain, product
from test_thread_folds import CASES

from raido.schedule.nest.nodes import Nest
from raido.schedule.nest.printer import print_nest

GOLDEN = Path(__file__).with_name("block_nests.txt")


def fold(case: str) -> Nest:
    """The nest of a case of folds."""
    name, steps, levels = CASES[case]
    return bound(PROGRAMS[name](), steps, levels)


NESTS: dict[str, Callable[[], Nest]] = {
    "a product by tiles of both operands": lambda: bound(PROGRAMS["matmul"](), *product(8, 8, 4, 2, 16, 4)),
    "a chain of stencils by tiles": lambda: bound(PROGRAMS["blur"](), *chain(4, 8, 32, 8)),
    "a block folds rows": lambda: fold("a block folds rows"),
    "threads fold pieces, in order": lambda: fold("threads fold pieces, in order"),
    "an exclusive scan in pieces": lambda: test_thread_scans.on_threads("scans", "exclusive_from_five"),
    "a partition in pieces": lambda: test_thread_scans.on_threads("filters", "both_parts"),
    "shared bins": lambda: test_block_bins.on_threads("histogram", 3, 2, True),
}


@pytest.mark.parametrize("name", NESTS)
def test_nests_read_as_they_did(name: str) -> None:
    assert print_nest(NESTS[name]()).rstrip() == golden.read(GOLDEN).get(name)


def main() -> None:
    texts = {name: print_nest(make()).rstrip() for name, make in NESTS.items()}
    golden.write(
        GOLDEN, "Nests of schedules whose blocks' threads work together; test_block_nests.py writes them.", texts
    )


if __name__ == "__main__":
    main()
