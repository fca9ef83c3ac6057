"""Loops that data ends and that a count of their own ends at the latest: nothing stops them on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import While
from raido.algo.graph.rewrite import topological
from raido.schedule.lower.counted_whiles import counts_up


def loop(first: Any, step: Any, end: Any, dtype: str = "i32") -> Any:
    """A program whose loop ends once its first state is large, or its second is not below `end`."""

    @rd.algorithm(a="f32[n]")
    def grown(a: rd.Array) -> rd.Array:
        def one(v: Any) -> Any:
            state = (v, getattr(rd, dtype)(first))
            return rd.while_loop(lambda s: (s[0] < 100) & (s[1] < end), lambda s: (s[0] * 2, s[1] + step), state)[1]

        return rd.map(one, a)

    return grown


def form_of(algorithm: Any) -> While:
    nodes = topological(*algorithm.trace().results)
    (found,) = {node for node in nodes if isinstance(node, While)}
    return found


@pytest.mark.parametrize(
    ("first", "step", "end", "dtype", "ends"),
    [
        (0, 1, 256, "i32", True),
        (-7, 3, 256, "i64", True),
        (0, -1, 256, "i32", False),
        (0, 0, 256, "i32", False),
        (0, 1, 127, "i8", False),
        (0, 1, 1 << 40, "i64", False),
    ],
)
def test_a_loop_with_a_count_is_known_to_end(first: int, step: int, end: int, dtype: str, ends: bool) -> None:
    assert counts_up(form_of(loop(first, step, end, dtype))) == ends


def test_code_for_devices_stops_the_others_alone() -> None:
    target = rd.Target("cuda", arch="sm_80")
    counted, other = (loop(0, step, 40).compile(target).source("cuda") for step in (1, 0))
    assert "fault" not in counted.split('extern "C"', 1)[1] and "fault" in other.split('extern "C"', 1)[1]
    assert "#pragma unroll 4" in counted.split('extern "C"', 1)[1]
    a = np.array([0, 1, 3, 99, 200, np.nan], "f4")
    np.testing.assert_array_equal(loop(0, 1, 40)(a), loop(0, 1, 40).interpret(a))
