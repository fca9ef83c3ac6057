"""Random programs under random schedules on a Vulkan device give the interpreter's results, without a message of the validation layer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from device_law import check
from vulkan_devices import validated_device

from raido.targets.vulkan.library import validation_messages

PROGRAMS, GROUPS = 36, 6


@pytest.fixture(scope="module", autouse=True)
def validated() -> Iterator[None]:
    validated_device()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDO_VULKAN_VALIDATE", "1")
        yield
    assert validation_messages() == (0, "")


@pytest.mark.parametrize("group", range(GROUPS))
def test_devices_give_what_the_interpreter_gives(group: int) -> None:
    for seed in range(group, PROGRAMS, GROUPS):
        check(seed)
