"""Impossible allocations are refused as NumPy's are, in Python and in exported libraries, never granted and then fatal to the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from raido.targets import native
from raido.targets.export import find_compiler

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
LIMITS = r"""
#include "raido_runtime_limit.h"
int main(int count, char** arguments) {
  char group[256];
  if (count == 1) return memory_limit() < 1 << 20;
  strcpy(group, arguments[2]);
  printf("%lld\n", (long long)smallest_group_limit(arguments[1], group, "memory.max"));
  return 0;
}
"""


def _always_overcommits() -> bool:
    return Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1"


@pytest.mark.skipif(_always_overcommits(), reason="the system grants any amount (vm.overcommit_memory = 1)")
@pytest.mark.parametrize("factor", [3, 200])
def test_blocks_larger_than_the_machine_are_refused(factor: int) -> None:
    with pytest.raises(MemoryError, match=f"{factor * MACHINE:,} bytes"):
        native.allocate_array((factor * MACHINE,), np.dtype("uint8"))
    with pytest.raises(MemoryError):
        np.empty(factor * MACHINE, np.uint8)


def test_memory_kept_for_reuse_goes_back_before_memory_is_refused() -> None:
    script = """
import resource
import numpy as np
from raido.targets import native
library = native.runtime_library()
kept = [library.rd_alloc(64 << 20) for _ in range(3)]
used = 1024 * int(next(x for x in open("/proc/self/status") if x.startswith("VmSize")).split()[1])
for address in kept:
    library.rd_free(address)
before = library.rd_cached_bytes()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20),) * 2)
block = library.rd_alloc(200 << 20)
print(before >= 128 << 20, block is not None, library.rd_cached_bytes(), library.rd_alloc(1 << 40))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True True 0 None\n", done.stdout + done.stderr


def test_the_limit_is_the_least_of_the_control_group_and_those_around_it(tmp_path: Path) -> None:
    (tmp_path / "driver.c").write_text(LIMITS)
    command = [*find_compiler(), "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{native.RUNTIME_SOURCES}"]
    subprocess.run([*command, "driver.c", "-o", "driver"], cwd=tmp_path, check=True)
    inner = tmp_path / "groups" / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text("3000000\n")
    (tmp_path / "groups" / "memory.max").write_text("9000000\n")
    ask = lambda group: int(subprocess.check_output([tmp_path / "driver", tmp_path / "groups", group], text=True))
    assert ask("/outer/inner") == ask("/outer") == 3000000
    assert ask("/elsewhere") == ask("/") == 9000000  # a group of another namespace: the root is the process's own
    (tmp_path / "groups" / "memory.max").unlink()
    assert ask("/") == -1
    subprocess.run([tmp_path / "driver"], check=True)
