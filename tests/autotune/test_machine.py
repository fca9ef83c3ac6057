"""Measurements belong to the machine on which they were made, whatever the target's name."""

from __future__ import annotations

from dataclasses import replace

from raido.autotune.measure.machine import this_machine
from raido.targets.target import Target, host_cpu


def test_one_machine_has_one_digest() -> None:
    """A worker is told the target by its name; this machine may have other caches than the table has for it."""
    native = Target()
    named = Target.parse(f"llvm:{native.cpu}")
    assert this_machine(named) == this_machine(native)
    assert this_machine(native).description["l3"] == host_cpu().l3
    assert this_machine(replace(native, threads=native.machine.cores + 1)) != this_machine(native)
