"""Phases: tiles of a vectorized axis whose few indices are unrolled, for reads at quotients of it (upsampling, interleaving).

Lanes that read `a[x // 2]` gather, and where `x % 2` selects between values each lane computes all of them. In unrolled tiles of two
indices (`lower/phases`) both are constants: neighbours are loaded as vectors, each phase computes its own value, and the stores of all
phases are interleaved in registers (polyphase decomposition, Bellanger et al. 1976).
"""

from __future__ import annotations

from math import gcd, lcm

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Op, Var
from raido.algo.graph.rewrite import free_variables
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft
from raido.schedule.machine import INTERLEAVED
from raido.schedule.stages.stage import Stage

NEAR = 4  # the greatest stride of lanes that vector loads and shuffles serve (`targets/llvm/memory.load_strided`)


def phases_of(draft: Draft, stage: Stage, vector: Axis | None) -> int:
    """Returns the indices of a tile of the vectorized axis in which quotients in the stage's reads are constant; 1 for none."""
    if vector is None or stage.reduction is not None or vector not in stage.axes:
        return 1
    points = draft.demand.points_read(stage.name)
    periods = {_period(point, vector.var) for point in points}
    together = lcm(*(period for period in periods if period))
    return together if 1 < together <= INTERLEAVED else 1


def _period(point: Point, var: Var) -> int:
    """Returns after how many indices a read at a quotient of a variable has advanced by whole elements; 0 for other reads, and those that
    phases do not make contiguous.
    """
    moving = [e for e in point if e is None or var in free_variables(e)]
    if len(moving) != 1 or moving[0] is not point[-1] or point[-1] is None:
        return 0
    last = point[-1]
    if isinstance(last, Op) and last.name in index.BOUNDARY_OPS:
        last = last.args[0]
    return _whole(last, var)


def _whole(e: Expr, var: Var) -> int:
    """Returns the period of a quotient in a variable, in which it advances by at most `NEAR`; 0 for other expressions."""
    terms = index.linear(e)[1]
    moving = [atom for atom in terms if var in free_variables(atom)]
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
