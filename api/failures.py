"""Errors of the command line as one line of text."""

from __future__ import annotations

import re

from raido.algo.errors import RaidoError


def one_line(error: Exception) -> str:
    """The text of an error with its lines joined by semicolons, after the error's type unless it is a `RaidoError`."""
    kind = "" if isinstance(error, RaidoError) else f"{type(error).__name__}: "
    return kind + "; ".join(re.sub(r"\s+", " ", line.strip()) for line in str(error).splitlines() if line.strip())
