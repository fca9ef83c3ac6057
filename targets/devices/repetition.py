"""Loops of a host plan with identical iterations: a device may record the launches of one iteration, and replay them.

Iterations are identical where no number in them depends on the loop's index, or on a value that an earlier iteration has computed, and
where nothing waits. Arrays may be swapped, and be allocated for an iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raido.schedule.kernels.host_plan import Allocate, Copy, Free, If, Launch, Let, Loop, Number, Statement, Swap


def is_same_each_time(loop: Loop) -> bool:
    """Whether a loop's iterations launch the same kernels on the same numbers, and no loop inside it is such a loop itself.

    >>> launch = Launch("blur", ("blocks", 1, 1), ("a", "b", "n"))
    >>> is_same_each_time(Loop("k", "n", (launch, Swap("a", "b"))))
    True
    >>> is_same_each_time(Loop("k", "n", (Launch("blur", ("k", 1, 1), ("a", "b", "n")),)))
    False
    """
    inside = list(_within(loop.body))
    if not any(isinstance(s, Launch) for s in inside):
        return False
    if any(isinstance(s, Loop) and is_same_each_time(s) for s in inside):
        return False
    return _is_same(loop.body, {loop.index, *(s.name for s in inside if isinstance(s, Let))})


def _within(statements: Sequence[Statement]) -> Iterator[Statement]:
    for s in statements:
        yield s
        if isinstance(s, If):
            yield from _within((*s.then, *s.otherwise))
        elif isinstance(s, Loop):
            yield from _within(s.body)


def _is_same(statements: Sequence[Statement], changing: set[str]) -> bool:
    """Whether statements read no number in `changing`, the names whose values differ between iterations; removes names that they redefine."""
    for s in statements:
        if isinstance(s, If):
            then, otherwise = set(changing), set(changing)
            if not (_is_same(s.then, then) and _is_same(s.otherwise, otherwise)):
                return False
            changing |= then | otherwise
        elif isinstance(s, Loop) and not _is_same(s.body, changing - {s.index}):
            return False
        numbers = _numbers(s)
        if numbers is None or any(_reads(number, changing) for number in numbers):
            return False
        if isinstance(s, Let):
            changing.discard(s.name)
    return True


def _numbers(s: Statement) -> Sequence[Number] | None:
    """The numbers that a statement itself reads; None for a statement that waits."""
    match s:
        case Let():
            return (s.value,)
        case Allocate():
            return (s.nbytes,)
        case Free() | Swap():
            return ()
        case Copy():
            return (s.nbytes, s.at, s.offset)
        case Launch():
            return (*s.grid, *s.arguments)
        case If():
            return (s.condition,)
        case Loop():
            return (s.count,)
        case _:
            return None


def _reads(number: Number, names: set[str]) -> bool:
    if isinstance(number, tuple):
        return any(_reads(part, names) for part in number[1:])
    return isinstance(number, str) and number in names
