"""Trains boosters on measured schedules, and judges them on programs that they have not seen.

Each member of the ensemble is trained on four fifths of the programs, with the analytic estimate's residual, relative to the program's
mean, as target: it learns which schedule is faster, never how fast a program is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raido.autotune.features import ESTIMATE
from raido.autotune.model.cost_model import CostModel, import_xgboost
from raido.autotune.model.table import Group

MEMBERS = 6
PART = 0.8
FOLDS = 6
ROUNDS = 120
SLOPE = 0.7
LEAST_SCALE = 0.02  # of a feature that is nearly always the same
FLOOR = 3.0  # schedules slower than e⁻³ of the best are all alike: too slow
BOOSTING: dict[str, Any] = {
    "objective": "reg:squarederror",
    "eta": 0.06,
    "max_depth": 5,
    "lambda": 2.0,
    "min_child_weight": 4.0,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "tree_method": "hist",
    "nthread": 1,
}


def train(groups: Sequence[Group], seed: int = 0, members: int = MEMBERS) -> CostModel:
    """A model trained on measured schedules; the same for the same groups and seed."""
    xgboost, chance = import_xgboost(), random.Random(seed)
    boosters = []
    for k in range(members):
        count = max(1, round(PART * len(groups)))
        chosen = [groups[i] for i in sorted(chance.sample(range(len(groups)), count))]
        features = np.concatenate([group.features for group in chosen])
        data = xgboost.DMatrix(features, np.concatenate([_left_over(group) for group in chosen]))
        data.set_weight(np.concatenate([_weights(group) for group in chosen]))
        boosters.append(xgboost.train({**BOOSTING, "base_score": 0.0, "seed": seed + k}, data, ROUNDS))
    return CostModel(boosters, SLOPE, _scales(groups).tolist())


def _scales(groups: Sequence[Group]) -> np.ndarray:
    """Standard deviation of each feature among schedules of one program."""
    apart = np.concatenate([group.features - group.features.mean(axis=0) for group in groups])
    return np.maximum(apart.std(axis=0), LEAST_SCALE)


def _left_over(group: Group) -> np.ndarray:
    """The residual of the estimate, relative to the mean of the program."""
    known = np.maximum(group.log_throughput, group.log_throughput.max() - FLOOR)
    rest = known + np.log(2.0) * SLOPE * group.features[:, ESTIMATE]
    return rest - np.average(rest, weights=_weights(group))


def _weights(group: Group) -> np.ndarray:
    """Training weights: fast schedules count most, and every program alike."""
    weights = np.exp(0.7 * np.maximum(group.log_throughput - group.log_throughput.max(), -FLOOR))
    return weights / weights.sum() * 50.0


@dataclass(frozen=True)
class Quality:
    """The ranking quality for schedules of one program.

    top1, top8: speed of the fastest among the first one (eight) ranked, relative to the fastest of all. pairs: the share of pairs, among
    those that differ by a tenth, in the right order.
    """

    name: str
    schedules: int
    top1: float
    top8: float
    pairs: float


def judge(group: Group, scores: np.ndarray) -> Quality:
    """The quality of a ranking by scores."""
    order, known = np.argsort(-scores, kind="stable"), group.log_throughput
    best = known.max()
    difference = known[:, None] - known[None]
    apart = difference > np.log(1.1)
    right = (scores[:, None] > scores[None]) & apart
    return Quality(
        group.name,
        len(known),
        float(np.exp(known[order[0]] - best)),
        float(np.exp(known[order[:8]].max() - best)),
        float(right.sum() / max(apart.sum(), 1)),
    )


@dataclass(frozen=True)
class Unmeasured:
    """The outcome of a rule without measurements: take the schedule with the largest gain over the default's score, less `caution` times
    the spread, if that exceeds `sure` (in logarithms). Over all programs: on how many it leaves the default, where by more than 2 % for a
    faster or a slower schedule; the mean (geometric) and the least speed, relative to the default's."""

    caution: float
    sure: float
    leaves: int
    faster: int
    slower: int
    mean: float
    least: float


def judge_unmeasured(
    cases: Sequence[tuple[Group, CostModel]], cautions: Sequence[float], thresholds: Sequence[float]
) -> list[Unmeasured]:
    """The outcome of every rule, on programs each with a model that has not seen it."""
    gains = []
    for group, model in cases:
        default = int(np.abs(group.log_throughput).argmin())
        gains.append((group.log_throughput, *model.gain(group.features, group.features[default])))
    found = []
    for caution in cautions:
        picks = [(gain - caution * spread).argmax() for _, gain, spread in gains]
        sures = [gain[k] - caution * spread[k] for k, (_, gain, spread) in zip(picks, gains, strict=True)]
        for sure in thresholds:
            kept = [known[k] if at > sure else 0.0 for k, at, (known, _, _) in zip(picks, sures, gains, strict=True)]
            speed = np.exp(np.array(kept))
            leaves, faster, slower = (int(each.sum()) for each in (np.array(sures) > sure, speed > 1.02, speed < 0.98))
            mean = float(np.exp(np.mean(kept)))
            found.append(Unmeasured(caution, sure, leaves, faster, slower, mean, float(speed.min())))
    return found


def held_out(groups: Sequence[Group], seed: int = 0, members: int = MEMBERS) -> list[tuple[Quality, Quality]]:
    """For every program: the ranking quality of a model trained without it (at any sizes), and of the estimate alone."""
    return [
        (judge(group, model.predict(group.features)[0]), judge(group, CostModel().predict(group.features)[0]))
        for group, model in left_out(groups, seed, members)
    ]


def left_out(groups: Sequence[Group], seed: int = 0, members: int = MEMBERS) -> list[tuple[Group, CostModel]]:
    """Every program with a model trained without it (at any sizes).

    Programs are left out by sixths, so that six models serve.
    """
    names = sorted({group.name.split("(")[0] for group in groups})
    random.Random(seed).shuffle(names)
    found: dict[str, CostModel] = {}
    for k in range(min(FOLDS, len(names))):
        without = set(names[k::FOLDS])
        model = train([group for group in groups if group.name.split("(")[0] not in without], seed, members)
        found |= dict.fromkeys(without, model)
    return [(group, found[group.name.split("(")[0]]) for group in groups]
