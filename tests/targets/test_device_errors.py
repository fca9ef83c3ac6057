"""Bad input of programs on devices: each is one clear error, before anything runs where that is possible."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vulkan_devices import ANYTHING, validated_device

import raido as rd
from raido.algo.errors import TargetError
from raido.targets.devices.executable import DeviceExecutable
from raido.targets.target import Target
from raido.targets.vulkan.compile import VulkanCompilation
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.opened import open_device
from raido.targets.vulkan.runtime import VulkanDevice
from raido.targets.vulkan.spirv.grammar import Capability


@rd.algorithm(a="f64[n]")
def halves(a: rd.Array) -> rd.Array:
    return a / 2


@rd.algorithm(a="f32[n]")
def table(a: rd.Array) -> rd.Array:
    return rd.tabulate((a.shape[0], a.shape[0]), lambda i, j: a[i] * a[j])


@rd.algorithm(a="f32[n]")
def sorted_twice(a: rd.Array) -> rd.Array:
    return rd.sort(rd.sort(a) * -1)


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    validated_device()
    monkeypatch.setenv("RAIDO_VULKAN_VALIDATE", "1")
    yield
    assert validation_messages() == (0, "")


def test_a_machine_without_a_driver_compiles_and_cannot_run() -> None:
    program = """import numpy as np, raido as rd
@rd.algorithm(a="f32[n]")
def twice(a): return a * 2
exe = twice.compile("vulkan")
assert "OpFMul" in exe.source("spirv")
exe(np.ones(3, np.float32))
"""
    environment = {"PATH": "/usr/bin", "VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("raido.TargetError: ")
    assert "Vulkan" in done.stderr.splitlines()[-1]


def test_there_is_no_such_device() -> None:
    validated_device()
    for target in ("vulkan:99", "vulkan:abacus"):
        with pytest.raises(TargetError, match=r"there is no Vulkan device .* there is: 0 "):
            halves.compile(target)


class WithoutF64(VulkanCompilation):
    device = replace(ANYTHING, name="a small device", capabilities=frozenset(Capability) - {Capability.Float64})  # type: ignore[assignment]


def test_a_device_without_a_number_type_names_it() -> None:
    work = WithoutF64(halves.trace(), Target("vulkan", device="any"), None, {})
    with pytest.raises(TargetError, match=r"cannot run on a small device: .*f64 needs the capability Float64"):
        _ = work.kernels


@pytest.mark.usefixtures("validated")
def test_results_beyond_the_memory_of_a_device() -> None:
    executable = table.compile("vulkan")
    with pytest.raises(MemoryError, match=r"table: .* bytes(?s:.)*algorithm .*test_device_errors.py"):
        executable(np.ones(300_000, np.float32))
    np.testing.assert_array_equal(executable(np.float32([1, 2])), [[1, 2], [2, 4]])


@pytest.mark.usefixtures("validated")
def test_temporary_arrays_beyond_the_memory_of_a_device() -> None:
    made = sorted_twice.compile("vulkan")
    with VulkanDevice(open_device().device, validate=True, memory=32 << 20) as small:
        executable = DeviceExecutable(made.signature, made.code, "a small device", lambda: small)
        a = np.random.default_rng(1).random(1000).astype(np.float32)
        for n in (1_000_000, 2_000_000):
            np.testing.assert_array_equal(executable(a), np.sort(-np.sort(a)))
            with pytest.raises(MemoryError, match="sorted_twice: "):
                executable(np.ones(n, np.float32))


def test_a_device_is_a_text() -> None:
    with pytest.raises(TargetError, match=r'device=… is a text, a number or a part of a name, such as "0", not 17'):
        rd.Target("vulkan", device=17)  # type: ignore[arg-type]


def test_a_short_loop_of_one_thread_is_not_taken_for_one_that_was_ended() -> None:
    """The lanes of a block of one thread that stand for no thread read zeros, of which the condition stays true."""
    validated_device()

    @rd.algorithm
    def doubled(a: rd.f32["k"]):
        return rd.while_loop(lambda v: v[1] < 3.0, lambda v: (v[0] + 1, v[1] * 2), (rd.i32(0), a[0]))

    assert doubled.compile("vulkan")(np.ones(4, np.float32)) == (2, 4.0)


ENDLESS = """import numpy as np, raido as rd
from dataclasses import replace
from raido.schedule.kernels import limits

usual = limits.limits_of
limits.limits_of = lambda gpu: replace(usual(gpu), iterations=1000)

def again(x):
    return rd.while_loop(lambda s: s >= 0, lambda s: (s + 1) % 7, x)

@rd.algorithm
def in_a_thread(a: rd.i32["n"]):
    return rd.map(again, a)

@rd.algorithm
def of_launches(a: rd.i32["n"]):
    return rd.while_loop(lambda s: rd.sum(s) < 5000, lambda s: s + a[0], a)

for program, first in ((in_a_thread, 0), (of_launches, 1), (of_launches, 0)):
    try:
        print(program.compile("vulkan")(np.arange(first, 8, dtype=np.int32)))
    except rd.TargetError as error:
        print(" ".join(str(error).split()))
"""


def test_loops_that_never_end_are_one_error_each(tmp_path: Path) -> None:
    validated_device()
    (tmp_path / "endless.py").write_text(ENDLESS)
    done = subprocess.run(
        [sys.executable, "endless.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    thread, fine, launches = done.stdout.splitlines()
    assert re.search(r"in_a_thread: a loop was stopped .*endless.py:9 return rd.while_loop\(lambda s: s >= 0", thread)
    assert fine == "[712 713 714 715 716 717 718]"
    assert launches.startswith("of_launches: a loop was stopped after 1000 iterations, as one that never ends")
    assert "endless.py:17 return rd.while_loop(lambda s: rd.sum(s) < 5000" in launches
