"""Autotuning: `rd.autotune(algorithm, inputs_or_sizes, target="llvm", trials=200, db="tuning.db", seed=0)` searches for the fastest
schedule."""

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

    inputs_or_sizes: the inputs to tune for: a sequence of arguments (arrays as in a call; one array may stand alone), or sizes by name,
    integers, for which arrays are generated: floats in [0, 1), integers in 1 … 100, indices inside the arrays that they index. ranges: the
    contents of generated arrays instead, by name: {"x": (low, high)} with low <= x < high, numbers or sizes such as "n - 1"; {"starts":
    ("offsets", "n")} for integers that grow from 0 to n. A record's arrays are "v_x", "v_y". trials: the number of schedules to try; 0:
    nothing is searched, compiled or run, and `best` is the default schedule, with its directives written out, or the best of the job's
    earlier runs. minutes: a limit before that, on all runs of the job together. db: the path of the database; an interrupted job continues
    from there, a finished one is answered from it at once. seed: of the search and of generated arrays. space: a schedule with holes, or
    with some directives, to which the search keeps. search: "model", "random" or "grid". tolerance: the relative error allowed in results
    that depend on folds of floats. limits: bounds for a candidate, such as {"run": 5.0, "memory": 8 << 30}: seconds to `compile`, to `run`,
    times `slower` than the default schedule, seconds for its `first` run; bytes of `memory` and `compile_memory`. protocol: the timing
    protocol, by the fields of `Protocol`. workers: the address of a dask scheduler, "tcp://host:8786"; whoever reaches it can run code
    there and here, so beyond one's own machine it is "tls://host:8786", with tls={"ca": "ca.pem", "cert": "me.pem", "key": "me.key"}.
    builders: concurrent compiling processes (0: as many as processors). like, static: as for `compile`. progress: whether to show a live
    view (None: on a terminal), or a function that is called at each step.

    Returns a `Tuning`: `best`, a schedule for `compile(schedule=…)`, at these sizes `tuned` and elsewhere the default one; `speedup` over
    the default schedule; `history`, a record for every trial; `diff()`; `plot(path)`; `compile()`, the executable under `best`. Raises
    `ArgumentError` and `SizeMismatch` for a request that cannot be met, before any work; `TuningError` where the program cannot be compiled
    or fails on the inputs, or the database cannot be used; KeyboardInterrupt loses at most the running trial.

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
