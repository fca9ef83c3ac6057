"""The programs of `gpu.py` as machine code, in files: a machine with a GPU needs neither TVM nor NVRTC to run them.

`prepare` compiles the rows of the table, the corpus, random programs with their expected results, and libraries for the machine's CPU; each
part is a file of the folder.
"""

from __future__ import annotations

import gzip
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path += [str(TESTS), *(str(TESTS / folder) for folder in ("algo", "targets", "laws", "cuda_on_cpu"))]

from corpus import CASES  # noqa: E402
from cuda_law import prepare as prepare_law  # noqa: E402
from gpu_code import portable  # noqa: E402
from gpu_ranking import RANKED, candidates_of  # noqa: E402
from gpu_sides import Timed  # noqa: E402
from gpu_tuner import TUNED, pool_of  # noqa: E402
from peers.cuda import source_of  # noqa: E402
from rows import ROWS  # noqa: E402
from rows.gpu import GPU_ROWS, GpuRow  # noqa: E402

from raido.schedule.kernels.host_plan import Launch, Statement  # noqa: E402
from raido.targets.compile import executable_of  # noqa: E402
from raido.targets.cuda.compile import make_kernels  # noqa: E402
from raido.targets.cuda.nvrtc import version  # noqa: E402
from raido.targets.cuda.program import CudaCompilation  # noqa: E402
from raido.targets.devices.executable import DeviceExecutable  # noqa: E402
from raido.targets.devices.kernel import Kernel  # noqa: E402
from raido.targets.target import Target  # noqa: E402

CPU = "x86-64-v3"  # of the machine with the GPU nothing is known before
WITH_WARPGROUPS = {"sm_90": "sm_90a"}
CPU_ROWS = ("sum", "jacobi2d_5", "scan_f32", "filter", "sgemm_2048", "mandelbrot", "black_scholes")


@dataclass(frozen=True)
class Checked:
    """A program to be run once, with what it must give: arrays, or for random programs the kind of fault; `exact` for each result."""

    what: str
    executable: DeviceExecutable
    arguments: tuple[Any, ...]
    want: Any
    exact: tuple[bool, ...]


def prepare(
    folder: Path,
    architecture: str,
    seeds: Sequence[int],
    rows: Sequence[str] = tuple(GPU_ROWS),
    cases: int | None = None,
    done: Callable[[str], object] = print,
) -> None:
    """Compiles all parts for an architecture, and writes them; `cases`: of the corpus, so many alone."""
    target = Target("cuda", arch=architecture)
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Callable[[], Any]] = {
        "table": lambda: {name: timed(GPU_ROWS[name], target) for name in rows},
        "corpus": lambda: [corpus_program(case, target) for case in CASES[:cases]],
        "law": lambda: [law_program(seed, target) for seed in seeds],
        "ranking": lambda: {name: candidates_of(name, target) for name in RANKED if name in rows},
        "tuner": lambda: {name: pool_of(name, target) for name in TUNED if name in rows},
        "cpu": lambda: {name: library_of(name, folder) for name in CPU_ROWS if name in rows},
    }
    for part, make in made.items():
        programs = make()
        path = folder / f"{part}.pickle.gz"
        path.write_bytes(gzip.compress(pickle.dumps(programs)))
        done(f"{part}: {len(programs)} programs for {architecture} in {path}, {path.stat().st_size >> 10} KiB")
    about = {"architecture": architecture, "nvrtc": version()}
    (folder / "about.pickle.gz").write_bytes(gzip.compress(pickle.dumps(about)))


def read_part(folder: Path, part: str) -> Any:
    """The files that `prepare` wrote; SystemExit where it has not."""
    path = folder / f"{part}.pickle.gz"
    if not path.exists():
        raise SystemExit(f"there is no {path}: run `python benchmarks/gpu.py --prepare` where TVM and NVRTC are")
    return pickle.loads(gzip.decompress(path.read_bytes()))


def corpus_program(case: Any, target: Target) -> Checked:
    work = CudaCompilation(case.algorithm.trace(*case.arguments), target, None, {})
    return Checked(case.name, portable(executable_of(work)), case.arguments, case.expected, (not case.close,))


def law_program(seed: int, target: Target) -> Checked:
    """Random program number `seed` under its random schedule."""
    made = prepare_law(seed, target)
    text = f"{made.program!r}\n{made.schedule}"
    return Checked(text, portable(made.executable), tuple(made.program.arguments), made.want, tuple(made.program.exact))


def timed(row: GpuRow, target: Target) -> Timed:
    """The code of a row. Of an architecture that has more instructions than its name says, schedules that use them have code of their own."""
    exact = Target("cuda", arch=WITH_WARPGROUPS.get(target.arch, target.arch))
    makers = {name: (schedule, target) for name, schedule in row.schedules.items()}
    if exact.machine.gpu is not None and exact.machine.gpu.warpgroups:
        makers |= {name: (schedule, exact) for name, schedule in row.warpgroups.items()}
    schedules = {name: (make(row.row.algorithm, on).complete(), on) for name, (make, on) in makers.items()}
    made = {
        name: portable(executable_of(CudaCompilation(row.row.algorithm.trace(), on, schedule, {})))
        for name, (schedule, on) in {"": (None, target), **schedules}.items()
    }
    return Timed(made.pop(""), made, by_hand(row.plan, target), by_hand(row.tiled, target))


def by_hand(plan: Iterable[Statement], target: Target) -> dict[str, Kernel]:
    """The kernels in CUDA C that a plan launches."""
    names = sorted({each.kernel for each in plan if isinstance(each, Launch)})
    return {name: make_kernels(source_of(name), target.cuda_device.architecture).kernels[name] for name in names}


def library_of(name: str, folder: Path) -> str:
    """The file name of a row's library for a CPU."""
    path = folder / f"cpu_{name}.so"
    ROWS[name].algorithm.compile(Target(cpu=CPU)).export(path)
    return path.name
