"""Open blocks: where statements go while a nest is being built.

A `Scope` is one block under construction, with the assumptions that hold inside it (`assumptions`: ranges of loop variables, conditions) and
the values that already have a name there. `level` counts scopes from the outermost; a value that depends on nothing bound above level k may be
computed in scope k. A read of memory depends on the innermost open block in which that memory was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import DType, bool_
from raido.algo.graph.expr import Expr, Node, Op, SizeVar, Var, fresh
from raido.schedule.lower.expressions.index_checks import is_made_of_sizes
from raido.schedule.nest.effects import reads_memory, writes
from raido.schedule.nest.nodes import Alloc, Block, Check, For, If, Let, Statement, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read, new_serial

if TYPE_CHECKING:
    from raido.algo.graph.program import Site
    from raido.schedule.lower.expressions.convert import Sites
    from raido.schedule.plan import LoopPlan


@dataclass(slots=True)
class Scope:
    """A block under construction.

    loop: it may run any number of times. branch: it may not run at all, so nothing moves out of it. unrolled: it is one iteration of an
    unrolled loop. checked: conditions that a `Check` in it has tested.
    """

    level: int
    assumptions: Assumptions
    statements: list[Statement] = field(default_factory=list)
    names: dict[Node, Var] = field(default_factory=dict)
    loop: bool = False
    branch: bool = False
    unrolled: bool = False
    var: Var | None = None
    changed: set[Buffer] = field(default_factory=set)
    checked: set[NestExpr] = field(default_factory=set)


class Builder:
    """A stack of scopes, outermost first."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = [Scope(0, Assumptions())]
        self.level_of: dict[Node, int] = {}
        self.meaning: dict[Var, Expr] = {}
        self.threaded = 0  # the number of open parallel loops
        self.levels: list[str] = []  # for each open loop the GPU level that it is bound to, or ""
        self._sites: Sites | None = None
        self._line: Site | None = None  # source line of the stage being lowered

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @property
    def assumptions(self) -> Assumptions:
        return self.scopes[-1].assumptions

    def add(self, statement: Statement) -> None:
        """Appends to the innermost open block; reads of the memory that the statement writes may not move out of that block."""
        self.scope.statements.append(statement)
        for write in writes(statement):
            self.changes(write.buffer)

    def store(self, buffers: Iterable[Buffer], indices: tuple[Any, ...], values: Iterable[NestExpr]) -> None:
        """Stores a value into each of some buffers, at the same indices."""
        for buffer, value in zip(buffers, values, strict=True):
            self.add(Store(buffer, indices, value))

    def check(self, check: Check) -> None:
        """Adds a check, unless an enclosing scope has tested the same condition: only the first failure is recorded."""
        if any(check.holds in scope.checked for scope in self.scopes):
            return
        self.add(check)
        if not reads_memory(check.holds):  # memory may change
            self.scope.checked.add(check.holds)

    def changes(self, buffer: Buffer) -> None:
        """Records that the innermost open block writes a buffer."""
        self.level_of[buffer] = max(self.level_of.get(buffer, 0), self.scope.level)
        self.scope.changed.add(buffer)

    @contextmanager
    def block(
        self, assumptions: Assumptions | None = None, loop: bool = False, branch: bool = False
    ) -> Iterator[Scope]:
        """Opens a block inside the current one; the caller uses its statements afterwards."""
        scope = Scope(len(self.scopes), assumptions or self.assumptions, loop=loop, branch=branch)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()
            for buffer in scope.changed:  # the write is visible behind the statement that the block becomes part of
                self.level_of[buffer] = min(self.level_of[buffer], self.scope.level)
            self.scope.changed |= scope.changed

    @contextmanager
    def loop(
        self, var: Var, low: Expr, high: Expr, step: int = 1, extents: Iterable[Expr] = (), /, **how: Any
    ) -> Iterator[Scope]:
        """Opens a `for`, whose body is added meanwhile. Nothing is emitted if the body stays empty, or `low` is `high`.

        extents: those of the axes that the loop runs over, which are assumed not to be 0 inside it.
        """
        end = end_if_entered(low, high, self.assumptions)
        assumptions = self.assumptions.with_range(
            var, begin_if_entered(low, high, self.assumptions), last_of_loop(low, end, step)
        )
        known = [e for n in (ix.sub(high, low), *extents) if only_sizes(n) for e in at_least_one(n)]
        if new := [e for e in dict.fromkeys(known) if e not in assumptions.known]:
            assumptions = assumptions.with_known(*new)
        parallel, level = how.get("kind") == "parallel", how.get("level", "")
        if (
            level and self.threaded and not any(self.levels)
        ):  # inside a parallel loop that is bound to no GPU level there is a single thread
            parallel, level, how = False, "", {**how, "kind": "serial", "level": "", "threads": 0}
        self.threaded += parallel
        self.levels.append(level)
        with self.block(assumptions, loop=True) as scope:
            self.level_of[var] = scope.level
            scope.var = var
            yield scope
        self.threaded -= parallel
        self.levels.pop()
        if scope.statements and low is not high:
            self.add(For(var, low, high, step, closed(scope), **how))

    @contextmanager
    def when(self, condition: NestExpr, *known: Expr) -> Iterator[Scope]:
        """Opens an `if`; `known` expressions are at least 0 inside."""
        with self.block(self.assumptions.with_known(*known) if known else None, branch=True) as scope:
            yield scope
        if scope.statements:
            self.add(If(condition, closed(scope)))

    def branch(self, condition: NestExpr, then: Scope, otherwise: Scope) -> None:
        """Adds an `if` with two finished blocks."""
        self.add(If(condition, closed(then), closed(otherwise)))

    def by_length(self, count: Expr, most: Expr, few: Callable[[], None], many: Callable[[], None]) -> None:
        """Emits `few()` where a count is at most `most`, else `many()`: in a branch unless it is known which."""
        if self.assumptions.less_equal(count, most):
            few()
        elif self.assumptions.less(most, count):
            many()
        else:
            with self.block(branch=True) as then:
                few()
            with self.block(branch=True) as otherwise:
                many()
            self.branch(Op("le", bool_, (count, most)), then, otherwise)

    @contextmanager
    def iteration(self, var: Var, condition: NestExpr, *known: Expr) -> Iterator[Scope]:
        """Opens an `if` around an iteration of the loop over `var`; statements that depend on `var` stay inside, others may move out of the
        loop. `known` expressions are at least 0 inside."""
        with self.block(self.assumptions.with_known(*known) if known else None, loop=True) as scope:
            self.level_of[var] = scope.level
            yield scope
        if scope.statements:
            self.add(If(condition, closed(scope)))

    def can_be_empty(self, extents: Iterable[Expr]) -> list[Expr]:
        """The extents that may be 0."""
        return [n for n in dict.fromkeys(extents) if not self.assumptions.less_equal(1, n)]

    @contextmanager
    def unless_empty(self, extents: Iterable[Expr]) -> Iterator[None]:
        """Opens an `if` that skips its body where an extent is 0; no test for extents that cannot be."""
        with ExitStack() as tests:
            for n in self.can_be_empty(extents):
                tests.enter_context(self.when(Op("lt", bool_, (ix.as_index(0), n)), ix.sub(n, 1)))
            yield

    def inside(self, level: str) -> bool:
        """Whether an open loop is bound to blocks (level "block") or threads ("thread") of a GPU."""
        return any(each.startswith(level) for each in self.levels)

    def name(self, name: str, value: NestExpr, level: int | None = None, lasting: bool = False) -> Var:
        """Adds a `Let` in the scope of that level (the current one by default).

        Later requests for the same value there share the name; for a read only if `lasting`, because memory may change.
        """
        scope = self.scopes[-1 if level is None else level]
        var = fresh(name, value.dtype)
        self.level_of[var] = scope.level
        scope.statements.append(Let(var, value))
        if lasting or not isinstance(value, Read):
            scope.names[value] = var
        return var

    def name_bound(self, name: str, value: Expr) -> Expr:
        """A name for a bound of a region, unless it is a sum of products; the definition is kept in `meaning`."""
        if not any(isinstance(n, Op) and n.name not in ("add", "sub", "mul") for n in ix_parts(value)):
            return value
        known = self.scope.names.get(value)
        if known is not None:
            return known
        var = self.name(name, value)
        self.meaning[var] = value
        self.scope.assumptions = self.assumptions.with_range(var, value, value)
        return var

    def alloc(
        self,
        name: str,
        dtype: DType,
        shape: tuple[Expr, ...],
        scope: str,
        strides: tuple[Expr, ...] = (),
        buffers: int = 1,
    ) -> Buffer:
        """Allocates memory for the rest of the current block. buffers: as of an `Alloc`."""
        buffer = Buffer(name, dtype, shape, scope, new_serial(), strides, 1, None)
        self.level_of[buffer] = self.scope.level
        made = self.allocation(buffer)
        self.add(made if buffers == 1 else replace(made, buffers=buffers))
        return buffer

    def register(self, name: str, value: NestExpr) -> Buffer:
        """A register that is initialised with a value."""
        register = self.alloc(name, value.dtype, (), "register")
        self.add(Store(register, (), value))
        return register

    @contextmanager
    def at(self, sites: Sites, line: Site | None) -> Iterator[None]:
        """Sets the source line of the stage being lowered, for the duration of the context."""
        around, self._sites, self._line = (self._sites, self._line), sites, line
        try:
            yield
        finally:
            self._sites, self._line = around

    def allocation(self, buffer: Buffer) -> Alloc:
        """The `Alloc` of a buffer; one on the heap, which may fail, names the source line."""
        if buffer.scope != "heap" or self._sites is None:
            return Alloc(buffer, -1)
        return Alloc(buffer, self._sites.of_array(self._line, buffer.dtype, buffer.shape))

    def site_of_loop(self) -> int:
        """The number of the current loop's source line; −1 where there is none, and on a CPU."""
        return -1 if self._sites is None else self._sites.of_loop(self._line)


def as_planned(loop: LoopPlan, stage: str, kind: str = "") -> dict[str, Any]:
    """The fields of a `For` for a loop of a stage, from its plan; with `kind`, those of a loop of that kind."""
    kind = kind or loop.kind
    fields: dict[str, Any] = {"kind": kind, "stage": stage, "loop": loop.name}
    if kind == "vector":
        fields |= {"lanes": loop.lanes, "interleave": loop.interleave, "tail": loop.tail}
    elif kind == "parallel":
        fields |= {"level": loop.level, "grain": loop.grain, "dynamic": loop.dynamic}
    elif kind == "matrix":
        fields["threads"] = loop.subgroup
    return fields


def end_if_entered(low: Expr, high: Expr, assumptions: Assumptions) -> Expr:
    """`high`, simplified under the assumption that the loop low..high has an iteration: a maximum, alone or in a minimum, loses
    parts that are at most `low`."""
    if isinstance(high, Op) and high.name == "minimum":
        return ix.minimum(*(end_if_entered(low, a, assumptions) for a in high.args))
    return _without_parts(high, "maximum", lambda part: assumptions.less_equal(part, low))


def begin_if_entered(low: Expr, high: Expr, assumptions: Assumptions) -> Expr:
    """`low`, simplified under the assumption that the loop low..high has an iteration: a minimum loses parts that are at least `high`."""
    return _without_parts(low, "minimum", lambda part: assumptions.less_equal(high, part))


def _without_parts(e: Expr, name: str, leaves: Callable[[Expr], bool]) -> Expr:
    """An extreme without the operands that leave it, of which one stays."""
    while isinstance(e, Op) and e.name == name:
        a, b = e.args
        if not (leaves(a) or leaves(b)):
            break
        e = b if leaves(a) else a
    return e


def last_of_loop(low: Expr, high: Expr, step: int) -> Expr:
    """An upper bound of the loop's variable; exact where the trip count is constant."""
    length = ix.difference(high, low)
    beyond = 1 if length is None else (length - 1) % step + 1
    return ix.sub(high, beyond)


def only_sizes(e: Expr) -> bool:
    """Whether an index expression is a nonempty sum of sizes, products and quotients of them: bounds of these
    are worth assuming in a loop's body."""
    terms = ix.linear(e)[1]
    return bool(terms) and all(isinstance(part, SizeVar) or is_product(part) or is_quotient(part) for part in terms)


def at_least_one(e: Expr) -> list[Expr]:
    """Expressions that are at least 0 if `e`, made of sizes, is at least 1."""
    constant, terms = ix.linear(e)
    known = [ix.sub(e, 1), *(ix.sub(n, 1) for n in factors(e))]
    if not constant and len(terms) == 1:
        known += [ix.sub(a.args[0], a.args[1]) for a, k in terms.items() if k == 1 and is_quotient(a)]
    return known


def is_product(e: Expr) -> bool:
    """Whether an expression is a product made of sizes."""
    return isinstance(e, Op) and e.name == "mul" and is_made_of_sizes(e)


def is_quotient(e: Expr) -> TypeGuard[Op]:
    """Whether an expression is a sum of sizes divided by a constant, rounded down."""
    return (
        isinstance(e, Op)
        and e.name == "floordiv"
        and ix.constant_value(e.args[1]) is not None
        and all(isinstance(part, SizeVar) for part in ix.linear(e.args[0])[1])
    )


def factors(e: Expr) -> list[Expr]:
    """The factors of a product that are never negative, as sizes are: if the product is not 0, none of them is."""
    constant, terms = ix.linear(e)
    if constant or len(terms) != 1:
        return []
    found, stack = [], list(terms)
    while stack:
        part = stack.pop()
        if isinstance(part, Op) and part.name == "mul":
            stack += part.args
        elif is_never_negative(part):
            found.append(part)
    return found


def is_never_negative(e: Expr) -> bool:
    """Whether an expression is provably nonnegative: a size, a constant, or a minimum or maximum of these, as extents of slices are."""
    if isinstance(e, Op) and e.name in ("minimum", "maximum"):
        return (all if e.name == "minimum" else any)(map(is_never_negative, e.args))
    value = ix.constant_value(e)
    return isinstance(e, SizeVar) or (value is not None and value >= 0)


def ix_parts(e: Expr) -> list[Expr]:
    """An index expression and all its subexpressions."""
    found, stack = [], [e]
    while stack:
        part = stack.pop()
        found.append(part)
        if isinstance(part, Op):
            stack += part.args
    return found


def closed(scope: Scope) -> Block:
    """The finished block of a scope."""
    return Block(tuple(scope.statements))
