"""`time_tile`: several iterations of an array loop in each sweep over memory (overlapped tiling of time; Holewinski et al., 2012).

The rule writes the iterations out: the new loop's body has a copy of the old body's stages for each of them, which reads what the copy before
it makes. The last copy has tiles, and the others are computed in them: each needs some rows and columns around what the next one needs, so
that tiles overlap, and rows slide along a tile. The old loop runs the iterations that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Array, ArrayLoop, Axis, Expr, Load, Node, Op, Result, fresh, fresh_parameter
from raido.schedule.directives.copies import copy_stage, identity_stage, new_stage_name, with_stages
from raido.schedule.directives.loops import apply_split
from raido.schedule.directives.recorder import Name, Number, Recorder, Self, one_of, positive, rule
from raido.schedule.directives.sharing import apply_compute_with
from raido.schedule.plan import At, Split
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.reads import find_uses, loads_of, redirect
from raido.schedule.stages.stage import ControlStage, Stage
from raido.schedule.state import State, axis_named, plain_plan, put

SHAPES = ("overlap",)
MOST_STEPS = 64
KEPT_INSIDE = ("clamp_index", "mirror_index", "symmetric_index")


class TimeTileDirectives(Recorder):
    """The directive for tiles in time."""

    __slots__ = ()

    def time_tile(self: Self, steps: Number = 8, shape: Name = "overlap", **sizes: Number) -> Self:
        """Runs several iterations of an array loop in each sweep over memory, tile by tile; `stage` is the loop.

        steps: iterations of a sweep, 2 … 64; those that are left run as before. shape: "overlap", tiles that compute their surroundings again.
        sizes: the indices of a tile along axes of the body's last stage; axes that are not named are not cut.

        before   for t in 0..n: for y, x: next[y, x] = f(state[y ± 1, x ± 1])
        after    for t in 0..n // 8: for yo: for xo: for yi: eight rows, one of each iteration
                 for t in 8 * (n // 8)..n: as before

        The stages of the new loop, `loop_1_tiles`, are `u_0` … `u_7` for a stage `u` of the body: the last has the tiles, and the others are
        computed in them; all take directives. Give `time_tile` before directives for the body's stages.

        >>> s = heat.schedule()
        >>> view = s["loop_1"].time_tile(steps=4, y=64, x=512)
        >>> s["loop_1_tiles/u_3"].axes
        ('yo', 'xo', 'yi', 'xi')

        Refuses loops whose number of iterations data decides; bodies that hold scans, updates, filters, sorts or loops of their own, change
        sizes, or read all of a state in every iteration, as reductions do and boundary "wrap"; and GPUs.
        """
        return self._record("time_tile", steps=steps, shape=shape, **sizes)


@rule('tile time in loop "{stage}"', positional=("steps",))
def apply_time_tile(state: State, stage: str, steps: int = 8, shape: str = "overlap", **sizes: int) -> State:
    loop = state.uses.stages[stage]
    if not isinstance(loop, ControlStage) or not isinstance(loop.form, ArrayLoop):
        loops = [name for name, each in state.uses.stages.items() if isinstance(each.form, ArrayLoop)]
        raise Refusal(f'"{stage}" is not a loop of counted iterations over whole arrays', loops=listed(loops) or "none")
    positive(steps, "`steps`", 2, MOST_STEPS)
    one_of(shape, "a shape", SHAPES)
    check_body(state, loop)
    after, body = with_iterations(state, loop, steps)
    head = body.head
    for axis, size in sizes.items():
        after = apply_split(after, head, axis, size)
    plan = after.plan(head)
    tiles = [relation.outer for relation in plan.relations if isinstance(relation, Split)]
    if not tiles:
        raise Refusal("no axis is cut into tiles", f"sizes of tiles, as time_tile(steps={steps}, y=64, x=512)")
    loops = sorted(plan.loops, key=lambda each: each.name not in tiles)
    after = replace(put(after, replace(plan, loops=tuple(loops))), decided=state.decided)
    check_near(loop, [after.stage(head).axes.index(axis_named(after.stage(head), axis)) for axis in sizes])
    tile, row = At(head, loops[len(tiles) - 1].name), At(head, loops[len(tiles)].name)
    slides = row.loop != loops[-1].name
    for name in body.others:
        after = apply_compute_with(after, name, head, row.loop if slides else tile.loop)
        after = replace(after, decided=after.decided - {(name, "loops")})
    for name in reversed(body.inside):
        plan = after.plan(name)
        if slides:
            after = put(after, replace(plan, compute=row, store=tile), "placement", "store")
        else:
            after = put(after, replace(plan, compute=tile), "placement")
    return replace(after, decided=after.decided | {(stage, "strategy")})


def check_body(state: State, loop: ControlStage) -> None:
    """Refuses loops whose iterations cannot be computed tile by tile."""
    if state.gpu is not None:
        raise Refusal("a GPU runs each iteration as one launch", "a schedule for a CPU")
    if (loop.name, "strategy") in state.decided:
        raise Refusal("the schedule already names a strategy for this loop", "remove one of the two directives")
    if any(counted.array in loop.state for counted in state.graph.counts):
        raise Refusal("the iterations change the size of a state, so no tile of it is known beforehand")
    for stage in loop.body:
        if not isinstance(stage, Stage):
            raise Refusal(f'"{stage.name}" is a loop or branch')
        if stage.whole_axes:
            remedy = f's["{stage.name}"].strategy("gather") first' if stage.update else None
            raise Refusal(f'"{stage.name}" is no map: its elements depend on one another', remedy)
        if any(name == stage.name and what != "strategy" for name, what in state.decided):
            raise Refusal(
                f'"{stage.name}" already has directives', "time_tile first, then directives for the new stages"
            )
    if not any(isinstance(result, Result) for result in loop.results):
        raise Refusal("the iterations compute nothing")


def check_near(loop: ControlStage, dimensions: Iterable[int]) -> None:
    """Refuses bodies that read what iterations change far from the element that is computed, along dimensions that are cut into tiles."""
    changing = set(loop.state) | {Result(stage.form, k) for stage in loop.body for k in range(len(stage.bodies))}  # type: ignore[union-attr]
    for stage in loop.body:
        assert isinstance(stage, Stage)
        taps: dict[Node, int | None] = {axis.var: ix.constant_value(axis.extent) for axis in stage.reduction_axes}
        for load in loads_of(stage):
            cut = [d for d in dimensions if d < len(load.indices)] if load.array in changing else []
            if any(d >= len(stage.axes) or not is_near(load.indices[d], stage.axes[d], taps) for d in cut):
                raise Refusal(
                    f'each element of "{stage.name}" needs elements far away, so each tile would need all',
                    'tiles along other axes; a boundary other than "wrap"',
                )


def is_near(e: Expr, axis: Axis, taps: Mapping[Node, int | None]) -> bool:
    """Whether an index is an axis and a distance, kept inside the array or not. taps: the extents of the axes of a fold, None if unknown."""
    while isinstance(e, Op) and e.name in KEPT_INSIDE:
        e = e.args[0]
    terms = ix.linear(e)[1]
    return terms.get(axis.var) == 1 and all(taps.get(atom) is not None for atom in terms if atom is not axis.var)


@dataclass(frozen=True, slots=True)
class Body:
    """The stages of several iterations: the head has the tiles; others of the last iteration are handed on, too; those inside are computed
    in the tiles, in order."""

    head: str
    others: tuple[str, ...]
    inside: tuple[str, ...]


def with_iterations(state: State, loop: ControlStage, steps: int) -> tuple[State, Body]:
    """Returns the state in which a loop of several iterations each runs before the given one, and the stages of its body."""
    form, sites = loop.form, dict(state.graph.sites)
    assert isinstance(form, ArrayLoop)
    name = new_stage_name(state, None, f"{loop.name}_tiles")
    rounds, index = ix.floordiv(ix.maximum(form.count, 0), steps), fresh(form.index.name)
    states = tuple(fresh_parameter(each.name, each.dtype, each.shape) for each in loop.state)
    made: dict[Node, Stage] = {}
    current: tuple[Array, ...] = states
    for k in range(steps):
        values: dict[Node, Node] = dict(zip(loop.state, current, strict=True))
        values[form.index] = ix.add(ix.mul(index, steps), k)
        for old in loop.body:
            assert isinstance(old, Stage)
            own = f"{name}/{old.name.removeprefix(loop.name + '/')}_{k}"
            new = copy_stage(redirect(old, values, sites), own, sites)
            values |= {Result(old.form, m): Result(new.form, m) for m in range(len(new.bodies))}
            made[new.form] = new
        current = tuple(values.get(array, array) for array in loop.results)  # type: ignore[misc]
    read = {load.array.form for stage in made.values() for load in loads_of(stage) if isinstance(load.array, Result)}
    handed: dict[Node, None] = {}
    results = []
    for parameter, array in zip(loop.state, current, strict=True):
        if isinstance(array, Result) and array.form in read and array.form in made:
            maker = made[array.form]
            loads = (Load(array, tuple(axis.var for axis in maker.axes), False),)
            copy = identity_stage(maker, loads, f"{name}/{parameter.name}_{steps}", (array,), state.graph)
            array = Result(copy.form, 0)
            made[copy.form] = copy
        if isinstance(array, Result) and array.form in made:
            handed[array.form] = None
        results.append(array)
    whole = ArrayLoop(rounds, index, states, loop.init, tuple(results))
    tiled = ControlStage(name, (name,), whole, states, loop.init, tuple(results), tuple(made.values()), site=loop.site)
    rest = replace(loop, init=tuple(Result(whole, k) for k in range(len(results))), first=ix.mul(rounds, steps))
    graph = replace(with_stages(state.graph, loop.name, (tiled, rest)), sites=sites)
    uses = find_uses(graph)
    plans = state.plans | {stage.name: plain_plan(stage) for stage in made.values()}
    plans = {each: plans[each] for each in uses.stages if each in plans}
    head, *others = (stage.name for form, stage in made.items() if form in handed)
    inside = tuple(stage.name for form, stage in made.items() if form not in handed)
    return replace(state, graph=graph, uses=uses, plans=plans), Body(head, tuple(others), inside)
