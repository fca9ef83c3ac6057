"""`CostModel`: which of several schedules of one program is faster, before any of them is compiled.

The score is the analytic estimate of `features.traffic`, as log-throughput, corrected by boosted trees (Chen & Guestrin, XGBoost, KDD
2016) that were trained on measured schedules of other programs: with little data to learn from, physics carries over best. There are
several boosters, each trained on other programs; what they disagree on is the spread. During a job each is followed by one more, which
learns what is left from the job's own measurements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import TuningError, explain
from raido.autotune.features import ESTIMATE, FEATURES, VERSION

if TYPE_CHECKING:
    from xgboost import Booster

SHIPPED = Path(__file__).resolve().parent / "shipped"
REFINING = {
    "objective": "reg:squarederror",
    "eta": 0.08,
    "max_depth": 2,
    "lambda": 10.0,
    "subsample": 0.8,
    "colsample_bytree": 0.3,
    "nthread": 1,
}
REFINING_ROUNDS = 200  # at most; as many as there are measurements, so that a few of them do not say much
ENOUGH = 6  # measurements from which on a job's own are worth learning from


def import_xgboost() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import xgboost
    except ImportError:
        raise TuningError(
            explain(
                "the cost model needs xgboost, which is not installed",
                **{"try": "pip install 'raido[tune]', or search=\"random\", which needs no model"},
            )
        ) from None
    return xgboost


class CostModel:
    """Scores schedules of one program by their features (`features_of`): log-throughput up to a constant of the program.

    `members` are the trained boosters; none: the analytic estimate alone. `slope` is how much of that estimate's differences to
    believe. An instance belongs to one job: `update` changes it.
    """

    def __init__(self, members: Sequence[Booster] = (), slope: float = 1.0) -> None:
        self._xgboost = import_xgboost()
        self._members = tuple(members)
        self._slope = slope
        self._refined: tuple[Booster, ...] = ()

    @classmethod
    def shipped(cls) -> CostModel:
        """The model that comes with raido."""
        return cls.load(SHIPPED)

    @classmethod
    def load(cls, folder: str | Path) -> CostModel:
        """A model that `save` wrote; TuningError when it is of other features."""
        xgboost, folder = import_xgboost(), Path(folder)
        try:
            facts = json.loads((folder / "model.json").read_text())
        except (OSError, ValueError) as error:
            raise TuningError(f"there is no cost model in {folder}: {error}") from None
        if facts["features_version"] != VERSION or tuple(facts["features"]) != FEATURES:
            raise TuningError(
                explain(
                    f"the cost model in {folder} belongs to other features",
                    why=f"it has version {facts['features_version']} of them; these are version {VERSION}",
                    **{"try": "python -m raido.autotune.model.train"},
                )
            )
        members = []
        for k in range(facts["members"]):
            booster = xgboost.Booster({"nthread": 1})
            booster.load_model(folder / f"member_{k}.ubj")
            members.append(booster)
        return cls(members, facts["slope"])

    def save(self, folder: str | Path) -> None:
        """Writes the trained boosters (xgboost's UBJSON) and what they belong to; what a job added is left out."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for k, member in enumerate(self._members):
            member.save_model(folder / f"member_{k}.ubj")
        facts = {
            "features_version": VERSION,
            "features": list(FEATURES),
            "members": len(self._members),
            "slope": self._slope,
        }
        (folder / "model.json").write_text(json.dumps(facts, indent=1) + "\n")

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Score, higher is faster, and spread of each row of `features` [n, len(FEATURES)]."""
        table = np.asarray(features, np.float32)
        each = self._each(table)
        if self._refined:
            data = self._xgboost.DMatrix(table)
            each = each + np.stack([booster.predict(data) for booster in self._refined])
        return each.mean(axis=0), each.std(axis=0)

    def update(self, features: np.ndarray, log_throughput: np.ndarray) -> None:
        """Learns from all measurements of a job so far, in place of those it was told before; too few are left alone."""
        table, known = np.asarray(features, np.float32), np.asarray(log_throughput, np.float64)
        if len(known) < ENOUGH:
            return
        data = self._xgboost.DMatrix(table)
        refined = []
        for k, scores in enumerate(self._each(table) if self._members else self._each(table).repeat(4, axis=0)):
            rest = known - scores
            data.set_label(rest - rest.mean())
            settings = {**REFINING, "base_score": 0.0, "seed": k}
            refined.append(self._xgboost.train(settings, data, min(len(known), REFINING_ROUNDS)))
        self._refined = tuple(refined)

    def _each(self, table: np.ndarray) -> np.ndarray:
        """The scores of every member [members, n], or the estimate's [1, n]."""
        physics = -math.log(2.0) * self._slope * table[:, ESTIMATE].astype(np.float64)
        if not self._members:
            return physics[None]
        data = self._xgboost.DMatrix(table)
        return physics[None] + np.stack([member.predict(data) for member in self._members])
