"""Reads between stages: the loads of each stage, and the stages of a graph by name, bodies of control stages included.

Loads are found without entering the arrays they load from: a stage's bodies are closed expressions over its axes, and `Stage.form` is only
the key by which others load it. `redirect` makes a stage load from other arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raido.algo.graph.expr import Array, Constant, Expr, Load, Node, Parameter, Reduce, Result, SizeVar
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import children, loads_in, rebuild, scalar_nodes
from raido.schedule.remember import remembered
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage, StageGraph, initial_values


@remembered
def scalars_of(stage: Stage) -> tuple[Node, ...]:
    """Returns the scalar nodes of a stage, its reduction included, children first."""
    return tuple(scalar_nodes(*stage_roots(stage)))


@remembered
def loads_of(stage: Stage) -> tuple[Load, ...]:
    """Returns the loads of a stage, its reduction included."""
    return tuple(node for node in scalars_of(stage) if isinstance(node, Load))


def sizes_of(stage: Stage) -> set[SizeVar]:
    """Returns the sizes that a stage's extents and expressions mention."""
    extents = scalar_nodes(*(axis.extent for axis in stage.all_axes))
    return {node for node in (*extents, *scalars_of(stage)) if isinstance(node, SizeVar)}


def epilogue_loads(stage: Stage) -> tuple[Load, ...]:
    """Returns the loads outside the reduction loops: in the initial values, and in the bodies after the reduction."""
    if stage.reduction is None:
        return loads_of(stage)
    found: dict[Node, None] = {}
    todo: list[Node] = [*stage.bodies, *initial_values(stage.reduction)]
    while todo:
        node = todo.pop()
        if node not in found and node is not stage.reduction:
            found[node] = None
            todo += node.indices if isinstance(node, Load) else children(node)
    return tuple(node for node in found if isinstance(node, Load))


def stage_roots(stage: Stage) -> tuple[Node, ...]:
    """Returns the root expressions of a stage: its bodies and its reduction."""
    reduction: tuple[Reduce, ...] = (stage.reduction,) if stage.reduction else ()
    return (*stage.bodies, *reduction)


def redirect(stage: Stage, values: Mapping[Node, Node], sites: dict[Node, Site]) -> Stage:
    """Returns the stage with arrays (or variables) replaced in its expressions; its form, the key to its results, stays.

    The source sites of replaced expressions are added to `sites` for the new ones.
    """
    memo: dict[Node, Any] = {}

    def change(node: Node) -> Node:
        return values.get(node) or memo.get(node, node)

    for node in scalars_of(stage):
        memo[node] = values.get(node) or rebuild(node, change)
        if node in sites:
            sites.setdefault(memo[node], sites[node])
    return replace(
        stage,
        bodies=tuple(memo[body] for body in stage.bodies),
        reduction=memo[stage.reduction] if stage.reduction else None,
    )


def array_name(array: Array, names: Mapping[Node, str]) -> str:
    """Returns an array's name in schedules: a parameter's, or that of the stage that computes it; "" for a constant."""
    if isinstance(array, Result):
        return names.get(array.form, "")
    return array.name if isinstance(array, Parameter) else ""


@dataclass(frozen=True, slots=True)
class Uses:
    """All stages of a graph by name, in execution order, and the reads between them.

    `scope[stage]`: the control stage around it, or "". `names`: the stage of each form. `readers[stage]`: the stages of its scope that read
    it; a control stage reads whatever its body reads from outside. `sized[stage]`: the stages with sizes that it determines.
    `loads[reader]`: array name -> loads. `outputs`: stages whose values leave their scope. `positions`: the numbers of stages in execution
    order. `reached`: a cache of `reached_from`.
    """

    stages: dict[str, AnyStage]
    scope: dict[str, str]
    names: dict[Node, str]
    readers: dict[str, tuple[str, ...]]
    sized: dict[str, tuple[str, ...]]
    loads: dict[str, dict[str, tuple[Load, ...]]]
    outputs: frozenset[str]
    positions: dict[str, int]
    reached: dict[str, frozenset[str]] = field(default_factory=dict)

    def reached_from(self, producer: str) -> frozenset[str]:
        """Returns the stages that depend on a stage, directly or through others."""
        if producer not in self.reached:
            found: set[str] = set()
            todo = [producer]
            while todo:
                new = [each for each in self.readers.get(todo.pop(), ()) if each not in found]
                found.update(new)
                todo += new
            self.reached[producer] = frozenset(found)
        return self.reached[producer]


@remembered
def find_uses(graph: StageGraph) -> Uses:
    """Returns the stages of a graph and the reads between them, computed in one walk."""
    stages: dict[str, AnyStage] = {}
    scope: dict[str, str] = {}
    names: dict[Node, str] = {}
    for stage, inside in flatten(graph.stages):
        stages[stage.name] = stage
        scope[stage.name] = inside
        names[stage.form] = stage.name
    readers: dict[str, dict[str, None]] = {name: {} for name in stages}
    sized: dict[str, dict[str, None]] = {name: {} for name in stages}
    deciding = {counted.size: counted.array for counted in graph.counts if counted.array is not None}
    loads: dict[str, dict[str, tuple[Load, ...]]] = {}
    outputs: set[str] = set()

    def mention(array: Array, reader: str, table: dict[str, dict[str, None]] = readers) -> None:
        """Enters `reader`, or the control stage around it in the array's scope, as a reader of `array`."""
        if isinstance(array, Constant | Parameter):
            return
        producer = names.get(array.form)
        if producer is None:
            return
        while reader in scope and scope[reader] != scope[producer]:
            reader = scope[reader]
        if reader != producer and reader in scope:
            table[producer][reader] = None

    for stage in stages.values():
        if isinstance(stage, Stage):
            mentioned = sizes_of(stage) if deciding else set()
            for array in (array for size, array in deciding.items() if size in mentioned):
                mention(array, stage.name, sized)
            by_array: dict[str, list[Load]] = {}
            for load in loads_of(stage):
                mention(load.array, stage.name)
                by_array.setdefault(array_name(load.array, names), []).append(load)
            loads[stage.name] = {name: tuple(found) for name, found in by_array.items()}
            continue
        for array in stage.init:
            mention(array, stage.name)
        for array in (*stage.results, *stage.orelse_results):
            if isinstance(array, Result) and array.form in names:
                inner = names[array.form]
                if scope[inner] == stage.name:
                    outputs.add(inner)
                else:
                    mention(array, stage.name)
        for load in loads_in(*_controls(stage)):
            mention(load.array, stage.name)
            producer = array_name(load.array, names)
            if producer in scope and scope[producer] == stage.name:
                outputs.add(producer)
    made = (*graph.results, *(counted.array for counted in graph.counts))
    outputs.update(names[r.form] for r in made if isinstance(r, Result) and r.form in names)
    who, whom = ({name: tuple(found) for name, found in table.items()} for table in (readers, sized))
    positions = {name: position for position, name in enumerate(stages)}
    return Uses(stages, scope, names, who, whom, loads, frozenset(outputs), positions)


def flatten(stages: Iterable[AnyStage], inside: str = "") -> Iterator[tuple[AnyStage, str]]:
    """Yields every stage with the name of the control stage around it, in execution order; a control stage comes before its body."""
    for stage in stages:
        yield stage, inside
        if isinstance(stage, ControlStage):
            yield from flatten((*stage.setup, *stage.body, *stage.orelse), stage.name)


def _controls(stage: ControlStage) -> tuple[Expr, ...]:
    found = (getattr(stage.form, name, None) for name in ("count", "condition", "predicate"))
    return tuple(e for e in found if e is not None)
