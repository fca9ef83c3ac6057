"""Phases: a vectorised axis in strips whose few indices are unrolled, where elements are read at quotients of it (upsampling, interleaving).

Lanes that read `a[x // 2]` gather, and where `x % 2` chooses between values each lane computes all of them. In strips of two indices,
`lower/phases`, both are constants: neighbours are read by vectors, each phase computes its own value, and the stores of all phases are
interleaved in registers (polyphase decomposition, Bellanger et al. 1976).
"""

from __future__ import annotations

from math import gcd, lcm

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Op, Var
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft
from raido.schedule.machine import INTERLEAVED
from raido.schedule.stages.stage import Stage

NEAR = 4  # elements apart of which neighbouring lanes are read by vectors and shuffles (`targets/llvm/memory.load_strided`)


def phases_of(draft: Draft, stage: Stage, vector: Axis | None) -> int:
    """Indices of a strip of the vectorised axis, for each of which quotients in the stage's reads are the strip's number; 1 for none."""
    if vector is None or stage.reduction is not None or vector not in stage.axes:
        return 1
    points = draft.demand.points_read(stage.name)
    periods = {_period(point, vector.var) for point in points}
    together = lcm(*(period for period in periods if period))
    return together if 1 < together <= INTERLEAVED else 1


def _period(point: Point, var: Var) -> int:
    """After how many indices a read at a quotient of a variable has moved by whole elements; 0 for reads at no quotient, or that phases
    would not make neighbours."""
    moving = [e for e in point if e is None or any(node is var for node in scalar_nodes(e))]
    if len(moving) != 1 or moving[0] is not point[-1] or point[-1] is None:
        return 0
    last = point[-1]
    if isinstance(last, Op) and last.name in index.BOUNDARY_OPS:
        last = last.args[0]
    return _whole(last, var)


def _whole(e: Expr, var: Var) -> int:
    """After how many indices a quotient has always grown by the same, at most by `NEAR`; 0 for other expressions."""
    terms = index.linear(e)[1]
    moving = [atom for atom in terms if any(node is var for node in scalar_nodes(atom))]
    if len(moving) != 1 or terms[moving[0]] != 1:
        return 0
    (atom,) = moving
    divisor = index.constant_value(atom.args[1]) if isinstance(atom, Op) and atom.name == "floordiv" else None
    if not divisor or divisor < 0:
        return 0
    assert isinstance(atom, Op)
    slope = index.linear(atom.args[0])[1].get(var)
    if slope is None:
        return _whole(atom.args[0], var) * divisor
    together = gcd(slope, divisor)
    return divisor // together if 0 < slope // together <= NEAR else 0
