"""The known caches of a machine: by its maker, from Linux, and from a pickle of an earlier version."""

from __future__ import annotations

import pickle
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from raido.schedule.machine import LINE, Machine
from raido.targets.target import CPUS, _host_caches


def write_cache(folder: Path, number: int, **facts: str) -> None:
    """One cache as Linux describes it: a file for each fact."""
    index = folder / f"index{number}"
    index.mkdir()
    for name, text in facts.items():
        (index / name).write_text(text + "\n")


def test_linux_says_sizes_and_ways_of_data_caches(tmp_path: Path) -> None:
    write_cache(tmp_path, 0, type="Data", level="1", size="48K", ways_of_associativity="12")
    write_cache(tmp_path, 1, type="Instruction", level="1", size="32K", ways_of_associativity="8")
    write_cache(tmp_path, 2, type="Unified", level="2", size="2M", ways_of_associativity="0")  # hidden
    write_cache(
        tmp_path, 3, type="Unified", level="3", size="260M", ways_of_associativity="20", shared_cpu_list="0-11,24-35"
    )
    write_cache(tmp_path, 4, type="Unified", level="4", size="1G")
    assert _host_caches(32 << 20, tmp_path) == {"l1": 48 << 10, "l1_ways": 12, "l2": 2 << 20, "l3": 260 << 20}
    assert not _host_caches(32 << 20, tmp_path / "none")


def test_a_virtual_machine_has_its_share_of_the_last_cache(tmp_path: Path) -> None:
    """Two cores that see 480 MiB see those of others."""
    write_cache(tmp_path, 3, type="Unified", level="3", size="480M", shared_cpu_list="0-1")
    assert _host_caches(32 << 20, tmp_path) == {"l3": 64 << 20}
    assert _host_caches(6 << 20, tmp_path) == {"l3": 12 << 20}


@pytest.mark.parametrize("name", CPUS)
def test_caches_of_processors_are_sets_of_lines(name: str) -> None:
    machine = CPUS[name].machine
    for size, ways in ((machine.l1, machine.l1_ways), (machine.l2, machine.l2_ways)):
        sets, rest = divmod(size, ways * LINE)
        assert rest == 0 and sets & (sets - 1) == 0


def test_a_machine_pickled_by_an_earlier_version_has_defaults_for_what_that_did_not_know() -> None:
    machine = Machine(512, 32, 2, 48 << 10, 2 << 20, 64 << 20, 1 << 14, l1_ways=12)
    assert pickle.loads(pickle.dumps(machine)) == machine
    earlier = Machine.__new__(Machine)
    earlier.__setstate__(astuple(machine)[:7])  # the state of a class with slots: the values of its fields
    assert earlier == replace(machine, l1_ways=Machine.l1_ways)
