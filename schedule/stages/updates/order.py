"""The order of stages in which arrays can be updated in place.

An `Order` holds the scope of each form of a graph, the readers of each array, and the arrays that are needed when a body ends. `may_change`
decides one change after the other, and records the readers that have to run first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Const,
    Expr,
    Generate,
    Node,
    Parameter,
    Result,
    Update,
    Var,
)
from raido.algo.graph.rewrite import children, free_variables, loads_in, scalar_nodes
from raido.schedule.stages.inline import is_plain_elementwise
from raido.schedule.stages.locations import Path, locations, sections_of
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.repeated_copies import BEGUN_AGAIN, COMBINED, RESULT_AS_WELL


class Order:
    """The scopes, readers and ordering constraints of a graph; see the module's text.

    `apart`: forms whose values are computed before them. `first`: for each change, the forms that must run before it.
    """

    def __init__(self, roots: tuple[Array, ...], candidates: Mapping[Node, Update], tables: Tables) -> None:
        self.candidates = candidates
        self.paths = locations(roots, tables.hoistable)
        self.states = {
            state for form in self.paths if isinstance(form, (ArrayLoop, ArrayWhile)) for state in form.state
        }
        self.assumptions = assumptions_of(self.paths)
        self.home: dict[Array, Path] = {}
        self.readers: dict[Array, dict[Node, Path]] = {}
        self.kept: dict[Array, list[Path]] = {}
        self.first: dict[Node, set[Node]] = {}
        self.apart: set[Node] = set()
        self.decided: set[Node] = set()
        self.changes: dict[Node, tuple[Array, ...]] = {}
        for form, path in self.paths.items():
            if isinstance(form, (ArrayLoop, ArrayWhile)):
                self.home |= dict.fromkeys(form.state, (*path, (form, "body")))
        for array in roots:
            self.kept.setdefault(array, []).append(())
        for form, path in self.paths.items():
            for section, parts in sections_of(form):
                inside = path if section == "" else (*path, (form, section))
                for part in parts:
                    self._reads(form, part, inside, ends=section in ("body", "then", "else"))
        for array in self.readers.keys() | self.kept.keys():
            if isinstance(array, Result) and array.form in self.paths:
                self.home[array] = self.paths[array.form]

    def _reads(self, form: Node, part: Node, path: Path, ends: bool) -> None:
        if isinstance(part, (Parameter, Result)):
            if ends:
                self.kept.setdefault(part, []).append(path)
            else:
                self.readers.setdefault(part, {})[form] = path
            return
        for node in scalar_nodes(part):
            for array in children(node):
                if isinstance(array, (Parameter, Result)):
                    self.readers.setdefault(array, {})[form] = path

    def made_for(self, form: Node, update: Update, tables: Tables) -> set[Node]:
        """Returns the unnamed maps that compute one value for each step of an update, have no other reader, and could be inlined into the
        steps.
        """
        axes = {axis.var for axis in update.axes if ix.constant_value(axis.extent) != 1}
        assumptions = self.assumptions
        for axis in update.axes:
            assumptions = assumptions.with_range(axis.var, 0, ix.sub(axis.extent, 1))
        found: dict[Node, bool] = {}
        for load in loads_in(*update.values):
            made = load.array.form if isinstance(load.array, Result) else None
            if not isinstance(made, Generate) or (made in found and not found[made]):
                continue
            indices = [assumptions.simplify(ix.canonical(e)) for e in load.indices]
            plain = [e for e in indices if not isinstance(e, Const)]
            along = [_axis_along(e, axes) for e in plain]
            found[made] = (
                None not in along
                and len(set(along)) == len(along)
                and axes <= set(along)
                and not load.checked
                and is_plain_elementwise(made, tables, ("elementwise", "stencil"))
                and self.paths[made] == self.paths[form]
                and all(self._is_only_for(form, Result(made, k)) for k in range(len(made.bodies)))
                and not self._reads_what_changes(made, form)
            )
        return {made for made, fits in found.items() if fits}

    def _is_only_for(self, form: Node, array: Array) -> bool:
        return array not in self.kept and set(self.readers.get(array, ())) <= {form}

    def _reads_what_changes(self, made: Generate, form: Node) -> bool:
        """Whether a map reads an array that changes before the form runs."""
        read = {load.array for load in loads_in(*made.bodies)}
        loops = {each: each.init for each in self.paths if isinstance(each, (ArrayLoop, ArrayWhile))}
        changes = {**self.changes, **loops}  # a loop may take over its initial arrays
        return any(not read.isdisjoint(dest) and self._needs(form, change) for change, dest in changes.items())

    def absorb(self, form: Node, made: Iterable[Node]) -> None:
        """Records that a form itself reads the arrays that inlined maps read for it."""
        for each in made:
            for readers in self.readers.values():
                if each in readers:
                    readers[form] = readers.pop(each)
            for before in self.first.values():
                if each in before:
                    before.add(form)

    def is_read_by_one(self, form: Update) -> bool:
        """Whether an update has one reader, and is no result of its scope."""
        array = Result(form, 0)
        return len(self.readers.get(array, ())) == 1 and array not in self.kept

    def may_change(self, form: Node, update: Update, apart: bool, absorbed: Update | None) -> str:
        """Returns why a form may not take over the memory that it updates; "" if it may, which records its ordering constraints.

        apart: its values are computed before it, so that it only writes; other forms that would be late are treated so, too. absorbed: a
        form that is removed.
        """
        here = self.paths[form]
        self.decided.add(form)
        before: list[tuple[Node, Node]] = []
        for dest in update.dest:
            home = self.home[dest]
            if here[: len(home)] != home or any(not isinstance(owner, ArrayCond) for owner, _ in here[len(home) :]):
                return BEGUN_AGAIN
            if any(not _excludes(path, here) for path in self.kept.get(dest, ())):
                return RESULT_AS_WELL
            for reader, path in self.readers.get(dest, {}).items():
                if reader is form or reader is absorbed:
                    continue
                if not _excludes(path, here) and not _is_before_the_iteration(path, home):
                    pair = _at_one_level((*path, (reader, "")), (*here, (form, "")))
                    before += [pair] if pair[0] is not pair[1] else []  # equal: the predicate of the conditional around
        known = set(self.apart)
        if apart:
            self.apart.add(form)
        late = [reader for reader, change in before if self._needs(reader, change)]
        self.apart |= {reader for reader in late if reader in self.candidates and reader not in self.decided}
        if any(self._needs(reader, change) for reader, change in before):
            self.apart = known
            return COMBINED
        for reader, change in before:
            self.first.setdefault(change, set()).add(reader)
        self.changes[form] = update.dest
        return ""

    def _needs(self, form: Node, other: Node) -> bool:
        """Whether a reading form depends on another one that changes, by its reads or by ordering constraints."""
        seen: set[tuple[Node, bool]] = set()
        stack = [(form, form in self.apart)]  # of a form in `apart`, only its values
        while stack:
            node, values = pair = stack.pop()
            if pair in seen:
                continue
            seen.add(pair)
            if node is other and not values:
                return True
            update = self.candidates.get(node) if values else None
            below = children(node) if update is None else (*update.values, *update.indices)
            stack += [(child, False) for child in below]
            if not values:
                stack += [(reader, reader in self.apart) for reader in self.first.get(node, ())]
        return False


def _axis_along(e: Expr, axes: Collection[Var]) -> Var | None:
    """Returns the axis along which an index advances by one; None where there is none, or more than one."""
    _, terms = ix.linear(e)
    moving = [atom for atom in terms if not free_variables(atom).isdisjoint(axes)]
    (axis, *others) = moving or (None,)
    return axis if isinstance(axis, Var) and terms[axis] == 1 and not others else None


def assumptions_of(nodes: Iterable[Node]) -> Assumptions:
    """Returns assumptions about the ranges of whole-array loops' counters."""
    assumptions = Assumptions()
    for form in nodes:
        if isinstance(form, ArrayLoop):
            assumptions = assumptions.with_range(form.index, 0, ix.sub(form.count, 1))
    return assumptions


def _excludes(path: Path, other: Path) -> bool:
    """Whether two scopes are in different branches of one conditional."""
    for (form, section), (its_form, its) in zip(path, other, strict=False):
        if form is not its_form:
            return False
        if section != its:
            return isinstance(form, ArrayCond)
    return False


def _is_before_the_iteration(path: Path, home: Path) -> bool:
    """Whether a scope is the setup of a while loop's condition, which runs before each iteration of the body `home`."""
    return (
        len(path) >= len(home) > 0
        and path[: len(home) - 1] == home[:-1]
        and path[len(home) - 1] == (home[-1][0], "setup")
    )


def _at_one_level(path: Iterable[tuple[Node, str]], other: Iterable[tuple[Node, str]]) -> tuple[Node, Node]:
    """Returns the two forms, at or around the ends of two paths, that are in the same body."""
    for one, its in zip(path, other, strict=False):
        if one != its:
            return one[0], its[0]
    raise AssertionError("a form reads what it changes twice")
