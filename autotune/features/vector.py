"""Features of a schedule: one vector for a whole nest, of the same length for every program.

Sums over all loops, weighted by how often they run. Amounts are relative to the program (per element of its arguments and results, or per
byte of compulsory traffic) and logarithmic (base 2), so that programs of different kinds and sizes can be compared; docs/autotuning.md has
the table. Nothing here depends on the machine that computes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from raido.autotune.features.gather import gather
from raido.schedule.cost.operations import KINDS
from raido.schedule.cost.traffic import Traffic
from raido.schedule.cost.tree import ACCESSES, Loop
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Nest

VERSION = 3
_CACHES = ("l1", "l2", "l3")
FEATURES: tuple[str, ...] = (
    "estimate",
    "arithmetic_share",
    *(f"{cache}_share" for cache in _CACHES),
    "waiting",
    *(f"{kind}_work" for kind in KINDS),
    *(f"{kind}_loads" for kind in ACCESSES),
    *(f"{kind}_stores" for kind in ACCESSES),
    "streamed_stores",
    "predicated_stores",
    *(f"bytes_to_{cache}" for cache in _CACHES),
    "touched_bytes",
    *(f"inner_rounds_over_{cache}" for cache in _CACHES),
    *(f"outer_rounds_over_{cache}" for cache in _CACHES),
    "vector_share",
    "used_lanes",
    "interleave",
    "masked_share",
    "parallel_share",
    "chunks",
    "imbalance",
    "cycles_in_chunk",
    "dynamic_share",
    "launches",
    "waits",
    "allocated_bytes",
    "allocations",
    "branches",
    "loop_overhead",
    "inner_rounds",
    "inner_cycles",
    "depth",
    "kernels",
    "code",
    "registers",
)
ESTIMATE = FEATURES.index("estimate")


def features_of(nest: Nest, machine: Machine, sizes: Mapping[str, int]) -> np.ndarray:
    """The features of a scalar nest, f32[len(FEATURES)]; `sizes` are the tuning job's, by name."""
    walk = gather(nest, machine, sizes)
    traffic = Traffic(machine, walk.forms.middles, walk.shape_of)
    total = traffic.analyse(walk.root)
    elements, compulsory = 0.0, 0.0
    for buffer in (*nest.inputs, *nest.outputs):
        size = walk.bytes_of(buffer)
        compulsory += size
        elements += size / buffer.dtype.itemsize
    sums = _Sums(machine, traffic)
    sums.add(walk.root, 1.0)
    ideal = compulsory / (machine.from_memory if compulsory > machine.l3 else machine.from_l3) + 1.0
    time = max(total.time, 1.0)
    bounds = [
        b / speed for b, speed in zip(total.bytes, (machine.from_l2, machine.from_l3, machine.from_memory), strict=True)
    ]
    cycles = max(sums.cycles, 1.0)
    values = [
        _log(time / ideal),
        total.cycles / time,
        *(bound / time for bound in bounds),
        _log(max(total.cycles, 1.0) / max(total.steady, 1.0)),
        *(_small(work / elements) for work in sums.work),
        *(_small(count / elements) for count in sums.loads),
        *(_small(count / elements) for count in sums.stores),
        _small(sums.streamed / elements),
        _small(sums.predicated / elements),
        *(_small(moved / max(compulsory, 1.0)) for moved in total.bytes),
        _log(max(total.touched_bytes, 1.0) / max(compulsory, 1.0)),
        *(share / cycles for share in sums.inner_over),
        *(share / cycles for share in sums.outer_over),
        sums.vector_cycles / cycles,
        sums.used_lanes / max(sums.vector_cycles, 1.0),
        _log(sums.interleave / max(sums.vector_cycles, 1.0) + 1e-3) if sums.vector_cycles else 0.0,
        sums.masked / max(sums.vector_cycles, 1.0),
        sums.parallel / cycles,
        _log(1.0 + sums.chunks / max(sums.parallel, 1.0)),
        sums.imbalance / max(sums.parallel, 1.0),
        _log(1.0 + sums.chunk_cycles / max(sums.parallel, 1.0)),
        sums.dynamic / max(sums.parallel, 1.0),
        _log(1.0 + sums.launches),
        _log(1.0 + sums.waits),
        _log(1.0 + sums.allocated / machine.l2),
        _log(1.0 + sums.allocations),
        _small(sums.branches / elements),
        _small(sums.iterations / elements),
        _log(1.0 + sums.inner_rounds / cycles),
        _log(1.0 + sums.inner_cycles / cycles),
        sums.depth / cycles,
        _log(1.0 + sums.kernels),
        _log(1.0 + sums.code),
        _log(1.0 + sums.registers),
    ]
    return np.array(values, np.float32)


def _log(value: float) -> float:
    return math.log2(max(value, 1e-6))


def _small(ratio: float) -> float:
    """A ratio on a scale, log2(1 + 16 x), on which tenths differ as much as tens."""
    return math.log2(1.0 + 16.0 * ratio)


class _Sums:
    """Totals over the tree; shares and means are weighted by the cycles of the loops themselves."""

    def __init__(self, machine: Machine, traffic: Traffic) -> None:
        self.machine = machine
        self.costs = traffic.costs
        self.work = [0.0] * len(KINDS)
        self.loads = [0.0] * len(ACCESSES)
        self.stores = [0.0] * len(ACCESSES)
        self.inner_over = [0.0] * 3
        self.outer_over = [0.0] * 3
        self.cycles = self.vector_cycles = self.used_lanes = self.interleave = self.masked = 0.0
        self.parallel = self.chunks = self.imbalance = self.chunk_cycles = self.dynamic = self.launches = 0.0
        self.waits = self.allocated = self.allocations = self.branches = self.predicated = self.streamed = 0.0
        self.iterations = self.inner_rounds = self.inner_cycles = self.depth = self.kernels = self.code = 0.0
        self.registers = 0.0

    def add(self, loop: Loop, runs: float, around: tuple[Loop, ...] = ()) -> None:
        """Adds a loop that runs `runs` times inside the loops `around`."""
        bodies = runs * loop.runs_of_body
        for totals, each in ((self.work, loop.work), (self.loads, loop.loads), (self.stores, loop.stores)):
            for k, amount in enumerate(each):
                if amount:
                    totals[k] += bodies * amount
        own = bodies * loop.cycles
        self.cycles += own
        self.waits += bodies * loop.waits
        self.allocated += bodies * loop.allocated
        self.allocations += bodies * loop.allocations
        self.branches += bodies * loop.branches
        self.predicated += bodies * loop.predicated
        self.streamed += bodies * sum(access.times for access in loop.accesses.values() if access.streamed)
        self.code += loop.code
        self.registers = max(self.registers, loop.registers / self.machine.registers)
        around = (*around, loop)
        if loop.kind != "root":
            self.iterations += bodies
        if own:
            self._of_nest(loop, own, around)
        if loop.kind == "parallel":
            self.launches += runs
        self.kernels += not loop.host and (loop.parent is None or loop.parent.host)
        for child in loop.loops:
            self.add(child, bodies * child.weight, around)

    def _of_nest(self, loop: Loop, own: float, around: tuple[Loop, ...]) -> None:
        """Attributes the cycles of a loop to properties of the loops around it."""
        caches = (self.machine.l1, self.machine.l2, self.machine.l3)
        inner = self.costs[loop].touched_bytes
        outer = max((self.costs[other].iteration_bytes for other in around if not other.host), default=0.0)
        for k, capacity in enumerate(caches):
            self.inner_over[k] += own * (inner > capacity)
            self.outer_over[k] += own * (outer > capacity)
        self.depth += own * (len(around) - 1)
        self.inner_rounds += own * loop.runs_of_body
        self.inner_cycles += own * loop.cycles
        for other in around:
            if other.kind == "vector":
                varying = own * min(loop.vector_cycles / loop.cycles, 1.0) if loop.cycles else 0.0
                self.vector_cycles += varying
                self.used_lanes += varying * other.used_lanes
                self.interleave += varying * other.interleave
                self.masked += varying * other.masked
            elif other.kind == "parallel":
                chunks = max(other.iterations / other.grain, 1.0)
                self.parallel += own
                self.chunks += own * chunks
                self.imbalance += own * (math.ceil(chunks / self.machine.cores) * self.machine.cores / chunks - 1.0)
                self.chunk_cycles += own * self.costs[other].cycles / chunks
                self.dynamic += own * other.dynamic
                break
