"""Loops of a thread that may exceed a device's iteration limit, and the fault record for programs that have such loops.

A data-dependent loop may never end, and a device that runs it is lost: the loop is stopped at a limit. Some devices end the loops of a
thread after a number of iterations of all its loops together, silently (`probe`). Where a kernel has one data-dependent loop, its own limit
can be below the device's, and nothing else need be tested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Node
from raido.algo.graph.index import as_index, sub
from raido.algo.graph.rewrite import substitute
from raido.schedule.kernels.host_plan import If, Launch, Loop, Statement, While
from raido.schedule.kernels.kernel import DeviceProgram, Kernel
from raido.schedule.nest import nodes
from raido.schedule.nest.passes.own_counters import counted_loops
from raido.schedule.nest.walk import blocks_of, statements_within

_NAME = "fault record"
"""The name of the fault record: no array or number of a program can have it, because it contains a space."""
_ENDLESS = 1 << 62
_PASSES = 2
"""Evaluations of a loop's test for each iteration, at most: one more than its iterations ends it."""


def long_kernels(program: DeviceProgram, iterations: int, largest: int) -> frozenset[str]:
    """Names of kernels in which a thread may make more than `iterations` iterations over all its loops, judging by sizes and literals, on a
    device whose arrays have at most `largest` bytes; none for 0 iterations (no limit)."""
    assumptions = _sizes(program, largest)
    return frozenset(kernel.name for kernel in program.kernels if _has_long_loops(kernel, iterations, assumptions))


def iterations_below(program: DeviceProgram, iterations: int, largest: int) -> dict[str, int]:
    """For each kernel with one data-dependent loop, outside all others, whose other loops are short by sizes and literals: the limit of
    that loop's iterations with which all loops of a thread together stay below the device's limit."""
    assumptions, found = _sizes(program, largest), dict[str, int]()
    for kernel in program.kernels if iterations else ():
        if not _is_alone(list(statements_within(kernel.body)), counted_loops(kernel.body)):
            continue
        others = _Trips(kernel, iterations, assumptions).of(kernel.body, {})
        left = iterations - _PASSES * (1 + others)
        if left >= iterations // 2:
            found[kernel.name] = left
    return found


def _is_alone(statements: list[nodes.Statement], counted: Collection[nodes.While]) -> bool:
    """Whether a kernel has exactly one data-dependent loop, neither inside another loop nor around one, and no compare-exchange loops.
    Loops with their own counters have a known length."""
    ended = [s for s in statements if isinstance(s, nodes.While) and s not in counted]
    if len(ended) != 1 or any(isinstance(s, nodes.AtomicUpdate) for s in statements):
        return False
    loops = (s for s in statements if isinstance(s, (nodes.For, nodes.While)) and s is not ended[0])
    around = (s for s in loops if any(each is ended[0] for each in _inside(s)))
    return not any(around) and not any(isinstance(s, (nodes.For, nodes.While)) for s in _inside(ended[0]))


def _inside(loop: nodes.For | nodes.While) -> Iterator[nodes.Statement]:
    """Statements inside a loop."""
    return (s for part in blocks_of(loop) for s in statements_within(part))


def _sizes(program: DeviceProgram, largest: int) -> Assumptions:
    """Assumptions that one-dimensional arrays fit the device's memory."""
    arrays = (array.buffer for array in (*program.inputs, *program.outputs))
    lines = [buffer for buffer in arrays if len(buffer.shape) == 1]
    return Assumptions(sub(largest // buffer.dtype.itemsize, as_index(buffer.shape[0])) for buffer in lines)


def _of_threads(kernel: Kernel, assumptions: Assumptions) -> Assumptions:
    """The assumptions with the ranges of thread indices added."""
    for variable, extent in zip(kernel.threads, kernel.extent, strict=True):
        assumptions = assumptions.with_range(variable, 0, extent - 1)
    return assumptions


def _has_long_loops(kernel: Kernel, iterations: int, assumptions: Assumptions) -> bool:
    if not iterations:
        return False
    counted = counted_loops(kernel.body)
    if any(isinstance(s, nodes.While) and s not in counted for s in statements_within(kernel.body)):
        return True
    return _Trips(kernel, iterations, assumptions).of(kernel.body, {}) > iterations


def with_fault_record(program: DeviceProgram, long: Collection[str]) -> DeviceProgram:
    """The program with a fault record for every kernel: after a stopped kernel, the next would read missing data.

    A kernel among the `long` ones that is launched from several source lines is cloned for each, so that a fault names the line.
    """
    lines: dict[tuple[str, int], str] = {}
    sites: dict[str, int] = {}
    for launch in _launches(program.plan):
        several = launch.kernel in long and sites.get(launch.kernel, launch.site) != launch.site
        name = f"{launch.kernel}_at_{launch.site}" if several else launch.kernel
        lines[launch.kernel, launch.site] = name
        sites.setdefault(name, launch.site)
    lacking = {kernel.name for kernel in program.kernels if not kernel.faults}
    given = _Given(program.fault or _NAME, lacking, lines)
    made = {kernel.name: kernel for kernel in program.kernels}
    kernels = {
        name: replace(made[kernel], name=name, faults=True, site=sites[name]) for (kernel, _), name in lines.items()
    }
    return replace(program, kernels=tuple(kernels.values()), plan=given.plan(program.plan), fault=given.fault)


class _Trips:
    """Upper bounds of trip counts in a kernel; above `most`, any larger number."""

    def __init__(self, kernel: Kernel, most: int, assumptions: Assumptions) -> None:
        self.most, self.assumptions, self.counted = most, _of_threads(kernel, assumptions), counted_loops(kernel.body)

    def of(self, block: nodes.Block, named: dict[Node, Expr]) -> int:
        """The total over all loops of a block; `named` has the values of let-bound names."""
        total = 0
        for s in block.statements:
            if isinstance(s, nodes.Let) and s.var.dtype is i64:
                named = {**named, s.var: substitute(s.value, named)}
            elif isinstance(s, nodes.Block):
                total += self.of(s, named)
            else:
                inside = sum(self.of(part, named) for part in blocks_of(s))
                if isinstance(s, nodes.For) or (isinstance(s, nodes.While) and s in self.counted):
                    inside = self._loop(s, named) * (1 + inside)
                total += inside
        return total

    def _loop(self, loop: nodes.For | nodes.While, named: dict[Node, Expr]) -> int:
        """An upper bound of a loop's trip count."""
        if isinstance(loop, nodes.While):
            return self.counted[loop].most + 1
        distance = substitute(sub(loop.high, loop.low), named)
        bound = 1
        while bound <= self.most:
            if self.assumptions.less_equal(distance, bound * loop.step):
                return bound
            bound *= 2
        return _ENDLESS


def _launches(plan: Sequence[Statement]) -> Iterator[Launch]:
    """Launches of a plan, in order."""
    for s in plan:
        if isinstance(s, Launch):
            yield s
        for inner in _inner(s):
            yield from _launches(inner)


def _inner(s: Statement) -> tuple[tuple[Statement, ...], ...]:
    """Statement lists nested in a statement of a plan."""
    if isinstance(s, If):
        return s.then, s.otherwise
    return (s.body,) if isinstance(s, (Loop, While)) else ()


@dataclass(frozen=True, slots=True)
class _Given:
    """Rewrites a plan: launches of kernels in `lacking` pass the fault record too, and each launch runs the kernel clone of its line."""

    fault: str
    lacking: Collection[str]
    lines: Mapping[tuple[str, int], str]

    def plan(self, plan: Sequence[Statement]) -> tuple[Statement, ...]:
        """A rewritten list of statements."""
        return tuple(map(self.statement, plan))

    def statement(self, s: Statement) -> Statement:
        """A rewritten statement."""
        if isinstance(s, Launch):
            arguments = (*s.arguments, self.fault) if s.kernel in self.lacking else s.arguments
            return replace(s, kernel=self.lines[s.kernel, s.site], arguments=arguments)
        if isinstance(s, If):
            return replace(s, then=self.plan(s.then), otherwise=self.plan(s.otherwise))
        return replace(s, body=self.plan(s.body)) if isinstance(s, (Loop, While)) else s
