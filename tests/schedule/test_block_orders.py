"""Orders of the blocks of a launch, as directives: tiles in groups, whose blocks reuse the reads of their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from block_schedules import Directives, Levels, bound
from programs import PROGRAMS
from test_copies_ahead import factors

from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.kernels.printer import print_program
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program

STEPS: Directives = [
    ("c", "split", {"axis": "y", "factor": 8}),
    ("c", "split", {"axis": "yi", "factor": 2}),
    ("c", "split", {"axis": "x", "factor": 2}),
    ("c", "reorder", {"axes": ("yo", "xo", "yio", "yii", "xi", "r")}),
]
LEVELS: Levels = {"c": {"yo": "block.z", "xo": "block.y", "yio": "block.x", "yii": "thread.y", "xi": "thread.x"}}


@pytest.mark.parametrize("sizes", [(8, 3, 4), (9, 2, 5), (3, 1, 1), (21, 4, 6)])
def test_groups_of_tiles_are_an_axis_of_the_launch(sizes: tuple[int, int, int]) -> None:
    nest, arrays = bound(PROGRAMS["matmul"](), STEPS, LEVELS), factors(*sizes)
    program = outline_kernels(nest)
    (want,) = interpret_nest(nest, arrays)
    assert "[4, min(" in print_program(program), "four tiles of a group, then the columns, then the groups"
    np.testing.assert_allclose(want, arrays[0] @ arrays[1], rtol=1e-5)
    for seed in range(3):
        (got,) = interpret_program(program, arrays, sizes_of(nest, arrays, {}), seed=seed)
        np.testing.assert_array_equal(got, want)
