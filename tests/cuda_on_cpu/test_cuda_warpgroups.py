"""Products of matrices by warpgroups (`wgmma`): 128 threads together, of factors in shared memory given by descriptors."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_twin import Twin
from fake_driver import load_driver
from kernel_shapes import count_instructions, faults_of
from test_cuda_matrices import product, random_factors
from twin_compiler import twin_compiler

import raido as rd
from raido.algo.errors import ScheduleError, TargetError
from raido.schedule.nest.nodes import For
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import statements_within
from raido.targets.compile import executable_of
from raido.targets.cuda import export as cuda_export
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.source.generate import NARROW, Source
from raido.targets.target import Target

SM_90A = Target("cuda", arch="sm_90a")


def in_warpgroups(
    algorithm: Any, blocks: str, warpgroups: int, columns: int, steps: int, buffers: int = 1, target: Any = SM_90A
) -> Any:
    """A tile of 64 rows for each warpgroup of a block, one below the other. `blocks` are the axes along which elements of the copies of both
    factors lie side by side: "rx" are steps of the left one, columns of the right one."""
    s = algorithm.schedule(target=target)
    c = s["c"].split("y", 64 * warpgroups).split("yi", 16).split("yii", 8)
    c.split("x", columns).split("xi", 8).split("xii", 2).split("r", steps)
    c.reorder("yo", "xo", "ro", "yio", "yiii", "xiio", "ri", "yiio", "xio", "xiii")
    c.bind("yo", "block.y").bind("xo", "block.x")
    c.bind("yio", "thread.z").bind("yiii", "thread.y").bind("xiio", "thread.x")
    c.unroll("yiio").unroll("xio").unroll("xiii")
    words = algorithm.trace().parameters[0].dtype is rd.f32
    for array, inner, others in zip(("ra", "rb") if words else ("a", "b"), blocks, ("yr", "xr"), strict=True):
        outer = others.replace(inner, "")
        c.cache(array, "c", "ro", scope="shared")
        copy = s[f"{array}_copy"].split(inner, 4 if words else 8)
        copy.store(layout=(f"{inner}o", outer, f"{inner}i"), buffers=buffers if buffers > 1 else None)
        deal_out(copy, warpgroups, wide=copy.axes[-1] == f"{inner}i")
    c.tensorize("ri", threads=128)
    return s


def deal_out(copy: Any, warpgroups: int, wide: bool) -> None:
    """Deals the loops of a copy out to the threads of so many warpgroups, 16 bytes at once where neighbours lie side by side on both sides."""
    outer, inner, last = copy.axes
    (all_of_it, *_) = copy.fuse(outer, inner).axes
    copy.split(all_of_it, 128 * warpgroups).split(f"{all_of_it}i", 32).split(f"{all_of_it}ii", 4)
    copy.reorder(f"{all_of_it}io", f"{all_of_it}iio", f"{all_of_it}iii", f"{all_of_it}o")
    copy.bind(f"{all_of_it}io", "thread.z").bind(f"{all_of_it}iio", "thread.y").bind(f"{all_of_it}iii", "thread.x")
    if wide:
        copy.vectorize(last)


CASES = {
    "several tiles": ("f16", "plain", ("rx", 1, 32, 32)),
    "two warpgroups, steps ahead": ("bf16", "plain", ("rx", 2, 16, 16, 3)),
    "rows side by side": ("bf16", "left transposed", ("yx", 1, 8, 16)),
    "steps side by side": ("f16", "right transposed", ("rr", 1, 24, 32, 2)),
    "steps side by side in the copy": ("f16", "plain", ("rr", 1, 16, 16)),
    "of tf32": ("tf32", "plain", ("rr", 1, 16, 32)),
    "of tf32, transposed": ("tf32", "both transposed", ("rr", 1, 8, 16, 2)),
}


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[str, Any]]:
    with twin_compiler(load_driver()) as compiler:
        made = {}
        for name, (dtype, layout, tile) in CASES.items():
            algorithm = product(dtype, layout)
            made[name] = executable_of(CudaCompilation(algorithm.trace(), SM_90A, in_warpgroups(algorithm, *tile), {}))
        compiler.build()
        yield made
    open_device().close()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sizes", [(128, 48, 64), (70, 25, 59), (131, 72, 33), (64, 32, 7)])
def test_warpgroups_make_the_product(executables: dict[str, Any], case: str, sizes: tuple[int, int, int]) -> None:
    """With the bits of products that are added one by one: tiles at edges, last steps, and results that are shorter than a tile, too."""
    dtype, layout, _ = CASES[case]
    algorithm = product(dtype, layout)
    a, b = random_factors(algorithm, layout, sizes)
    exe = executables[case]
    assert f"raido_warpgroup_multiply_{dtype}_" in exe.source("cuda").split('extern "C"', 1)[1]
    np.testing.assert_array_equal(exe(a, b), algorithm.interpret(a, b))


def one_tile() -> Source:
    """Kernels of a product of 64 × 32 and 32 × 16."""
    algorithm, sizes = product("f16", "plain"), {"n": 64, "k": 32, "m": 16}
    return CudaCompilation(algorithm.trace(), SM_90A, in_warpgroups(algorithm, "rx", 1, 16, 16), sizes).text


def product_of(text: Source) -> tuple[np.ndarray, np.ndarray]:
    """The product that a text makes, on the CPU, and the right one."""
    random = np.random.default_rng(3)
    a, b = random.standard_normal((64, 32)).astype("f2"), random.standard_normal((32, 16)).astype("f2")
    (kernel,) = (each for each in text.kernels if each.name.startswith("c"))
    out = np.zeros((64, 16), np.float32)
    Twin(text).launch(kernel.name, (1, 1, 1), [a, b, out])
    return out, product("f16", "plain").interpret(a, b)


DAMAGE = {
    "no fence": (r"raido_warpgroup_fence\(\);", ""),
    "no commit": (r"raido_warpgroup_commit\(\);", ""),
    "no wait": (r"raido_warpgroup_await\(\);", ""),
    "writes that are not shown": (r"raido_barrier_of_warpgroups\(\);", "__syncthreads();"),
    "blocks along the steps elsewhere": (r"(descriptor\(&a\w*\[.*?\], )(\d+), (\d+)\)", r"\g<1>\g<3>, \g<3>)"),
    "blocks along the lines elsewhere": (r"(descriptor\(&b\w*\[.*?\], )(\d+), (\d+)\)", r"\g<1>\g<2>, \g<2>)"),
    "another layout": ("sum_f16<0, 1>", "sum_f16<0, 0>"),
}


def test_a_tile_is_right() -> None:
    got, wanted = product_of(one_tile())
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_missing_or_wrong_is_seen(damage: str) -> None:
    text = one_tile()
    changed = re.sub(*DAMAGE[damage], text.body)
    assert changed != text.body
    got, wanted = product_of(replace(text, body=changed))
    assert not np.array_equal(got, wanted)


def test_a_nest_says_how_many_threads_multiply() -> None:
    algorithm = product("f16", "plain")
    nest = CudaCompilation(algorithm.trace(), SM_90A, in_warpgroups(algorithm, "rx", 1, 16, 16), {}).nest
    loops = [s for s in statements_within(nest.body) if isinstance(s, For) and s.kind == "matrix"]
    assert loops and all(s.threads == 128 for s in loops)
    assert "by matrix of 128 threads" in print_nest(nest)
    assert '.tensorize("ri", threads=128)' in str(in_warpgroups(algorithm, "rx", 1, 16, 16).complete())


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100", "cuda:sm_80"])
def test_other_architectures_refuse_it(target: str) -> None:
    with pytest.raises(ScheduleError, match=r'sm_90a alone has it\n(.*\n)*.*schedule\(target="cuda:sm_90a"\)'):
        in_warpgroups(product("f16", "plain"), "rx", 1, 16, 16, target=target)


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_90a"])
def test_no_default_schedule_says_it(target: str) -> None:
    complete = str(product("bf16", "plain").schedule(target=target).complete())
    assert '.tensorize("ri")' in complete and "threads=128" not in complete


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32"])
def test_machine_code_has_the_instruction_and_no_spills(dtype: str) -> None:
    """Of 64 steps in each iteration of two warpgroups: 4 instructions (8 of tf32). Copies of neighbours move 16 bytes at once."""
    algorithm, sizes = product(dtype, "plain"), {"n": 256, "k": 256, "m": 256}
    schedule = in_warpgroups(algorithm, "rr" if dtype == "tf32" else "rx", 2, 128, 64, 2)
    text = CudaCompilation(algorithm.trace(), SM_90A, schedule, sizes).text
    try:
        made = compile_source(text.text, "sm_90a")
    except TargetError as error:
        pytest.skip(str(error))
    planned = {kernel.name: kernel.shared_bytes for kernel in text.kernels}
    for name, used in made.resources.items():
        assert not list(faults_of(used, planned[name.removeprefix(NARROW)], indexed_arrays=False)), name
    if (nvdisasm := shutil.which("nvdisasm")) is not None:
        counted = count_instructions(made.code, nvdisasm)
        for each in (counted[name] for name in counted if name.removeprefix(NARROW).startswith("c")):
            assert sum(n for name, n in each.items() if name.startswith("HGMMA.")) == (8 if dtype == "tf32" else 4)
            moved = {name for name in each if name.startswith("LDGSTS")}
            assert moved and all("128" in name for name in moved) == (dtype != "tf32")


def test_exported_libraries_have_code_of_their_own_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside that for every architecture, whose threads make their sums one by one."""
    algorithm, compiled = product("f16", "plain"), list[str]()
    work = CudaCompilation(
        algorithm.trace(), SM_90A, in_warpgroups(algorithm, "rx", 1, 16, 16), {"n": 64, "k": 32, "m": 16}
    )

    def compile_one(text: str, architecture: str) -> Any:
        compiled.append(architecture)
        return compile_source(text, architecture)

    monkeypatch.setattr(cuda_export, "compile_source", compile_one)
    try:
        cuda_export.part_for(None).prepare(work.code)
    except rd.ExportError as error:
        pytest.skip(str(error))
    assert compiled == [*cuda_export.ARCHITECTURES, "sm_90a"]
    other = CudaCompilation(algorithm.trace(), SM_90A, None, {"n": 64, "k": 32, "m": 16})
    compiled.clear()
    cuda_export.part_for(None).prepare(other.code)
    assert compiled == list(cuda_export.ARCHITECTURES)
