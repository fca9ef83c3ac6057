"""Which schedule: `rd.autotune(algorithm, inputs_or_sizes, target="llvm", trials=200, db="tuning.db", seed=0)` searches for the fastest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.trace.publishing import publish_package

if TYPE_CHECKING:
    from raido.autotune.jobs.job import Progress
    from raido.autotune.jobs.tuning import Tuning
    from raido.autotune.measure.measurement import Limits, Protocol
    from raido.schedule.schedule import Schedule
    from raido.targets.target import Target


def autotune(
    algorithm: Any,
    inputs_or_sizes: Any = (),
    target: Target | str = "llvm",
    trials: int = 200,
    db: str | os.PathLike[str] = "tuning.db",
    seed: int = 0,
    *,
    minutes: float | None = None,
    space: Schedule | None = None,
    search: str = "model",
    ranges: Mapping[str, Sequence[Any]] | None = None,
    tolerance: float | None = None,
    limits: Limits | Mapping[str, float] | None = None,
    protocol: Protocol | Mapping[str, float] | None = None,
    workers: str | None = None,
    tls: Mapping[str, str | os.PathLike[str]] | None = None,
    builders: int = 0,
    like: Sequence[Any] = (),
    progress: bool | Callable[[Progress], None] | None = None,
    **static: Any,
) -> Tuning:
    """Searches for the fastest schedule of an algorithm, and keeps every measurement in a database.

    inputs_or_sizes: what to run it on: a sequence of its arguments (arrays as in a call; one array may stand alone), or its sizes
    by name, whole numbers, for which arrays are made up: floats in [0, 1), integers in 1 … 100, indices inside what they index.
    ranges: from what arrays are made up instead, by name: {"x": (low, high)} with low <= x < high, numbers or sizes such as
    "n - 1"; {"starts": ("offsets", "n")} for integers that grow from 0 to n. A record's arrays are "v_x", "v_y".
    trials: how many schedules are tried; 0: none, nothing is searched, compiled or run, and `best` is the default schedule, with its
    steps written out, or what the job's earlier runs have found. minutes: when to stop before that, of all runs of the job together.
    db: the database, a path; a job that was interrupted goes on from there, one that is finished answers from it at once.
    seed: of the search and of made-up arrays. space: a schedule with holes, or with a part said, to which the search keeps.
    search: "model", "random" or "grid". tolerance: how far, relatively, results may be off that folds of floats bear on.
    limits: what a candidate may use, such as {"run": 5.0, "memory": 8 << 30}: seconds to `compile`, to `run`, times `slower` than the
    default schedule, seconds for the `first` run of that; bytes of `memory` and `compile_memory`. protocol: how it is timed, by
    the fields of `Protocol`. workers: the address of a dask scheduler, "tcp://host:8786"; whoever reaches it can run code there and
    here, so beyond one's own machine it is "tls://host:8786", with tls={"ca": "ca.pem", "cert": "me.pem", "key": "me.key"}.
    builders: processes that compile at a time (0: as many as processors). like, static: as for `compile`. progress: whether to show
    how it goes (None: on a terminal), or a function that is called with each step.

    Gives a `Tuning`: `best`, a schedule for `compile(schedule=…)`, at these sizes `tuned` and elsewhere the default one; `speedup` over
    the default schedule; `history`, a record for every trial; `diff()`; `plot(path)`; `compile()`, the executable under `best`.

    Raises `ArgumentError` and `SizeMismatch` for a request that cannot be met, before any work; `TuningError` where the program cannot
    be compiled or fails on the inputs, or the database cannot be used; KeyboardInterrupt loses at most the running trial.

        tuning = rd.autotune(blur, {"h": 480, "w": 640}, trials=64)
        exe = blur.compile(schedule=tuning.best)
    """
    from raido.autotune.measure.ahead import builder_ahead

    with builder_ahead(bool(trials) and workers is None) as ahead:
        from raido.autotune.jobs.autotune import tune  # what it needs takes as long to load as TVM

        return tune(
            algorithm, inputs_or_sizes, target, trials, db, seed, minutes=minutes, space=space, search=search,
            ranges=ranges, tolerance=tolerance, limits=limits, protocol=protocol, workers=workers, tls=tls,
            builders=builders, like=like, progress=progress, static=static, ahead=ahead,
        )  # fmt: skip


publish_package(autotune, globals())
