"""The properties of a machine that schedules depend on, as numbers. `targets` fills them in for the host or a named CPU or GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

LINE = 64  # bytes of a cache line
WIDEST_ACCESS = 16  # bytes of the widest load or store of a GPU's thread
INTERLEAVED = 8  # the most vectors interleaved by shuffles before a store: half of the 16 registers of AVX2
UNKNOWN_GRAIN = 4  # the least iterations of a thread where the time of one is not known beforehand


@dataclass(frozen=True)
class Gpu:
    """The properties of a GPU.

    threads: the most threads of a block; along: the most along x, y and z. blocks: the most blocks of a launch along x, y and z. subgroup:
    threads that run in lockstep. shared: bytes of shared memory of a block. processors: multiprocessors, each of which runs blocks by
    itself; resident: the threads that a processor holds at a time, of several blocks, to hide latency. registers: 32-bit registers of a
    thread at that occupancy. exchange: threads of a subgroup, neighbours along x, that exchange registers (shuffles); 0 where the device
    has none. branches: whether a branch that a whole subgroup takes costs one side only; False: the device runs both sides. ordered:
    whether blocks that have begun make progress, so that another block may wait for them. products: the dtypes of factors whose tiles of 16
    × 16 and 16 × 8 elements a subgroup multiplies by one instruction, with sums in f32. warpgroups: the dtypes of factors in shared memory
    of which 128 threads multiply tiles of 64 rows. asynchronous: whether copies to shared memory run while their thread goes on.
    iterations: the most iterations of all loops of a thread, after which the device ends them; 0 without a limit. in_turn: whether the
    subgroups of a block run one after another, as in an implementation on a CPU: sharing work among threads then saves no time, and every
    barrier costs a switch.
    """

    threads: int = 1024
    along: tuple[int, int, int] = (1024, 1024, 64)
    subgroup: int = 32
    shared: int = 32 << 10
    processors: int = 16
    resident: int = 1024
    registers: int = 64
    exchange: int = 0
    branches: bool = False
    ordered: bool = False
    products: tuple[str, ...] = ()
    warpgroups: tuple[str, ...] = ()
    asynchronous: bool = False
    iterations: int = 0
    in_turn: bool = False
    blocks: tuple[int, int, int] = (65_535, 65_535, 65_535)

    @property
    def usual_threads(self) -> int:
        """The default number of threads of a block, a power of two: a processor holds four such blocks, of which one may wait at a
        barrier.
        """
        return min(self.threads, 1 << (max(1, self.resident // 4).bit_length() - 1))


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that default schedules depend on.

    vector_bits: the width of a vector register. registers: the number of vector registers. cores: threads that run at the same time. l1,
    l2, l3: bytes of cache, for one core, one core, and all cores. task: operations worth a thread's start, which takes some thousands.
    l1_ways, l2_ways: associativity: lines that lie a multiple of cache / ways bytes apart and are held at the same time. from_l2, from_l3,
    from_memory: bytes a cycle into the next cache, of one core, one core, and all cores; from_memory_alone: of one core with memory to
    itself; from_l2_late: from L2 without prefetching, or while lines from memory are on their way. fill_buffers: lines on their way into
    L1, or past it, at the same time. fetched_to_store: the extra cost of an ordinary store over a non-temporal one, whose line is not
    fetched first, in lines from memory. streams_apart: the least distance in bytes, within their pages, of rows stored past the caches
    together; streams: the number of them from which on they hinder one another. gpu: None for a CPU.

    Defaults depend on these properties alone, and the code on the defaults; tests on sizes, and chunks in which floats are folded, never
    read `cores`.
    """

    vector_bits: int = 256
    registers: int = 16
    cores: int = 1
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    task: int = 1 << 15
    l1_ways: int = 8
    l2_ways: int = 8
    from_l2: float = 32.0
    from_l3: float = 14.0
    from_memory: float = 16.0
    from_memory_alone: float = 10.0
    fill_buffers: int = 10
    from_l2_late: float = 5.5
    fetched_to_store: float = 0.9
    streams_apart: int = 3 * LINE
    streams: int = 16
    gpu: Gpu | None = None

    def lanes(self, bits: int) -> int:
        """Returns the number of elements of `bits` bits in a vector register."""
        return max(1, self.vector_bits // max(8, bits))

    def __setstate__(self, state: Mapping[str, float] | Sequence[float]) -> None:
        """Restores a pickle; fields that its version did not have keep their defaults."""
        names = (field.name for field in fields(self))
        self.__dict__.update(state if isinstance(state, Mapping) else zip(names, state, strict=False))


USUAL = Machine()
"""The machine whose parameters directives get by default: a schedule is for no particular machine before it is completed."""
