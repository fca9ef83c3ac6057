"""Choices for a stage's compute and storage sites: clones for single consumers, placement, sliding windows, shared loops."""

from __future__ import annotations

from raido.algo.graph import index
from raido.autotune.space.walk import DEFAULT, Option, Walk, make_directive
from raido.schedule.defaults.demand import cost, is_pointwise
from raido.schedule.defaults.updates import sorted_where_far
from raido.schedule.plan import At, Split
from raido.schedule.recorded import Directive, Value
from raido.schedule.stages.stage import Stage
from raido.schedule.state import enclosing_loops, has_explicit_loops, is_inlined, readers_of, shared_count
from raido.schedule.strategies.table import strategies_of

MOST_HOSTS = 3
SHARED = "with "


def choose_clones(walk: Walk, stage: str) -> None:
    """Chooses whether one of several consumers gets a clone of the stage."""
    readers = walk.state.uses.readers[stage]
    if len(readers) < 2 or walk.is_decided(stage, "placement"):
        return
    clones = [Option(reader, (make_directive(stage, "clone", consumer=reader),), 0.03) for reader in readers]
    walk.choose(stage, "copy for", [Option(""), *clones])


def choose_compute_site(walk: Walk, stage: str) -> None:
    """Chooses a stage's compute site: default, inlined, root, inside a loop of a consumer, or fused with another stage's loops."""
    if walk.is_decided(stage, "placement") or has_explicit_loops(walk.state, stage):
        return
    options = [
        Option(DEFAULT, weight=3.0),
        *_inline(walk, stage),
        Option("root", (make_directive(stage, "root"),), 0.5),
    ]
    options += _loops_around(walk, stage)
    options += _hosts(walk, stage)
    if stage in walk.shares:  # others wait for its loops
        options = [o for o in options if o.label != "inline" and not str(o.label).startswith(SHARED)]
    chosen = str(walk.choose(stage, "place", options))
    if chosen.startswith(SHARED):
        walk.shares.setdefault(chosen.removeprefix(SHARED), []).append(stage)


def waits_for_leader(walk: Walk, stage: str) -> bool:
    """Whether the stage will share the loops of a stage whose loops are not decided yet."""
    return any(stage in fused_stages for fused_stages in walk.shares.values())


def choose_fused_stages(walk: Walk, stage: str) -> None:
    """Chooses for each stage fused with this one the loop down to which they share loops."""
    for fused_stage in walk.shares.pop(stage, ()):
        loops = [loop.name for loop in walk.plan(stage).loops[shared_count(walk.state, stage) :]]
        directives: dict[str, tuple[Directive, ...]] = {
            loop: (make_directive(fused_stage, "compute_with", stage=stage, axis=loop),) for loop in reversed(loops)
        }
        walk.choose(
            fused_stage,
            "with",
            [Option(loop, each, 3.0 if k == 0 else 1.0) for k, (loop, each) in enumerate(directives.items())],
        )


def choose_window(walk: Walk, stage: str) -> None:
    """Chooses the loop, outside the compute site, over whose iterations a stage's storage is kept (sliding window)."""
    plan = walk.plan(stage)
    if not isinstance(plan.compute, At) or plan.store is not None:
        return
    around = enclosing_loops(walk.state, stage)[:-1]
    sites: list[tuple[Value, Directive]] = [
        (f"{other} {loop}", make_directive(stage, "store_at", stage=other, axis=loop))
        for other, loop in reversed(around)
    ]
    sites.append(("root", Directive(stage, "store_at", (("stage", plan.compute.stage),))))
    options = [Option(label, (directive,), 0.5) for label, directive in sites if walk.allows(directive)]
    walk.choose(stage, "keep", [Option(""), *options])


def choose_strategy(walk: Walk, stage: str) -> None:
    """Chooses a stage's strategy, if it has any, and one of its parameters: the default, or an eighth to eight times that."""
    found = strategies_of(walk.stage(stage))
    if not found or walk.is_decided(stage, "strategy") or has_explicit_loops(walk.state, stage):
        return
    options = [Option(DEFAULT, weight=2.0)]
    for name, strategy in found.items():
        first = make_directive(stage, "strategy", name=name)
        far = sorted_where_far(walk.facts(stage), walk.stage(stage)) if name == "private" else None
        also = (far,) if far is not None and walk.allows(far, first) else ()
        options.append(Option((name,), (*also, first), 1.0))
        told = [make_directive(stage, "strategy", name=name, **{number: True}) for number in strategy.options]
        options += [
            Option((name, number, True), (directive,), 0.3)
            for number, directive in zip(strategy.options, told, strict=True)
        ]
        for number, usual in strategy.numbers.items():
            if (
                isinstance(usual, bool | str) or number == "chunks"
            ):  # a permission, which is the user's to give; what sizes decide
                continue
            near = [usual << k for k in range(1, 4)] + [usual >> k for k in range(1, 4) if usual >> k]
            directives = {each: make_directive(stage, "strategy", name=name, **{number: each}) for each in sorted(near)}
            options += [Option((name, number, each), (*also, directive), 0.3) for each, directive in directives.items()]
    walk.choose(stage, "strategy", options)


def _inline(walk: Walk, stage: str) -> list[Option]:
    whole = walk.stage(stage)
    cheap = stage in walk.base.demand.inlined or (is_pointwise(whole) and cost(whole) <= 4)
    directive = make_directive(stage, "inline")
    return (
        [Option("inline", (directive,), 1.5 if cheap else 0.3 if cost(whole) < 40 else 0.05)]
        if walk.allows(directive)
        else []
    )


def _loops_around(walk: Walk, stage: str) -> list[Option]:
    """Options to compute the stage inside loops of its consumers or of the loops around them, weighted towards outer halves of splits. On a
    GPU only loops over blocks, whose threads then compute the required region together."""
    around: dict[tuple[str, str], None] = {}
    for reader in readers_of(walk.state, stage):
        if not isinstance(walk.state.uses.stages[reader], Stage):
            return []
        own = [(reader, loop.name) for loop in walk.plan(reader).loops[shared_count(walk.state, reader) :]]
        around.update(dict.fromkeys([*enclosing_loops(walk.state, reader), *own]))
    options = []
    for other, loop in around:
        directive = make_directive(stage, "compute_at", stage=other, axis=loop)
        if walk.allows(directive):
            plan = walk.plan(other)
            at = next(each for each in plan.loops if each.name == loop)
            kind = at.kind
            if walk.machine.gpu is not None and not at.level.startswith("block"):
                continue
            is_tiled = any(isinstance(r, Split) and r.outer == loop for r in plan.relations)
            weight = 0.1 if kind in ("vector", "unroll") else 2.0 if is_tiled else 0.6
            options.append(Option(f"{other} {loop}", (directive,), weight))
    return options


def _hosts(walk: Walk, stage: str) -> list[Option]:
    """Options to share the loops of the nearest preceding stages with the same outermost extent."""
    names = list(walk.state.uses.stages)
    own = walk.stage(stage)
    if not own.all_axes or walk.plan(stage).compute_with is not None:
        return []
    hosts: list[Option] = []
    for name in reversed(names[: names.index(stage)]):
        other = walk.state.uses.stages[name]
        if not isinstance(other, Stage) or not other.all_axes or is_inlined(walk.state, name):
            continue
        if index.canonical(other.all_axes[0].extent) is not index.canonical(own.all_axes[0].extent):
            continue
        if walk.allows(make_directive(stage, "compute_with", stage=name, axis=walk.plan(name).loops[0].name)):
            hosts.append(Option(SHARED + name, weight=0.3))
        if len(hosts) == MOST_HOSTS:
            break
    return hosts
