"""The default schedule: `complete` decides what the user left open, by the rules below, and writes the decisions out as steps.

Updates that set a box, and move fewer bytes as maps, become maps (`gathers`).

Placement. A stage that costs little more where it is read is inlined (`demand`); one that a scan or filter in blocks would read twice is
computed once for each block. A stage inside a mapped function is computed at the innermost loop that determines its region, with every loop
around it; products of rows there, for row tiles (`function_products`). A short fold that is read once is computed in a register, in the
loop that reads it. A stage that only one stage reads, or stages that share its loops, near its own rows (a stencil chain), or at twice or a
fraction of their rate (`row_reads`), is computed for each row tile of that stage; row tiles are as high as lets the chain's rows, and those
that its folds and other stages read, fit half of L2 (at most 32 rows; at least 16 where neighbouring tiles compute rows twice), and where 8
rows do not fit, rows slide. A chain ends where row tiles would compute more than half as many rows again. Pointwise stages of one shape
share loops where one reads the other or both read a third, and those of a scan that they read; so do two short stencils in row tiles with
the same inputs and the same access maps of their readers (`joins`), up to four folds of the same elements, and folds of all elements of a
map with that map (`sibling_folds`). A map of rows that an update then changes is computed row by row in that update. All other stages are
computed whole.

Loops. The axis along which most accesses are contiguous is vectorized: the last pure one when in doubt, a short one where lanes across its
rows would lie far apart, and the results' own where each folds a short window of neighbouring elements (`short_rows`). Where elements are
read at quotients of it, tiles of as many indices as the quotients' period are unrolled (`phases`); where colours of pixels are treated
alike, the axes of pixels and colours are fused (`pixels`), and so are axes along which rows that are short, or may be, lie one behind
another in all arrays (`flat`). The outermost pure axis is parallel, in row tiles for chains; one-dimensional stages and whole reductions of
more elements than a chunk are split into fixed chunks, in which each lane has a block of its own where the operator is not commutative.
Where results share inputs, as in a matrix product, a register tile of sums runs along the reduction, and the right factor is packed in
panels of as many columns as half of L2 holds; in products of rows with rows, too (`products`). Of symmetric results (x.T @ x) one triangle
is computed. Results of no more rows than a register tile read the right factor unpacked, in chunks, or with lanes along the reduction. Few
tiles of a long reduction are computed in chunks of it. Convolutions compute several channels together; where all results share functions of
an iteration, as in back projection, four rows are computed together. A few long folds side by side share one pass (`few_folds`). Sums down
columns run along the rows, eight at a time, or one by one where a row is a page or more and L1 holds the row of sums; reads across rows are
transposed in registers, block by block (`transposes`); a stencil that reads neighbouring rows computes register tiles whose height the cost
model chooses (`rows`), up to four rows, or twelve with non-temporal stores, and two of a long weighted sum (`latency`); so does a fold of a
few written-out taps. Reductions, elements with loops of their own, long chains of operations, and recurrences of whole-array loops
(`recurrences`) interleave several gangs (`latency`), and iterations of uneven length are distributed dynamically.

Memory. Stencils get boundary loops of their own (index-set splitting). Outputs that the last-level cache does not keep beside their inputs
(tested at the call where sizes are not known), and that nothing reads again, are stored past the caches, unless their rows are short or
their elements take long. Where a stencil reads neighbouring planes and is not streamed, rows are prefetched four ahead: there are more
streams than hardware prefetchers follow.

On a GPU, placement is the same but for row tiles, which are for caches, and for long rows inside mapped functions, which are computed whole
(`is_shared_by_threads`); `gpu` decides the loops.

A stage with any loop directive keeps exactly those loops. Readers are decided before the stages that they read. Completion is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from raido.algo.collector import seldom_collected
from raido.algo.errors import ScheduleError, explain
from raido.algo.graph.rewrite import loads_in
from raido.schedule.defaults.array_loops import decide_array_loops
from raido.schedule.defaults.chains import FEWEST_ROWS, is_line_of_folds, overlaps_little, row_bytes, rows_of_tile
from raido.schedule.defaults.demand import goes_in_phases, goes_over_twice, has_ragged_folds
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.function_products import product_site
from raido.schedule.defaults.gathers import decide_gathers
from raido.schedule.defaults.gpu.loops import decide_gpu_loops
from raido.schedule.defaults.gpu.updates import decide_gpu_parts
from raido.schedule.defaults.joins import fused_stages_of
from raido.schedule.defaults.loops import decide_loops
from raido.schedule.defaults.memory import decide_memory
from raido.schedule.defaults.old_contents import reads_rows_before
from raido.schedule.defaults.parts import decide_parts
from raido.schedule.defaults.planes import is_in_planes, row_tile_axis
from raido.schedule.defaults.queries import (
    is_made_for_elements,
    is_product_of_rows,
    is_shared_by_threads,
    is_tiled_product,
    moving_axes,
    outer_axes,
    vector_axis,
)
from raido.schedule.defaults.scans import decide_runs
from raido.schedule.holes import holes_of
from raido.schedule.machine import Machine
from raido.schedule.plan import At, Split
from raido.schedule.recorded import Directive
from raido.schedule.replay import IN_BRANCHES, apply_directive, branch_state, in_branch, taken_directives, test_of
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.reads import loads_of
from raido.schedule.stages.stage import Stage, StageGraph, initial_values
from raido.schedule.state import (
    State,
    axes_of,
    enclosing_loops,
    has_explicit_loops,
    head_of,
    initial_state,
    is_inlined,
    loops_from,
    position,
    resolve,
    shared_count,
)
from raido.schedule.strategies.parameters import with_parameters
from raido.schedule.strategies.table import strategy_name

if TYPE_CHECKING:
    from raido.schedule.schedule import Schedule


@seldom_collected
def complete(schedule: Schedule, machine: Machine, sizes: Mapping[str, int] | None = None) -> Schedule:
    """Returns the schedule with every default decision written out. sizes: sizes known at compile time. Refuses a schedule with holes."""
    from raido.schedule.schedule import Schedule, gpu_of

    open_ = holes_of(schedule.directives)
    if open_:
        raise ScheduleError(
            explain(
                "cannot complete a schedule with holes",
                **{"try": f"s.with_({', '.join(f'{name}={options[0]!r}' for name, options in open_.items())})"},
                holes=", ".join(open_),
            )
        )
    state = initial_state(schedule.graph, machine.gpu)
    directives: list[Directive] = []
    for directive in taken_directives(schedule.graph, schedule.explicit_directives):
        if directive.branches_program:
            directive = complete_branch(schedule.graph, state, directives, directive, machine, sizes or {})
        else:
            state, directive = complete_directive(state, directive, machine, sizes or {})
        directives.append(directive)
    draft = default_directives(state, machine, sizes or {})
    directives += draft.directives
    target = schedule.target if gpu_of(schedule.target) == machine.gpu else machine
    return Schedule.trusted(schedule.graph, tuple(directives), draft.state, target)


def complete_branch(
    graph: StageGraph,
    state: State,
    before: Sequence[Directive],
    directive: Directive,
    machine: Machine,
    sizes: Mapping[str, int],
) -> Directive:
    """Returns a branch of the program with all open decisions made, for the sizes that its test fixes."""
    test, _ = test_of(graph, directive)
    ((text, inner),) = directive.branches

    def directives_from(begin: State) -> tuple[Directive, ...]:
        inside, directives = begin, []
        for each in inner:
            inside, each = complete_directive(inside, each, machine, sizes)
            directives.append(each)
        return (*directives, *default_directives(inside, machine, sizes).directives)

    return replace(directive, branches=((text, in_branch(graph, state, before, test, directives_from)),))


def complete_directive(
    state: State, directive: Directive, machine: Machine, sizes: Mapping[str, int]
) -> tuple[State, Directive]:
    """Returns the state after a step, and the step with its open decisions made: the loops of a stage's branch, and default parameters."""
    if directive.name == "when":
        apply_directive(state, directive)
        ((test, inner),) = directive.branches
        name = resolve(state.uses.stages, directive.stage)
        draft = Draft(branch_state(state, name), machine, sizes, only=IN_BRANCHES)
        for each in inner:
            draft.accept(each)
        if not has_explicit_loops(draft.state, name):
            decide_own_loops(draft, name)
        decide_strategy_parts(draft, name)
        directive = replace(directive, stage=name, branches=((test, tuple(draft.directives)),))
    return apply_directive(state, directive), with_parameters(state, directive)


def default_directives(state: State, machine: Machine, sizes: Mapping[str, int]) -> Draft:
    """Returns the default decisions on what a state leaves open, readers first."""
    draft = Draft(state, machine, sizes)
    decide_gathers(draft)
    if machine.gpu is None:
        decide_runs(draft)
    state = draft.state
    demand = draft.demand  # before caches change the graph
    for name in reversed(list(state.uses.stages)):
        if isinstance(state.uses.stages[name], Stage) and name not in demand.leaders:
            decide_stage(draft, name)
            decide_fused_stages(draft, name, fused_stages_of(demand, name))
    for name in state.uses.stages:
        decide_strategy_parts(draft, name)
    decide_array_loops(draft)
    return draft


def decide_fused_stages(draft: Draft, leader: str, names: Iterable[str]) -> None:
    """Decides the stages that are fused into the innermost loop of a leader, or on their own where it cannot be shared."""
    for name in sorted(names, key=draft.state.uses.positions.__getitem__):
        loop = draft.state.plan(leader).loops[-1]
        shared = loop.level or loop.kind in ("vector", "unroll")
        if shared and draft.decide(name, "compute_with", stage=leader, axis=loop.name):
            if draft.machine.gpu is None:
                decide_memory(draft, name)
        else:
            decide_stage(draft, name)


def decide_stage(draft: Draft, name: str) -> None:
    """Decides the placement, loops and memory of one stage."""
    decide_placement(draft, name)
    if is_inlined(draft.state, name) or has_explicit_loops(draft.state, name):
        return
    decide_own_loops(draft, name)


def decide_own_loops(draft: Draft, name: str) -> None:
    """Decides the loops of a stage without loop directives, and, on a CPU, the memory of its results."""
    if draft.machine.gpu is not None:
        decide_gpu_loops(draft, name)
        return
    decide_loops(draft, name)
    if has_explicit_loops(draft.state, name) or draft.state.stage(name).scan is not None:
        decide_memory(draft, name)


def decide_strategy_parts(draft: Draft, name: str) -> None:
    """Decides the loops of the parts of a stage's strategy."""
    stage = draft.state.uses.stages[name]
    if not isinstance(stage, Stage):
        return
    if draft.machine.gpu is None and has_ragged_folds(stage) and draft.state.plan(name).strategy is None:
        draft.decide(name, "strategy", name="rows")
    if draft.machine.gpu is None and (not is_inlined(draft.state, name) or strategy_name(draft.state, name) == "rows"):
        decide_parts(draft, name)
    elif draft.machine.gpu is not None and not is_inlined(draft.state, name):
        decide_gpu_parts(draft, name)


def decide_placement(draft: Draft, name: str) -> None:
    """Decides the placement of a stage: inlined, in the loops of the function around it, in its reader's row tiles, or whole."""
    if (name, "placement") in draft.state.decided:
        return
    if name in draft.demand.inlined and draft.decide(name, "inline"):
        return
    if reads_rows_before(draft.state, draft.state.stage(name), draft.demand.readers(name)):
        draft.decide(name, "root")
        return
    at = (
        product_site(draft, name)
        or nested_site(draft, name)
        or element_site(draft, name)
        or changed_row_site(draft, name)
    )
    if at is not None and draft.decide(name, "compute_at", stage=at.stage, axis=at.loop):
        return
    at = row_tile_site(draft, name) if draft.machine.gpu is None else None
    if at is not None:
        inner = must_slide(draft, name, at)
        if inner and draft.decide(name, "compute_at", stage=at.stage, axis=inner):
            draft.decide(name, "store_at", stage=at.stage, axis=at.loop)
            return
        if not inner and draft.decide(name, "compute_at", stage=at.stage, axis=at.loop):
            return
    draft.decide(name, "root")


def nested_site(draft: Draft, name: str) -> At | None:
    """Returns the default placement of a stage inside mapped functions: the innermost loop around all its readers that determines its
    region.

    Every loop around that one must determine the region, too; in a loop that does not (a reduction over an axis that the stage is
    independent of) the stage would be computed again and again.
    """
    state = draft.state
    stage = state.stage(name)
    readers = draft.demand.readers(name)
    if is_in_planes(draft, stage) or not readers or is_shared_by_threads(draft, stage):
        return None
    if len(readers) == 1 and (at := beside_reader(draft, stage, *readers)) is not None:
        return at
    around = [deciding_loops(draft, reader, outer_axes(draft, stage, reader)) for reader in readers]
    common = [loops[0] for loops in takewhile(lambda loops: len(set(loops)) == 1, zip(*around, strict=False))]
    return At(*common[-1]) if common else None


def element_site(draft: Draft, name: str) -> At | None:
    """Returns the innermost loop of the one reader of a short fold that is needed once for each element of the reader; None for other
    stages.
    """
    readers, stage = draft.demand.readers(name), draft.state.stage(name)
    if draft.machine.gpu is not None or stage.outer or len(readers) != 1:
        return None
    ((reader, points),) = readers.items()
    plan = draft.state.plan(reader)
    free = plan.compute_with is None and plan.strategy is None and plan.loops
    return At(reader, plan.loops[-1].name) if free and is_made_for_elements(draft, stage, points) else None


def changed_row_site(draft: Draft, name: str) -> At | None:
    """Returns the loop over rows of an update that alone reads a map of the rows that it changes; None for other stages.

    A row computed there needs no array of all rows, and no other row, so that the iterations of a loop may follow one another in a row.
    """
    state, stage, readers = draft.state, draft.state.stage(name), draft.demand.readers(name)
    if draft.machine.gpu is not None or len(readers) != 1 or stage.reduction is not None or len(stage.axes) < 2:
        return None
    ((reader, points),) = readers.items()
    target, plan = state.stage(reader), state.plan(reader)
    if target.update is None or target.reduction is None or not target.axes or plan.strategy is not None:
        return None
    changed = {load.array for load in loads_in(*initial_values(target.reduction))}
    old = [load.indices[0] is stage.axes[0].var for load in loads_of(stage) if load.array in changed]
    row, loop = target.axes[0], plan.loops[0]
    own = target.update.index_values[0] is None and axes_of(plan, loop.name) == (row.name,)
    own = own and all(point[0] is row.var for point in points)
    long = loop.kind != "vector" and not is_short(stage.axes[-1].extent)
    return At(reader, loop.name) if own and long and old and all(old) else None


def beside_reader(draft: Draft, stage: Stage, reader: str) -> At | None:
    """Returns the placement of the reader, if that is inside a loop and for the same elements of the mapped functions; else None."""
    at, target = draft.state.plan(reader).compute, draft.state.stage(reader)
    if not isinstance(at, At) or target.outer < stage.outer:
        return None
    return at if outer_axes(draft, stage, reader) == tuple(a.name for a in target.axes[: stage.outer]) else None


def deciding_loops(draft: Draft, reader: str, axes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns the loops around an element of a reader, outermost first, down to the first one over an axis outside `axes`.

    Of a reader that passes over its blocks twice, the loops down to the block.
    """
    state = draft.state
    plan = state.plan(reader)
    around: list[tuple[str, str]] = []
    if isinstance(plan.compute, At):
        loops = enclosing_loops(state, reader)
        home = plan.compute.stage
        chosen = axes_of_head(draft, reader, home)
        within = deciding_loops(draft, home, tuple(chosen[axis] for axis in axes if axis in chosen))
        around = [loop for loop, other in zip(loops, within, strict=False) if loop == other]
        if len(around) < len(loops):
            return around
    once = plan.loops[shared_count(state, reader) :]
    if goes_over_twice(state, reader):
        once = () if goes_in_phases(state, reader) else once[:1]
    own = takewhile(lambda loop: set(axes_of(plan, loop.name)) <= set(axes), once)
    return [*around, *((reader, loop.name) for loop in own)]


def axes_of_head(draft: Draft, name: str, head: str) -> dict[str, str]:
    """Maps axes of a stage to those of the stage in whose loops it is computed, through the stages between that read it."""
    found: dict[str, dict[str, str]] = {head: {axis.name: axis.name for axis in draft.state.stage(head).all_axes}}
    todo = [name]
    while todo:
        readers = [each for each in draft.demand.readers(todo[-1]) if head in (each, head_of(draft.state, each))]
        unknown = [reader for reader in readers if reader not in found]
        if unknown:
            todo += unknown
            continue
        stage, axes = draft.state.stage(todo.pop()), {}
        for reader in readers:
            for axis, over in moving_axes(draft, stage, reader).items():
                if over in found[reader]:
                    axes.setdefault(axis, found[reader][over])
        found[stage.name] = axes
    return found[name]


def row_tile_site(draft: Draft, name: str) -> At | None:
    """Returns the loop over row tiles of the last stage of a chain, in which a stage of the chain is computed; None where it is not
    in one.
    """
    state = draft.state
    readers = draft.demand.readers(name)
    heads = {head_of(state, reader) for reader in readers}
    if len(heads) != 1 or (name, "placement") in state.decided or not is_in_planes(draft, state.stage(name)):
        return None
    if has_ragged_folds(state.stage(name)):  # a long segment would be the task of one thread
        return None
    vector = vector_axis(draft, state.stage(name))
    if is_tiled_product(draft, state.stage(name), vector) or is_product_of_rows(draft, state.stage(name), vector):
        return None
    (head,) = heads
    if goes_in_phases(state, head):  # the head reads its blocks twice
        return None
    if is_line_of_folds(state.stage(name)) and len(state.stage(head).axes) <= 1:
        return None
    row_tiles = row_tile_loop(draft, head)
    if (
        row_tiles is None
        or (needed := rows_of_tile(draft, name, head)) is None
        or not overlaps_little(needed, row_tiles[0].factor)
    ):
        return None
    return At(head, row_tiles[1])


def row_tile_loop(draft: Draft, head: str) -> tuple[Split, str] | None:
    """Returns the split into row tiles of at least `FEWEST_ROWS` rows, and the loop over them (fused with planes), at which stages may be
    computed; None without one.
    """
    plan = draft.state.plans[head]
    rows = row_tile_axis(draft, draft.state.stage(head))
    for relation in plan.relations:
        if rows and isinstance(relation, Split) and relation.parent == rows.name and relation.factor >= FEWEST_ROWS:
            row_tiles = loops_from(plan, relation.outer)
            loop = next((each for each in plan.loops if row_tiles == (each.name,)), None)
            inner = loops_from(plan, relation.inner)
            if (
                loop is None
                or loop.kind not in ("serial", "parallel")
                or position(plan, inner[0]) < position(plan, loop.name)
            ):
                return None
            return relation, loop.name
    return None


def must_slide(draft: Draft, name: str, at: At) -> str | None:
    """Returns the loop over rows inside a row tile where `FEWEST_ROWS` rows of the stage do not fit half of L2, so that rows slide; else
    None.
    """
    plan = draft.state.plan(at.stage)
    splits = (r for r in plan.relations if isinstance(r, Split))
    inner = next((r.inner for r in splits if at.loop in (r.outer, *loops_from(plan, r.outer))), None)
    fits = row_bytes(draft, name) * (FEWEST_ROWS + 2) <= draft.machine.l2 // 2
    return inner if not fits and any(loop.name == inner for loop in plan.loops) else None
