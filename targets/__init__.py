"""Targets: compiles loop nests to machine code, runs them (`Executable`) and exports them as libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raido.algo.trace.publishing import publish_package

if TYPE_CHECKING:
    from raido.targets.target import TargetEntry


def targets() -> tuple[TargetEntry, ...]:
    """The targets that this machine can compile for, and why the others are missing.

    Example:
        >>> rd.targets()[0].name
        'llvm'
    """
    from raido.targets.target import list_targets

    return list_targets()


publish_package(targets, globals())
