"""`form_stages(program)`: the stages of a program, named, in execution order.

The graph is first normalised so that every `Generate` is one stage (`NORMALISE`). Then each form gets its display names: the user's, or
`map_1`, `reduce_1` … in program order; a repeated name becomes `rows_2`; axes are `x`; `y, x`; `z, y, x`; `d0` … and `r`; `ry, rx` unless
the user named them. Last, forms are placed in scopes: a stage that depends on the state of a whole-array loop, or that only one branch
reads, belongs to the body of that loop or branch.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from raido.algo.collector import seldom_collected
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Cond,
    Const,
    Expr,
    Filter,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    Scan,
    SizeVar,
    Sort,
    Update,
    fresh,
    fresh_parameter,
)
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import children, rewritten, topological
from raido.algo.passes.regroup import VIEW
from raido.algo.trace.building import axis_names, reduction_names
from raido.schedule.stages.boundary_rules import name_boundary_rules
from raido.schedule.stages.choices_first import make_choices_first
from raido.schedule.stages.columns import make_columns_first, make_functions_first
from raido.schedule.stages.count_filters import count_filters
from raido.schedule.stages.counts import Counts
from raido.schedule.stages.dependent import DEPENDENT, Dependent, is_ragged, leave_out_copies, mapped_axes, rename_axes
from raido.schedule.stages.distribute import distribute_loops
from raido.schedule.stages.expand_segments import expand_segments
from raido.schedule.stages.fold_stages import filter_stage, scan_stage, sort_stage, update_stage
from raido.schedule.stages.guard import guard_branches
from raido.schedule.stages.independent_iterations import map_independent_iterations
from raido.schedule.stages.inline import inline_elementwise, inline_moves
from raido.schedule.stages.invariants import make_invariants_first
from raido.schedule.stages.lift import lift_open, lift_reductions
from raido.schedule.stages.locations import Path, locations, sections_of
from raido.schedule.stages.packed_keys import pack_keys
from raido.schedule.stages.private_arrays import bound_private_arrays
from raido.schedule.stages.private_loops import keep_loops_private, write_changes
from raido.schedule.stages.selections import find_selections
from raido.schedule.stages.shared_folds import share_folds
from raido.schedule.stages.shared_scalars import share_scalars
from raido.schedule.stages.shared_states import share_states
from raido.schedule.stages.sort_networks import sort_by_networks
from raido.schedule.stages.stage import (
    AnyStage,
    ControlStage,
    Stage,
    StageGraph,
)
from raido.schedule.stages.symmetry import is_symmetric
from raido.schedule.stages.tables import Tables, merge_names
from raido.schedule.stages.updates.changes import change_in_place, readers_first
from raido.schedule.stages.updates.chosen_changes import choose_changes
from raido.schedule.stages.updates.reads_before import read_before_changes
from raido.schedule.stages.updates.siblings import join_sibling_updates

NORMALISE = (
    count_filters,
    expand_segments,
    inline_moves,
    map_independent_iterations,
    sort_by_networks,
    pack_keys,
    make_invariants_first,
    share_scalars,
    guard_branches,
    keep_loops_private,
    distribute_loops,
    bound_private_arrays,
    inline_elementwise,
    name_boundary_rules,
    make_choices_first,
    lift_open,
    leave_out_copies,
    join_sibling_updates,
    choose_changes,
    read_before_changes,
    change_in_place,
    make_columns_first,
    make_functions_first,
    share_states,
    lift_reductions,
    share_folds,
    write_changes,
)
_DEFAULT_AXES = {"", "i", "j", "k", "x", "y", "z", "r", "rx", "ry", "rz", "t"}


@seldom_collected
def form_stages(program: Program, as_general: bool = False, as_loops: bool = False) -> StageGraph:
    """Returns the stages of a program, without a schedule.

    `as_general`: sorts of a size for which the program is specialised stay sorts, since steps made for the general program name them.
    `as_loops`: loops with independent iterations stay loops, for steps that name the stages of their bodies.
    """
    tables = Tables(program)
    tables.as_loops = as_loops
    if as_general:
        tables.kept_sorts |= program.sized_sorts
    roots = tuple(_viewed(root, tables) for root in program.results)
    regrouped = frozenset(
        k for k, pair in enumerate(zip(roots, program.results, strict=True)) if pair[0] is not pair[1]
    )
    for apply in NORMALISE:
        roots = apply(roots, tables)
    roots = _materialise_host_scalars(roots, tables)
    roots = _name_states(roots, tables)
    roots = _name_axes(roots, tables)
    paths = locations(roots, tables.hoistable)
    names = _stage_names(roots, tables, paths)
    stages = _stages_at((), roots, tables, paths, names)
    counts = Counts((size.name for size in program.sizes), tables.sites)
    stages = counts.in_stages(stages)
    own = (program.results[k] if k in regrouped else root for k, root in enumerate(roots))
    shapes = tuple(tuple(counts.extent_of(extent) for extent in root.shape) for root in own)
    found = tuple(counts.found.values())
    graph = StageGraph(program, stages, roots, tables.sites, shapes, found, tables.copies, tables.mapped, regrouped)
    return find_selections(graph)


def _viewed(root: Array, tables: Tables) -> Array:
    """Returns the array of which an output is a view in another shape (`algo/passes/regroup.py`), or an output that is none."""
    form = root.form if isinstance(root, Result) else None
    if tables.kinds.get(form) != VIEW:  # type: ignore[arg-type]
        return root
    assert isinstance(form, Generate)
    (load,) = form.bodies
    assert isinstance(load, Load)
    return load.array


def _materialise_host_scalars(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces counts, conditions and predicates of whole-array forms by sizes, or by elements of arrays of rank 0."""

    def scalar(e: Expr) -> Expr:
        if isinstance(e, Const | SizeVar) or (isinstance(e, Load) and not e.indices):
            return e
        if all(isinstance(n, Const | SizeVar | Op) for n in topological(e)):
            return e
        return tables.scalar(e, "scalar")

    def change(new: Node) -> Node:
        if isinstance(new, ArrayLoop):
            return ArrayLoop(scalar(new.count), new.index, new.state, new.init, new.results)
        if isinstance(new, ArrayWhile):
            return ArrayWhile(scalar(new.condition), new.state, new.init, new.results)
        return ArrayCond(scalar(new.predicate), new.then, new.orelse) if isinstance(new, ArrayCond) else new

    return tables.rewrite(roots, change)


def _name_states(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Gives the states of whole-array loops unique names, by which schedules distinguish them."""
    taken = {p.name for p in topological(*roots) if isinstance(p, Parameter) and p.serial == 0}
    renamed: dict[Parameter, str] = {}
    for node in reversed(topological(*roots)):
        for state in node.state if isinstance(node, ArrayLoop | ArrayWhile) else ():
            name, number = state.name, count(2)
            while name in taken:
                name = f"{state.name}_{next(number)}"
            taken.add(name)
            if name != state.name:
                renamed[state] = name
    if not renamed:
        return roots
    memo: dict[Node, Node] = {}
    # A state's sizes, which may be those of other loops' results, come before it.
    for node, new in tables.renewed(topological(*roots), memo):
        if isinstance(node, Parameter) and node in renamed:
            memo[node] = fresh_parameter(renamed[node], node.dtype, new.shape)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _name_axes(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces the axes of every form, and of its reduction, by fresh variables with display names."""
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(topological(*roots), memo):
        if isinstance(new, (Generate, *DEPENDENT)):
            named = _with_axis_names(new, tables) if isinstance(new, Generate) else _with_display_names(new, tables)
            tables.carry(new, named)
            memo[node] = named
    return rewritten(roots, memo)


def _with_axis_names(form: Generate, tables: Tables) -> Generate:
    explicit = [axis.var in tables.named_axes for axis in form.axes]
    taken: set[str] = set()
    names = _display_names([a.name for a in form.axes], axis_names(len(form.axes)), explicit, taken)
    memo: dict[Node, Node] = {axis.var: fresh(name) for axis, name in zip(form.axes, names, strict=True)}
    reduction = reduction_of(form)
    if reduction is not None:
        axes = reduction.axes
        names = _display_names([a.name for a in axes], reduction_names(len(axes)), [False] * len(axes), taken)
        memo |= {axis.var: fresh(name) for axis, name in zip(axes, names, strict=True)}
    nodes = (*form.bodies, *(axis.extent for axis in form.axes))
    new = tables.substitute(nodes, memo)
    bodies, extents = new[: len(form.bodies)], new[len(form.bodies) :]
    axes = tuple(Axis(memo[a.var], extent) for a, extent in zip(form.axes, extents, strict=True))
    return Generate(axes, bodies)


def _with_display_names(form: Dependent, tables: Tables) -> Dependent:
    default = axis_names(len(form.axes))
    if isinstance(form, Update):
        own = {k: d for d, k in mapped_axes(form).items()}
        names_left = iter(reduction_names(len(form.axes) - len(own)))
        shape = axis_names(len(form.indices))
        default = [shape[own[k]] if k in own else next(names_left) for k in range(len(form.axes))]
    explicit = [axis.var in tables.named_axes for axis in form.axes]
    names = _display_names([a.name for a in form.axes], default, explicit, set())
    return rename_axes(form, names, tables)


def _display_names(given: list[str], default: list[str], explicit: list[bool], taken: set[str]) -> list[str]:
    names = []
    for name, fallback, own in zip(given, default, explicit, strict=True):
        plain = name in _DEFAULT_AXES or name.startswith("_") or (name[:1] in "dr" and name[1:].isdigit())
        chosen = fallback if plain and not (own and name.isidentifier()) else name
        for extra in count(2):
            if chosen not in taken:
                break
            chosen = f"{(fallback if plain else name)}{extra}"
        taken.add(chosen)
        names.append(chosen)
    return names


def reduction_of(form: Generate) -> Reduce | None:
    """Returns the reduction at the top of a stage's bodies: the one evaluated for every element and nested in no other; None
    without one.
    """
    if not form.axes and not form.bodies:
        return None
    eager = top_reductions(form.bodies)
    return eager[0] if len(eager) == 1 else None


def top_reductions(bodies: tuple[Expr, ...]) -> list[Reduce]:
    """Returns the reductions that are evaluated for every element, and nested in no other reduction."""
    found: dict[Reduce, None] = {}
    seen: set[Node] = set()
    stack: list[Node] = list(reversed(bodies))
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, Result | Parameter):
            continue
        seen.add(node)
        if not isinstance(node, Item):
            stack += children(node)
        elif isinstance(node.form, Reduce):
            if not is_ragged(node.form):
                found[node.form] = None
        elif isinstance(node.form, Cond):
            stack.append(node.form.predicate)
        elif isinstance(node.form, Loop):
            stack += (*node.form.init, node.form.count)
        else:
            stack += node.form.init
    return list(found)


_KINDS: dict[type, str] = {Scan: "scan", Update: "update", Filter: "filter", Sort: "sort"}


def _stage_names(roots: tuple[Array, ...], tables: Tables, paths: dict[Node, Path]) -> dict[Node, tuple[str, ...]]:
    """Returns a unique name, and further names, for every form."""
    position = {node: i for i, node in enumerate(topological(*roots))}
    last = len(tables.ranks)
    forms = sorted(paths, key=lambda f: (tables.ranks.get(f, last), position[f]))
    taken: set[str] = {name for form in forms for name in tables.names.get(form, ())[:1]}
    used: set[str] = set()
    numbers: dict[str, count[int]] = {}
    chosen: dict[Node, tuple[str, ...]] = {}
    for form in forms:
        given = tables.names.get(form, ())
        kind = (
            tables.kinds.get(form)
            or _KINDS.get(type(form))
            or ("reduce" if isinstance(form, Generate) and reduction_of(form) else "map")
        )
        if given:
            name = given[0]
            number = count(2)
            while name in used:
                name = f"{given[0]}_{next(number)}"
        else:
            number = numbers.setdefault(kind, count(1))
            name = f"{kind}_{next(number)}"
            while name in taken or name in used:
                name = f"{kind}_{next(number)}"
        used.add(name)
        chosen[form] = merge_names((name,), given[1:])
    return _with_paths(chosen, paths)


def _with_paths(chosen: dict[Node, tuple[str, ...]], paths: dict[Node, Path]) -> dict[Node, tuple[str, ...]]:
    """Returns the names with the names of the loops around in front, for the stages of a loop's body."""
    full: dict[Node, tuple[str, ...]] = {}
    for form, names in chosen.items():
        around = "".join(f"{chosen[owner][0]}/" for owner, _ in paths[form])
        full[form] = tuple(n if n.startswith(around) else around + n for n in names)
    return full


def _stages_at(
    here: Path, roots: tuple[Node, ...], tables: Tables, paths: dict[Node, Path], names: dict[Node, tuple[str, ...]]
) -> tuple[AnyStage, ...]:
    """Returns the stages whose scope is `here`, in the order of the graph."""
    stages: list[AnyStage] = []
    every = tuple(Result(form, 0) for form in paths)
    for form in (node for node in topological(*roots, *every) if node in paths):
        if paths[form] != here:
            continue
        nearest = (form, *children(form), *(owner for owner, _ in reversed(here)))
        site = next((tables.sites[node] for node in nearest if node in tables.sites), None)
        if isinstance(form, Generate):
            stages.append(_stage(form, names, tables, site))
        elif isinstance(form, Scan):
            stages.append(scan_stage(form, names[form], tables.outer.get(form, 0), site))
        elif isinstance(form, Update):
            stages.append(update_stage(form, names[form], tables.outer.get(form, 0), site))
        elif isinstance(form, Filter):
            stages.append(filter_stage(form, names[form], site))
        elif isinstance(form, Sort):
            stages.append(sort_stage(form, names[form], tables.outer.get(form, 0), site))
        else:
            inner = {
                section: _stages_at((*here, (form, section)), parts, tables, paths, names)
                for section, parts in sections_of(form)
                if section
            }
            stages.append(_control(form, names[form], inner, site))
    return readers_first(stages, tables)


def _stage(form: Generate, names: dict[Node, tuple[str, ...]], tables: Tables, site: object) -> Stage:
    reduction = reduction_of(form)
    name, *_ = names[form]
    made = Stage(name, names[form], form, form.axes, reduction, form.bodies, tables.outer.get(form, 0), None, site)  # type: ignore[arg-type]
    return replace(made, symmetric=is_symmetric(made))


def _control(form: Node, names: tuple[str, ...], inner: dict[str, tuple[AnyStage, ...]], site: object) -> ControlStage:
    base = ControlStage(names[0], names, form, (), (), (), ())  # type: ignore[arg-type]
    if isinstance(form, ArrayCond):
        return replace(
            base, results=form.then, orelse_results=form.orelse, body=inner["then"], orelse=inner["else"], site=site
        )
    assert isinstance(form, ArrayLoop | ArrayWhile)
    return replace(
        base,
        state=form.state,
        init=form.init,
        results=form.results,
        body=inner["body"],
        setup=inner.get("setup", ()),
        site=site,
    )
