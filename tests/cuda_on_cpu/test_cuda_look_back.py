"""Chains on CUDA: concurrent blocks use decoupled look-back, and give the bits of sequential blocks, in any order of arrival."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from twin_compiler import executables_of

import raido as rd
from raido.algo.errors import TargetError
from raido.schedule.oracles.interpret import interpret_nest
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.program import CudaCompilation
from raido.targets.target import Target

SM_80 = Target("cuda", arch="sm_80")


@rd.algorithm(a="f32[n]")
def sums(a: rd.Array) -> rd.Array:
    return rd.scan(rd.add, 0.25, a, name="s")


@rd.algorithm(a="f64[n]")
def products(a: rd.Array) -> rd.Array:
    return rd.scan(rd.add, 0, a, exclusive=True, name="s")


@rd.algorithm(a="i64[n]", b="i64[n]")
def recurrence(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1, 0), a, b, name="s")[1]


@rd.algorithm(a="u8[n]")
def lowest(a: rd.Array) -> rd.Array:
    return rd.scan(rd.minimum, 200, a, name="s")


@rd.algorithm(a="f32[n]")
def kept(a: rd.Array) -> rd.Array:
    return rd.filter(lambda x: x > 3, a, name="s")


PROGRAMS = {"sums": sums, "products": products, "recurrence": recurrence, "lowest": lowest, "kept": kept}
BLOCKS = {"default": 0, "4": 4, "96": 96, "in phases": 64}
IN_FLIGHT = 8


def compilation_of(name: str, block: int) -> CudaCompilation:
    """The program by default, or in so small blocks that few threads have a piece each: they look at few others at a time."""
    schedule = PROGRAMS[name].schedule(target=SM_80)
    if block == BLOCKS["in phases"]:
        phases = ("three_phase", {}) if name != "kept" else ("count_write", {"staged": True})
        schedule["s"].strategy(phases[0], block=block, **phases[1]).split("xi", 8)
        schedule["s"].bind("xo", "block.x").bind("xio", "thread.x", subgroup=8).vectorize("xii")
    elif block:
        schedule["s"].strategy("chain", block=block).split("xi", max(2, block // 8))
        schedule["s"].bind("xo", "block.x").bind("xio", "thread.x")
    return CudaCompilation(PROGRAMS[name].trace(), SM_80, schedule.complete(), {})


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[tuple[str, str], Any]]:
    with executables_of(
        {(name, b): partial(compilation_of, name, BLOCKS[b]) for name in PROGRAMS for b in BLOCKS}, IN_FLIGHT
    ) as made:
        yield made


def inputs(name: str, n: int) -> list[np.ndarray]:
    draw = np.random.default_rng(n)
    return [draw.integers(-2, 9, n).astype(p.dtype.numpy) for p in PROGRAMS[name].trace().parameters]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("n", [0, 1, 7, 97, 1500, 9001])
def test_a_chain_gives_what_the_program_says(executables: Any, name: str, block: str, n: int) -> None:
    arrays = inputs(name, n)
    code = executables[name, block].source("cuda").split('extern "C"', 1)[1]
    waits = "raido_await(" if name in ("products", "recurrence") else "raido_await_alone("
    assert (waits in code) != (block == "in phases")
    for _ in range(3):
        np.testing.assert_array_equal(executables[name, block](*arrays), PROGRAMS[name].interpret(*arrays))


@pytest.mark.parametrize("block", ["4", "96"])
def test_sums_of_floats_have_the_same_bits_whoever_comes_first(executables: Any, block: str) -> None:
    a = np.random.default_rng(1).random(3000, "float32")
    nest = compilation_of("sums", BLOCKS[block]).nest
    (want,) = interpret_nest(nest, [a], {"n": len(a)})
    for _ in range(8):
        np.testing.assert_array_equal(executables["sums", block](a).view("u4"), want.view("u4"))


@pytest.mark.parametrize(("name", "alone"), [("sums", True), ("products", False), ("kept", True)])
def test_what_blocks_hand_on_is_released_and_acquired_unless_it_is_one_word(name: str, alone: bool) -> None:
    source = compilation_of(name, 0).text
    try:
        ptx = compile_source(source.text, "compute_75").code.decode()
    except TargetError as error:
        pytest.skip(str(error))
    assert "ld.relaxed.gpu.s64" in ptx and ("st.relaxed.gpu.s64" in ptx) == alone
    for instruction in ("st.release.gpu.s64", "fence.acq_rel.gpu"):
        assert (instruction in ptx) != alone
    (head,) = (line for line in source.body.splitlines() if "raido_narrow_s_xo_2(" in line)
    assert ("totals_" in head) != alone
    assert [word for word in ("state", "before", "totals", "a", "out") if f"__restrict__ {word}_" in head] == ["a"]


def test_a_whole_block_waits_three_times() -> None:
    """For its number, for what its subgroups come to, and for what came before it: as by hand (`benchmarks/peers/cuda/scan.cu`)."""
    body = compilation_of("sums", 0).text.body
    kernel = body[body.index("raido_narrow_s_xo_2(") :].split('extern "C"')[0]
    assert kernel.count("__syncthreads();") == 1 + 2 + 2  # and the last block's own


def test_pieces_move_sixteen_bytes_at_once_where_they_are_whole() -> None:
    """Pieces of scans, and of filters, whose kept elements go through shared memory: branches of loops over registers are written out."""
    for name, part in (("sums", "totals"), ("kept", "count")):
        text = compilation_of(name, 0).text.body
        assert f'.part("{part}").vectorize("xi")' in str(PROGRAMS[name].schedule(target=SM_80).complete())
        assert "raido_load<f32, 4>(&a_" in text and ("raido_store(&out_" in text) == (name == "sums")
        held = re.findall(r"a_copy_\d+\[([^\]]*)\]", text)
        assert len(held) > 48 and all(re.fullmatch(r"\d+(ll)?", index) for index in held), "registers have no addresses"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_chains_are_compiled_without_local_memory(name: str, architecture: str) -> None:
    target = Target("cuda", arch=architecture)
    try:
        code = compile_source(CudaCompilation(PROGRAMS[name].trace(), target, None, {}).text.text, architecture)
    except TargetError as error:
        pytest.skip(str(error))
    assert all(found.local_bytes == found.spill_bytes == 0 for found in code.resources.values())
