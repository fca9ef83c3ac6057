"""Names of stages: printable text, since schedules are printed as Python that rebuilds them.

"/" stands between the name of an inlined algorithm and that of its stage, "::" between a stage and a part of its strategy.
"""

from __future__ import annotations

RULE = "a stage's name is printable text without '/' and '::'"


def is_stage_name(name: object) -> bool:
    """Whether a user may give a stage this name."""
    return isinstance(name, str) and "/" not in name and is_stage_path(name)


def is_stage_path(name: object) -> bool:
    """Whether a stage may be called so: a name, or names with "/" between them."""
    return isinstance(name, str) and bool(name) and name.isprintable() and "::" not in name
