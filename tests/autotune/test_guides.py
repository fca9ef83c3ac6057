"""The searches that a job may follow, by name: each proposes, the model says what it thinks, features are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_jobs import Dice
from tuning_programs import SIZES, double

import raido as rd
from raido.autotune.features import FEATURES, VERSION
from raido.autotune.jobs import autotune as front
from raido.autotune.jobs.guides import SEARCHES
from raido.autotune.model import CostModel


@pytest.mark.parametrize("search", SEARCHES)
def test_a_job_follows_the_search_that_is_named(search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders: Dice())
    monkeypatch.setattr(CostModel, "shipped", classmethod(lambda cls: cls()))  # what is shipped is tried elsewhere
    tuning = rd.autotune(double, SIZES, trials=12, search=search, db=tmp_path / "a.db")
    assert len(tuning.history) == 13 == len({record.key for record in tuning.history})
    assert all(len(r.features) == len(FEATURES) and r.features_version == VERSION for r in tuning.records)
    assert all((r.predicted is None) == (search != "model") for r in tuning.history[1:])
    again = rd.autotune(double, SIZES, trials=12, search=search, db=tmp_path / "b.db")
    assert [record.key for record in again.history] == [record.key for record in tuning.history]
