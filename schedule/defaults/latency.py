"""Interleaving of gangs to hide latency where each operation depends on the one before.

Elements with loops of their own (`rd.while_loop`, `rd.loop`): each iteration depends on the one before. N operations an iteration, with D
on the critical path, leave units idle unless `IN_FLIGHT` are under way, which takes IN_FLIGHT · D / N gangs. Their number is the next power
of two, at most 4, and no more than registers hold: a gang needs one for each state, for each outside value that differs between lanes, and
two for temporaries.

Elements that are one long dependence chain, as a weighted sum of many neighbours is, or long expressions of functions and divisions, as an
option price is: the next gang is too far away for out-of-order execution, so four are interleaved. Weighted sums are bound by loads as
well, of neighbours and of weights that registers do not hold: where there are 32 registers, register tiles of two rows, of four gangs of
two registers each, are sixteen sums that share both (`sums_in_pairs`).
"""

from __future__ import annotations

from raido.algo.graph.cost import CHEAP
from raido.algo.graph.expr import Axis, Cond, Element, Load, Loop, Node, Op, Var, While
from raido.algo.graph.rewrite import children, free_variables, scalar_nodes, unconditional_nodes
from raido.schedule.cost.divergent_loops import is_faster_alone
from raido.schedule.cost.elements import each_time
from raido.schedule.defaults.chains import has_chain
from raido.schedule.defaults.demand import cost, is_divergent
from raido.schedule.defaults.draft import Draft, extent
from raido.schedule.defaults.neighbours import reads_rows
from raido.schedule.defaults.queries import inlined_into, whole_cost
from raido.schedule.machine import Machine
from raido.schedule.remember import remembered
from raido.schedule.stages.reads import loads_of, stage_roots
from raido.schedule.stages.stage import Stage

IN_FLIGHT = 8  # two units, results after four cycles
MOST = 4
WORK = 6
MOST_WORK = 128
LEAST_GANGS = 4  # of their widest kind in a row: the last ones of shorter rows overlap too much
LONG = 48  # operations: two such chains fill the window in which a processor looks for work


def gangs_of_elements(stage: Stage) -> int:
    """Returns the number of interleaved gangs for elements without loops but with long dependence chains; 1 for any others."""
    if stage.reduction is not None or is_divergent(stage):
        return 1
    waits = cost(stage) >= 2 * LONG and 4 * _longest_path(stage) >= cost(stage)
    return MOST if waits or is_one_sum(stage) else 1


@remembered
def is_one_sum(stage: Stage) -> bool:
    """Whether elements are one long chain of operations of a few cycles each, as weighted sums are."""
    if stage.reduction is not None or len(stage.bodies) > 1 or cost(stage) < LONG or is_divergent(stage):
        return False
    cheap = all(latency(node) <= 1 for node in scalar_nodes(*stage.bodies) if isinstance(node, Op))
    return cheap and 4 * _longest_path(stage) >= 3 * cost(stage)


def _longest_path(stage: Stage) -> int:
    """Returns the length of an element's critical path, in latencies of an addition."""
    depth: dict[Node, int] = {}
    for node in scalar_nodes(*stage.bodies):
        before = 0 if isinstance(node, Load) else max((depth.get(e, 0) for e in children(node)), default=0)
        depth[node] = before + latency(node) * isinstance(node, Op)
    return max(depth[body] for body in stage.bodies)


def sums_in_pairs(draft: Draft, stage: Stage) -> bool:
    """Whether a stencil computes two rows together of a long weighted sum of floats, whose neighbouring rows share inputs."""
    if len(stage.axes) < 2 or draft.machine.registers < 32 or not is_one_sum(stage) or has_chain(draft, stage):
        return False
    dtype = stage.bodies[0].dtype
    alike = dtype.is_float and all(load.dtype is dtype for load in loads_of(stage))
    shared = reads_rows(draft, stage)
    long = extent(draft, stage.axes[-1].extent) >= LEAST_GANGS * MOST * 2 * draft.machine.lanes(dtype.bits)
    return alike and shared and long and whole_cost(draft, stage) <= MOST_WORK


def gangs_of_sums(stage: Stage, vector: Axis, machine: Machine, beside: int = 0, instances: int = 1) -> int:
    """Returns the number of interleaved gangs for a reduction.

    beside: the number of values of other reductions in its loops. instances: the results whose sums stand side by side, unrolled.
    """
    changing = {axis.var for axis in stage.reduction_axes}
    loads = [node for node in scalar_nodes(*stage.bodies) if isinstance(node, Load)]
    held = [load for load in loads if vector.var in free_variables(load) and changing.isdisjoint(free_variables(load))]
    each = len(stage.bodies) * instances + beside + len(held) + 2
    return _fitting(machine, each, min(MOST, IN_FLIGHT // instances))


def gangs_of_iterations(draft: Draft, stage: Stage, vector: Axis) -> int:
    """Returns the number of interleaved gangs for the innermost of the loops that every element of a stage runs, 1 if there are none.

    Loops of stages inlined into this one count, too.
    """
    counts = [
        _gangs(node, along.var, draft.machine)
        for each, along in ((stage, vector), *_inlined_along(draft, stage, vector))
        for node in _innermost_loops(each)
    ]
    return min(counts, default=1)


def _inlined_along(draft: Draft, stage: Stage, vector: Axis) -> list[tuple[Stage, Axis]]:
    """Returns the stages inlined into one whose elements differ between its lanes, each with its axis along which they differ."""
    return [
        (made, axis)
        for made, points in inlined_into(draft, stage)
        for point in points
        for axis, e in zip(made.axes, point, strict=True)
        if e is not None and vector.var in free_variables(e)
    ]


def _innermost_loops(stage: Stage) -> list[Loop | While]:
    loops = [node for node in unconditional_nodes(*stage_roots(stage)) if isinstance(node, (Loop, While))]
    return [node for node in loops if not any(other in loops for other in scalar_nodes(*each_time(node)))]


def _gangs(loop: Loop | While, lane: Var, machine: Machine) -> int:
    states = set(loop.state)
    changing = states | ({loop.index} if isinstance(loop, Loop) else set())
    operations, longest = 0, 0
    depth: dict[Node, int] = {}
    held: set[Node] = set()
    for node in scalar_nodes(*each_time(loop)):
        if free_variables(node).isdisjoint(changing):
            continue
        held |= {e for e in children(node) if free_variables(e).isdisjoint(changing) and lane in free_variables(e)}
        cost = latency(node)
        operations += cost
        depth[node] = cost + max((depth.get(e, 0) for e in children(node)), default=0)
        longest = max(longest, depth[node])
    fitting = _fitting(machine, len(states) + len(held) + 2)
    most = fitting if fitting > 1 else max(1, min(MOST - 1, machine.registers // (len(states) + WORK)))
    return min(_wanted(operations, longest), most)


def gangs_in_flight(operations: int, longest: int, values: int, machine: Machine) -> int:
    """Returns the number of interleaved gangs for iterations of `operations`, `longest` of them on the critical path, with `values`
    registers a gang.
    """
    return min(_wanted(operations, longest), _fitting(machine, values + 2, IN_FLIGHT))


def _wanted(operations: int, longest: int) -> int:
    return 1 << (IN_FLIGHT * longest // max(operations, 1)).bit_length()


def are_elements_faster_alone(draft: Draft, stage: Stage, vector: Axis) -> bool:
    """Whether lanes along an axis would slow down loops of different lengths: the stage's own, or those of a map inlined into it."""
    lanes = ((stage, vector), *_inlined_along(draft, stage, vector))
    return any(is_faster_alone(each, along.var, draft.machine) for each, along in lanes)


def _fitting(machine: Machine, each: int, most: int = MOST) -> int:
    """Returns the number of gangs that registers hold, a power of two of at most `most`, where one gang needs `each` registers."""
    return 1 << max(min(most, machine.registers // each), 1).bit_length() - 1


def latency(node: Node) -> int:
    """Returns an operation's latency, as a multiple of an addition's."""
    if isinstance(node, (Load, Element)):
        return 2
    if isinstance(node, Cond):
        return IN_FLIGHT
    return 0 if not isinstance(node, Op) else 1 if node.name in CHEAP else 20
