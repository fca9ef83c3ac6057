"""The tuner on a GPU: a job of `rd.autotune` over a space whose candidates have all been compiled before, with its record.

Without TVM nothing can be compiled, so the space is a schedule with a few holes, and `pool_of` compiles all of its candidates. The job
is the tuner's own: its search proposes, its database keeps, its finalists are compared in turns; only the measurer is in this file.
"""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from gpu_code import portable
from gpu_sides import Results, by_raido
from gpu_steps import in_a_line
from rows.gpu import GPU_ROWS, GpuRow

import raido as rd
from raido.algo.errors import RaidoError
from raido.autotune.jobs.guides import make_guide
from raido.autotune.jobs.job import Budget, Job
from raido.autotune.measure.inputs import made_up_inputs
from raido.autotune.measure.local import Request, Task
from raido.autotune.measure.measurement import Measurement
from raido.autotune.records.database import Database
from raido.autotune.space import Candidate, Space
from raido.schedule.schedule import Schedule
from raido.targets.compile import compilation_for, executable_of
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.devices.executable import DeviceExecutable
from raido.targets.target import Target

TRIALS, RUNS = 16, 5
OPTIONS = {"rows": [4, 8, 16, 32], "own": [1, 2, 4], "columns": [32, 64, 128]}
"""Of the tiles of a block: rows, those of a column that a thread has, and columns."""


def tiles_of_a_plane(algorithm: rd.Algorithm, target: Target) -> Schedule:
    """Tiles of a block."""
    s, rows, own, columns = (
        algorithm.schedule(target=target),
        *(rd.choose(name, some) for name, some in OPTIONS.items()),
    )
    s["out"].split("y", rows).split("yi", own).split("x", columns).reorder("yo", "xo", "yio", "xi", "yii")
    s["out"].bind("yo", "block.y").bind("xo", "block.x").bind("yio", "thread.y").bind("xi", "thread.x").unroll("yii")
    return s


TUNED: dict[str, Callable[[rd.Algorithm, Target], Schedule]] = {
    "jacobi2d_5": tiles_of_a_plane,
    "jacobi2d_9": tiles_of_a_plane,
}
"""The programs that are tuned, by their rows, each with its space."""


@dataclass(frozen=True)
class Pool:
    """The candidates of a space by their keys, with the architecture that they are compiled for."""

    architecture: str
    codes: dict[str, DeviceExecutable]


def space_of(name: str, target: Target, sizes: Mapping[str, int]) -> tuple[Space, Candidate]:
    """The space of a row, and its default schedule."""
    algorithm = GPU_ROWS[name].row.algorithm
    space = Space(TUNED[name](algorithm, target), target.machine, sizes)
    return space, Space(algorithm.schedule(target=target), target.machine, sizes).default()


def pool_of(name: str, target: Target) -> Pool:
    """All candidates of a row's space that a device can have, and its default schedule."""
    row = GPU_ROWS[name].row
    space, default = space_of(name, target, row.sizes(row.inputs(1)))
    codes: dict[str, DeviceExecutable] = {}
    for candidate in (default, *space.grid()):
        with contextlib.suppress(RaidoError):
            work = CudaCompilation(row.algorithm.trace(), target, candidate.schedule, {})
            codes[candidate.key] = portable(executable_of(work))
    return Pool(target.arch, codes)


class PoolMeasurer:
    """Measures candidates whose code is there, on arrays of the row."""

    def __init__(self, row: GpuRow, pool: Pool, device: CudaDevice, scale: int) -> None:
        inputs = row.row.inputs(scale)
        self.row, self.pool, self.want = row, pool, row.row.answers(inputs)
        self.there = [rd.device_array(array, device.target) for array in inputs]

    def measure(
        self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
    ) -> Iterator[Measurement]:
        for request in requests:
            yield self._measured(request.key)

    def compare(self, requests: Sequence[Request]) -> list[Measurement]:
        return [self._measured(request.key) for request in requests]

    def features(self, requests: Sequence[Request]) -> Mapping[str, Sequence[float]]:
        return {}

    def close(self) -> None:
        self.there = []

    def _measured(self, key: str) -> Measurement:
        if key not in self.pool.codes:
            return Measurement(key, failure="compile", detail="no device has it")
        try:
            clock = functools.partial(by_raido, key, self.pool.codes[key], self.row, self.there, self.want)()
            return Measurement(key, tuple(clock(1) for _ in range(RUNS)))
        except (Exception, SystemExit) as error:  # one candidate that fails is one of the record
            return Measurement(key, failure="run", detail=in_a_line(error))


def tune(name: str, pool: Pool, device: CudaDevice, scale: int) -> Results:
    """The record of a job: every trial, and the finalists' times."""
    row, target = GPU_ROWS[name], Target("cuda", arch=pool.architecture)
    program = row.row.algorithm.trace()
    sizes = row.row.sizes(row.row.inputs(1))
    space, default = space_of(name, target, sizes)
    signature = compilation_for(program, target, None, {}).signature
    inputs = made_up_inputs(program, signature, sizes)
    task = Task(program, target, inputs, default.schedule.to_json())
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder) / "tuning.db") as database:
        job = Job(
            *(task, space, default, f"gpu benchmark {name}", {"name": name}, database, Budget(TRIALS)),
            lambda: make_guide("model", space, 0),
            lambda: PoolMeasurer(row, pool, device, scale),
            {"raido": rd.__version__},
        )
        tuning = job.run()
        records = [asdict(record) for record in tuning.records]
    best = tuning.record
    own = next(each.best for each in tuning.records if each.kind == "default")
    return {
        "candidates": len(pool.codes),
        "records": [{k: v for k, v in each.items() if k in KEPT} for each in records],
        "best": str(tuning.best),
        "best / default": None if best.best is None or own is None else float(np.float64(best.best) / own),
    }


KEPT = ("number", "kind", "key", "schedule", "seconds", "failure", "detail", "features", "predicted", "at")
"""The columns of a record that are kept with the results."""
