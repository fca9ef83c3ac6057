"""The programs of `gpu.py` as machine code, in files: a machine with a GPU needs neither TVM nor NVRTC to run them.

`prepare` compiles the corpus, random programs with what they mean, and the rows of the table; each part is a file of the folder.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path += [str(TESTS), *(str(TESTS / folder) for folder in ("algo", "targets", "laws", "cuda_on_cpu"))]

from corpus import CASES  # noqa: E402
from cuda_law import prepare as prepare_law  # noqa: E402
from peers.cuda import source_of  # noqa: E402
from rows.gpu import GPU_ROWS, GpuRow  # noqa: E402

from raido.targets.compile import executable_of  # noqa: E402
from raido.targets.cuda.compile import make_kernels  # noqa: E402
from raido.targets.cuda.nvrtc import version  # noqa: E402
from raido.targets.cuda.opened import open_device  # noqa: E402
from raido.targets.cuda.program import CudaCompilation  # noqa: E402
from raido.targets.devices.executable import DeviceExecutable  # noqa: E402
from raido.targets.devices.kernel import Kernel  # noqa: E402
from raido.targets.target import Target  # noqa: E402

PARTS = ("corpus", "law", "table")


@dataclass(frozen=True)
class Checked:
    """A program to be run once, with what it must give: arrays, or for random programs the kind of fault; `exact` for each result."""

    what: str
    executable: DeviceExecutable
    arguments: tuple[Any, ...]
    want: Any
    exact: tuple[bool, ...]


@dataclass(frozen=True)
class Timed:
    """The code of a row: raido's under its default schedule, and the kernels written by hand, by name."""

    executable: DeviceExecutable
    by_hand: dict[str, Kernel]


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
    made: dict[str, Any] = {
        "corpus": [corpus_program(case, target) for case in CASES[:cases]],
        "law": [law_program(seed, target) for seed in seeds],
        "table": {name: timed(GPU_ROWS[name], target) for name in rows},
    }
    for part, programs in made.items():
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(programs))
        done(f"{part}: {len(programs)} programs for {architecture} in {folder}")
    (folder / "about.pickle").write_bytes(pickle.dumps({"architecture": architecture, "nvrtc": version()}))


def read_part(folder: Path, part: str) -> Any:
    """The files that `prepare` wrote; SystemExit where it has not."""
    path = folder / f"{part}.pickle"
    if not path.exists():
        raise SystemExit(f"there is no {path}: run `python benchmarks/gpu.py --prepare` where TVM and NVRTC are")
    return pickle.loads(path.read_bytes())


def corpus_program(case: Any, target: Target) -> Checked:
    work = CudaCompilation(case.algorithm.trace(*case.arguments), target, None, {})
    return Checked(case.name, portable(executable_of(work)), case.arguments, case.expected, (not case.close,))


def law_program(seed: int, target: Target) -> Checked:
    """Random program number `seed` under its random schedule."""
    made = prepare_law(seed, target)
    text = f"{made.program!r}\n{made.schedule}"
    return Checked(text, portable(made.executable), tuple(made.program.arguments), made.want, tuple(made.program.exact))


def timed(row: GpuRow, target: Target) -> Timed:
    executable = executable_of(CudaCompilation(row.row.algorithm.trace(), target, None, {}))
    names = sorted({each.kernel for each in row.plan if hasattr(each, "kernel")})
    by_hand = {name: make_kernels(source_of(name), target.cuda_device.architecture).kernels[name] for name in names}
    return Timed(portable(executable), by_hand)


def portable(executable: Any) -> DeviceExecutable:
    """The executable with its code alone: it opens the first device, and shows no source."""
    return DeviceExecutable(executable.signature, executable.code, "cuda", open_device)
