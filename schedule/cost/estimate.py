"""The cycles of a tree of loops: the greater of arithmetic, and of accesses plus transfers between caches.

Accesses to L1 and transfers between two caches do not overlap, as in the execution-cache-memory model (Hager, Treibig, Habich and Wellein:
Exploring performance and power properties of modern multi-core chips via simple machine models, 2016); each line counts where it comes
from. Lines that come from memory occupy most of the fill buffers of L1, so that lines from L2 come at `Machine.from_l2_late` only, and the
loop accesses L1 meanwhile. Lines that conflict misses evicted from L1 before use (`streams`) come as slowly: they are not prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from raido.schedule.cost.streams import crowded_bytes, fetched_bytes, split_bytes, touched_bytes
from raido.schedule.cost.traffic import Traffic
from raido.schedule.cost.tree import Loop
from raido.schedule.machine import Machine


def cycles_of(
    root: Loop,
    machine: Machine,
    middles: Sequence[float],
    shape_of: Callable[[Hashable], tuple[float, ...]],
    far: bool = False,
    apart: bool = False,
) -> float:
    """Returns the cycles that one thread takes for a tree without parallel loops, while another thread shares the memory bandwidth.

    `middles` and `shape_of` are those of `Traffic`. `far`: the tree's inputs come from memory, even if caches could hold them. `apart`: no
    row is in L1 from the row before. The machine is taken to do two loads and one store of 256 bits a cycle. The number of cores is not
    read: schedules do not depend on it.
    """
    cost = Traffic(machine, middles, shape_of).analyse(root)
    into_l1, into_l2, into_l3 = cost.bytes
    late = far or into_l3 > 0
    bodies = list(_bodies(root, 1.0))
    summed = lambda of_body: sum(runs * of_body(loop) for runs, loop in bodies)
    if apart:
        into_l1 = max(into_l1, summed(touched_bytes))
    transfers = max(into_l1 - into_l2, 0.0) / (machine.from_l2_late if late else machine.from_l2)
    transfers += max(into_l2 - into_l3, 0.0) / machine.from_l3
    if into_l3:
        into_l3 += summed(lambda loop: split_bytes(loop, machine))
        into_l3 += summed(fetched_bytes) * (machine.fetched_to_store - 1.0)
    transfers += into_l3 / (machine.from_memory / 2)
    accesses = summed(lambda loop: 0.5 * sum(loop.loads) + sum(loop.stores)) * machine.vector_bits / 256
    crowded = summed(lambda loop: crowded_bytes(loop, machine, shape_of))
    if late:
        return max(cost.cycles, accesses, transfers) + crowded / machine.from_l2_late
    return max(cost.cycles, accesses + transfers + crowded / machine.from_l2)


def _bodies(loop: Loop, runs: float) -> Iterator[tuple[float, Loop]]:
    """Yields the vector loops inside a loop that runs `runs` times, each as (executions of its body, loop)."""
    runs *= loop.runs_of_body
    if loop.kind == "vector":
        yield runs, loop
    for child in loop.loops:
        yield from _bodies(child, runs * child.weight)
