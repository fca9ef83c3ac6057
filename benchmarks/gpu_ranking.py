"""Candidates of the tuner measured on a GPU: how well a model trained on half of them ranks the other half.

The shipped cost model knows CPUs alone, so on a GPU a search is led by its own measurements (`autotune/jobs/guides.py`). Measurements
here are kept with their features and schedules, to train a model of GPUs.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from gpu_code import portable
from gpu_sides import Results, by_raido, ready
from rows.gpu import GPU_ROWS, GpuRow

import raido as rd
from raido.algo.errors import RaidoError
from raido.autotune.features import features_of
from raido.autotune.jobs.tuning import spearman
from raido.autotune.model import CostModel
from raido.autotune.space import Candidate, Space
from raido.schedule.lower import lower
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.compile import executable_of
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.devices.executable import DeviceExecutable
from raido.targets.target import Target

RANKED = ("jacobi2d_5", "columns_1e4", "sgemm_1024", "black_scholes")
CANDIDATES = 16
RUNS = 3  # of each, the least of whose times counts
TRIES = 8  # draws for each candidate: many are alike, or are refused


@dataclass(frozen=True)
class Ranked:
    """A candidate: its schedule as JSON, its features and its code."""

    schedule: str
    features: tuple[float, ...]
    executable: DeviceExecutable


def candidates_of(name: str, target: Target) -> list[Ranked]:
    """The default schedule of a row, and other candidates: half drawn at random, half with another decision for one of its choices."""
    row = GPU_ROWS[name].row
    program = row.algorithm.trace()
    space = Space(Schedule(form_stages(program), (), target), target.machine, row.sizes(row.inputs(1)))
    rng, default = random.Random(0), space.spell_out(space.default())
    found: dict[str, Ranked] = {}
    for number in range(CANDIDATES * TRIES):
        drawn = default if number == 0 else space.sample(rng) if number % 2 else space.mutate(default, rng)
        if drawn.key not in found and (made := _ranked(drawn, program, target, space)) is not None:
            found[drawn.key] = made
        if len(found) == CANDIDATES:
            break
    return list(found.values())


def _ranked(candidate: Candidate, program: Any, target: Target, space: Space) -> Ranked | None:
    """A candidate with its code, None where the device cannot have it."""
    try:
        schedule = candidate.schedule
        nest = lower(schedule.graph, schedule.variants())
        features = tuple(features_of(nest, space.machine, space.sizes).tolist())
        code = portable(executable_of(CudaCompilation(program, target, schedule, {})))
        return Ranked(schedule.to_json(), features, code)
    except RaidoError:
        return None


def rank(row: GpuRow, candidates: list[Ranked], device: CudaDevice, scale: int) -> Results:
    """Seconds of the candidates; the rank correlation of what was measured of one half with what a model says that has learned the other."""
    inputs = row.row.inputs(scale)
    want = row.row.answers(inputs)
    there = [rd.device_array(array, device.target) for array in inputs]
    measured: list[tuple[Ranked, float]] = []
    wrong: dict[str, str] = {}
    for number, each in enumerate(candidates):
        made = ready(functools.partial(by_raido, f"candidate {number}", each.executable, row, there, want))
        if isinstance(made, str):
            wrong[str(number)] = made
        else:
            again = [ready(lambda clock=made[0]: clock) for _ in range(RUNS)]
            seconds = [each[1] for each in again if not isinstance(each, str)]
            measured.append((each, min(made[1], *seconds)))
    return {
        "candidates": [{"schedule": c.schedule, "features": c.features, "seconds": s} for c, s in measured],
        "refused": wrong,
        "rank correlation": correlation(measured),
    }


def correlation(measured: list[tuple[Ranked, float]]) -> float:
    known, others = measured[::2], measured[1::2]
    if len(others) < 3:
        return 0.0
    table = lambda some: np.array([each.features for each, _ in some], np.float32)
    model = CostModel.of_no_machine()
    model.update(table(known), -np.log(np.array([seconds for _, seconds in known])))
    scores, _ = model.predict(table(others))
    return spearman([(float(score), -seconds) for score, (_, seconds) in zip(scores, others, strict=True)])
