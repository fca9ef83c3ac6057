"""`Record`, one measurement as stored: the candidate, its circumstances, and the outcome."""

from __future__ import annotations

import json
import math
import statistics
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import numpy as np

from raido.algo.documents import Unreadable, expect, parse_json, shown
from raido.algo.errors import TuningError
from raido.algo.printable import printable

# "default": the default schedule, as any other candidate. "trial": a candidate of the search. "final": one of those that were run in
# turns at the end of a job, the default among them; the times of one such set can be compared with one another.
KINDS = ("default", "trial", "final")


@dataclass(frozen=True, repr=False)
class Record:
    """A row of the database.

    `program` is its fingerprint, `dtypes` are its inputs'; `machine` is the digest of the machine that ran it, which `host` describes.
    `job` is the digest of the job, `number` counts its trials (0: the default schedule, among finals too). `schedule` is complete, as JSON.
    `predicted` is the model's score (log-throughput, relative). `relative`: its time divided by the default schedule's, over runs by turns;
    None without turns. `at`: seconds since the epoch.
    """

    program: str
    name: str
    sizes: Mapping[str, int]
    dtypes: tuple[str, ...]
    target: str
    machine: str
    host: Mapping[str, Any]
    job: str
    number: int
    kind: str
    key: str
    schedule: str
    seconds: tuple[float, ...] = ()
    failure: str | None = None
    detail: str = ""
    features: tuple[float, ...] = ()
    features_version: int = 0
    predicted: float | None = None
    compile_seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0
    relative: float | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __repr__(self) -> str:
        best = "not run" if self.best is None else f"{self.best * 1e3:.4g} ms"
        return printable(f"<Record {self.kind} {self.number} of {self.name}: {self.failure or best}>")

    @property
    def best(self) -> float | None:
        """The fastest run in seconds; None for a failure."""
        return min(self.seconds) if self.failure is None and self.seconds else None

    @property
    def median(self) -> float | None:
        """The median run in seconds; None for a failure."""
        return statistics.median(self.seconds) if self.failure is None and self.seconds else None

    @property
    def cost(self) -> float | None:
        """The score that ranks trials of one job: the time relative to the default schedule's, else the fastest run; None for a failure."""
        return self.best if self.best is None or self.relative is None else self.relative


COLUMNS = (
    *(
        "id",
        "program",
        "name",
        "sizes",
        "dtypes",
        "target",
        "machine",
        "host",
        "job",
        "number",
        "kind",
        "key",
        "schedule",
    ),
    *("seconds", "failure", "detail", "features", "features_version", "predicted", "compile_seconds", "versions", "at"),
    "relative",
)
_JSON = ("sizes", "dtypes", "host", "seconds", "versions")
_TEXTS = ("id", "program", "name", "target", "machine", "job", "kind", "key", "schedule", "detail")
_KINDS_OF_FIELDS: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(("sizes", "host", "versions"), dict),
    **dict.fromkeys(("dtypes", "seconds", "features"), list),
    **dict.fromkeys(("number", "features_version"), int),
    **dict.fromkeys(("at", "compile_seconds"), (int, float)),
    **dict.fromkeys(("predicted", "relative"), (int, float, NoneType)),
    "failure": (str, NoneType),
}
_REALS = ("predicted", "compile_seconds", "at", "relative")  # whole numbers among them may be larger than SQLite's
_LAST = 253402300799  # seconds since the epoch: the end of the year 9999, the last that has a name
_LARGEST = float(np.finfo(np.float32).max)  # features are kept as f32


def to_row(record: Record) -> tuple[Any, ...]:
    """The record as a SQLite row, in the order of `COLUMNS`: JSON, text, numbers, and features as raw f32."""
    values = {name: getattr(record, name) for name in COLUMNS}
    for name in _JSON:
        values[name] = json.dumps(values[name], sort_keys=True)
    values["features"] = np.array(record.features, "<f4").tobytes()
    return tuple(values[name] for name in COLUMNS)


def from_row(row: tuple[Any, ...]) -> Record:
    """The record in a row; raises `TuningError` for an invalid one."""
    values = dict(zip(COLUMNS, row, strict=True))
    try:
        for name in _JSON:
            values[name] = parse_json(expect(values[name], str, f"its {name}"))
        features = np.frombuffer(expect(values["features"], bytes, "its features"), "<f4")
        return _record({**values, "features": features.tolist()})
    except ValueError as error:
        raise TuningError(f"measurement {shown(values['id'])} cannot be read: {error}") from None


def _record(values: dict[str, Any]) -> Record:
    """The record of plain values; raises `Unreadable` for an invalid field: a negative time would be the best of all."""
    for name, kind in _KINDS_OF_FIELDS.items():
        if not isinstance(values[name], kind) or isinstance(values[name], bool):
            raise Unreadable(f"its {name} is {shown(values[name])}")
    if not values["id"] or values["kind"] not in KINDS:
        raise Unreadable(f"its id is {shown(values['id'])} and its kind {shown(values['kind'])}")
    if values["kind"] == "default" and values["number"] != 0:
        raise Unreadable(f"its kind is 'default' and its number {shown(values['number'])}, not 0")
    whole = [*values["sizes"].values(), values["number"], values["features_version"]]
    if not all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 63 for each in whole):
        raise Unreadable(f"one of its sizes or numbers is none: {shown(whole)}")
    times = [*values["seconds"], values["at"], values["compile_seconds"], values["relative"] or 0.0]
    if not all(_is_number(each) and each >= 0 for each in times) or values["at"] > _LAST:
        raise Unreadable("one of its times is none")
    if not all(
        _is_number(each) and abs(each) <= _LARGEST for each in [*values["features"], values["predicted"] or 0.0]
    ):
        raise Unreadable("one of its features is no number")
    if not all(isinstance(each, str) for each in values["dtypes"]):
        raise Unreadable(f"its dtypes are {shown(values['dtypes'])}")
    lists = {"dtypes": tuple(values["dtypes"]), "seconds": tuple(map(float, values["seconds"]))}
    reals = {name: None if values[name] is None else float(values[name]) for name in _REALS}
    return Record(**{**values, **lists, **reals, "features": tuple(map(float, values["features"]))})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def to_json(record: Record) -> str:
    """The record as one line of JSON."""
    return json.dumps({name: getattr(record, name) for name in COLUMNS}, sort_keys=True)


def from_json(text: str) -> Record:
    """The inverse of `to_json`; raises `TuningError` for other text."""
    try:
        values = {"relative": None, **expect(parse_json(text), dict, "a measurement")}  # format 1 had no `relative`
        for name in (*COLUMNS, *values):
            if name not in values or name not in COLUMNS:
                raise Unreadable(f"it has {'no' if name not in values else 'a'} {shown(name)}")
        return _record(values)
    except Unreadable as error:
        raise TuningError(f"not a measurement: {error}") from None
