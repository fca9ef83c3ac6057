"""How a schedule says no: a reason inside, a full message outside.

Rules raise `Refusal` with the fact that forbids a step and one remedy; `refused` lays it out as a `ScheduleError` with the user's
line in the schedule and in the algorithm, and what is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from raido.algo.errors import ScheduleError, explain
from raido.algo.graph.program import Site


class Refusal(Exception):
    """Why a step is illegal, what to say instead, and lists of what there is (`stages="a, b"`)."""

    def __init__(self, why: str, remedy: str | None = None, **legal: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy
        self.legal = legal


class UnknownDirective(ScheduleError, AttributeError):
    """No directive has that name."""


def refused(
    headline: str,
    refusal: Refusal,
    said: str,
    site: Site | None = None,
    algorithm: Site | None = None,
    **there: str,
) -> ScheduleError:
    """The error for a refusal: `said` is the directive as written at `site`; `algorithm` is where the stage was made."""
    kind = UnknownDirective if refusal.legal.get("directives") else ScheduleError
    lines = {
        "schedule": f"{place(site)}   {said}" if site else said,
        "algorithm": f"{place(algorithm)}   {algorithm.text}" if algorithm else None,
        "why": refusal.why,
        "try": refusal.remedy,
        **{label: text for label, text in there.items() if label not in refusal.legal},
        **refusal.legal,
    }
    return kind(explain(headline, **lines))


def place(site: Site) -> str:
    """A short form of a place in a file."""
    return f"{os.path.basename(site.file)}:{site.line}"


def listed(names: Iterable[object]) -> str:
    """Names in one line."""
    return ", ".join(str(name) for name in names) or "none"
