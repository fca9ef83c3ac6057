"""The instruction sets that this machine runs, for tests: code for any other is compiled and inspected, but never run.

A test that would run such code is skipped by name, with the missing features. RAIDO_HIDE_FEATURES=avx512f makes any machine
one without AVX-512.
"""

from __future__ import annotations

from typing import Any

import pytest

from raido.targets.target import Target, host_features


def lacking(cpu: str) -> str:
    """The reason why this machine cannot run code for that processor; "" where it can."""
    target = Target("llvm", cpu)
    missing = ", ".join(sorted(set(target.features) - host_features()))
    return "" if target.runs_here else f"{cpu}: this machine lacks {missing}"


def needs(cpu: str) -> Any:
    """A test parameter for a processor whose code the test runs: skipped by name where this machine cannot run it."""
    reason = lacking(cpu)
    return pytest.param(cpu, marks=[pytest.mark.skip(reason=reason)] if reason else [])


def widest_here(cpus: tuple[str, ...]) -> str:
    """Of processors in ascending order, the last whose code this machine runs."""
    return [cpu for cpu in cpus if not lacking(cpu)][-1]
