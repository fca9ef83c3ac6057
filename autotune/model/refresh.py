"""`python -m raido.autotune.model.refresh CORPUS.py MEASUREMENTS.jsonl.gz`: recomputes the features of old measurements.

Measurements stay valid when features change: records hold the schedules, so their nests are lowered again. Schedules of programs that the
corpus lacks now, or has in another form, are left out and counted.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from raido.algo.errors import RaidoError
from raido.algo.passes.specialise import specialise
from raido.autotune.features import VERSION, features_of
from raido.autotune.model.collect import load_corpus
from raido.autotune.model.table import read_records
from raido.autotune.records.database import Database
from raido.autotune.records.exchange import export
from raido.autotune.records.record import Record
from raido.schedule.lower import lower
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import StageGraph
from raido.targets.target import Target

DIGITS = 4  # of a feature that are kept: they are powers of two and shares


def refresh(records: Sequence[Record], programs: Sequence[Any]) -> tuple[list[Record], int]:
    """The records with present features, and the number of those left out."""
    algorithms = {program.name: program for program in programs}
    graphs: dict[tuple[str, str], tuple[StageGraph, ...]] = {}
    kept: list[Record] = []
    for record in records:
        program = algorithms.get(record.name) or next((p for p in programs if p.algorithm.name == record.name), None)
        if not record.schedule:
            kept.append(record)
        elif program is not None:
            key = (program.name, str(sorted(record.sizes.items())))
            if key not in graphs:
                graphs[key] = _graphs(program, record.sizes)
            features = _features(record, graphs[key])
            if features is not None:
                kept.append(replace(record, features=features, features_version=VERSION))
    return kept, len(records) - len(kept)


def _graphs(program: Any, sizes: Mapping[str, int]) -> tuple[StageGraph, ...]:
    """The program specialised for these sizes, and for any sizes."""
    traced = program.algorithm.trace(*program.arguments())
    return form_stages(specialise(traced, sizes)), form_stages(traced)


def _features(record: Record, graphs: Sequence[StageGraph]) -> tuple[float, ...] | None:
    for graph in graphs:
        try:
            schedule = Schedule.from_json(record.schedule, graph)
            nest = lower(schedule.graph, schedule.variants())
        except RaidoError:
            continue
        machine = Target.parse(record.target).machine
        known = {name: record.host[name] for name in ("cores", "l1", "l2", "l3") if name in record.host}
        found = features_of(nest, replace(machine, **known), record.sizes)
        return tuple(round(float(value), DIGITS) for value in found)
    return None


def main(
    corpus: Annotated[Path, typer.Argument(help="a Python file with PROGRAMS")],
    measurements: Annotated[Path, typer.Argument(help="exported measurements, .jsonl.gz: replaced by the new ones")],
) -> None:
    """Compute the features of all measured schedules again."""
    kept, lost = refresh(read_records([measurements]), load_corpus(corpus))
    write_text(kept, measurements)
    print(f"{len(kept)} measurements have features of version {VERSION}; {lost} could not be made again")


def write_text(records: Sequence[Record], path: Path) -> None:
    """Writes records as compressed text; the same bytes for the same records."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "measurements.jsonl"
        with Database(Path(folder) / "measurements.db") as database:
            database.add_all(records)
            export(database, text)
        path.write_bytes(gzip.compress(text.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    typer.run(main)
