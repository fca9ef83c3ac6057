"""The cost model: the schedules it must tell apart, deterministic training, and the reproducibility of the shipped model."""

from __future__ import annotations

import gzip
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from raido.algo.errors import TuningError
from raido.autotune.features import ESTIMATE, FEATURES, VERSION
from raido.autotune.model import CostModel
from raido.autotune.model.collect import load_corpus
from raido.autotune.model.collect import main as collect
from raido.autotune.model.cost_model import SHIPPED
from raido.autotune.model.refresh import main as refresh
from raido.autotune.model.refresh import write_text
from raido.autotune.model.table import Group, groups_of, read_records
from raido.autotune.model.train import MEASUREMENTS, quality_table, unmeasured_table
from raido.autotune.model.training import held_out, judge, judge_unmeasured, train
from raido.autotune.records.database import Database
from raido.autotune.records.exchange import export
from raido.autotune.records.record import Record

HIDDEN = FEATURES.index("waiting")


def made_up(name: str, count: int = 60) -> Group:
    """Schedules of which the estimate explains half, and another feature the other half."""
    random = np.random.default_rng(sum(map(ord, name)))
    features = random.random((count, len(FEATURES))).astype(np.float32)
    throughput = -0.7 * np.log(2) * features[:, ESTIMATE] - 2.0 * (features[:, HIDDEN] > 0.5)
    return Group(name, features, throughput - throughput[0])


def a_record(**fields: object) -> Record:
    known: dict[str, object] = {
        "program": "p", "name": "blur", "sizes": {"n": 4}, "dtypes": ("f32",), "target": "llvm", "machine": "m", "host": {},
        "job": "j", "number": 1, "kind": "trial", "key": "k", "schedule": "{}", "seconds": (1.0,),
        "features": (0.0,) * len(FEATURES), "features_version": VERSION,
    }  # fmt: skip
    return Record(**{**known, **fields})  # type: ignore[arg-type]


def test_without_training_the_estimate_ranks():
    features = np.zeros((3, len(FEATURES)), np.float32)
    features[:, ESTIMATE] = (2.0, 1.0, 3.0)
    scores, spread = CostModel().predict(features)
    assert list(np.argsort(-scores)) == [1, 0, 2] and not spread.any()
    assert scores[1] - scores[0] == pytest.approx(np.log(2)), "log-throughput: twice as fast"


def test_training_learns_what_the_estimate_leaves_over_and_carries_it_to_other_programs():
    groups = [made_up(name) for name in "abcdef"]
    learned, physics = held_out(groups[:3], members=1)[0]
    assert learned.pairs > physics.pairs + 0.1 and learned.top8 >= physics.top8
    other = made_up("other")
    scores, spread = train(groups, members=2).predict(other.features)
    assert judge(other, scores).pairs > 0.9 and spread.shape == scores.shape and (spread > 0).all()


class Told(CostModel):
    """Gains that are said, from the first two features."""

    def gain(self, features: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return features[:, 0] - base[0], features[:, 1]


def test_rules_that_choose_without_measurements_are_judged_by_what_they_take():
    table = np.zeros((3, len(FEATURES)), np.float32)
    table[:, 0], table[:, 1] = (0, 0.9, 0.6), (0, 0.4, 0.05)
    good = Group("good", table, np.log([1.0, 0.5, 2.0]))
    bad = Group("bad", table, np.log([1.0, 2.0, 0.5]))
    bold, careful, none = judge_unmeasured([(good, Told()), (bad, Told())], (0.0, 1.0), (0.5,))[:2] + judge_unmeasured(
        [(good, Told())], (1.0,), (0.7,)
    )
    assert (bold.leaves, bold.faster, bold.slower, bold.least) == (2, 1, 1, 0.5)  # takes the second
    assert (careful.leaves, careful.faster, careful.slower) == (2, 1, 1) and careful.mean == pytest.approx(1.0)
    assert (none.leaves, none.faster, none.mean, none.least) == (0, 0, 1.0, 1.0)
    assert "| 1 | 0.7 | 0 | 0 | 0 | 1.00 | 1.00 |" in unmeasured_table([none])


def test_training_is_deterministic():
    groups = [made_up(name, 30) for name in "abc"]
    one, two = (train(groups, seed=5, members=2).predict(groups[0].features)[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_what_is_saved_is_loaded(tmp_path: Path):
    groups = [made_up(name, 30) for name in "abc"]
    model = train(groups, members=2)
    model.save(tmp_path)
    np.testing.assert_array_equal(
        CostModel.load(tmp_path).predict(groups[0].features)[0], model.predict(groups[0].features)[0]
    )
    (tmp_path / "model.json").write_text((tmp_path / "model.json").read_text().replace(f": {VERSION},", ": 999,", 1))
    with pytest.raises(TuningError, match="version 999"):
        CostModel.load(tmp_path)


def test_a_folder_without_a_model_is_an_error(tmp_path: Path):
    with pytest.raises(TuningError, match="no cost model"):
        CostModel.load(tmp_path / "absent")


def test_a_job_teaches_what_training_has_not_seen():
    """What counts here is a feature that made no difference in training."""
    model = train([made_up(name) for name in "abc"], members=3)
    random = np.random.default_rng(9)
    features = 0.1 * random.random((240, len(FEATURES))).astype(np.float32)
    features[:, FEATURES.index("code")] *= 100
    throughput = 0.3 * features[:, FEATURES.index("code")]
    here = Group("here", features[200:], throughput[200:])
    before = judge(here, model.predict(here.features)[0]).pairs
    model.update(features[:200], throughput[:200] + 17.0)
    after = judge(here, model.predict(here.features)[0]).pairs
    assert after > 0.7 and after > before + 0.15
    model.update(features[:200], throughput[:200] + 17.0)
    assert judge(here, model.predict(here.features)[0]).pairs == after, "all that is known so far, not once more"


def test_what_was_measured_is_believed_and_less_is_known_far_from_it():
    model, group = CostModel(), made_up("a")
    few = group.features[:4]
    measured = model.predict(few)[0] + [0.0, 1.0, -1.0, 0.0]
    model.update(few, measured + 5.0)
    scores, spread = model.predict(np.concatenate([few, few[:1] + 100.0]))
    np.testing.assert_allclose(scores[:4] - scores[0], measured - measured[0], atol=0.2)
    assert spread[4] > 2 * spread[:4].max()


def test_trials_are_relative_to_the_default_of_their_job_and_finals_round_by_round():
    records = [
        a_record(job="1", number=0, kind="default", key="d", seconds=(4.0, 2.0)),
        a_record(job="1", key="a", seconds=(1.0, 3.0)),
        a_record(job="1", key="b", seconds=(), failure="crash"),
        a_record(job="2", number=0, kind="final", key="d", seconds=(1.0, 10.0, 2.0)),
        a_record(job="2", number=1, kind="final", key="c", seconds=(2.0, 20.0, 1.0)),
        a_record(job="1", key="old", features_version=VERSION - 1),
        a_record(job="without a default", key="e"),
    ]
    (group,) = groups_of(records)
    assert group.name == "blur(n=4)"
    assert sorted(np.exp(group.log_throughput)) == pytest.approx([0.5, 1.0, 2.0])


def test_what_was_compared_with_another_default_is_another_group():
    other = (1.0,) * len(FEATURES)
    records = [
        a_record(job="1", number=0, kind="default", key="d", relative=1.0),
        a_record(job="1", key="a", relative=0.5),
        a_record(job="2", number=0, kind="default", key="a", relative=1.0, features=other),
        a_record(job="2", key="d", relative=2.0),
    ]
    groups = groups_of(records)
    assert [group.name for group in groups] == ["blur(n=4)", "blur(n=4) 2"]
    assert sorted(sorted(np.exp(group.log_throughput)) for group in groups) == [[0.5, 1.0], [1.0, 2.0]]


def test_measurements_of_other_features_are_an_error():
    with pytest.raises(TuningError, match="none of 1 measurements"):
        groups_of([a_record(features_version=VERSION + 1)])


def test_measurements_are_read_from_databases_and_from_text(tmp_path: Path):
    records = [a_record(number=0, kind="default", key="d"), a_record()]
    with Database(tmp_path / "some.db") as database:
        database.add_all(records)
        export(database, tmp_path / "some.jsonl")
    (tmp_path / "some.jsonl.gz").write_bytes(gzip.compress((tmp_path / "some.jsonl").read_bytes()))
    for name in ("some.db", "some.jsonl", "some.jsonl.gz"):
        assert {record.key for record in read_records([tmp_path / name])} == {"d", "k"}


def test_without_xgboost_one_clear_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(TuningError, match=r"pip install 'raido\[tune\]'"):
        CostModel.shipped()


def test_a_corpus_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(TuningError, match="no corpus"):
        load_corpus(tmp_path / "absent.py")


def test_the_shipped_model_is_what_training_gives():
    """The files in the repository, from the measurements in the repository."""
    groups = groups_of(read_records([MEASUREMENTS]))
    shipped, again = CostModel.shipped(), train(groups)
    for group in groups[::5]:
        np.testing.assert_allclose(again.predict(group.features)[0], shipped.predict(group.features)[0], atol=1e-4)
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 2 << 20
    assert MEASUREMENTS.stat().st_size < 1 << 20


def test_training_ranks_unseen_programs_better_than_the_estimate_alone():
    """Every measured program under a model that was trained without it. By chance half the pairs would be in order; training must be
    ahead of the estimate by more than another version of xgboost would move it, and not by way of a few programs."""
    rows = held_out(groups_of(read_records([MEASUREMENTS])))
    learned, physics = ([row[which] for row in rows] for which in (0, 1))
    mean = lambda ranked, part: fmean(getattr(quality, part) for quality in ranked)
    assert len(rows) > 50
    assert mean(learned, "pairs") > max(0.7, mean(physics, "pairs") + 0.015)
    assert mean(learned, "top1") > mean(physics, "top1") + 0.015
    assert mean(learned, "top8") > 0.94, "eight measurements find a schedule near the best"
    assert sum(a.pairs > b.pairs for a, b in rows) > sum(a.pairs < b.pairs for a, b in rows)


def test_the_table_of_quality_has_a_row_for_every_program():
    table = quality_table(held_out([made_up(name, 20) for name in "ab"], members=1))
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["a", "b", "**mean**"]


CORPUS = """
import numpy as np
import raido as rd

@rd.algorithm
def doubled(a: rd.f32["n"]):
    return (a * 2.0).named("out")

class Doubled:
    name, algorithm = "doubled", doubled
    def arguments(self):
        return (np.ones(4096, np.float32),)

PROGRAMS = (Doubled(),)
"""


def test_what_is_collected_can_be_learned_from_and_given_new_features(tmp_path: Path):
    (tmp_path / "corpus.py").write_text(CORPUS)
    collect(tmp_path / "corpus.py", tmp_path / "some.db", jobs=1, trials=4, led=False)
    (group,) = groups_of(read_records([tmp_path / "some.db"]))
    assert group.name == "doubled(n=4096)" and len(group.log_throughput) >= 2
    assert group.features.shape[1] == len(FEATURES)

    records = read_records([tmp_path / "some.db"])
    old = [replace(record, features=(), features_version=VERSION - 1) for record in records if not record.failure]
    write_text(old, tmp_path / "old.jsonl.gz")
    refresh(tmp_path / "corpus.py", tmp_path / "old.jsonl.gz")
    (again,) = groups_of(read_records([tmp_path / "old.jsonl.gz"]))
    np.testing.assert_allclose(again.features, group.features, atol=1e-4)
    np.testing.assert_array_equal(again.log_throughput, group.log_throughput)
