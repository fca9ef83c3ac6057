"""`raido tune`: searches for fast schedules of one algorithm, or of all jobs in a job file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

import typer

from raido.algo.errors import ArgumentError, RaidoError, TuningError
from raido.failures import one_line
from raido.files import check_path, read_array
from raido.job_file import Work, read_job_file
from raido.locate import find_algorithm, find_schedule
from raido.options import Statics, TargetName, Traceback
from raido.printing import complain, say
from raido.progress import progress
from raido.targets.replacing import replaced

if TYPE_CHECKING:
    from raido.autotune.jobs.job import Job
    from raido.autotune.jobs.tuning import Tuning
    from raido.autotune.records.database import Database


@dataclass(frozen=True)
class Cluster:
    """The cluster that measures a job: the address of a dask scheduler (None: this machine measures), and its TLS files."""

    address: str | None
    tls: Mapping[str, Path] | None


def tune(
    program: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:ALG", help="a Python file and an algorithm in it; or a job file, .toml or .json"
        ),
    ],
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--sizes",
            metavar="h=480,w=640",
            help="sizes of generated arrays; repeat the option for a job of other sizes",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-i", "--input", metavar="FILE", help="inputs, instead of sizes: .npy files, images or numbers, in order"
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=0, help="schedules to try (200); 0: the model's own choice")] = None,
    minutes: Annotated[float | None, typer.Option(help="stop each job after that many minutes")] = None,
    db: Annotated[Path | None, typer.Option(metavar="FILE", help="the database of measurements (tuning.db)")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the search and of generated arrays (0)")] = None,
    target: TargetName = "llvm",
    space: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="a schedule with holes: FILE.json, or a function in FILE.py that takes the algorithm"
        ),
    ] = None,
    search: Annotated[str | None, typer.Option(metavar="KIND", help='"model", "random" or "grid"')] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="x=0:n",
            help="generated elements of x are in [0, n); x=offsets:n gives increasing offsets",
        ),
    ] = None,
    set_: Statics = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="run=5",
            help="limits of a candidate: seconds to compile, to run, for the first run of the default schedule (first); "
            "times slower than that; bytes of memory, compile_memory",
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="relative error allowed in results that depend on folds of floats")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="tls://HOST:8786",
            help="a dask scheduler whose workers compile and measure; they can run code here, too: beyond this machine use tls://",
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(metavar="FILE.pem", help="with tls://: the certificate of the cluster's authority")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE.pem", help="with tls://: the certificate of this process")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="with tls://: its private key")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE.html", help="write a report, for screen or paper")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="write the plots (.png, .svg or .pdf)")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="write the best schedule, for --schedule")
    ] = None,
    traceback: Traceback = False,
) -> None:
    """Search for the fastest schedule by trying.

    The default schedule is measured first, then what the search proposes; in the end the fastest take turns with the default. Every
    measurement is kept in the database at once: interrupt it when you like, the same command goes on, and answers at once when it
    is finished. `--db` of run, build and show, and `compile(db=…)`, use what was found. Of several jobs, all are looked at before the
    first begins, each is reported when it is done, and one that fails does not keep the others.

    Example: raido tune examples/unsharp_mask.py:unsharp --sizes h=1080,w=1920 --trials 64
    """
    files = {"ca": tls_ca, "cert": tls_cert, "key": tls_key}
    cluster = Cluster(workers, {key: path for key, path in files.items() if path is not None} or None)
    given = {"trials": trials, "minutes": minutes, "db": db, "seed": seed, "search": search, "tolerance": tolerance}
    defaults: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if limits:
        defaults["limits"] = dict(map(_limit, limits))
    if program.endswith((".toml", ".json")):
        if sizes or inputs or ranges or set_ or space:
            raise ArgumentError(f"--sizes, --input, --range, --set and --space of a job are given in {program}")
        works = read_job_file(Path(program), defaults)
    else:
        works = _works(program, sizes, inputs, ranges, set_, space, target, defaults)
    from raido.autotune.jobs.autotune import open_database

    reports = (html, plot, output)
    _check_reports(works, *reports)
    failed = 0
    for work in works if len(works) > 1 or works[0].where else ():
        _check(work, cluster)
    with ExitStack() as stack:
        databases: dict[Path, Database] = {}

        def database_of(work: Work) -> Database:
            if work.db not in databases:
                databases[work.db] = stack.enter_context(open_database(work.db, work.trials))
            return databases[work.db]

        for work in works if len(works) > 1 else ():
            database_of(work)
        for number, work in enumerate(works):
            try:
                tuning = _run(work, database_of, cluster)
            except RaidoError as error:
                if len(works) == 1:
                    raise
                failed += 1
                complain(f"raido: {work.about}: {one_line(error)}")
                continue
            say(tuning)
            _write(work.title, tuning, *(_numbered(path, number) for path in reports))
            if len(works) == 1:
                say(tuning.best)
    if failed:
        raise TuningError(
            f"{failed} of {len(works)} jobs failed; what the others found is in {', '.join(map(str, databases))}"
        )


def _check(work: Work, cluster: Cluster) -> None:
    """Raises ArgumentError, which names the job, when the job cannot be prepared."""
    try:
        _job(work, cluster)
    except RaidoError as error:
        raise ArgumentError(f"{work.about}: {one_line(error)}") from None


def _check_reports(works: Sequence[Work], html: Path | None, plot: Path | None, output: Path | None) -> None:
    """Raises ArgumentError or TuningError, before any work, when a report could not be written in the end."""
    for number in range(len(works)):
        for path in filter(None, (html, plot, output)):
            check_path(_numbered(path, number))
    if html is None and plot is None:
        return
    if any(work.trials == 0 for work in works):
        raise ArgumentError("--html and --plot show measurements, and with 0 trials nothing is measured")
    from raido.autotune.jobs.plots import check_plot

    check_plot(plot)


def _run(work: Work, database_of: Callable[[Work], Database], cluster: Cluster) -> Tuning:
    """Runs a job; after an interruption, prints how many trials are kept and that the same command resumes."""
    from raido.autotune.jobs.autotune import watched

    job = _job(work, cluster)(database_of(work))
    try:
        return watched(job, None)
    except KeyboardInterrupt:
        tried = sum(record.kind == "trial" for record in job.progress.records)
        text = f"{job.progress.title}: interrupted before the first trial"
        if tried:
            text = (
                f"{job.progress.title}: interrupted after {tried} of {work.trials} trials, which are kept in {work.db}"
            )
        complain(f"{text}; the same command continues the job")
        raise


def _job(work: Work, cluster: Cluster) -> Callable[[Database], Job]:
    from raido.autotune.jobs.autotune import prepare_job
    from raido.autotune.jobs.job import Budget

    algorithm = find_algorithm(work.program, work.statics)
    with progress("tracing"):
        return prepare_job(
            algorithm,
            _arguments(algorithm, work.inputs) if work.inputs else work.sizes,
            work.target,
            Budget(work.trials, work.minutes),
            work.seed,
            space=find_schedule(work.space, work.program, algorithm),
            search=work.search,
            ranges=work.ranges,
            limits=work.limits,
            tolerance=work.tolerance,
            workers=cluster.address,
            tls=cluster.tls,
        )


def _arguments(algorithm: Any, files: Sequence[str]) -> list[Any]:
    declared = algorithm.signature.positional
    if len(files) != len(declared):
        raise ArgumentError(f"{len(files)} inputs given, but {algorithm.name} takes {len(declared)}")
    return [read_array(text, d.name, d.type) for text, d in zip(files, declared, strict=True)]


def _works(
    program: str,
    sizes: list[str] | None,
    inputs: list[str] | None,
    ranges: list[str] | None,
    statics: list[str] | None,
    space: str | None,
    target: str,
    defaults: dict[str, Any],
) -> list[Work]:
    """The jobs that the options describe: one for each `--sizes`."""
    if sizes and inputs:
        raise ArgumentError("--sizes and --input both say what to run on: give one of them")
    said = dict(_range(text) for text in ranges or ())
    common = {"target": target, "statics": tuple(statics or ()), "space": space, "ranges": said, **defaults}
    if inputs:
        return [Work(program, inputs=tuple(inputs), **common)]
    return [Work(program, sizes=parse_sizes(text), **common) for text in sizes or [""]]


def parse_sizes(text: str) -> dict[str, int]:
    """Parses sizes of the command line, "h=480,w=640", into a dict."""
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if not name.strip().isidentifier() or not re.fullmatch(r"[0-9]{1,18}", value.strip()):
            raise ArgumentError(f"--sizes {text!r}: write NAME=NUMBER,NAME=NUMBER, such as h=480,w=640")
        found[name.strip()] = int(value)
    return found


def _range(text: str) -> tuple[str, tuple[Any, Any]]:
    name, equals, ends = text.partition("=")
    low, colon, high = ends.partition(":")
    if not equals or not colon:
        raise ArgumentError(f"--range {text!r}: write NAME=LOW:HIGH, such as x=-1:1 or i=0:n")
    return name, (_number(low), _number(high))


def _limit(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    number = _number(value)
    if isinstance(number, str):
        raise ArgumentError(f"--limit {text!r}: write NAME=NUMBER, such as run=10 or first=300")
    return name, number


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:  # noqa: PERF203
            continue
    return text


@overload
def _numbered(path: Path, number: int) -> Path: ...
@overload
def _numbered(path: Path | None, number: int) -> Path | None: ...
def _numbered(path: Path | None, number: int) -> Path | None:
    """The path of the report of job `number` among several: report.html for 0, report-2.html for 1, …"""
    if path is None or not number:
        return path
    return path.with_stem(f"{path.stem}-{number + 1}")


def _write(title: str, tuning: Tuning, html: Path | None, plot: Path | None, output: Path | None) -> None:
    if html is not None:
        from raido.tuning_page import write_tuning_page

        write_tuning_page(html, title, tuning)
    if plot is not None:
        tuning.plot(plot)
    if output is not None:
        with replaced(output) as new:
            new.write_text(tuning.best.to_json() + "\n", encoding="utf-8")
    for path in filter(None, (html, plot, output)):
        say(f"wrote {path}")
