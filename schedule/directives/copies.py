"""Directives that add stages: `clone`, an instance of a stage for one reader, and `cache`, a copy of an array near its reader.

The new stage has a form of its own (the key by which it is read), and the reader's expressions load from it; everything else of the graph
stays, the reader's form included.
"""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import (
    Array,
    Axis,
    Constant,
    Expr,
    Generate,
    Load,
    Node,
    Parameter,
    Result,
    fresh,
)
from raido.algo.graph.program import Site
from raido.algo.graph.stage_names import RULE, is_stage_path
from raido.schedule.directives.hints import SCOPES, check_layout
from raido.schedule.directives.loops import no_loops_when_inlined
from raido.schedule.directives.placement import check_encloses_readers, place_at
from raido.schedule.directives.recorder import Name, Names, Recorder, Self, one_of, rule
from raido.schedule.plan import At, LoopPlan, Root, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.counts import by_name
from raido.schedule.stages.reads import find_uses, redirect
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage, StageGraph
from raido.schedule.state import State, axes_of, is_inlined, plain_plan, put, resolve

DEFAULT_AXES = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}


class CopyDirectives(Recorder):
    """Directives that add stages."""

    __slots__ = ()

    def clone(self: Self, consumer: Name, name: Name | None = None) -> Self:
        """Gives one reader a clone of the stage, scheduled separately.

        consumer: a stage that reads this one. name: of the clone; "rows_2" for "rows" unless given.

        before   a = f(rows); b = g(rows)
        after    a = f(rows); b = g(rows_2)            s["rows"].clone("b")

        >>> s = diamond.schedule()
        >>> view = s["base"].clone("right")
        >>> s.stages
        ('base', 'left', 'base_2', 'right', 'out')

        Refuses when `consumer` does not read the stage, or is the only one that needs it.
        """
        return self._record("clone", consumer=consumer, name=name)

    def cache(
        self: Self,
        array: Name,
        stage: Name,
        axis: Name | None,
        layout: Names | None = None,
        scope: Name | None = None,
        name: Name | None = None,
    ) -> Self:
        """Copies the region of an array that a loop needs, for this stage to read; the copy is a stage.

        array: a parameter or a stage that this stage reads. stage, axis: the loop at which the copy is made; None: once, at root. layout:
        storage dimensions of the copy, outermost first, in this stage's axes and halves of splits: ("jo", "r", "ji") packs panels of b[r,
        j], and of an array that is read elsewhere too serves that read alone; a dimension that is read at one constant is called by its
        position, ("jo", "d2", "r", "ji") for b[r, j, 0]. scope: "heap", "stack" or "register"; on a GPU "shared", one for the threads of a
        block, or "local", one for each thread. name: of the copy; "b_copy" for "b" unless given.

        before   for io, jo, r, ii, ji: c += a[i, r] * b[r, j]
        after    for jo, r, ji: b_copy[jo, r, ji] = b[r, j]
                 for io, jo, r, ii, ji: c += a[i, r] * b_copy[jo, r, ji]

        >>> s = sgemm.schedule()
        >>> view = s["c"].tile(i=12, j=32).cache("b", "c", None, layout=("jo", "r", "ji"))
        >>> s["b_copy"].axes
        ('jo', 'r', 'ji')

        Refuses arrays that this stage does not read, loops that do not enclose it, and layouts that do not hold every axis once.
        """
        return self._record("cache", array=array, stage=stage, axis=axis, layout=layout, scope=scope, name=name)


@rule('clone stage "{stage}" for "{consumer}"')
def apply_clone(state: State, stage: str, consumer: str, name: str | None = None) -> State:
    original = state.stage(stage)
    reader = resolve(state.uses.stages, consumer)
    readers = state.uses.readers[stage]
    if reader not in readers:
        raise Refusal(f'"{reader}" does not read "{stage}"', readers=listed(readers))
    reading = state.uses.stages[reader]
    if isinstance(reading, ControlStage):
        raise Refusal(f'"{reader}" is a loop over whole arrays', readers=listed(readers))
    if len(readers) == 1 and stage not in state.uses.outputs:
        raise Refusal(f'"{reader}" is the only reader of "{stage}", so no stage would read the original')
    if original.filter is not None:
        raise Refusal(
            f'"{stage}" determines the size of its result, which a clone would determine a second time',
            f's["{stage}"].root()',
        )
    sites = dict(state.graph.sites)
    copy = copy_stage(original, new_stage_name(state, name, stage), sites)
    changed = redirect(reading, _results(original.form, copy), sites)
    graph = replace(insert_before(state.graph, reader, copy, changed), sites=sites)
    return with_graph(state, graph, plain_plan(copy))


@rule('cache "{array}" for stage "{reader}"')
def apply_cache(
    state: State,
    reader: str,
    array: str,
    stage: str,
    axis: str | None,
    layout: tuple[str, ...] | None = None,
    scope: str | None = None,
    name: str | None = None,
) -> State:
    no_loops_when_inlined(state, reader)
    reading = state.stage(reader)
    loads = state.uses.loads[reader]
    if array not in loads and array in state.uses.stages:
        array = resolve(state.uses.stages, array)
    if array not in loads or not array:
        raise Refusal(f'"{reader}" does not read "{array}"', arrays=listed(each for each in loads if each))
    read = state.uses.stages.get(array)
    if isinstance(read, Stage) and read.sort is not None and read.sort.positions is not None:
        problem = (
            f'only some indices of "{array}" are read, so only a part of it is sorted; a copy would need all of it'
        )
        raise Refusal(problem, "leave `cache` out")
    if is_inlined(state, array):
        raise Refusal(f'"{array}" is inlined and has no memory to copy from', f's["{array}"].compute_at(…)')
    if axis is None:
        resolve(state.uses.stages, stage)
    first = next((load for load in loads[array] if load.indices), loads[array][0])
    components = _components(first.array, state.uses.stages.get(array))
    every = tuple(load for load in loads[array] if load.array in components)
    copied = every if layout is None else _at_layout(reading, state.plan(reader), every, layout)
    copy = identity_stage(reading, copied, new_stage_name(state, name, array + "_copy"), components, state.graph)
    values: dict[Node, Node] = {node: Result(copy.form, k) for k, node in enumerate(components)}
    if copied != every:
        values = {load: Load(values[load.array], load.indices, load.checked) for load in copied}  # type: ignore[arg-type]
    sites = dict(state.graph.sites)
    graph = replace(insert_before(state.graph, reader, copy, redirect(reading, values, sites)), sites=sites)
    plan = plain_plan(copy)
    if layout is not None:
        plan = lay_out(copy, plan, state.plan(reader), layout)
    if scope is not None:
        plan = replace(plan, scope=one_of(scope, "a scope", SCOPES))
    state = with_graph(state, graph, plan)
    at: At | Root = Root() if axis is None else place_at(state, copy.name, stage, axis)
    if isinstance(at, At):
        check_encloses_readers(state, copy.name, at)
    said = [decision for decision, value in (("layout", layout), ("scope", scope)) if value is not None]
    return put(state, replace(plan, compute=at), "placement", *said)


def _at_layout(reader: Stage, plan: StagePlan, loads: tuple[Load, ...], layout: tuple[str, ...]) -> tuple[Load, ...]:
    """Returns the loads of an array at the axes that a layout names, where it is read in several ways (both factors of x @ x.T); all
    without such.
    """
    named = {axis for each in layout for axis in axes_of(plan, each)}
    return tuple(load for load in loads if set(dimension_names(reader, (load,))) == named) or loads


def new_stage_name(state: State, name: str | None, wish: str) -> str:
    """Returns a name for a new stage: `name`, which must be free, or one derived from `wish`."""
    taken = set(state.uses.stages) | {parameter.name for parameter in state.graph.program.parameters}
    if name is not None:
        if not is_stage_path(name):
            raise Refusal(f"{RULE}, not {name!r}", "give another name")
        if name in taken:
            raise Refusal(f'the name "{name}" is taken', "give another name", stages=listed(state.uses.stages))
        return name
    if wish not in taken:
        return wish
    return next(each for k in range(2, len(taken) + 3) if (each := f"{wish}_{k}") not in taken)


def copy_stage(stage: Stage, name: str, sites: dict[Node, Site]) -> Stage:
    """Returns a clone of a stage under another name with variables of its own; adds the source sites of its expressions to `sites`."""
    variables: dict[Node, Node] = {axis.var: fresh(axis.var.name) for axis in stage.all_axes}
    if stage.reduction is not None:
        for var in (*stage.reduction.left, *stage.reduction.right):
            variables[var] = fresh(var.name, var.dtype)
    changed = redirect(stage, variables, sites)
    axes = tuple(Axis(variables[axis.var], axis.extent) for axis in stage.axes)
    return replace(changed, name=name, names=(name,), form=own_form(name, axes, changed.bodies), axes=axes)


def own_form(name: str, axes: tuple[Axis, ...], bodies: tuple[Expr, ...]) -> Generate:
    """Returns the form of a new stage. It contains no body, since equal nodes are one node, and a copy must differ from its original."""
    return Generate(axes, tuple(fresh(name, body.dtype) for body in bodies))


def identity_stage(
    reader: Stage, loads: tuple[Load, ...], name: str, arrays: tuple[Array, ...], graph: StageGraph
) -> Stage:
    """Returns a stage that copies arrays of one shape, with an axis for each dimension, named as in the reader where its indices are plain
    axes.
    """
    array = loads[0].array
    names = dimension_names(reader, loads)
    shape = tuple(by_name(extent, graph.counts) for extent in array.shape)
    axes = tuple(Axis(fresh(axis, i64), extent) for axis, extent in zip(names, shape, strict=True))
    variables = tuple(axis.var for axis in axes)
    bodies = tuple(Load(each, variables, False) for each in arrays)
    return Stage(name, (name,), own_form(name, axes, bodies), axes, None, bodies, site=reader.site)


def dimension_names(reader: Stage, loads: tuple[Load, ...]) -> tuple[str, ...]:
    """Returns names for an array's dimensions: the reader's axes where every index is one; "d0", "d1", … at one constant; else z, y, x."""
    by_var = {axis.var: axis.name for axis in reader.all_axes}
    columns = [{index.canonical(i) for i in column} for column in zip(*(load.indices for load in loads), strict=True)]
    names = []
    for d, column in enumerate(columns):
        (first, *others) = column
        fixed = not others and index.constant_value(first) is not None
        names.append("" if others else f"d{d}" if fixed else by_var.get(first, ""))  # type: ignore[call-overload]
    if all(names) and len(set(names)) == len(names) and not by_var.keys().isdisjoint(set().union(*columns)):
        return tuple(names)
    rank = len(loads[0].indices)
    return DEFAULT_AXES.get(rank) or (*(f"d{k}" for k in range(rank - 3)), "z", "y", "x") if rank else ()


def lay_out(copy: Stage, plan: StagePlan, reader: StagePlan, layout: tuple[str, ...]) -> StagePlan:
    """Returns the copy's plan with the reader's splits that the layout names, and its loops in the order of storage."""
    relations = []
    live = {axis.name for axis in copy.axes}
    for relation in reader.relations:
        if isinstance(relation, Split) and relation.parent in live and relation.parent not in layout:
            relations.append(replace(relation, tail="default"))
            live |= {relation.outer, relation.inner}
    plan = replace(plan, relations=tuple(relations))
    check_layout(copy, plan, layout)
    return replace(plan, layout=layout, loops=tuple(LoopPlan(each) for each in layout))


def insert_before(graph: StageGraph, reader: str, new: Stage, changed: Stage) -> StageGraph:
    """Returns the graph with stage `new` before `reader`, which `changed` replaces."""
    return with_stages(graph, reader, (new, changed))


def with_stages(graph: StageGraph, name: str, others: tuple[AnyStage, ...]) -> StageGraph:
    """Returns the graph with one stage replaced by others, also inside array loops and conditionals."""

    def rewrite(stages: tuple[AnyStage, ...]) -> tuple[AnyStage, ...]:
        found: list[AnyStage] = []
        for stage in stages:
            if stage.name == name:
                found += others
            elif isinstance(stage, ControlStage):
                found.append(
                    replace(stage, setup=rewrite(stage.setup), body=rewrite(stage.body), orelse=rewrite(stage.orelse))
                )
            else:
                found.append(stage)
        return tuple(found)

    return replace(graph, stages=rewrite(graph.stages))


def with_graph(state: State, graph: StageGraph, plan: StagePlan) -> State:
    """Returns the state over a graph with one more or changed stage, whose plan is `plan`."""
    uses = find_uses(graph)
    plans = {**state.plans, plan.stage: plan}
    ordered = {name: plans[name] for name in uses.stages if name in plans}
    return replace(state, graph=graph, uses=uses, plans=ordered)


def _components(array: Array, producer: AnyStage | None) -> tuple[Array, ...]:
    """Returns the results that a copy holds: all of a stage that have one shape, so without the count of a filter."""
    if not isinstance(array, Result) or not isinstance(producer, Stage):
        return (array,)
    arrays = tuple(Result(array.form, k) for k in range(len(producer.bodies)))
    if producer.filter is None:
        return arrays
    return (array,) if array is arrays[-1] else arrays[:-1]


def _results(old: Node, copy: Stage) -> dict[Node, Node]:
    """Returns the substitution by which readers of an array, or of all results of a form, read a copy."""
    if isinstance(old, Parameter | Constant | Result):
        return {old: Result(copy.form, 0)}
    return {Result(old, k): Result(copy.form, k) for k in range(len(copy.bodies))}
