"""`CostModel`: predicts which of several schedules of one program is faster, before any of them is compiled.

The score is the analytic estimate of `schedule.cost.traffic`, as log-throughput, corrected by boosted trees (Chen & Guestrin, XGBoost, KDD
2016) trained on measured schedules of other programs: with little training data, physics generalises best. There are several boosters, each
trained on other programs; the spread is their disagreement. During a job a Gaussian process (Rasmussen & Williams 2006, chapter 2) learns
the residual from the job's own measurements: schedules with similar features get similar corrections.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.documents import Unreadable, expect, field, parse_json, read_bytes, read_text
from raido.algo.errors import TuningError, explain
from raido.autotune.features import ESTIMATE, FEATURES, VERSION

if TYPE_CHECKING:
    from xgboost import Booster

SHIPPED = Path(__file__).resolve().parent / "shipped"
NOISE = 0.2  # of a measurement, as a part of how far measurements lie from the scores
LEAST_AMPLITUDE = 0.1  # of those distances, in logarithms


def import_xgboost() -> Any:
    """The module xgboost; raises `TuningError`, with the command that installs it, when it is missing."""
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

    `members` are the trained boosters; without any, the score is the analytic estimate. `slope` scales the estimate's differences; `scales`
    are the features' standard deviations among schedules of one program. An instance belongs to one job: `update` changes it.
    """

    def __init__(
        self, members: Sequence[Booster] = (), slope: float = 1.0, scales: Sequence[float] = (1.0,) * len(FEATURES)
    ) -> None:
        self._xgboost = import_xgboost()
        self._members = tuple(members)
        self._slope = slope
        self._scales = np.asarray(scales)
        self._process: Process | None = None

    @classmethod
    def shipped(cls) -> CostModel:
        """The model that comes with raido."""
        return cls.load(SHIPPED)

    @classmethod
    def of_no_machine(cls) -> CostModel:
        """A model for an unknown kind of machine: constant until `update` gets measurements."""
        return cls((), 0.0, cls.shipped()._scales.tolist())

    @classmethod
    def load(cls, folder: str | Path) -> CostModel:
        """A model written by `save`; raises `TuningError` when it is missing, damaged, or of another version of the features."""
        xgboost, folder = import_xgboost(), Path(folder)
        try:
            facts = expect(parse_json(read_text(folder / "model.json")), dict, "model.json")
            version = field(facts, "features_version", int, "model.json")
            if version != VERSION or tuple(field(facts, "features", list, "model.json")) != FEATURES:
                raise TuningError(
                    explain(
                        f"the cost model in {folder} belongs to other features",
                        why=f"it has version {version} of them; these are version {VERSION}",
                        **{"try": "python -m raido.autotune.model.train"},
                    )
                )
            slope = field(facts, "slope", float, "model.json")
            scales = [expect(each, float, "a scale") for each in field(facts, "scales", list, "model.json")]
            if len(scales) != len(FEATURES) or min(scales) <= 0:
                raise Unreadable(f"`scales` of model.json are {len(FEATURES)} numbers above 0")
            members = [
                _booster(xgboost, folder / f"member_{k}.ubj", expect(digest, str, "a digest"))
                for k, digest in enumerate(field(facts, "members", list, "model.json"))
            ]
        except Unreadable as error:
            remedy = "CostModel.shipped(), or python -m raido.autotune.model.train, which makes one"
            text = explain(f"there is no cost model in {folder}", why=str(error), **{"try": remedy})
            raise TuningError(text) from None
        return cls(members, slope, scales)

    def save(self, folder: str | Path) -> None:
        """Writes the trained boosters (xgboost's UBJSON) and their metadata; a job's own measurements are not saved."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        digests = []
        for k, member in enumerate(self._members):
            path = folder / f"member_{k}.ubj"
            member.save_model(path)
            digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        facts = {
            "features_version": VERSION,
            "features": list(FEATURES),
            "members": digests,
            "slope": self._slope,
            "scales": [round(float(scale), 4) for scale in self._scales],
        }
        (folder / "model.json").write_text(json.dumps(facts, indent=1) + "\n")

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Score (higher is faster) and spread of each row of `features` [n, len(FEATURES)]."""
        table = np.asarray(features, np.float32)
        each = self._each(table)
        scores, spread = each.mean(axis=0), each.std(axis=0)
        if self._process is None:
            return scores, spread
        more, left = self._process.predict(self._scaled(table))
        return scores + more, left

    def gain(self, features: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and spread, over the trained boosters, of each row's score minus that of `base` [len(FEATURES)]."""
        each = self._each(np.asarray(features, np.float32)) - self._each(np.asarray(base, np.float32)[None])
        return each.mean(axis=0), each.std(axis=0)

    def update(self, features: np.ndarray, log_throughput: np.ndarray) -> None:
        """Fits the residual to all measurements of a job so far, replacing earlier ones."""
        table, known = np.asarray(features, np.float32), np.asarray(log_throughput, np.float64)
        rest = known - self._each(table).mean(axis=0)
        self._process = Process.of(self._scaled(table), rest)

    def _scaled(self, table: np.ndarray) -> np.ndarray:
        """Features normalised so that schedules of a program are about 1 apart."""
        return table.astype(np.float64) / self._scales / math.sqrt(table.shape[1])

    def _each(self, table: np.ndarray) -> np.ndarray:
        """The scores of every member [members, n], or the estimate's [1, n]."""
        physics = -math.log(2.0) * self._slope * table[:, ESTIMATE].astype(np.float64)
        if not self._members:
            return physics[None]
        data = self._xgboost.DMatrix(table)
        return physics[None] + np.stack([member.predict(data) for member in self._members])


def _booster(xgboost: Any, path: Path, digest: str) -> Booster:
    """The booster in a file with that digest, which is checked because xgboost's reader ends the process on some damaged files."""
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise Unreadable(f"{path.name} is damaged: it is not what model.json was written with")
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    return booster


@dataclass(frozen=True)
class Process:
    """A Gaussian process with an exponential kernel: interpolates values between points, with more certainty near them."""

    points: np.ndarray
    weights: np.ndarray
    inverse: np.ndarray
    mean: float
    amplitude: float

    @classmethod
    def of(cls, points: np.ndarray, values: np.ndarray) -> Process:
        """The process fitted to values [n] at points [n, dimensions]."""
        mean = float(values.mean())
        amplitude = max(float(values.std()), LEAST_AMPLITUDE)
        inverse = np.linalg.inv(kernel(points, points) + NOISE**2 * np.eye(len(points)))
        return cls(points, inverse @ (values - mean), inverse, mean, amplitude)

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation at points."""
        near = kernel(points, self.points)
        known = np.einsum("ij,jk,ik->i", near, self.inverse, near)
        return self.mean + near @ self.weights, self.amplitude * np.sqrt(np.maximum(1.0 - known, 0.0))


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The exponential kernel, e to the negative distance [len(a), len(b)]."""
    return np.exp(-np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2)))
