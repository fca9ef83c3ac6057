"""Products of matrices by matrix units: tiles of a subgroup, compared with the interpreter on the CPU, thread by thread."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_twin import Twin
from fake_driver import load_driver
from kernel_shapes import count_instructions, faults_of
from twin_compiler import twin_compiler

import raido as rd
from raido.algo.errors import TargetError
from raido.schedule.kernels.limits import limits_of
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.nest.nodes import For
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.interpret import sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.targets.compile import executable_of
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.source.generate import NARROW
from raido.targets.target import Target

SM_80 = Target("cuda", arch="sm_80")
FACTORS = {
    "plain": ("n k", "k m"),
    "left transposed": ("k n", "k m"),
    "right transposed": ("n k", "m k"),
    "both transposed": ("k n", "m k"),
}


def product(dtype: str, layout: str) -> Any:
    rounds = dtype == "tf32"
    left, right = (f"{'f32' if rounds else dtype}[{', '.join(names.split())}]" for names in FACTORS[layout])
    left_turned, right_turned = (
        names.split() != wanted for names, wanted in zip(FACTORS[layout], (["n", "k"], ["k", "m"]), strict=True)
    )

    @rd.algorithm(a=left, b=right)
    def multiply(a: rd.Array, b: rd.Array) -> rd.Array:
        if rounds:
            a, b = rd.round_to_tf32(a, name="ra"), rd.round_to_tf32(b, name="rb")
        return rd.matmul(a.T if left_turned else a, b.T if right_turned else b, dtype=rd.f32, name="c")

    return multiply


def tiled(
    algorithm: Any, subgroups: int, rows: int, columns: int, steps: int, copied: bool = True, buffers: int = 1
) -> rd.Schedule:
    """A tile for each subgroup of a block, one below the other."""
    s = algorithm.schedule(target=SM_80)
    c = (
        s["c"]
        .split("y", subgroups * rows)
        .split("yi", rows)
        .split("yii", 8)
        .split("x", columns)
        .split("xi", 8)
        .split("xii", 2)
    )
    c.split("r", steps).reorder("yo", "xo", "ro", "yio", "yiii", "xiio", "ri", "yiio", "xio", "xiii")
    c.bind("yo", "block.y").bind("xo", "block.x").bind("yio", "thread.z").bind("yiii", "thread.y").bind(
        "xiio", "thread.x"
    )
    c.unroll("yiio").unroll("xio").unroll("xiii").tensorize("ri")
    return with_copies(algorithm, s, buffers) if copied else s


def in_groups(algorithm: Any) -> Any:
    """Tiles of 16 × 8 in groups of two rows of them, whose blocks follow each other."""
    s = algorithm.schedule(target=SM_80)
    s["c"].split("y", 32).split("yi", 16).split("yii", 8).split("x", 8).split("xi", 8).split("xii", 2).split("r", 16)
    s["c"].reorder("yo", "xo", "yio", "ro", "yiii", "xiio", "ri", "yiio", "xio", "xiii")
    s["c"].bind("yo", "block.z").bind("xo", "block.y").bind("yio", "block.x").bind("yiii", "thread.y")
    s["c"].bind("xiio", "thread.x").unroll("yiio").unroll("xio").unroll("xiii").tensorize("ri")
    return with_copies(algorithm, s)


def with_copies(algorithm: Any, s: Any, buffers: int = 1) -> Any:
    """The schedule, in which what a block reads of both factors goes through shared memory."""
    c = s["c"]
    names = ("ra", "rb") if algorithm.trace().parameters[0].dtype is rd.f32 else ("a", "b")
    for array in names:
        c.cache(array, "c", "ro", scope="shared")
        s[f"{array}_copy"].store(pad=8, **({"buffers": buffers} if buffers > 1 else {}))
    return s


CASES = {
    "several tiles": ("f16", "plain", (2, 32, 16, 32)),
    "two steps ahead": ("bf16", "plain", (2, 32, 16, 32, True, 3)),
    "rows contiguous": ("bf16", "left transposed", (1, 16, 8, 16)),
    "columns apart": ("f16", "right transposed", (1, 16, 16, 16)),
    "not copied": ("bf16", "both transposed", (1, 16, 8, 16, False)),
    "by default": ("f16", "plain", ()),
    "in groups": ("f16", "plain", None),
    "of tf32": ("tf32", "plain", (2, 32, 16, 32)),
    "of tf32, rows contiguous": ("tf32", "left transposed", (1, 16, 8, 16)),
    "of tf32, columns apart": ("tf32", "right transposed", (1, 16, 16, 16)),
    "of tf32, not copied": ("tf32", "both transposed", (1, 16, 8, 16, False)),
    "of tf32, by default": ("tf32", "plain", ()),
}


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[str, Any]]:
    with twin_compiler(load_driver()) as compiler:
        made = {}
        for name, (dtype, layout, tile) in CASES.items():
            algorithm = product(dtype, layout)
            schedule = in_groups(algorithm) if tile is None else tiled(algorithm, *tile) if tile else None
            made[name] = executable_of(CudaCompilation(algorithm.trace(), SM_80, schedule, {}))
        compiler.build()
        yield made
    open_device().close()


def random_factors(algorithm: rd.Algorithm, layout: str, sizes: tuple[int, int, int]) -> Iterator[np.ndarray]:
    """Random factors of a product of n × k and k × m numbers, in a layout, for `sizes` n, m and k."""
    extents = dict(zip("nmk", sizes, strict=True))
    random = np.random.default_rng(sum(sizes))
    for names, parameter in zip(FACTORS[layout], algorithm.trace().parameters, strict=True):
        yield random.standard_normal([extents[each] for each in names.split()]).astype(parameter.dtype.numpy)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sizes", [(64, 48, 64), (70, 25, 59), (131, 72, 66)])
def test_matrix_units_make_the_product(executables: dict[str, Any], case: str, sizes: tuple[int, int, int]) -> None:
    dtype, layout, _ = CASES[case]
    algorithm = product(dtype, layout)
    a, b = random_factors(algorithm, layout, sizes)
    exe = executables[case]
    assert f"raido_matrix_multiply_{dtype}(" in exe.source("cuda").split('extern "C"', 1)[1]
    np.testing.assert_array_equal(exe(a, b), algorithm.interpret(a, b))


def test_tiles_at_edges_are_moved_back_and_made_by_matrix_units() -> None:
    """But for those of results that are no tile long, or wide; what two tiles have is stored by one. So is what the end of a sum cuts off: as
    far as there are 16 steps, and what is left."""
    nest = CudaCompilation(product("f16", "plain").trace(), SM_80, None, {}).nest
    assert [s.kind for s in statements_within(nest.body) if isinstance(s, For)].count("matrix") == 3 * 2
    assert " and yio <= " in (text := print_nest(nest)) and "y = min(n - 128, yio)" in text
    code = CudaCompilation(product("f16", "plain").trace(), SM_80, None, {}).text.body
    narrow = code.split("raido_narrow_", 1)[1].split('extern "C"', 1)[0]
    moved = narrow[narrow.index("raido_minimum(raido_add(n") :]
    assert moved.count("raido_copy<16>") >= 2, "columns, too, where rows are multiples"


@pytest.mark.parametrize("steps", [1, 7, 8, 9, 15, 17, 24, 31, 33])
@pytest.mark.parametrize(
    "case", ["by default", "rows contiguous", "not copied", "of tf32, by default", "of tf32, not copied"]
)
def test_what_is_left_of_a_sum_is_made_by_matrix_units(executables: dict[str, Any], case: str, steps: int) -> None:
    """Shared memory behind the steps that there are is what it was, and not a number in the first of these results."""
    dtype, layout, _ = CASES[case]
    algorithm = product(dtype, layout)
    a, b = random_factors(algorithm, layout, (128, 64, steps))
    np.testing.assert_array_equal(executables[case](a, b), algorithm.interpret(a, b))


def test_no_step_of_a_whole_tile_is_summed_alone() -> None:
    """Whatever the length of the sum is; results that are shorter or narrower than a tile have a loop of their own."""
    nest = CudaCompilation(product("f16", "plain").trace(), SM_80, None, {}).nest
    loops = [s for s in statements_within(nest.body) if isinstance(s, For) and (s.stage, s.loop) == ("c", "ri")]
    assert [s.kind for s in loops] == [*["matrix"] * 6, "serial"]


@pytest.mark.parametrize("sizes", [(37, 21, 18), (16, 8, 16), (40, 5, 16), (9, 30, 33)])
def test_no_two_blocks_store_an_element(sizes: tuple[int, int, int]) -> None:
    """Memory that finds races is stored to by all of them, in some order."""
    algorithm = product("f16", "plain")
    nest = CudaCompilation(algorithm.trace(), SM_80, tiled(algorithm, 1, 16, 8, 16), {}).nest
    n, m, k = sizes
    random = np.random.default_rng(sum(sizes))
    arrays = [random.standard_normal(shape).astype("f2") for shape in ((n, k), (k, m))]
    assert SM_80.machine.gpu is not None
    program = outline_kernels(nest, limits_of(SM_80.machine.gpu))
    (got,) = interpret_program(program, arrays, sizes_of(nest, arrays, {}), seed=1)
    np.testing.assert_array_equal(got, algorithm.interpret(*arrays))


def by_default(sizes: dict[str, int], dtype: str = "f16") -> CudaCompilation:
    return CudaCompilation(product(dtype, "plain").trace(), SM_80, None, sizes)


def test_default_schedules_say_it_where_the_device_has_the_instruction() -> None:
    algorithm = product("bf16", "plain")
    assert '.tensorize("ri")' in str(algorithm.schedule(target=SM_80).complete())
    for target in ("cuda:sm_75", "vulkan:any", "llvm"):
        assert "tensorize" not in str(algorithm.schedule(target=target).complete())


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_machine_code_has_the_instruction_and_no_spills(architecture: str) -> None:
    """A block of 32 × 16 results in two tiles of rows: 2 × 2 instructions for each 16 of 32 steps, and loads of 16 × 16 elements. What goes
    to shared memory moves 16 bytes at once."""
    text = by_default({"n": 64, "k": 64, "m": 16}).text
    try:
        made = compile_source(text.text, architecture)
    except TargetError as error:
        pytest.skip(str(error))
    planned = {kernel.name: kernel.shared_bytes for kernel in text.kernels}
    for name, used in made.resources.items():
        assert not list(faults_of(used, planned[name.removeprefix("raido_narrow_")], indexed_arrays=False)), name
    if (nvdisasm := shutil.which("nvdisasm")) is not None:
        for kernel, counted in count_instructions(made.code, nvdisasm).items():
            products = counted["HMMA.16816.F32"]
            assert products and products % (2 * 2 * 2) == 0
            assert sum(n for name, n in counted.items() if name.startswith("LDSM.16")) * 2 * 2 == products * (2 + 1)
            narrow = ("STS",) if kernel.startswith(NARROW) else ()
            moved = {name for name in counted if name.startswith(("LDG.", "LDGSTS", *narrow))}
            assert moved and all("128" in name for name in moved)


def test_sums_in_half_of_the_registers_are_not_spilled_for_more_blocks() -> None:
    """Of blocks whose shared memory a launch gives, the compiler is told how many a processor is to hold: here memory is there for four,
    and registers for two, with 128 sums a thread."""
    algorithm = product("f16", "plain")
    text = CudaCompilation(algorithm.trace(), SM_80, tiled(algorithm, 4, 32, 128, 32, buffers=3).complete(), {}).text
    assert text.text.count("__launch_bounds__(128, 2)") == 2
    try:
        resources = compile_source(text.text, "sm_80").resources
    except TargetError as error:
        pytest.skip(str(error))
    assert all(used.spill_bytes == used.local_bytes == 0 for used in resources.values())


def test_factors_in_tf32_are_those_that_the_program_rounds() -> None:
    """Whatever its stages are called, and through copies; a schedule rounds nothing."""

    @rd.algorithm(a="f32[n, k]", b="f32[k, m]")
    def scaled(a: rd.Array, b: rd.Array) -> rd.Array:
        return rd.matmul(rd.round_to_tf32(a * 2), rd.round_to_tf32(rd.sqrt(b)), name="c")

    @rd.algorithm(a="f32[n, k]", b="f32[k, m]")
    def half(a: rd.Array, b: rd.Array) -> rd.Array:
        return rd.matmul(rd.round_to_tf32(a), b, name="c")

    for algorithm, tensorized in ((scaled, True), (half, False), (product("tf32", "plain"), True)):
        complete = str(algorithm.schedule(target=SM_80).complete())
        assert ('.tensorize("ri")' in complete) == tensorized
        assert "tensorize" not in str(algorithm.schedule(target="cuda:sm_75").complete())


def test_machine_code_of_tf32_loads_words_of_rows_side_by_side() -> None:
    """Rows of the left factor by `ldmatrix`; of the right one, whose neighbours are columns, words from different banks."""
    text = by_default({"n": 64, "k": 64, "m": 16}, "tf32").text
    try:
        made = compile_source(text.text, "sm_90")
    except TargetError as error:
        pytest.skip(str(error))
    if (nvdisasm := shutil.which("nvdisasm")) is not None:
        counted = next(c for name, c in count_instructions(made.code, nvdisasm).items() if "HMMA.1688.F32.TF32" in c)
        products = counted["HMMA.1688.F32.TF32"]
        assert products % (2 * 2 * 2) == 0
        assert sum(n for name, n in counted.items() if name.startswith("LDSM.16")) * 2 == products
    narrow = text.body.split(f"{NARROW}c_", 1)[1].split('extern "C"', 1)[0]
    assert narrow.count("raido_bits_u32(") == narrow.count("raido_matrix_multiply_tf32(") == 2 * 2 * 2


@pytest.mark.parametrize("dtype", ["bf16", "tf32"])
def test_older_devices_make_the_same_products_by_shuffles(dtype: str) -> None:
    """In exported libraries, which have code for every architecture."""
    sizes = {"n": 16, "k": 16, "m": 8}
    text, random = by_default(sizes, dtype).text, np.random.default_rng(7)
    (kernel,) = (each for each in text.kernels if each.name.startswith("c"))
    algorithm = product(dtype, "plain")
    numbers = algorithm.trace().parameters[0].dtype.numpy
    a, b = random.standard_normal((16, 16)).astype(numbers), random.standard_normal((16, 8)).astype(numbers)
    if dtype == "tf32":
        round_ = rd.algorithm(lambda x: rd.round_to_tf32(x))
        a, b = round_.interpret(a), round_.interpret(b)
    out = np.zeros((16, 8), np.float32)
    assert [argument.pointer for argument in kernel.arguments] == [True] * 3
    Twin(text, "RAIDO_BY_SHUFFLES").launch(kernel.name, (1, 1, 1), [a, b, out])
    np.testing.assert_array_equal(out, algorithm.interpret(a, b))
    try:
        assert compile_source(text.text, "sm_75").code
    except TargetError as error:
        pytest.skip(str(error))
