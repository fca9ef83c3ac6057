"""Whole programs for CUDA, from their default schedules to calls, over the driver without a GPU: the corpus, faults, device arrays."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver, load_driver
from twin_compiler import TwinCompiler, twin_compiler

sys.path.append(str(Path(__file__).resolve().parent.parent / "algo"))
from corpus import CASES, Case
from test_corpus import check

import raido as rd
from raido.algo.errors import ArithmeticFault, IndexOutOfRange, TargetError
from raido.targets.compile import executable_of
from raido.targets.cuda import program
from raido.targets.cuda.compile import make_kernels
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.program import CudaCompilation
from raido.targets.kernels import kernel
from raido.targets.kernels.kernel import MOST_ITERATIONS
from raido.targets.target import Target

PROGRAMS: dict[str, list[Case]] = {}
for case in CASES:
    PROGRAMS.setdefault(case.algorithm.name, []).append(case)
SM_90 = Target("cuda", arch="sm_90")


@rd.algorithm(a="f32[n]", index="i64[m]")
def gathered(a: rd.Array, index: rd.Array) -> rd.Array:
    return a[index] * 2


@rd.algorithm(a="i32[n]", b="i32[n]")
def divided(a: rd.Array, b: rd.Array) -> rd.Array:
    return a // b


@rd.algorithm(a="f32[n]")
def positive(a: rd.Array) -> rd.Array:
    return rd.filter(lambda x: x > 0, a)


@rd.algorithm(a="f32[n]")
def grown(a: rd.Array) -> rd.Array:
    return rd.map(lambda x: rd.while_loop(lambda s: s > 1, lambda s: s * rd.f32(1.5), x), a)


@rd.algorithm(a="f32[n, m]", b="f32")
def line_sum(a: rd.Array, b: rd.Array) -> tuple[rd.Array, rd.Array, rd.Array]:
    return a * b, rd.sum(a * b), rd.transpose(a)


@rd.algorithm(a="i32[n]")
def doubled(a: rd.Array) -> rd.Array:
    return a * 2


@rd.algorithm(a="i32[n]")
def parted(a: rd.Array) -> rd.Array:
    return rd.partition(lambda x: x > 0, a)


@rd.algorithm(a="f32[n]", index="i32[m, 3]")
def gathered_rows(a: rd.Array, index: rd.Array) -> rd.Array:
    return rd.sum(a[index], axis=1)


OWN = (gathered, gathered_rows, divided, positive, line_sum, parted)
LIMIT = 5000


@pytest.fixture(scope="module")
def driver() -> Iterator[FakeDriver]:
    driver = load_driver()
    yield driver
    open_device().close()


@pytest.fixture(scope="module")
def compiler(driver: FakeDriver) -> Iterator[TwinCompiler]:
    with twin_compiler(driver) as compiler:
        yield compiler


def compiled(algorithm: Any, *like: Any, schedule: Any = None) -> Any:
    return executable_of(CudaCompilation(algorithm.trace(*like), SM_90, schedule, {}))


@pytest.fixture(scope="module")
def executables(compiler: TwinCompiler) -> dict[str, Any]:
    """All programs, their twins compiled together."""
    found = {name: compiled(cases[0].algorithm, *cases[0].arguments) for name, cases in PROGRAMS.items()}
    found |= {algorithm.name: compiled(algorithm) for algorithm in OWN}
    for level in ("block.x", "block.y"):
        schedule = doubled.schedule(target=SM_90)
        schedule["elementwise_1"].split("x", 1).bind("xo", level)
        found[level] = compiled(doubled, schedule=schedule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "MOST_ITERATIONS", LIMIT)
        found["grown"] = compiled(grown)
    compiler.build()
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_numpy_gives(executables: dict[str, Any], name: str) -> None:
    for case in PROGRAMS[name]:
        check(executables[name](*case.arguments), case.expected, case.close)


def test_faults_name_the_line_and_later_calls_are_well(executables: dict[str, Any]) -> None:
    gathered, divided = executables["gathered"], executables["divided"]
    a = np.arange(5, dtype="f4")
    with pytest.raises(
        IndexOutOfRange, match=r"index 7 is out of range for dimension 0 of size 5(?s:.)*test_cuda_programs"
    ):
        gathered(a, np.array([0, 7, 1]))
    np.testing.assert_array_equal(gathered(a, np.array([4, 0])), np.float32([8, 0]))
    with pytest.raises(ArithmeticFault, match="integer division of 3 by zero"):
        divided(np.int32([3, 3]), np.int32([1, 0]))


def test_a_thread_records_its_first_fault_once_it_has_ended(executables: dict[str, Any]) -> None:
    """Loops with checks have no branches and no atomic accesses."""
    gathered_rows = executables["gathered_rows"]
    with pytest.raises(IndexOutOfRange, match="index 7 is out of range for dimension 0 of size 5"):
        gathered_rows(np.arange(5, dtype="f4"), np.int32([[1, 2, 3], [0, 7, 9]]))
    for code in gathered_rows.source("cuda").split("__global__")[1:]:
        assert code.rindex("out_") < code.index("compare_exchange")


@pytest.mark.parametrize("shape", ((0, 3), (3001, 3), (2, 5), (5, 1640)))
def test_arrays_are_rows_of_all_their_elements(executables: dict[str, Any], shape: tuple[int, int]) -> None:
    """Vectors reach from one row into the next, and end anywhere."""
    a = np.random.default_rng(5).integers(-9, 9, shape).astype("f4")
    products, whole, columns = executables["line_sum"](a, np.float32(2))
    np.testing.assert_array_equal(products, a * 2)
    np.testing.assert_array_equal(columns, a.T)
    assert whole == (a * 2).sum(dtype="f8")


@pytest.mark.parametrize(("level", "launches"), [("block.x", 1), ("block.y", 2)])
def test_a_launch_has_as_many_blocks_as_the_device_takes(
    executables: dict[str, Any], driver: FakeDriver, level: str, launches: int
) -> None:
    """2³¹ - 1 along x, 65,535 along y; more are launched in parts."""
    a, begun = np.arange(70_000, dtype="i4"), driver.count("launches")
    np.testing.assert_array_equal(executables[level](a), 2 * a)
    assert driver.count("launches") - begun == launches


def test_narrow_code_has_no_parts_beyond_32_bits(executables: dict[str, Any]) -> None:
    """A second part of 2³¹ - 1 blocks is for the code with indices of 64 bits."""
    narrow, wide = (code.split("{", 1)[1] for code in executables["block.x"].source("cuda").split("__global__")[1:])
    assert "raido_mul(part" in wide and "raido_mul(part" not in narrow


def test_device_arrays_stay_on_the_device(executables: dict[str, Any], driver: FakeDriver) -> None:
    a = np.random.default_rng(1).standard_normal(300).astype("f4")
    there = rd.device_array(a, "cuda")
    kept = executables["positive"](there)
    assert kept.device == there.device == "cuda:0"
    np.testing.assert_array_equal(kept.to("cpu"), a[a > 0])


@pytest.mark.parametrize("n", [0, 5, 4096, 9001])
def test_both_sides_of_a_partition_are_stored_in_order(executables: dict[str, Any], n: int) -> None:
    a = np.random.default_rng(n).integers(-9, 9, n).astype("i4")
    kept, rejected = executables["parted"](a)
    np.testing.assert_array_equal(kept, a[a > 0])
    np.testing.assert_array_equal(rejected, a[a <= 0])


def test_the_source_is_cuda_c(executables: dict[str, Any]) -> None:
    text = executables["gathered"].source("cuda")
    assert 'extern "C" __global__' in text and "#include" not in text
    assert executables["gathered"].source("schedule").startswith('s = gathered.schedule(target="cuda")')


def test_an_executable_is_pickled(executables: dict[str, Any]) -> None:
    again = pickle.loads(pickle.dumps(executables["gathered"]))
    np.testing.assert_array_equal(again(np.float32([1, 2]), np.array([1])), np.float32([4]))


def test_without_nvrtc_the_text_is_there_and_a_call_names_the_package(
    monkeypatch: pytest.MonkeyPatch, driver: FakeDriver
) -> None:
    def missing() -> Any:
        raise TargetError('compiling for CUDA needs NVRTC, which is not installed: pip install "raido[cuda]"')

    monkeypatch.setattr(program, "make_kernels", make_kernels)
    monkeypatch.setattr(program, "version", missing)
    monkeypatch.setattr(program, "load_nvrtc", missing)
    executable = compiled(gathered)
    assert 'extern "C" __global__' in executable.source("cuda")
    with pytest.raises(TargetError, match=r'pip install "raido\[cuda\]"'):
        executable(np.float32([1]), np.array([0]))


def test_loops_that_data_ends_are_stopped_at_a_limit() -> None:
    """A device that waits for a loop without an end is lost: the limit is a fault on record, in either code of the kernel."""
    work = CudaCompilation(grown.trace(), SM_90, None, {})
    codes = work.text.body.split("__global__")[1:]
    assert [str(MOST_ITERATIONS) in code for code in codes] == [True, True] and work.device_program.fault


def test_a_loop_without_an_end_is_one_error_and_the_device_lives_on(executables: dict[str, Any]) -> None:
    grown = executables["grown"]
    with pytest.raises(
        TargetError, match=rf"grown: a loop was stopped after {LIMIT} iterations of one thread(?s:.)*test_cuda_programs"
    ):
        grown(np.float32([0.5, 2, 1]))
    np.testing.assert_array_equal(grown(np.float32([0.5, 1])), np.float32([0.5, 1]))


def test_too_little_memory_names_the_argument(executables: dict[str, Any], driver: FakeDriver) -> None:
    """Also where an array alone would fit."""
    driver.set(memory=1 << 20)
    message = 'gathered: argument "a": Imagined GPU 0 has no 2097152 bytes left'
    try:
        with pytest.raises(MemoryError, match=message):
            executables["gathered"](np.zeros(1 << 19, "f4"), np.array([0]))
    finally:
        driver.set(memory=1 << 30)
    np.testing.assert_array_equal(executables["gathered"](np.float32([1]), np.array([0])), np.float32([2]))


@pytest.mark.parametrize("failure", [700, 702, 716, 719])
def test_a_context_that_is_lost_is_one_error_and_so_is_all_after_it(
    executables: dict[str, Any], driver: FakeDriver, failure: int
) -> None:
    """A reading of nothing, a kernel without an end on a display, a misaligned address, a failed launch; arrays of before are gone."""
    there = rd.device_array(np.float32([1, 2]), "cuda")
    driver.set(fail_kernel=failure)
    try:
        lost = rf"gathered: Imagined GPU 0 was lost while .*\({failure}\); CUDA gives it back to a new process only"
        with pytest.raises(TargetError, match=lost):
            executables["gathered"](np.float32([1]), np.array([0]))
        with pytest.raises(TargetError, match="Imagined GPU 0 was lost"):
            there.to("cpu")
        with pytest.raises(TargetError, match="CUDA gives it back to a new process only"):
            executables["gathered"](np.float32([1]), np.array([0]))
    finally:
        driver.set(fail_kernel=0)
        driver.recover()
    np.testing.assert_array_equal(executables["gathered"](np.float32([1]), np.array([0])), np.float32([2]))
