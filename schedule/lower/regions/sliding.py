"""Sliding windows (Halide): producers stored further out than they are computed.

Along the one dimension that moves with the loop, each iteration computes only the elements beyond those that earlier iterations computed,
in a buffer folded to a power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Op, Result, Var
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.lower.builder import Builder, Scope
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.regions import Box, extent_bound, spread
from raido.schedule.lower.regions.sharing import FusedStage
from raido.schedule.nest.nodes import Alloc, Store
from raido.schedule.nest.values import Buffer, Read, new_serial
from raido.schedule.plan import At

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

STACK_BYTES = 32 << 10  # of one buffer
Compute = Callable[[list[LoweredStage], dict[str, Box]], None]


@dataclass(slots=True)
class Window:
    """Memory that outlives the loop in which its contents are computed.

    slid: the dimension that slides, if there is one. reached: for each scope in which the window restarts, a register
    with the first index not computed yet.
    """

    scope: Scope
    storage: Storage
    slid: tuple[int, ...]
    buffers: dict[int, Buffer] = field(default_factory=dict)
    reached: dict[int, tuple[Scope, Buffer]] = field(default_factory=dict)


class Sliding:
    """The sliding windows of stages. levels: the level of the scope in which each is stored; `compute` emits a stage
    and its fused stages over boxes."""

    def __init__(self, loops: Loops, fused_stages: dict[str, list[FusedStage]], compute: Compute) -> None:
        self.loops, self.fused_stages, self.compute = loops, fused_stages, compute
        self.builder: Builder = loops.builder
        self.levels: dict[str, int] = {}
        self.windows: dict[tuple[str, int], Window] = {}

    def slides(self, group: list[LoweredStage], boxes: dict[str, Box]) -> bool:
        """Stores a stage (and its fused stages) at its outer place, emits the computation of the new elements, and returns True.

        Returns False in unrolled iterations, and where the needed box does not fit the window of other parts of the loop.
        """
        lowered, builder = group[0], self.builder
        floor, box = self.loops.emitter.floor, boxes[lowered.stage.name]
        level = self.levels.get(lowered.stage.name, floor) if isinstance(lowered.plan.store, At) else floor
        if any(scope.unrolled for scope in builder.scopes[level + 1 :]):
            return False
        loops = [s for s in builder.scopes[level + 1 :] if s.var is not None]
        between = {v for v in self._variables() if builder.level_of.get(v, 0) > level}
        steady = self._steady(loops)
        slid = [
            d
            for d, bounds in enumerate(box)
            if any(_mentions(e, between) for e in bounds)
            and steady
            and all(grows_with(e, steady[0], between) for e in bounds)
        ]
        reset = max([level, *(s.level for s in loops if s.var not in steady)])
        settled = {v for v in between if builder.level_of[v] > reset}
        follows = {each.stage.name: self._same_axes(lowered, each, slid) for each in group}
        for each in group:
            if any(
                _mentions(e, settled)
                for d, bounds in enumerate(boxes[each.stage.name])
                if d not in follows[each.stage.name]
                for e in bounds
            ):
                slid = []
        if len(slid) != 1:
            slid = []
        windows = [
            self._window(each, boxes[each.stage.name], level, between, follows[each.stage.name] if slid else [])
            for each in group
        ]
        if any(
            window.slid != tuple(follows[each.stage.name] if slid else ())
            or not self._fits(each, boxes[each.stage.name], window)
            for each, window in zip(group, windows, strict=True)
        ):
            return False
        for each, window in zip(group, windows, strict=True):
            self._use(each, window)
        if not slid:
            self.compute(group, boxes)
            return True
        window, (d,) = windows[0], slid
        reached = self._reached(lowered, window, reset)
        low, high = box[d]
        before = builder.name(f"{lowered.stage.axes[d].name}_done", Read(reached, (), None))
        start = builder.name(f"{lowered.stage.axes[d].name}_new", ix.maximum(low, before))
        builder.scope.assumptions = builder.assumptions.with_range(start, low, ix.add(high, 1))
        new = {
            name: tuple((start, high) if k in follows[name] else bounds for k, bounds in enumerate(whole))
            for name, whole in boxes.items()
        }
        self.compute(group, new)
        builder.add(Store(reached, (), ix.maximum(before, spread(ix.add(high, 1)))))
        return True

    def start_anew(self) -> None:
        """Resets the progress of all windows, because the loop that they slide along begins again."""
        for window in self.windows.values():
            window.reached.clear()

    def _same_axes(self, leader: LoweredStage, lowered: LoweredStage, dimensions: list[int]) -> list[int]:
        """The dimensions of a stage, or of a stage fused with it, that correspond to `dimensions` of the leader."""
        if lowered is leader:
            return dimensions
        matched = next(
            fused_stage.matched
            for fused_stage in self.fused_stages[leader.stage.name]
            if fused_stage.lowered is lowered
        )
        names = {leader.stage.axes[d].name for d in dimensions}
        return [d for d, axis in enumerate(lowered.stage.axes) if matched.get(axis.name) in names]

    def _window(self, lowered: LoweredStage, box: Box, level: int, between: set[Var], slid: list[int]) -> Window:
        """The window of a stage at `level`, created with the layout of the first box that asks for it."""
        key = (lowered.stage.name, id(self.builder.scopes[level]))
        if key not in self.windows:
            layout = self._layout(lowered, box, level, between, slid)
            self.windows[key] = Window(self.builder.scopes[level], layout, tuple(slid))
        return self.windows[key]

    def _fits(self, lowered: LoweredStage, box: Box, window: Window) -> bool:
        """Whether a box lies in the memory of a window."""
        assumptions, storage = self.builder.assumptions, window.storage
        parts = zip(lowered.stage.axes, box, storage.buffer.shape, storage.origin, storage.fold, strict=True)
        for axis, (low, high), length, origin, fold in parts:
            extent = extent_bound(low, high, axis.extent, self.builder.assumptions, self.builder.meaning)
            most, room = ix.constant_value(extent), ix.constant_value(length)
            short = extent is length or (most is not None and room is not None and most <= room)
            if fold and not short:
                return False
            if origin is not None and not (
                (low is origin and short)
                or (assumptions.less_equal(origin, low) and assumptions.less(high, ix.add(origin, length)))
            ):
                return False
        return True

    def _use(self, lowered: LoweredStage, window: Window) -> None:
        """Redirects the stage's loads to the window from now on."""
        storage = window.storage
        for k in range(len(lowered.bodies)):
            kept = Storage(self._output(lowered, k, window), storage.origin, storage.fold)
            self.loops.converter.storages[Result(lowered.form, k)] = kept  # type: ignore[index]
            self.builder.level_of[kept.buffer] = self.builder.scope.level

    def _steady(self, loops: list[Scope]) -> list[Var]:
        """The innermost loop's variable, followed by those of outer loops that it continues, each starting at the value of the next one."""
        found: list[Var] = []
        ranges = self.builder.assumptions.ranges
        variables = [s.var for s in loops]
        var = variables[-1] if variables else None
        while var is not None and var in variables:
            found.append(var)
            low = ranges[var][0]
            var = low if isinstance(low, Var) else None
        return found

    def _layout(self, lowered: LoweredStage, box: Box, level: int, between: set[Var], slid: list[int]) -> Storage:
        """The layout of the memory stored at `level`, folded along the sliding dimension."""
        builder = self.builder
        inside = {v for v in self._variables() if builder.level_of[v] > level}
        moving = [d for d, bounds in enumerate(box) if any(_mentions(e, between) for e in bounds)]
        shape, origin, fold = [], [], []
        for d, (axis, (low, high)) in enumerate(zip(lowered.stage.axes, box, strict=True)):
            extent = extent_bound(low, high, axis.extent, builder.assumptions, builder.meaning)
            value = ix.constant_value(extent)
            if d in moving and d in slid and value is not None and ix.constant_value(axis.extent) is None:
                size = 1 << max(0, value - 1).bit_length()
                shape.append(ix.as_index(size))
                origin.append(None)
                fold.append(size)
            elif d in moving or any(_mentions(e, inside) for e in (low, high)):
                shape.append(axis.extent)
                origin.append(None)
                fold.append(0)
            else:
                shape.append(extent)
                origin.append(None if extent is axis.extent else low)
                fold.append(0)
        return Storage(
            Buffer("", lowered.bodies[0].dtype, tuple(shape), "heap", 0, (), 1, None), tuple(origin), tuple(fold)
        )

    def _reached(self, lowered: LoweredStage, window: Window, reset: int) -> Buffer:
        """The register with the first index along the sliding dimension not computed since the window last restarted."""
        scope = self.builder.scopes[reset]
        if id(scope) not in window.reached:
            register = Buffer(f"{lowered.stage.name}_reached", i64, (), "register", new_serial(), (), 1, None)
            self.builder.level_of[register] = reset
            scope.statements += [Alloc(register), Store(register, (), ix.as_index(0))]
            window.reached[id(scope)] = (scope, register)
        return window.reached[id(scope)][1]

    def _output(self, lowered: LoweredStage, k: int, window: Window) -> Buffer:
        """The buffer of result `k`, allocated in the scope where the window is stored."""
        if k not in window.buffers:
            shape, dtype = window.storage.buffer.shape, lowered.bodies[k].dtype
            label = lowered.stage.name.rsplit("/", 1)[-1]
            buffer = Buffer(label, dtype, shape, kept_scope(shape, dtype.itemsize), new_serial(), (), 1, None)
            window.scope.statements.append(self.builder.allocation(buffer))
            window.buffers[k] = buffer
        return window.buffers[k]

    def _variables(self) -> set[Var]:
        return {v for v in self.builder.level_of if isinstance(v, Var)}


def kept_scope(shape: tuple[Expr, ...], itemsize: int) -> str:
    """The memory scope for a shape: "register" for one element, "stack" for at most STACK_BYTES bytes, else "heap"."""
    total = itemsize
    for e in shape:
        value = ix.constant_value(e)
        if value is None:
            return "heap"
        total *= value
    if total == itemsize:
        return "register"
    return "stack" if total <= STACK_BYTES else "heap"


def _mentions(e: Expr, variables: set[Var]) -> bool:
    return any(n in variables for n in scalar_nodes(e))


def grows_with(e: Expr, var: Var, moving: set[Var]) -> bool:
    """Whether a bound depends on no moving variable but `var`, and never decreases as `var` grows."""
    for atom, c in ix.linear(e)[1].items():
        if atom is var or not _mentions(atom, moving):
            if atom is var and c < 0:
                return False
        elif c < 0 or not isinstance(atom, Op):
            return False
        elif atom.name in ("minimum", "maximum"):
            if not all(grows_with(a, var, moving) for a in atom.args):
                return False
        elif (
            atom.name != "floordiv" or not ix.constant_value(atom.args[1]) or not grows_with(atom.args[0], var, moving)
        ):
            return False
    return True
