"""Refusals of schedule directives: a reason inside the package, a full error message outside.

Rules raise `Refusal` with the fact that forbids a directive and one remedy; `refused` makes it a `ScheduleError` with the user's lines in the
schedule and in the algorithm, and lists of legal names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from raido.algo.errors import ScheduleError, explain
from raido.algo.graph.program import Site


class Refusal(Exception):
    """The reason why a directive is illegal, one remedy, and lists of legal names (`stages="a, b"`)."""

    def __init__(self, why: str, remedy: str | None = None, **legal: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy
        self.legal = legal


class UnknownDirective(ScheduleError, AttributeError):
    """The error for a name that is no directive; also an `AttributeError`."""


def refused(
    headline: str,
    refusal: Refusal,
    said: str,
    site: Site | None = None,
    algorithm: Site | None = None,
    **there: str,
) -> ScheduleError:
    """Returns the error for a refusal: `said` is the directive as written at `site`; `algorithm` is where the stage is defined."""
    kind = UnknownDirective if refusal.legal.get("directives") else ScheduleError
    lines = {
        "schedule": f"{location(site)}   {said}" if site else said,
        "algorithm": f"{location(algorithm)}   {algorithm.text}" if algorithm else None,
        "why": refusal.why,
        "try": refusal.remedy,
        **{label: text for label, text in there.items() if label not in refusal.legal},
        **refusal.legal,
    }
    return kind(explain(headline, **lines))


def location(site: Site) -> str:
    """Returns a source location as "file.py:12"."""
    return f"{os.path.basename(site.file)}:{site.line}"


def listed(names: Iterable[object]) -> str:
    """Returns names in one line, separated by commas; "none" without any."""
    return ", ".join(str(name) for name in names) or "none"
