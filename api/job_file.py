"""Job files of `raido tune`, in TOML or JSON.

    db = "tuning.db"          # keys outside of jobs are defaults of all jobs
    trials = 100

    [[job]]
    program = "filters.py:blur"
    sizes = [{ h = 480, w = 640 }, { h = 1080, w = 1920 }]   # a job for each; or one table
    set = { radius = 2 }      # keyword-only parameters

    [[job]]
    program = "graphs.py:ranks"
    inputs = ["offsets.npy", "targets.npy"]
    minutes = 5

Paths are relative to the file. Further keys of a job: ranges, space, target, seed, search, limits, tolerance, db.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raido.algo import documents
from raido.algo.documents import Unreadable
from raido.algo.errors import ArgumentError, TuningError

_SHARED = ("db", "trials", "minutes", "seed", "search", "target", "limits", "tolerance")
_KEYS = ("program", "sizes", "inputs", "set", "ranges", "space", *_SHARED)
_WANTED: dict[str, tuple[str, tuple[type, ...]]] = {
    "trials": ("a whole number", (int,)),
    "minutes": ("a number", (int, float)),
    "seed": ("a whole number", (int,)),
    "search": ("a word", (str,)),
    "target": ("a word", (str,)),
    "db": ("a path", (str, Path)),
    "space": ("a function of the program's file, or a schedule in JSON", (str,)),
    "inputs": ("a list of paths", (list, tuple)),
    "ranges": ("a table", (dict,)),
    "limits": ("a table", (dict,)),
    "tolerance": ("a number", (int, float)),
}


@dataclass(frozen=True)
class Work:
    """One tuning job: an algorithm at given sizes, or on given inputs. `where` is the job's place in a job file, "" without one."""

    program: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    statics: tuple[str, ...] = ()
    ranges: Mapping[str, Any] = field(default_factory=dict)
    space: str | None = None
    target: str = "llvm"
    trials: int = 200
    minutes: float | None = None
    seed: int = 0
    search: str = "model"
    limits: Mapping[str, float] = field(default_factory=dict)
    tolerance: float | None = None
    db: Path = Path("tuning.db")
    where: str = ""

    @property
    def title(self) -> str:
        """The job's program and static parameters, for a heading."""
        return " ".join([self.program, *self.statics])

    @property
    def about(self) -> str:
        """The job's name in an error: its place in a job file, else its title and sizes."""
        return self.where or " ".join([self.title, *(f"{name}={value}" for name, value in self.sizes.items())])


def read_job_file(path: Path, given: Mapping[str, Any]) -> list[Work]:
    """The jobs in a file; `given` are options of the command line, which override the file's. ArgumentError for a malformed file."""
    data = _parsed(path)
    _check_keys(path, data, (*_SHARED, "job"), "")
    jobs = data.get("job")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise ArgumentError(f"{path}: there is no [[job]]")
    shared = {key: data[key] for key in _SHARED if key in data}
    works = []
    for number, job in enumerate(jobs, 1):
        _check_keys(path, job, _KEYS, f"job {number}: ")
        works += _works(path, f"{path}, job {number}", {**shared, **job, **given})
    return works


def _works(path: Path, where: str, job: dict[str, Any]) -> list[Work]:
    given = tuple(job)
    program = job.pop("program", None)
    if not isinstance(program, str):
        raise ArgumentError(f'{where}: `program` is missing: write program = "FILE.py:ALG"')
    all_sizes = job.pop("sizes", {})
    all_sizes = all_sizes if isinstance(all_sizes, list) else [all_sizes]
    if not all(isinstance(sizes, dict) for sizes in all_sizes) or not isinstance(job.get("set", {}), dict):
        raise ArgumentError(f"{where}: `sizes` and `set` are tables, such as {{ h = 480, w = 640 }}")
    for key, (words, kinds) in _WANTED.items():
        if key in job and (isinstance(job[key], bool) or not isinstance(job[key], kinds)):
            raise ArgumentError(f"{where}: `{key}` is {words}, not {job[key]!r}")
    if not all(isinstance(each, str) for each in job.get("inputs", ())):
        raise ArgumentError(f"{where}: `inputs` is {_WANTED['inputs'][0]}, not {job['inputs']!r}")
    if "sizes" in given and "inputs" in job:
        raise ArgumentError(f"{where}: `sizes` and `inputs` both say what to run on: give one of them")
    if not all_sizes:
        raise ArgumentError(
            f"{where}: `sizes` is an empty list: give a table for each job, such as {{ h = 480, w = 640 }}"
        )
    folder = path.parent
    file, colon, name = program.rpartition(":")
    if not colon or not name.isidentifier():
        raise ArgumentError(f"{where}: {program!r} does not name an algorithm: write FILE.py:ALG")
    space = job.pop("space", None)
    job["inputs"] = tuple(str(folder / each) for each in job.get("inputs", ()))
    job["statics"] = tuple(f"{key}={value!r}" for key, value in job.pop("set", {}).items())
    job["space"] = str(folder / space) if isinstance(space, str) and space.endswith(".json") else space
    job["db"] = folder / job.get("db", "tuning.db") if not isinstance(job.get("db"), Path) else job["db"]
    return [Work(f"{folder / file}:{name}", sizes=sizes, where=where, **job) for sizes in all_sizes]


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = documents.read_text(path)
        data = documents.parse_json(text) if path.suffix == ".json" else _table_of(text)
    except Unreadable as error:
        raise ArgumentError(f"cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise ArgumentError(f"{path}: a job file is a table with a list of jobs")
    return data


def _table_of(text: str) -> Any:
    try:
        return _toml().loads(text)
    except RecursionError:
        raise Unreadable("it nests too deeply") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None


def _toml() -> Any:
    try:
        import tomllib  # from Python 3.11 on
    except ImportError:
        try:
            import tomli as tomllib
        except ImportError:
            raise TuningError(
                "TOML needs Python 3.11, or pip install 'raido[tune]'; or write the file as JSON"
            ) from None
    return tomllib


def _check_keys(path: Path, table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise ArgumentError(f"{path}: {where}there is no `{key}`; there is {', '.join(known)}")
