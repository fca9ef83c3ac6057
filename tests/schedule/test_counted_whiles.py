"""While loops with a counter that ends them at the latest: no device limit applies to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import While
from raido.schedule.nest.passes.own_counters import counted_loops
from raido.schedule.nest.walk import statements_within


def loop(first: Any, step: Any, end: Any, dtype: str = "i32") -> Any:
    """A program whose loop ends once its first state is large, or its second is not below `end`."""

    @rd.algorithm(a="f32[n]")
    def grown(a: rd.Array) -> rd.Array:
        def one(v: Any) -> Any:
            state = (v, getattr(rd, dtype)(first))
            return rd.while_loop(lambda s: (s[0] < 100) & (s[1] < end), lambda s: (s[0] * 2, s[1] + step), state)[1]

        return rd.map(one, a)

    return grown


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
    schedule = loop(first, step, end, dtype).schedule(target=rd.Target("cuda", arch="sm_80")).complete()
    body = lower(schedule.graph, schedule.variants(), schedule.target.machine).body
    (found,) = (s for s in statements_within(body) if isinstance(s, While))
    assert (found.site < 0) == (found in counted_loops(body)) == ends


def test_code_for_devices_stops_the_others_alone() -> None:
    target = rd.Target("cuda", arch="sm_80")
    counted, other = (loop(0, step, 40).compile(target).source("cuda") for step in (1, 0))
    assert "fault" not in counted.split('extern "C"', 1)[1] and "fault" in other.split('extern "C"', 1)[1]
    assert "#pragma unroll 4" in counted.split('extern "C"', 1)[1]
    a = np.array([0, 1, 3, 99, 200, np.nan], "f4")
    np.testing.assert_array_equal(loop(0, 1, 40)(a), loop(0, 1, 40).interpret(a))
