"""Asynchronous copies (`cp.async`): double-buffered tiles of factors, on the CPU, where they arrive late; and their machine code."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from cuda_twin import Twin
from kernel_shapes import count_instructions, faults_of
from twin_compiler import executables_of

import raido as rd
from raido.algo.errors import TargetError
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.source.generate import Source
from raido.targets.target import Target

SM_80 = Target("cuda", arch="sm_80")


def product(dtype: str) -> Any:
    @rd.algorithm(a=f"{dtype}[n, k]", b=f"{dtype}[k, m]")
    def multiply(a: rd.Array, b: rd.Array) -> rd.Array:
        return rd.matmul(a, b, dtype=rd.f32 if dtype == "f16" else None, name="c")

    return multiply


def buffered(algorithm: Any, left: int, right: int) -> rd.Schedule:
    """The default loops of a product, of whose factors so many copies are there at a time."""
    s = algorithm.schedule(target=SM_80)
    c = s["c"].split("y", 8).split("x", 8).split("r", 4).reorder("yo", "xo", "ro", "yi", "xi", "ri")
    c.bind("yo", "block.y").bind("xo", "block.x").bind("yi", "thread.y").bind("xi", "thread.x")
    for array, buffers in (("a", left), ("b", right)):
        c.cache(array, "c", "ro", scope="shared")
        s[f"{array}_copy"].store(buffers=buffers)
    return s


CASES = {
    "f32": ("f32", ()),
    "f64": ("f64", ()),
    "f16": ("f16", ()),
    "u8": ("u8", (2, 2)),
    "two and three": ("f32", (2, 3)),
    "four": ("f64", (4, 4)),
    "one of them": ("i32", (1, 2)),
}


def compilation_of(case: str) -> CudaCompilation:
    dtype, buffers = CASES[case]
    algorithm = product(dtype)
    return CudaCompilation(algorithm.trace(), SM_80, buffered(algorithm, *buffers) if buffers else None, {})


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[str, Any]]:
    with executables_of({case: partial(compilation_of, case) for case in CASES}) as made:
        yield made


def factors(dtype: str, n: int, m: int, k: int) -> list[np.ndarray]:
    draw = np.random.default_rng(n + m + k)
    return [draw.integers(0, 9, shape).astype(dtype) for shape in ((n, k), (k, m))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sizes", [(64, 64, 32), (65, 70, 33), (9, 13, 2), (5, 3, 0)])
def test_products_are_those_of_the_interpreter(executables: dict[str, Any], case: str, sizes: tuple[int, ...]) -> None:
    dtype, _ = CASES[case]
    arrays = factors(f"{dtype[0]}{int(dtype[1:]) // 8}", *sizes)
    assert "raido_copy_await<" in executables[case].source("cuda").split('extern "C"', 1)[1]
    np.testing.assert_array_equal(executables[case](*arrays), product(dtype).interpret(*arrays))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("raido_copy_await<0>();", ""),
        ("raido_copy_await<0>();", "raido_copy_await<1>();"),
        ("raido_copy_commit();", ""),
    ],
)
def test_a_copy_that_is_not_awaited_is_a_wrong_answer(old: str, new: str) -> None:
    assert wrong(old, new) and not wrong(old, old)


def test_a_missing_barrier_is_a_wrong_answer() -> None:
    assert wrong("__syncthreads();", "")


def wrong(old: str, new: str) -> bool:
    """Whether a product by a text in which something stands instead of something else is wrong."""
    text = compilation_of("f32").text
    assert old in text.body
    kernel = text.kernels[0]
    a, b = factors("f4", 64, 64, 32)
    out = np.zeros((64, 64), "f4")
    changed = Source(text.body.replace(old, new), tuple(replace(k, narrow="") for k in text.kernels))
    Twin(changed).launch(kernel.name, (1, 1, 1), [a, b, out, 0, 0, 64, 64, 32])
    return not np.array_equal(out, product("f32").interpret(a, b))


@pytest.mark.parametrize(("architecture", "copies"), [("sm_80", True), ("sm_90", True), ("sm_75", False)])
def test_machine_code_copies_past_registers_where_the_architecture_can(architecture: str, copies: bool) -> None:
    """Of rows that are multiples of 16 bytes all goes 16 bytes at once, and no thread waits for another but once an iteration."""
    algorithm = product("f32")
    text = CudaCompilation(algorithm.trace(), SM_80, None, {"n": 256, "m": 256, "k": 256}).text
    try:
        made = compile_source(text.text, architecture)
    except TargetError as error:
        pytest.skip(str(error))
    planned = {kernel.name: kernel.shared_bytes for kernel in text.kernels}
    for name, used in made.resources.items():
        assert not list(faults_of(used, planned[name.removeprefix("raido_narrow_")], indexed_arrays=False)), name
    if (nvdisasm := shutil.which("nvdisasm")) is None:
        return
    for counted in count_instructions(made.code, nvdisasm).values():
        moved = {name for name in counted if name.startswith(("LDG.", "STS", "LDGSTS"))}
        assert all("128" in name for name in moved)
        assert any(name.startswith("LDGSTS") for name in moved) == copies
        assert ("DEPBAR.LE" in counted) == copies
        assert counted["BAR.SYNC.DEFER"] + counted["BAR.SYNC"] <= 2


def test_default_schedules_say_it_where_the_device_can() -> None:
    for dtype in ("f16", "f32"):
        assert str(product(dtype).schedule(target=SM_80).complete()).count("buffers=2") == 2
        for target in ("cuda:sm_75", "vulkan:any"):
            assert "buffers" not in str(product(dtype).schedule(target=target).complete())
