"""Schedules for GPUs in the space, and jobs on a device."""

from __future__ import annotations

import random

import numpy as np
import pytest

import raido as rd
from raido.algo.errors import TargetError
from raido.autotune.features import FEATURES, features_of
from raido.autotune.space import Space
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule

MACHINE = Machine(task=1 << 10, gpu=Gpu())


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: p[0, -1] + p[0, 0] + p[0, 1], img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: p[-1, 0] + p[0, 0] + p[1, 0], rows, boundary="clamp", name="cols")


@rd.algorithm
def product(a: rd.i32["n", "k"], b: rd.i32["k", "m"]):
    return a @ b


@rd.algorithm
def planes(a: rd.i32["c", "h", "w"]):
    return rd.scan(rd.add, 0, (a * 2)[0, 0], name="sums"), a + 1


CASES = {
    "blur": (blur, {"h": 20, "w": 35}, [np.float32]),
    "product": (product, {"n": 19, "k": 5, "m": 33}, [np.int32] * 2),
    "planes": (planes, {"c": 3, "h": 9, "w": 17}, [np.int32]),
}


def space_of(algorithm, sizes) -> Space:
    return Space(Schedule(algorithm.schedule().graph, (), MACHINE), MACHINE, sizes)


@pytest.mark.parametrize("name", CASES)
def test_candidates_compute_the_same_and_are_dealt_out_to_threads(name: str) -> None:
    algorithm, sizes, dtypes = CASES[name]
    space, chance, draw = space_of(algorithm, sizes), random.Random(3), np.random.default_rng(0)
    arrays = [
        draw.integers(0, 9, [sizes[e.name] for e in parameter.shape]).astype(dtype)
        for parameter, dtype in zip(space.schedule.graph.program.parameters, dtypes, strict=True)
    ]
    want = algorithm(*arrays)
    bound = 0
    for _ in range(12):
        candidate = space.sample(chance)
        assert space.remake(dict(candidate.decisions)).key == candidate.key
        nest = check_nest(lower(candidate.schedule.graph, candidate.schedule.variants(), MACHINE), "scalar")
        found = interpret_nest(nest, arrays, sizes, seed=1)
        for got, expected in zip(found, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_array_equal(got, expected)
        assert len(features_of(nest, MACHINE, sizes)) == len(FEATURES)
        bound += any(
            directive.name == "bind" and ("place", "thread.x") in directive.args
            for directive in candidate.schedule.directives
        )
    assert bound == 12


def test_threads_and_elements_are_questions() -> None:
    names = {decision.name for decision in space_of(blur, {"h": 480, "w": 640}).decisions}
    assert {"cols: loops", "rows: place"} <= names
    space = space_of(blur, {"h": 480, "w": 640})
    made = space.remake({"cols: loops": "own", "cols: threads x": 16, "cols: elements x": 4, "cols: threads y": 2})
    assert made is not None and '.split("x", 64).split("xi", 16)' in str(made.schedule)
    assert made.schedule["cols"].axes == ("yo", "xo", "yi", "xii", "xio")


def test_a_job_on_a_device(tmp_path) -> None:
    try:
        target = rd.Target("vulkan", device="0")
    except TargetError as error:
        pytest.skip(f"{error}; apt-get install mesa-vulkan-drivers libvulkan1")
    sizes = {"h": 48, "w": 64}
    tuning = rd.autotune(blur, sizes, target=target, trials=3, db=tmp_path / "t.db", seed=1, protocol={"seconds": 0.05})
    assert len(tuning.history) == 4 and tuning.failures == {} and tuning.ended == "trials"
    assert str(tuning.tuned).startswith('s = blur.schedule(target="vulkan")')
    image = np.random.default_rng(0).random((48, 64), np.float32)
    for shape in ((48, 64), (5, 7)):
        part = np.ascontiguousarray(image[: shape[0], : shape[1]])
        np.testing.assert_array_equal(tuning.compile()(part), blur(part))
    longer = rd.autotune(blur, sizes, target=target, trials=5, db=tmp_path / "t.db", seed=1, protocol={"seconds": 0.05})
    assert [record.seconds for record in longer.history[:4]] == [record.seconds for record in tuning.history]
    assert len(longer.history) == 6  # it goes on from where the shorter job ended
    exe = blur.compile(target, db=tmp_path / "t.db", sizes=sizes)
    assert "measured as compiled for these sizes" in exe.source("record")
