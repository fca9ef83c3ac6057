"""How the command line says what failed: in one line."""

from __future__ import annotations

import re

from raido.algo.errors import RaidoError


def one_line(error: Exception) -> str:
    """The text of an error, its lines joined by semicolons; with its type if it is not one of raido's own."""
    kind = "" if isinstance(error, RaidoError) else f"{type(error).__name__}: "
    return kind + "; ".join(re.sub(r"\s+", " ", line.strip()) for line in str(error).splitlines() if line.strip())
