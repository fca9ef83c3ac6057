"""Searches: each candidate once, the same candidates for a seed, and learning improves the search."""

from __future__ import annotations

import math
import random
from statistics import mean

import numpy as np
import pytest
from space_programs import AVX512, IMAGE, blur, jacobi, space_of

import raido as rd
from raido.algo.errors import ScheduleError
from raido.autotune.search import Evolutionary, GridSearch, RandomSearch, Search, Settings
from raido.autotune.space import Candidate, Space

SMALL = Settings(first=48, later=24, kept=16, elites=4)
QUESTIONS = ("vector", "interleave", "tile y", "tile x", "registers y", "boundaries", "parallel")


def features(candidate: Candidate) -> np.ndarray:
    """The answers to some questions about `out`, as numbers."""
    answers = dict(candidate.decisions)
    values = [answers.get(f"out: {question}", -1) for question in QUESTIONS]
    return np.array(
        [math.log2(1 + v) if isinstance(v, int) and v >= 0 else len(str(v)) / 4 for v in values], np.float32
    )


def seconds(candidate: Candidate) -> float:
    """A machine that likes four rows at a time, in strips of 64, without clamps."""
    answers = {name.removeprefix("out: "): label for name, label in candidate.decisions}
    rows, copies = (
        each if isinstance(each, int) and each else 1 for each in map(answers.get, ("tile y", "registers y"))
    )
    time = 1.0 if answers.get("vector") == "x" else 4.0
    time *= 1.0 + 0.2 * abs(math.log2(rows / 64))
    time *= 1.0 + 0.3 * abs(math.log2(copies / 4))
    time *= 1.0 if answers.get("boundaries") == "all" else 1.5
    return time


class Nearest:
    """Thinks that a candidate is as fast as the measured one most like it, and the less surely the less like it is."""

    def __init__(self) -> None:
        self.rows, self.values = np.zeros((0, len(QUESTIONS)), np.float32), np.zeros(0)
        self.updates = 0

    def update(self, features: np.ndarray, log_throughput: np.ndarray) -> None:
        self.rows, self.values = features, log_throughput
        self.updates += 1

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(self.rows):
            return np.zeros(len(features)), np.ones(len(features))
        far = np.abs(features[:, None] - self.rows[None]).sum(axis=2)
        nearest = far.argmin(axis=1)
        return self.values[nearest], 0.1 * far.min(axis=1)


def evolutionary(seed: int, space: Space | None = None) -> Evolutionary:
    return Evolutionary(space or Space(jacobi.schedule(), AVX512, IMAGE), Nearest(), features, seed, SMALL)


def run(search: Search, rounds: int, count: int = 8) -> list[Candidate]:
    """The candidates in the order in which they were proposed and told of."""
    found = []
    for _ in range(rounds):
        batch = search.propose(count)
        found += batch
        for candidate in batch:
            search.tell(candidate, seconds(candidate))
    return found


def make(kind: str, space: Space, seed: int = 0) -> Search:
    if kind == "grid":
        return GridSearch(space)
    return RandomSearch(space, seed) if kind == "random" else evolutionary(seed, space)


@pytest.mark.parametrize("kind", ["model", "random", "grid"])
def test_the_default_comes_first_and_nothing_twice(kind: str) -> None:
    space = Space(jacobi.schedule(), AVX512, IMAGE)
    found = run(make(kind, space), 3)
    assert len(found) == 24 and len({candidate.key for candidate in found}) == 24
    assert found[0] == space.default()


@pytest.mark.parametrize("kind", ["model", "random", "grid"])
def test_what_was_told_of_is_not_proposed(kind: str) -> None:
    space = Space(jacobi.schedule(), AVX512, IMAGE)
    search = make(kind, space)
    search.tell(space.default(), 1.0)
    assert space.default().key not in {candidate.key for candidate in search.propose(8)}


@pytest.mark.parametrize("kind", ["model", "random", "grid"])
def test_a_small_space_is_exhausted(kind: str) -> None:
    s = blur.schedule()
    s["cols"].tile(y=rd.choose("ty", [16, 32, 64]), x=rd.choose("tx", [128, 256]))
    search = make(kind, Space(s, AVX512, IMAGE))
    assert len({candidate.key for candidate in run(search, 3)}) == 6
    assert search.propose(8) == []


def test_the_same_seed_and_measurements_give_the_same_proposals() -> None:
    first, second, other = ([c.key for c in run(evolutionary(seed), 3)] for seed in (1, 1, 2))
    assert first == second != other


def test_new_candidates_are_announced_at_once_and_once_and_that_changes_no_proposal() -> None:
    announced: list[list[str]] = []
    space = Space(jacobi.schedule(), AVX512, IMAGE)
    search = Evolutionary(
        space, Nearest(), features, 1, SMALL, prepare=lambda many: announced.append([each.key for each in many])
    )
    assert [c.key for c in run(search, 3)] == [c.key for c in run(evolutionary(1), 3)]
    keys = [key for each in announced for key in each]
    assert len(keys) == len(set(keys)) and max(map(len, announced)) > 4


def test_failures_have_no_children_and_teach_nothing() -> None:
    model = Nearest()
    search = Evolutionary(Space(jacobi.schedule(), AVX512, IMAGE), model, features, 0, SMALL)
    for candidate in search.propose(8):
        search.tell(candidate, None)
    assert len(search.propose(8)) == 8
    assert model.updates == 0


def test_candidates_without_features_are_dropped() -> None:
    def strict(candidate: Candidate) -> np.ndarray:
        if dict(candidate.decisions).get("out: loops") == "own":
            raise ScheduleError("no")
        return features(candidate)

    space = Space(jacobi.schedule(), AVX512, IMAGE)
    hoped = Evolutionary(space, Nearest(), strict, 0, Settings(first=24, later=24, epsilon=0.0))
    hoped.tell(space.default(), 1.0)
    hoped._evolve()
    assert not any(dict(m.candidate.decisions).get("out: loops") == "own" for m in hoped._members.values())


def test_a_round_measures_one_of_those_that_look_the_same() -> None:
    space = Space(jacobi.schedule(), AVX512, IMAGE)
    search = Evolutionary(space, Nearest(), features, 0, Settings(first=60, epsilon=0.0))
    search.tell(space.default(), 1.0)
    looks = [features(candidate).tobytes() for candidate in search.propose(6)]
    assert len(set(looks)) == 6


def test_learning_beats_chance() -> None:
    best: dict[str, list[float]] = {"model": [], "random": []}
    for seed in range(3):
        for kind, found in best.items():
            space = Space(jacobi.schedule(), AVX512, IMAGE)
            found.append(min(seconds(candidate) for candidate in run(make(kind, space, seed), 5)))
    assert mean(best["model"]) < mean(best["random"])
    assert max(best["model"]) < 1.5


def test_searches_cope_with_every_program() -> None:
    rng = random.Random(0)
    for name in ("diamond", "map_and_sum", "histogram"):
        search = evolutionary(3, space_of(name))
        for _ in range(2):
            for candidate in search.propose(4):
                search.tell(candidate, rng.random() if rng.random() < 0.7 else None)


def test_most_children_of_the_default_differ_from_it_in_a_few_answers() -> None:
    """The default schedule says nothing, so all its decisions are spelled out before one of them is changed."""
    space = Space(blur.schedule(), AVX512, IMAGE)
    start = space.spell_out(space.default())
    assert start.key == space.default().key and dict(start.decisions)["cols: loops"] == "own"
    search = Evolutionary(space, Nearest(), lambda c: np.array([float(int(c.key[:6], 16))]), 0, Settings(epsilon=0.0))
    search.tell(space.default(), 1.0)
    answers = set(start.decisions)
    changed = [len(answers - set(candidate.decisions)) for candidate in search.propose(24)]
    assert sum(count <= 3 for count in changed) > 12


def test_the_faster_a_candidate_the_more_children_it_has() -> None:
    space = Space(jacobi.schedule(), AVX512, IMAGE)
    search, rng = evolutionary(0, space), random.Random(0)
    for number in range(12):
        search.tell(space.sample(rng), 2.0 ** (number / 4))
    parents, weights = search._fastest()
    assert len(parents) == SMALL.elites and weights == sorted(weights, reverse=True) and weights[0] > 10 * weights[3]
