"""Deduplicates kernels and loops before emission: equal ones share one function, called with each one's memory and numbers.

Programs repeat themselves (sweeps, layers, levels of a pyramid), and LLVM takes its time for every copy of a kernel. Two kernels are equal
up to renaming ("alike") where each becomes the other by renaming variables and buffers. The key has everything that the emitter looks at:
the statements, and its knowledge about variables bound outside. Nests of serial loops may be alike inside different kernels: a chain of
stencils computed in row tiles has a region of other rows for each stage, by the same code. In large kernels every such nest becomes a
function, since LLVM's time grows faster than linearly in a function's length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping
from typing import Any, TypeVar

from raido.schedule.nest.alike import KeyRows, LoopRows
from raido.schedule.nest.nodes import Alloc, Block, For, If, Nest, Ordered, Produce, Statement
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import statements_within
from raido.targets.emit.unit import Unit

_WORTH_A_CALL = 256  # rows of a key: LLVM makes code for so many operations in some ten milliseconds, and runs them for longer than a call
_MANY = 32  # loops of a kernel: fewer leave the whole small enough
_LARGE = 4096  # rows of all loops of a kernel from which LLVM takes longer for one function than for its parts: 300 stages took twice as long
BY_ADDRESS = ("parameter", "heap", "constant")  # memory that a function of its own can be given

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def rows_of(body: Block | For) -> KeyRows:
    """Key rows of a kernel's statements, or of a parallel loop."""
    rows = KeyRows()
    rows.statement(body)
    return rows


Known = tuple[Any, bool, int | None, Any]


def known_of(variables: Iterable[Any], outer: Unit) -> list[Known]:
    """The emitter's knowledge about each free variable: the variable, whether it is an index, its constant value (else None), and its
    expression."""
    terms = ((variable, outer.variables.get(variable)) for variable in variables)
    return [
        (variable, variable in outer.index_like, term if isinstance(term, int) else None, outer.known.get(variable))
        for variable, term in terms
    ]


def key_of(rows: KeyRows, variables: Iterable[Known]) -> tuple[Any, ...]:
    """The key of statements with these rows and free variables: equal for statements that are equal up to renaming."""
    for variable, indexes, number, known in variables:
        rows.add(rows.expression(variable), indexes, number, None if known is None else rows.expression(known))
    return tuple(rows.rows)


class Kernels:
    """Symbols of functions of kernels and parallel loops by key. A key is computed only where another has the same sequence of statement
    types; all others are unique."""

    def __init__(self, rows: MutableMapping[Block | For, KeyRows]) -> None:
        self._rows = rows
        self._alone: dict[tuple[type, ...], tuple[Block | For, list[Known], str]] = {}
        self._symbols: dict[tuple[Any, ...], str] = {}
        self._kinds: set[tuple[type, ...]] = set()

    def symbol(self, body: Block | For, variables: list[Known], new: Callable[[], str]) -> tuple[str, bool]:
        """The symbol of the function for a kernel or parallel loop, and whether the function is still to be emitted."""
        kinds = kinds_of(body)
        if kinds not in self._kinds:
            self._kinds.add(kinds)
            symbol = new()
            self._alone[kinds] = body, variables, symbol
            return symbol, True
        if (first := self._alone.pop(kinds, None)) is not None:
            self._symbols[self._key(*first[:2])] = first[2]
        key = self._key(body, variables)
        known = self._symbols.get(key)
        if known is None:
            self._symbols[key] = new()
        return self._symbols[key], known is None

    def _key(self, body: Block | For, variables: list[Known]) -> tuple[Any, ...]:
        return key_of(self._rows.pop(body, None) or rows_of(body), variables)


class Alike:
    """Key rows of the kernels and loops of a nest that may share functions.

    `bodies`: rows of kernels outside the host's loops whose sequence of statement types occurs more than once. `loops`: rows of serial
    loops inside kernels that occur more than once in the nest; in large kernels, of every loop that can be outlined.
    """

    def __init__(self, nest: Nest) -> None:
        bodies = list(_kernels(nest.body))
        self.bodies: dict[Block | For, KeyRows] = {body: rows_of(body) for body in _repeated(bodies, kinds_of)}
        different: dict[Any, Block] = {}
        for body in bodies:
            different.setdefault(tuple(self.bodies[body].rows) if body in self.bodies else body, body)
        candidates = [loop for body in different.values() for loop in _loops(body)]
        rows = {loop: LoopRows(loop) for loop in _repeated(candidates, kinds_of)}
        able = [loop for loop, found in rows.items() if len(found.rows) >= _WORTH_A_CALL and _may_be_apart(found)]
        self.loops: dict[For, LoopRows] = {
            loop: rows[loop] for loop in _repeated(able, lambda loop: tuple(rows[loop].rows))
        }
        for body in different.values():
            self.loops |= _loops_of_large(body)


def _loops_of_large(body: Block) -> dict[For, LoopRows]:
    """Rows of every loop that can be outlined, if the kernel has at least `_MANY` loops and `_LARGE` rows; else none."""
    loops = list(_loops(body, deep=True))
    rows = {loop: LoopRows(loop) for loop in loops} if len(loops) >= _MANY else {}
    large = sum(len(found.rows) for found in rows.values()) >= _LARGE
    return {loop: found for loop, found in rows.items() if large and _may_be_apart(found)}


def _repeated(of: Iterable[T], key: Any) -> list[T]:
    """Elements whose key occurs more than once."""
    keys = [(each, key(each)) for each in of]
    counts = Counter(found for _, found in keys)
    return [each for each, found in keys if counts[found] > 1]


def kinds_of(statement: Statement) -> tuple[type, ...]:
    """Types of the statements within one, in order; a cheap necessary condition for equality up to renaming."""
    return tuple([type(s) for s in statements_within(statement)])


def _kernels(block: Block) -> Iterator[Block]:
    """Kernels of the host plan that are outside its loops."""
    for s in block.statements:
        if isinstance(s, Produce):
            yield s.body
        elif isinstance(s, Block):
            yield from _kernels(s)
        elif isinstance(s, If):
            yield from _kernels(s.then)
            if s.orelse is not None:
                yield from _kernels(s.orelse)


def _loops(block: Block, deep: bool = False) -> Iterator[For]:
    """Outermost serial loops of a kernel that contain loops, allocate no memory and have no ordered sections; `deep`: also the loops inside
    serial loops that do."""
    for s in block.statements:
        if isinstance(s, Block):
            yield from _loops(s, deep)
        elif isinstance(s, Produce) or (isinstance(s, For) and s.kind == "parallel"):
            yield from _loops(s.body, deep)
        elif isinstance(s, If):
            yield from _loops(s.then, deep)
            if s.orelse is not None:
                yield from _loops(s.orelse, deep)
        elif isinstance(s, For) and s.kind == "serial":
            _, *inside = statements_within(s)
            if any(needs_its_place(each) for each in inside):
                yield from _loops(s.body, deep) if deep else ()
            elif any(isinstance(each, For) for each in inside):
                yield s


def needs_its_place(s: Statement) -> bool:
    """Whether a statement cannot be moved to another function: ordered sections, heap allocations, parallel loops."""
    return (
        isinstance(s, Ordered)
        or (isinstance(s, Alloc) and s.buffer.scope == "heap")
        or getattr(s, "kind", "") == "parallel"
    )


def _may_be_apart(rows: LoopRows) -> bool:
    """Whether all buffers that a loop uses can be passed to a function by address."""
    return all(each.scope in BY_ADDRESS for each in rows.given if isinstance(each, Buffer))
