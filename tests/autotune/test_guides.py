"""The searches that a job may follow, by name: each proposes candidates, the model's predictions are recorded, and features are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_jobs import Dice
from tuning_programs import SIZES, double

import raido as rd
from raido.autotune.features import FEATURES, VERSION
from raido.autotune.jobs import autotune as front
from raido.autotune.jobs.checks import SEARCHES
from raido.autotune.model import CostModel


@pytest.mark.parametrize("search", SEARCHES)
def test_a_job_follows_the_search_that_is_named(search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders, ahead: Dice(spares_first=True))
    monkeypatch.setattr(CostModel, "shipped", classmethod(lambda cls: cls()))  # what is shipped is tried elsewhere
    tuning = rd.autotune(double, SIZES, trials=12, search=search, db=tmp_path / "a.db")
    assert len(tuning.history) == 13 == len({record.key for record in tuning.history})
    assert all(len(r.features) == len(FEATURES) and r.features_version == VERSION for r in tuning.records)
    assert all((r.predicted is None) == (search != "model") for r in tuning.history[1:])
    again = rd.autotune(double, SIZES, trials=12, search=search, db=tmp_path / "b.db")
    assert [record.key for record in again.history] == [record.key for record in tuning.history]


def test_a_job_starts_from_what_was_best_at_other_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders, ahead: Dice(spares_first=True))
    first = rd.autotune(double, {"n": 1000}, trials=12, search="random", db=tmp_path / "a.db")
    assert first.record.number
    second = rd.autotune(double, {"n": 5000}, trials=2, search="random", db=tmp_path / "a.db")
    assert [record.kind for record in second.history] == ["default", "trial", "trial"]
    assert second.history[1].key == first.record.key


def test_without_trials_the_default_is_taken_and_nothing_searched_or_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> Dice:
        raise AssertionError("something is searched or measured")

    monkeypatch.setattr(front, "LocalMeasurer", refuse)
    monkeypatch.setattr(front, "make_guide", refuse)
    found = rd.autotune(double, SIZES, trials=0, db=tmp_path / "a.db")
    assert found.tuned == found.default == double.schedule().complete("llvm", SIZES)
    assert not found.history and found.speedup == 1.0 and found.ended == "trials"
    assert "the default schedule; nothing was measured" in str(found) and not list(tmp_path.iterdir())
    with pytest.raises(rd.TuningError, match="nothing to plot"):
        found.plot()
