"""Names of stages: printable text, since schedules are printed as Python code that rebuilds them.

"/" separates the name of an inlined algorithm from that of its stage, "::" a stage from a part of its strategy.
"""

from __future__ import annotations

RULE = "a stage's name is printable text without '/' and '::'"


def is_stage_name(name: object) -> bool:
    """Whether a user may give a stage this name."""
    return isinstance(name, str) and "/" not in name and is_stage_path(name)


def is_stage_path(name: object) -> bool:
    """Whether a stage may have this name: one name, or names separated by "/"."""
    return isinstance(name, str) and bool(name) and name.isprintable() and "::" not in name
