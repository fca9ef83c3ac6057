"""The searches that a job may follow, by name: each proposes, the model says what it thinks, features are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders: Dice(spares_first=True))
    monkeypatch.setattr(CostModel, "shipped", classmethod(lambda cls: cls()))  # what is shipped is tried elsewhere
    tuning = rd.autotune(double, SIZES, trials=12, search=search, db=tmp_path / "a.db")
    assert len(tuning.history) == 13 == len({record.key for record in tuning.history})
    assert all(len(r.features) == len(FEATURES) and r.features_version == VERSION for r in tuning.records)
    assert all((r.predicted is None) == (search != "model") for r in tuning.history[1:])
    again = rd.autotune(double, SIZES, trials=12, search=search, db=tmp_path / "b.db")
    assert [record.key for record in again.history] == [record.key for record in tuning.history]


def test_a_job_starts_from_what_was_best_at_other_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders: Dice(spares_first=True))
    first = rd.autotune(double, {"n": 1000}, trials=12, search="random", db=tmp_path / "a.db")
    assert first.record.number
    second = rd.autotune(double, {"n": 5000}, trials=2, search="random", db=tmp_path / "a.db")
    assert [record.kind for record in second.history] == ["default", "trial", "trial"]
    assert second.history[1].key == first.record.key


class Sure(CostModel):
    """Takes gangs side by side for fast, and is sure of it or not."""

    doubt = 0.0

    def gain(self, features: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        more = features[:, FEATURES.index("interleave")] - base[FEATURES.index("interleave")]
        return more, np.full(len(features), self.doubt)


@pytest.mark.parametrize("doubt", [0.0, 9.0])
def test_without_trials_the_model_leaves_the_default_only_where_it_is_sure(
    doubt: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(task: object, builders: int) -> Dice:
        raise AssertionError("something is measured")

    monkeypatch.setattr(front, "LocalMeasurer", refuse)
    monkeypatch.setattr(CostModel, "shipped", classmethod(lambda cls: Sure()))
    monkeypatch.setattr(Sure, "doubt", doubt)
    one, two = (rd.autotune(double, SIZES, trials=0, db=tmp_path / name) for name in ("a.db", "b.db"))
    assert one.tuned == two.tuned and one.default == double.schedule().complete("llvm", SIZES)
    assert (one.tuned == one.default) == bool(doubt) and one.best.fingerprint == one.default.fingerprint
    assert not one.history and one.speedup == 1.0 and one.ended == "trials" and "nothing was measured" in str(one)
    with pytest.raises(rd.TuningError, match="nothing to plot"):
        one.plot()
