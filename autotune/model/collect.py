"""`python -m raido.autotune.model.collect CORPUS.py DATABASE`: measures schedules of many programs, as training data for `train`.

The corpus is a Python file with `PROGRAMS`: each has a `name`, an `algorithm` and `arguments()`; benchmarks/tuning_corpus.py is ours, which
needs a checkout. A few short jobs are run for each program, each with the default schedule first as the baseline: some led by the current
model, so that fast schedules, and those it believes fast, are among them; some random. Schedules already measured are not measured again.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from raido.algo.errors import RaidoError, TuningError, explain
from raido.autotune import autotune
from raido.autotune.measure.measurement import Protocol

QUICK = Protocol(seconds=0.2, final_least=0.5, final_seconds=2.0)


def load_corpus(path: Path) -> Sequence[Any]:
    """The programs of a corpus file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise TuningError(
            explain(f"there is no corpus {path}", **{"try": "benchmarks/tuning_corpus.py, in a checkout"})
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.PROGRAMS


def main(
    corpus: Annotated[Path, typer.Argument(help="a Python file with PROGRAMS")],
    database: Annotated[Path, typer.Argument(help="where measurements are kept; made where there is none")],
    only: Annotated[list[str] | None, typer.Option(help="names of programs; all when none is named")] = None,
    jobs: Annotated[int, typer.Option(help="jobs for each program")] = 4,
    trials: Annotated[int, typer.Option(help="schedules in a job")] = 20,
    led: Annotated[bool, typer.Option(help="every second job, from the first, is led by the shipped model")] = True,
    seed: Annotated[int, typer.Option(help="seed of the first job")] = 0,
) -> None:
    """Measure the corpus; a program that cannot be measured is reported and left out."""
    for program in load_corpus(corpus):
        if only and program.name not in only:
            continue
        arguments = program.arguments()
        for k in range(jobs):
            search = "model" if led and k % 2 == 0 else "random"
            try:
                tuning = autotune(
                    program.algorithm,
                    arguments,
                    trials=trials,
                    db=database,
                    seed=seed + k,
                    search=search,
                    protocol=QUICK,
                    progress=False,
                )
            except RaidoError as error:
                print(f"{program.name}: {error}", flush=True)
                break
            measured = [record.best for record in tuning.history if record.best]
            print(f"{program.name}: {len(measured)} measured, fastest {min(measured) * 1e3:.3f} ms", flush=True)


if __name__ == "__main__":
    typer.run(main)
