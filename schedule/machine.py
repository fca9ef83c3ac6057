"""The facts of a machine that schedules may use: plain numbers. `targets` fills them in for the host or a named CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

LINE = 64  # bytes of a line of the cache
WIDEST_ACCESS = 16  # bytes that a thread of a GPU moves at once, on every device
INTERLEAVED = 8  # vectors at most whose elements are shuffled into turn to be stored: half of the 16 registers of AVX2
UNKNOWN_GRAIN = 4  # iterations for a thread at least, where nobody knows before how long one takes


@dataclass(frozen=True)
class Gpu:
    """A GPU as schedules see it.

    threads: of a block, at most; along: the same along x, y and z. subgroup: threads that run in lockstep. shared: bytes of memory that
    the threads of a block share. processors: run blocks beside one another; resident: threads that each holds at a time, those of
    several blocks, so that some compute while others wait for memory or for each other. registers: of 32 bits, that a thread may use
    while so many are resident. exchange: threads of a subgroup, neighbours along x, that hand each other values by an instruction; 0 where
    the device has none. branches: whether a branch that all threads of a subgroup take costs them that side alone; where it is False, the
    device runs both. ordered: whether a block may wait for what another one writes; where it is False, it may wait for ever. products: the
    dtypes of factors of which a subgroup multiplies tiles of 16 × 16 and 16 × 8 by one instruction, with sums in f32. warpgroups: those of
    which 128 threads multiply tiles of 64 rows from shared memory. asynchronous: whether threads go on while what they copy to shared memory
    is on its way. iterations: after so many, of all its loops together, the loops of a thread end by themselves; 0 where they do not. in_turn:
    whether the subgroups of a block run one after the other, as on a CPU: threads that share work are no sooner done, and change at every
    barrier.
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

    @property
    def usual_threads(self) -> int:
        """The threads of a block, a power of two: of four blocks that a processor holds, three compute while one waits at a barrier."""
        return min(self.threads, 1 << (max(1, self.resident // 4).bit_length() - 1))


@dataclass(frozen=True)
class Machine:
    """A machine as the default schedule sees it.

    vector_bits: width of a vector register. registers: how many of them. cores: threads that run at the same time. l1, l2, l3:
    bytes of cache, for one core, one core, and all cores. task: operations that are worth a thread's while, whose start takes some
    thousands. l1_ways, l2_ways: lines that lie a multiple of cache / ways bytes apart and are held at the same time. from_l2, from_l3,
    from_memory: bytes a cycle into the next cache, of one core, one core, and all cores; from_memory_alone: of one core with memory to
    itself; from_l2_late: from L2 while lines from memory are on their way, and of lines that nothing fetched ahead. fill_buffers: lines
    that are on their way into L1, or past it, at the same time. fetched_to_store: how much more an ordinary store costs than one past
    the caches, as its line is fetched first, in lines from memory. streams_apart: how many bytes rows that are stored past the caches
    side by side must lie apart within their pages; streams: from how many of them on they hinder one another. compresses: whether one
    instruction moves the lanes that a mask keeps to the front of a register; where none does, it is a shuffle looked up by the mask. gpu:
    None for a CPU. Defaults depend on these alone, and the code on the defaults; tests on sizes, and chunks in which floats are folded,
    never read `cores`.
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
    compresses: bool = False
    gpu: Gpu | None = None

    def lanes(self, bits: int) -> int:
        """Elements of that many bits in a register."""
        return max(1, self.vector_bits // max(8, bits))

    def __setstate__(self, state: Mapping[str, float] | Sequence[float]) -> None:
        """The fields of a pickle; those that its version did not have keep their defaults."""
        names = (field.name for field in fields(self))
        self.__dict__.update(state if isinstance(state, Mapping) else zip(names, state, strict=False))


USUAL = Machine()
"""The machine for which directives have the numbers that a user leaves open: schedules are for no machine before they are completed."""
