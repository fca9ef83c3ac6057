"""TVM's MetaSchedule on the rows that it can run, with two threads, in a process of its own that is ended when its time is over.

`python -m tuners.metaschedule ROW FOLDER SIZES TRIALS` is that process. Its database is on disk, so that it can be resumed.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from peers.contestant import THREADS, Arena, Contestant

MINUTES, TRIALS = 20.0, 200
LIMIT = 120.0  # seconds for building, or running, one program
BATCH = 32  # programs that are proposed at a time: what is lost at the end of a go
TESTED = 3  # of its fastest programs that are measured again beside the others
ROWS = ("sum", "jacobi2d_5", "jacobi3d_7", "blur_u16", "gauss_separable", "sgemm_1024", "black_scholes")
HERE = Path(__file__).resolve().parent.parent
RECORDS = "database_tuning_record.json"


def tune(name: str, folder: Path, sizes: Mapping[str, int], before: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Goes on tuning for at most `seconds`, from where it stood `before`; "ended" is empty while there is more to do."""
    spent = before.get("seconds", 0.0)
    limit = min(seconds, MINUTES * 60 - spent)
    command = [sys.executable, "-m", "tuners.metaschedule", name, str(folder), json.dumps(sizes), str(TRIALS)]
    start, ended = time.monotonic(), ""
    with (folder / "metaschedule.txt").open("a") as log:
        process = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log)
        try:
            code = process.wait(limit)
            ended = f"exit {code}" if code else "exhausted"  # it may have no more to propose
        except subprocess.TimeoutExpired:
            process.kill()  # its builders and runners end where there is nothing more to read
            process.wait()
    spent += time.monotonic() - start
    trials = len((folder / RECORDS).read_text().splitlines()) if (folder / RECORDS).exists() else 0
    if trials >= TRIALS or spent >= MINUTES * 60 - 1:
        ended = "trials" if trials >= TRIALS else "minutes"
    return {"seconds": round(spent, 1), "trials": trials, "ended": ended}


def program(name: str, sizes: Sequence[int]) -> Any:
    """The row as a function of TIR."""
    from tvm import te

    from tuners.tensor_programs import TENSOR_PROGRAMS

    return te.create_prim_func(TENSOR_PROGRAMS[name](*sizes)).with_attr("tirx.noalias", True)


def target() -> Any:
    """This processor, as raido knows it."""
    from tvm.target import Target

    from raido.targets.target import host_cpu

    return Target({"kind": "llvm", "mcpu": host_cpu().name, "num-cores": THREADS})


def only_x86() -> None:
    """Imports the tensor intrinsics of x86 alone: those of GPUs take every builder 17 s to parse, of the 30 that it has for a program."""
    import tvm.s_tir

    package = "tvm.s_tir.tensor_intrin"
    if package not in sys.modules:
        module = ModuleType(package)
        module.__path__ = [str(Path(tvm.s_tir.__file__).parent / "tensor_intrin")]
        sys.modules[package] = module
        importlib.import_module(f"{package}.x86")


def contestants(arena: Arena, folder: Path) -> Iterator[Contestant]:
    """The fastest programs of the database by its own measurements, compiled here."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    only_x86()
    seconds = lambda record: sum(float(each) for each in record.run_secs) / len(record.run_secs)
    records = ms.database.JSONDatabase(work_dir=str(folder)).get_all_tuning_records()
    valid = sorted((record for record in records if record.run_secs), key=seconds)
    for rank, record in enumerate(valid[:TESTED]):
        schedule = tvm.s_tir.Schedule(record.workload.mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        built = tvm.compile(schedule.mod, target())
        arrays = [*arena.inputs, *arena.room]
        tensors = [tvm.runtime.from_dlpack(a if a.ndim else a.reshape(1)) for a in arrays]

        def call(built: Any = built, tensors: Any = tensors) -> None:
            built["main"](*tensors)

        def results(call: Any = call) -> Sequence[np.ndarray]:
            call()
            return arena.room

        yield Contestant("MetaSchedule", str(rank + 1), call, results)


def main(name: str, folder: str, text: str, trials: str) -> None:
    """Tunes until there are that many records."""
    from tvm.s_tir import meta_schedule as ms

    only_x86()
    records = Path(folder) / RECORDS
    done = len(records.read_text().splitlines()) if records.exists() else 0
    ms.tune_tir(
        program(name, list(json.loads(text).values())),
        target(),
        folder,
        int(trials) - done,
        builder=ms.builder.LocalBuilder(timeout_sec=LIMIT, initializer=only_x86),
        runner=ms.runner.LocalRunner(timeout_sec=LIMIT, initializer=only_x86),
        num_tuning_cores=THREADS,
        num_trials_per_iter=BATCH,
        seed=1 + done,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
