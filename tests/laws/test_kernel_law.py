"""Random programs under random schedules give in kernels the results of their nests."""

from __future__ import annotations

import pytest
from kernel_law import differs, random_nest

from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.nest.nodes import (
    Alloc,
    AtomicUpdate,
    Barrier,
    Block,
    Check,
    Exchange,
    For,
    If,
    Let,
    Store,
    VectorStore,
    While,
)
from raido.schedule.nest.walk import statements_within

LEFT = {Alloc, AtomicUpdate, Barrier, Block, Check, Exchange, For, If, Let, Store, VectorStore, While}


@pytest.mark.parametrize("seed", range(24))
def test_kernels_give_what_the_nest_gives(seed):
    assert not differs(
        random_nest(seed), Limits(threads=4, most_threads=16, private=(16, 1024)[seed % 2], exchange=4), seed
    )


@pytest.mark.parametrize("seed", range(3))
def test_kernels_hold_statements_of_one_thread(seed):
    for kernel in outline_kernels(random_nest(seed).nest).kernels:
        for s in statements_within(kernel.body):
            assert type(s) in LEFT
            assert not isinstance(s, For) or s.kind in ("serial", "unroll")
