"""The errors that users of raido can meet, one class for each kind.

All derive from `RaidoError` and from the built-in exception that a Python programmer would expect to catch. The message is built
where the fault is found; `explain` lays out its labelled lines in one way everywhere:

    ScheduleError: cannot vectorize axis "k" of stage "out"
      schedule  bench.py:41   .vectorize("k", 8)
      why   each step along "k" updates out[i], and `op` is not commutative
      try   vectorize "i" (extent n)
"""

from __future__ import annotations

import importlib
import operator
from typing import Any

from raido.algo.printable import printable

LONGEST_LINE = 1000  # characters of a line in a message: a dozen lines of a terminal


class RaidoError(Exception):
    """The base class of all errors that raido raises on purpose.

    The text may quote files: it is printed without control characters, and long lines are cut. A traceback names a class by its public
    name, `raido.ShapeError`, and a class that is not public by that of its base.
    """

    _home = (__name__, "RaidoError")  # the module and the name of the class

    def __init_subclass__(cls) -> None:
        cls._home = cls.__module__, cls.__qualname__
        if cls.__module__ != __name__ or RaidoError not in cls.__bases__:
            cls.__name__ = cls.__qualname__ = cls.__bases__[0].__name__
        cls.__module__ = "raido"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self)._home, self.args)

    def __str__(self) -> str:
        return "\n".join(map(clipped, printable(super().__str__()).split("\n")))


class TraceError(RaidoError, TypeError):
    """The algorithm used a traced value where Python needs a plain one, or a form that raido does not have.

    Example:
        >>> rd.algorithm(lambda a: rd.map(lambda x: x if x > 0 else -x, a)).interpret(np.ones(3))
        Traceback (most recent call last):
            ...
        raido.TraceError: `if` on a traced value, which is not known while tracing
          ...
          try       rd.where(p, a, b), or rd.cond(p, then, else_) to evaluate one branch only
    """


class DTypeError(RaidoError, TypeError):
    """Dtypes that do not fit together.

    Example:
        >>> rd.algorithm(lambda a: a << 1).interpret(np.ones(3))
        Traceback (most recent call last):
            ...
        raido.DTypeError: a shift of f64 by i64: both must be integers
          ...
    """


class ShapeError(RaidoError, ValueError):
    """Ranks or sizes that provably do not fit together, found while tracing.

    Example:
        >>> rd.algorithm(lambda a: rd.reshape(a, (2, 3, 2))).trace(rd.f32[4, 4])
        Traceback (most recent call last):
            ...
        raido.ShapeError: sizes differ: the number of elements is 16, that of the new shape is 12
          ...
          why       f32[4, 4] to f32[2, 3, 2]
    """


class SizeMismatch(RaidoError, ValueError):
    """Sizes of the actual arguments do not agree; names both arguments and both sizes.

    Example:
        >>> rd.algorithm(lambda a, b: a + b).interpret(np.ones(2), np.ones(3))
        Traceback (most recent call last):
            ...
        raido.SizeMismatch: dimension 0 of 'a' is a_0 = 2, dimension 0 of 'b' is b_0 = 3
          ...
    """


class ArrayTooLarge(SizeMismatch, MemoryError):
    """Sizes whose product is more than any memory could hold, or than 64 bits could count.

    Example:
        >>> rd.algorithm(lambda n: rd.iota(n * n), n="size").interpret(1 << 40)
        Traceback (most recent call last):
            ...
        raido.SizeMismatch: a size of 1099511627776 makes an array larger than any can be
          ...
          array     i64[n*n]
    """


class ArgumentError(RaidoError, TypeError):
    """An argument of a call has the wrong dtype, rank, kind or number.

    Example:
        >>> rd.algorithm(a="f32[n]")(lambda a: 2 * a)(np.ones(3, np.int64))
        Traceback (most recent call last):
            ...
        raido.ArgumentError: algorithm: argument "a" must be f32[n], got an array of dtype int64 and shape (3,)
          try       .astype("float32") converts it
    """


class IndexOutOfRange(RaidoError, IndexError):
    """A checked index is out of range of its dimension; names the user's line, the index and the size.

    Example:
        >>> rd.algorithm(lambda a, i: a[i]).interpret(np.ones(3), np.array([7]))
        Traceback (most recent call last):
            ...
        raido.IndexOutOfRange: index 7 is out of range for dimension 0 of size 3
          ...
          why       dimension 0 has size 3, so its indices are 0 … 2
          try       rd.gather(a, i, mode="clamp") for the nearest element, mode="wrap" or rd.constant(0)
    """


class ArithmeticFault(RaidoError, ArithmeticError):
    """Integer division by zero or a negative integer power; names the user's line.

    Example:
        >>> rd.algorithm(lambda a, b: a // b).interpret(np.array([7]), np.array([0]))
        Traceback (most recent call last):
            ...
        raido.ArithmeticFault: integer division of 7 by zero
          ...
    """


def _restored(home: tuple[str, str], arguments: tuple[Any, ...]) -> RaidoError:
    """The error from a pickle: the class at `home`, called with `arguments`."""
    return operator.attrgetter(home[1])(importlib.import_module(home[0]))(*arguments)


class OperatorWarning(UserWarning):
    """The operator of a reduction or a scan is not associative; names the user's line, and three numbers that show it.

    An operator on single numbers is tested on a few numbers while tracing. If such numbers cannot occur, filter the warning:
    `warnings.simplefilter("ignore", rd.OperatorWarning)`.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     made = rd.algorithm(x="f32[n]")(lambda x: rd.scan(lambda a, b: 0.9 * a + 0.1 * b, 0.0, x)).trace()
        >>> print(caught[0].message.args[0].partition(",")[0])
        the operator of rd.scan is not associative
    """


class CopyWarning(UserWarning):
    """Every iteration of a loop copies a whole array to change a part of it.

    The warning names the user's line and the array, by its name in the loop's body, the reason, the line in which the old contents are
    needed, and a remedy. `Schedule.show()` reports the same. If the copy is intended, filter the warning: `warnings.simplefilter("ignore",
    rd.CopyWarning)`.

    Example:
        >>> import warnings
        >>> step = lambda t, s: (s[0].at[t].set(1), s[0])
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     made = rd.algorithm(a="i64[n]")(lambda a: rd.loop(3, step, (a, a))).compile()
        >>> print(caught[0].message.args[0].partition("; ")[0])
        "loop_1/update_1" copies s[0] in every iteration: the old contents are a result as well
    """


class ScheduleError(RaidoError, ValueError):
    """An unknown or illegal directive; says what is there, what is not, and what would be legal.

    Example:
        >>> rd.algorithm(lambda a: (2 * a).named("twice")).schedule(rd.f32["n"])["twice"].split("y", 4)
        Traceback (most recent call last):
            ...
        raido.ScheduleError: cannot split axis "y" of stage "twice"
          ...
          why       stage "twice" has no axis "y"
          axes      x
    """


class TargetError(RaidoError, ValueError):
    """An unknown target, or one that this machine does not have.

    Example:
        >>> rd.Target("llvm", cpu="pentium5")
        Traceback (most recent call last):
            ...
        raido.TargetError: unknown cpu "pentium5"; there is, for example: pentium, pentium4, pentium3, pentium2
    """


class CompileError(RaidoError, RuntimeError):
    """Code generation failed: an internal fault of raido; the message says what to report."""


class ExportError(RaidoError, RuntimeError):
    """A library could not be written: no compiler was found, or the place is not writable."""


class TuningError(RaidoError, RuntimeError):
    """The search for a schedule failed: the program fails on the inputs, a database of measurements cannot be read, or a
    package that tuning needs is missing.

    Example:
        >>> rd.algorithm(a="f32[n]")(lambda a: 2 * a).compile(db="absent.db")
        Traceback (most recent call last):
            ...
        raido.TuningError: there is no database absent.db
    """


def explain(headline: str, **lines: str | None) -> str:
    """The text of an error: a headline and its labelled lines; a label whose line is None is left out."""
    rows = [f"  {label:<9} {text}" for label, text in lines.items() if text]
    return "\n".join([headline, *rows])


def clipped(text: str) -> str:
    """The text, cut after `LONGEST_LINE` characters: a name in a damaged file may have megabytes."""
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} … ({len(text):,} characters)"


RaidoError.__module__ = OperatorWarning.__module__ = CopyWarning.__module__ = "raido"
