"""Every error a user of raido can meet, one class for each kind.

All derive from `RaidoError` and from the built-in exception that a Python programmer would expect to catch. The message is built
where the fault is found; `explain` lays out its labelled lines in one way everywhere:

    ScheduleError: cannot vectorize axis "k" of stage "out"
      schedule  bench.py:41   .vectorize("k", 8)
      why   each step along "k" updates out[i], and `op` is not commutative
      try   vectorize "i" (extent n)
"""

from __future__ import annotations


class RaidoError(Exception):
    """Base of all errors that raido raises on purpose."""


class TraceError(RaidoError, TypeError):
    """The algorithm used a traced value where Python needs a plain one, or a form that raido does not have."""


class DTypeError(RaidoError, TypeError):
    """Element types that do not fit together."""


class ShapeError(RaidoError, ValueError):
    """Ranks or sizes that provably do not fit together, found while tracing."""


class SizeMismatch(RaidoError, ValueError):
    """Sizes of the actual arguments do not agree; names both arguments and both sizes."""


class ArgumentError(RaidoError, TypeError):
    """An argument of a call has the wrong dtype, rank, kind or number."""


class IndexOutOfRange(RaidoError, IndexError):
    """A checked index left its dimension; names the user's line, the index and the size."""


class ArithmeticFault(RaidoError, ArithmeticError):
    """Integer division by zero or a negative integer power; names the user's line."""


class ScheduleError(RaidoError, ValueError):
    """An unknown or illegal directive; says what is there, what is not, and what would be legal."""


class TargetError(RaidoError, ValueError):
    """An unknown target, or one that this machine does not have."""


class CompileError(RaidoError, RuntimeError):
    """Code generation failed: an internal fault of raido, with what to report."""


class ExportError(RaidoError, RuntimeError):
    """A library could not be written: no compiler, or an unwritable place."""


def explain(headline: str, **lines: str | None) -> str:
    """The text of an error: a headline and its labelled lines; a label whose line is None is left out."""
    rows = [f"  {label:<9} {text}" for label, text in lines.items() if text]
    return "\n".join([headline, *rows])
