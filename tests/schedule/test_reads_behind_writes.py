"""Reads of memory do not move out of an open block in which that memory is written."""

from __future__ import annotations

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import SizeVar, fresh
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.nest.nodes import Ordered, Store

zero, n = ix.as_index(0), SizeVar("n")


def test_reads_move_no_further_out_than_the_block_of_a_write() -> None:
    builder = Builder()
    total, other = (builder.alloc(name, i64, (), "register") for name in ("total", "other"))
    with builder.loop(fresh("i"), zero, n):
        with builder.loop(fresh("j"), zero, n):
            builder.add(Store(total, (), zero))
            assert (builder.level_of[total], builder.level_of[other]) == (2, 0)
        assert builder.level_of[total] == 1, "the loop over j, which has changed it, stands in the loop over i"
        with builder.block(branch=True) as section:
            builder.add(Store(other, (), zero))
            assert builder.level_of[other] == 2
        builder.add(Ordered(closed(section)))
        assert builder.level_of[other] == 1
    assert (builder.level_of[total], builder.level_of[other]) == (0, 0)
