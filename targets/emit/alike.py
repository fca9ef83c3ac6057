"""Kernels and loops that are alike: one function serves all of them, called with the memory and the numbers of each.

Programs repeat themselves (sweeps, layers, levels of a pyramid), and LLVM takes its time for every copy of a kernel. Two kernels are
alike where each becomes the other by renaming variables and buffers. A key is everything that the emitter looks at: the
statements, and what is known outside of the variables that are not the kernel's own. Inside kernels that are different, nests of serial
loops may be alike: a chain of stencils computed in strips has a region of other rows for each of them, by the same code. In large kernels
every such nest is a function, since LLVM's time grows faster than a function does.
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
_BY_ADDRESS = ("parameter", "heap", "constant")  # memory that a function of its own can be given

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def rows_of(body: Block) -> KeyRows:
    """The rows of a kernel's statements."""
    rows = KeyRows()
    rows.statement(body)
    return rows


Known = tuple[Any, bool, int | None, Any]


def known_of(variables: Iterable[Any], outer: Unit) -> list[Known]:
    """What is known of free variables where statements are emitted: whether each is an index, its number, and its expression."""
    terms = ((variable, outer.variables.get(variable)) for variable in variables)
    return [
        (variable, variable in outer.index_like, term if isinstance(term, int) else None, outer.known.get(variable))
        for variable, term in terms
    ]


def key_of(rows: KeyRows, variables: Iterable[Known]) -> tuple[Any, ...]:
    """The key of statements with these rows and free variables, equal for those that are alike."""
    for variable, indexes, number, known in variables:
        rows.add(rows.expression(variable), indexes, number, None if known is None else rows.expression(known))
    return tuple(rows.rows)


class Kernels:
    """The functions of kernels. Rows are made of those only that have statements of the same kinds as another one: no others are alike."""

    def __init__(self, rows: MutableMapping[Block, KeyRows]) -> None:
        self._rows = rows
        self._alone: dict[tuple[type, ...], tuple[Block, list[Known], str]] = {}
        self._symbols: dict[tuple[Any, ...], str] = {}
        self._kinds: set[tuple[type, ...]] = set()

    def symbol(self, body: Block, variables: list[Known], new: Callable[[], str]) -> tuple[str, bool]:
        """The symbol of the function of a kernel, and whether it is a new one."""
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

    def _key(self, body: Block, variables: list[Known]) -> tuple[Any, ...]:
        return key_of(self._rows.pop(body, None) or rows_of(body), variables)


class Alike:
    """The kernels and loops of a nest that others are alike.

    `bodies`: the rows of kernels outside the host's loops where another one's statements are of the same kinds. `loops`: the rows of serial
    loops in kernels which another loop, of another kernel or of the same, is alike; in large kernels, of all of them.
    """

    def __init__(self, nest: Nest) -> None:
        bodies = list(_kernels(nest.body))
        self.bodies = {body: rows_of(body) for body in _repeated(bodies, kinds_of)}
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
    """The loops of a kernel so large that each of them is worth a function, with their rows; of other kernels none."""
    loops = list(_loops(body, deep=True))
    rows = {loop: LoopRows(loop) for loop in loops} if len(loops) >= _MANY else {}
    large = sum(len(found.rows) for found in rows.values()) >= _LARGE
    return {loop: found for loop, found in rows.items() if large and _may_be_apart(found)}


def _repeated(of: Iterable[T], key: Any) -> list[T]:
    """Those whose key another one has."""
    keys = [(each, key(each)) for each in of]
    counts = Counter(found for _, found in keys)
    return [each for each, found in keys if counts[found] > 1]


def kinds_of(statement: Statement) -> tuple[type, ...]:
    """The kinds of the statements within one: those of alike ones are equal."""
    return tuple([type(s) for s in statements_within(statement)])


def _kernels(block: Block) -> Iterator[Block]:
    """The kernels of the host plan outside its loops."""
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
    """The outermost serial loops of a kernel around further loops, which take no memory and have no sections that run in order; `deep`: those
    inside of loops that do, too."""
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
            if any(_needs_its_place(each) for each in inside):
                yield from _loops(s.body, deep) if deep else ()
            elif any(isinstance(each, For) for each in inside):
                yield s


def _needs_its_place(s: Statement) -> bool:
    """Whether a statement has to stand in the function that it stands in."""
    return (
        isinstance(s, Ordered)
        or (isinstance(s, Alloc) and s.buffer.scope == "heap")
        or getattr(s, "kind", "") == "parallel"
    )


def _may_be_apart(rows: LoopRows) -> bool:
    """Whether all that a loop is given can be given to a function of its own."""
    return all(each.scope in _BY_ADDRESS for each in rows.given if isinstance(each, Buffer))
