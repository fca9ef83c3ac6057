"""Host plans on a Vulkan device: loops, branches and sizes around launches of several kernels over shared arrays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import hand_made_kernels as kernels
import numpy as np
import pytest
from kernel_vocabulary import at, atomic, integer, kernel, number, put, when
from vulkan_devices import ANYTHING, validated_device

from raido.algo.errors import TargetError
from raido.algo.graph.dtypes import f32, i32, u8
from raido.targets.devices.plan import (
    Allocate,
    Copy,
    Download,
    Free,
    If,
    Launch,
    Let,
    Loop,
    Plan,
    ReadBack,
    Statement,
    Swap,
    Upload,
    While,
    encode_plan,
    run_plan,
)
from raido.targets.devices.runtime import LoadedKernel, Memory
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.runtime import VulkanDevice
from raido.targets.vulkan.spirv.generate import generate_kernel


def blur(x: Any, a: Any, b: Any, n: Any) -> list[Any]:
    """b[i] = (a[i - 1] + a[i + 1]) / 2 with clamped ends."""
    clamp = lambda i: kernels.T.Max(kernels.T.Min(i, n - 1), integer(0, "int64"))
    one = integer(1, "int64")
    return [when(x.i < n, put(b, x.i, (at(a, clamp(x.i - one)) + at(a, clamp(x.i + one))) / number(f32, 2.0)))]


def count_above(x: Any, a: Any, count: Any, limit: Any, n: Any) -> list[Any]:
    add = kernels.T.Evaluate(atomic("add", i32, at(count, integer(0)), integer(1)))
    return [when(x.i < n, when(limit < at(a, x.i), add))]


FUNCTIONS = {
    "blur": kernel("blur", (f32, f32, "int64"), blur),
    "count_above": kernel("count_above", (f32, i32, "float32", "int64"), count_above),
}
BLOCKS = ("//", ("+", "n", 63), 64)
BYTES = ("*", "n", 4)


def bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


@pytest.fixture(scope="module")
def opened() -> Iterator[VulkanDevice]:
    with VulkanDevice(validated_device(), validate=True) as opened:
        yield opened
    assert validation_messages() == (0, "")


@pytest.fixture(scope="module")
def loaded(opened: VulkanDevice) -> dict[str, LoadedKernel]:
    return {name: LoadedKernel(opened, generate_kernel(f, opened.device)) for name, f in FUNCTIONS.items()}


def encode(*statements: Statement, numbers: tuple[str, ...] = ("n",)) -> Plan:
    return encode_plan(statements, {name: generate_kernel(f, ANYTHING) for name, f in FUNCTIONS.items()}, numbers)


def blurred(a: np.ndarray) -> np.ndarray:
    p = np.pad(a, 1, mode="edge")
    return (p[:-2] + p[2:]) / np.float32(2)


def test_a_loop_swaps_its_states(opened: VulkanDevice, loaded: dict[str, LoadedKernel]) -> None:
    plan = encode(
        Allocate("a", BYTES),
        Allocate("b", BYTES),
        Upload("a", "given", BYTES),
        Loop("k", "times", (Launch("blur", (BLOCKS, 1, 1), ("a", "b", "n")), Swap("a", "b"))),
        Free("b"),
        Download("out", "a", BYTES),
        numbers=("n", "times"),
    )
    given = np.random.default_rng(3).random(1000).astype("f4")
    for times in (0, 1, 130):
        expected, out = given, np.zeros_like(given)
        for _ in range(times):
            expected = blurred(expected)
        run_plan(plan, opened, loaded, numbers={"n": 1000, "times": times}, arrays={"given": given, "out": out})
        np.testing.assert_array_equal(out, expected)


def test_what_the_device_counts_decides(opened: VulkanDevice, loaded: dict[str, LoadedKernel]) -> None:
    """Iterations until few elements are above a limit: a scalar is read back, and counts the next array's size too."""
    plan = encode(
        *(Allocate("b", BYTES), Allocate("count", 4), Let("above", "n"), Let("steps", 0)),
        While(
            ("<", 10, "above"),
            (
                Launch("blur", (BLOCKS, 1, 1), ("a", "b", "n")),
                Copy("a", "b", BYTES),
                Upload("count", "zero", 4),
                Launch("count_above", (BLOCKS, 1, 1), ("a", "count", bits(0.75), "n")),
                ReadBack("above", "count", i32),
                Let("steps", ("+", "steps", 1)),
            ),
        ),
        If(("==", "above", 0), (Let("kind", 1),), (Allocate("rest", ("*", "above", 4)), Let("kind", 2), Free("rest"))),
        ReadBack("byte", "count", u8),
    )
    a = np.random.default_rng(4).random(500).astype("f4")
    memory = Memory(opened, a.nbytes)
    memory.write(a)
    numbers = run_plan(
        plan, opened, loaded, numbers={"n": 500}, memories={"a": memory}, arrays={"zero": np.zeros(1, "i4")}
    )
    steps = 0
    while (above := int((a > 0.75).sum()) if steps else 500) > 10:
        a, steps = blurred(a), steps + 1
    assert (numbers["steps"], numbers["above"], numbers["byte"]) == (steps, above, above)
    assert numbers["kind"] == (1 if above == 0 else 2)
    np.testing.assert_array_equal(memory.read(np.empty(500, "f4")), a)


def test_sizes_are_computed_with_checks(opened: VulkanDevice) -> None:
    def value(size: Any, **numbers: int) -> int:
        plan = encode_plan([Let("result", size)], {}, tuple(numbers))
        return run_plan(plan, opened, {}, numbers=numbers)["result"]

    for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2), (5, 0), (-(2**63), -1)):
        for op, expected in (
            ("%", a % b if b else 0),
            ("//", a // b if b else 0),
            ("min", min(a, b)),
            ("max", max(a, b)),
            *(("<", a < b), ("<=", a <= b), ("==", a == b), ("!=", a != b)),
        ):
            if abs(expected) < 2**63:
                assert value((op, "a", "b"), a=a, b=b) == expected, (op, a, b)
    for size in (("*", "a", "a"), ("+", ("+", "a", "a"), "a"), ("-", ("-", 0, "a"), ("*", 2, "a"))):
        with pytest.raises(TargetError, match="a size is beyond 64 bits"):
            value(size, a=2**62 + 1)


def test_a_plan_that_fails_leaves_nothing_behind() -> None:
    plan = encode_plan([Allocate("a", 16 << 20), Allocate("b", "n")], {}, ("n",))
    with VulkanDevice(validated_device(), validate=True, memory=64 << 20) as opened:
        for _ in range(5):
            for wrong, message in ((1 << 30, "has no 1073741824 bytes left"), (-8, "an array has a size of -8")):
                with pytest.raises((MemoryError, TargetError), match=message):
                    run_plan(plan, opened, {}, numbers={"n": wrong})
        assert opened.taken <= 64 << 20


def test_an_endless_plan_can_be_interrupted(opened: VulkanDevice) -> None:
    class Rang(Exception):
        pass

    def ring(*_: Any) -> None:
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Rang):
            run_plan(encode_plan([While(1, ())], {}), opened, {})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_does_not_fit_is_refused() -> None:
    launch = lambda *arguments: Launch("blur", (1, 1, 1), arguments)
    for statement, message in (
        (Let("a", "b"), 'a plan uses the number "b" before anything gives it a value'),
        (Launch("sharpen", (1, 1, 1), ()), 'a plan launches "sharpen", and there is no such kernel'),
        (launch("a", "b"), "kernel blur takes 3 arguments, not 2"),
        (launch("a", 5, "n"), "kernel blur takes an array for p1, not 5"),
    ):
        with pytest.raises(TargetError, match=message):
            encode(statement)


def test_a_damaged_plan_does_nothing(opened: VulkanDevice, loaded: dict[str, LoadedKernel]) -> None:
    """Each word replaced by others: never more than an error."""
    plan = encode_plan(
        [
            Allocate("a", 64),
            Swap("a", "b"),
            Copy("b", "b", 4, 8, 0),
            ReadBack("x", "b", u8),
            Let("x", ("+", "x", 1)),
            Free("b"),
        ],
        {},
    )
    for k in range(len(plan.words)):
        for wrong in (-1, 99, 1 << 40):
            words = (*plan.words[:k], wrong, *plan.words[k + 1 :])
            damaged = Plan(words, plan.registers, plan.register_count, plan.slots, plan.hosts, ())
            try:
                run_plan(damaged, opened, {})
            except (TargetError, MemoryError) as error:
                assert str(error)
    run_plan(encode_plan([Free("a")], {}), opened, {})  # what has no memory may be freed
    with pytest.raises(TargetError, match=r"a plan is damaged before word \d+"):
        run_plan(encode_plan([ReadBack("x", "a", u8)], {}), opened, {})
    with pytest.raises(TargetError, match='a plan needs the array of the caller "out"'):
        run_plan(encode_plan([Download("out", "a", 4)], {}), opened, {})
