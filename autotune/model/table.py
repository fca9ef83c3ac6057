"""Measurements as a training table: for each program and sizes, features and throughput relative to the default schedule.

Trials and finalists ran by turns with the default schedule, and count by the quotients, so that changes of the machine's speed cancel;
trials of format 1, without turns, count by the fastest runs. Failed candidates have no throughput and are left out.
"""

from __future__ import annotations

import gzip
import io
import math
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raido.algo.documents import LARGEST, Unreadable, read_bytes
from raido.algo.errors import TuningError, explain
from raido.autotune.features import VERSION
from raido.autotune.records.database import Database
from raido.autotune.records.exchange import import_text
from raido.autotune.records.record import Record


@dataclass(frozen=True)
class Group:
    """Schedules of one program compared with one default schedule: features [n, len(FEATURES)], and the logarithm of their throughput
    relative to the default's [n]. When a program's default changes, a new group begins, with the same name and a number."""

    name: str
    features: np.ndarray
    log_throughput: np.ndarray


def read_records(paths: Sequence[str | Path]) -> list[Record]:
    """The measurements in databases, and in files written by `raido db export` (also compressed: `.gz`)."""
    records: list[Record] = []
    for path in map(Path, paths):
        if path.suffix not in (".gz", ".jsonl"):
            with Database(path, create=False) as database:
                records += database.records()
            continue
        with tempfile.TemporaryDirectory() as folder:
            text = path
            if path.suffix == ".gz":
                text = Path(folder) / path.stem
                text.write_bytes(_unpacked(path))
            with Database(Path(folder) / "read.db") as database:
                import_text(database, text)
                records += database.records()
    return records


def _unpacked(path: Path) -> bytes:
    """The contents of a compressed file, up to the size limit of documents."""
    try:
        with gzip.open(io.BytesIO(read_bytes(path))) as file:
            data = file.read(LARGEST + 1)
    except (Unreadable, OSError, EOFError, zlib.error) as error:
        raise TuningError(f"{path} cannot be read: {error}") from None
    if len(data) > LARGEST:
        raise TuningError(f"{path} cannot be read: it unpacks to more than {LARGEST >> 20} MB")
    return data


def groups_of(records: Iterable[Record]) -> list[Group]:
    """The table, sorted by name; raises `TuningError` where no measurement has the present features."""
    records = list(records)
    defaults = {(r.job, r.kind == "final"): r for r in records if r.number == 0 and r.best}
    rows: dict[tuple[str, tuple[float, ...]], dict[str, tuple[tuple[float, ...], list[float]]]] = defaultdict(dict)
    for record in records:
        default = defaults.get((record.job, record.kind == "final"))
        if record.features_version != VERSION or default is None or record.best is None:
            continue
        sizes = ", ".join(f"{size}={n}" for size, n in sorted(record.sizes.items()))
        known = rows[f"{record.name}({sizes})", default.features].setdefault(record.key, (record.features, []))
        known[1].append(_log_throughput(record, default))
    if not rows:
        versions = sorted({record.features_version for record in records})
        raise TuningError(
            explain(
                f"none of {len(records)} measurements can be learnt from",
                why=f"their features have versions {versions or 'none'}; these are version {VERSION}",
                **{"try": "python -m raido.autotune.model.collect, for new ones"},
            )
        )
    names = _numbered([name for name, _ in sorted(rows)])
    return [
        Group(
            name,
            np.array([features for features, _ in found.values()], np.float32),
            np.array([float(np.median(values)) for _, values in found.values()]),
        )
        for name, (_, found) in zip(names, sorted(rows.items()), strict=True)
    ]


def _numbered(names: Sequence[str]) -> list[str]:
    """The names, with a number after each repeated one."""
    return [name if not (before := names[:at].count(name)) else f"{name} {before + 1}" for at, name in enumerate(names)]


def _log_throughput(record: Record, default: Record) -> float:
    """The logarithm of the speedup over the default schedule."""
    if record.relative is not None:
        return -math.log(record.relative)
    own, its = np.array(record.seconds), np.array(default.seconds)
    if record.kind == "final" and len(own) == len(its):
        return float(np.log(np.median(its / own)))
    return float(np.log(its.min() / own.min()))
