"""Stages of scans, updates, filters and sorts: each is a fold with a record of its further properties."""

from __future__ import annotations

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Axis, Filter, Item, Load, Reduce, Scan, Sort, Update, const, fresh
from raido.algo.graph.program import Site
from raido.algo.graph.reduction import identities_of
from raido.algo.trace.building import axis_names
from raido.schedule.stages.dependent import mapped_axes
from raido.schedule.stages.stage import Stage, StageFilter, StageFold, StageScan, StageSort, StageUpdate


def scan_stage(form: Scan, names: tuple[str, ...], outer: int, site: Site | None) -> Stage:
    """Returns a scan as a fold along one of its axes, every step of which is stored."""
    axes = (form.axes[form.along],)
    operator = (form.left, form.right, form.combine, identities_of(form))
    fold = StageFold(axes, *operator, form.values, False, form.monoid, form.neutral)
    bodies = tuple(Item(fold, k) for k in range(len(form.left)))
    scan = StageScan(form.along, form.exclusive)
    return Stage(names[0], names, form, form.axes, fold, bodies, outer, None, site, scan)


def update_stage(form: Update, names: tuple[str, ...], outer: int, site: Site | None) -> Stage:
    """Returns an update as a fold over those of its axes that are no dimension of the result."""
    shape, mapped = form.dest[0].shape, mapped_axes(form)
    spare = axis_names(len(shape))
    axes = tuple(
        form.axes[mapped[d]] if d in mapped else Axis(fresh(spare[d]), extent) for d, extent in enumerate(shape)
    )
    update_axes = tuple(axis for k, axis in enumerate(form.axes) if k not in mapped.values())
    update_axes = update_axes or (Axis(fresh("r"), const(i64, 1)),)
    indices = tuple(index for d, index in enumerate(form.indices) if d not in mapped)
    numbers = iter(range(len(form.values), len(form.values) + len(shape)))
    index_values = tuple(None if d in mapped else next(numbers) for d in range(len(shape)))
    variables = tuple(axis.var for axis in axes)
    init = tuple(Load(dest, variables, False) for dest in form.dest)
    left = form.left or tuple(fresh("old", value.dtype) for value in form.values)
    right = form.right or tuple(fresh("new", value.dtype) for value in form.values)
    operator = (left, right, form.combine or right, form.neutral)
    fold = StageFold(update_axes, *operator, (*form.values, *indices), form.mode != "set", form.monoid, init)
    bodies = tuple(Item(fold, k) for k in range(len(left)))
    update = StageUpdate(index_values, form.mode, form.checked)
    return Stage(names[0], names, form, axes, fold, bodies, outer, None, site, None, update)


def filter_stage(form: Filter, names: tuple[str, ...], site: Site | None) -> Stage:
    """Returns a filter as a fold along the first axis, each step of which may append an element to the results."""
    results = (*(fresh("kept", value.dtype) for value in form.values), fresh("count", i64))
    fold = Reduce(form.axes[:1], results, (), (), (), (form.predicate, *form.values), False, "")
    bodies = tuple(Item(fold, k) for k in range(len(results)))
    rule = StageFilter(form.partition)
    return Stage(names[0], names, form, form.axes, fold, bodies, 0, None, site, None, None, rule)


def sort_stage(form: Sort, names: tuple[str, ...], outer: int, site: Site | None) -> Stage:
    """Returns a sort as a fold along its axis, all values of which are kept, in another order."""
    results = tuple(fresh("sorted", value.dtype) for value in form.values)
    fold = Reduce((form.axes[form.along],), results, (), (), (), form.values, False, "")
    bodies = tuple(Item(fold, k) for k in range(len(results)))
    rule = StageSort(form.keys)
    return Stage(names[0], names, form, form.axes, fold, bodies, outer, None, site, sort=rule)
