"""Evolutionary search led by a cost model.

A population of candidates is kept from iteration to iteration. Most children are mutants (another label at one choice, sometimes at
several) of the fastest measured candidates, more of the faster ones; others are mutants of the model's favourites, or crossings (stage by
stage). The default schedule, which is mostly near the best, is the first parent, with all its decisions explicit. The model ranks the
children, and the most promising are measured: half of a batch by score, half by score plus spread, so that measurements are also spent
where the model is unsure. A share ε of every batch is random, whatever the model predicts. (Zheng et al., Ansor, OSDI 2020, section 5.)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from raido.algo.errors import RaidoError
from raido.autotune.search.search import Proposals
from raido.autotune.space import Candidate, Space


class Model(Protocol):
    """Interface of a cost model; `raido.autotune.model.CostModel` is one."""

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Score (higher is faster) and spread of each row."""
        ...

    def update(self, features: np.ndarray, log_throughput: np.ndarray) -> None:
        """Learns from all measurements of this search."""
        ...


@dataclass(frozen=True)
class Settings:
    """Parameters of the search. first, later: new candidates in the first iteration and in each later one. generations: over which they are
    made. kept: the size of the population. elites: how many measured candidates have children, with weight speed to the `power`. epsilon:
    the random share of a batch. fresh, crossed, hoped: shares of new candidates without parents, by crossing, and with parents not measured
    yet. again: the probability of a further mutation. hope: the weight of the spread."""

    first: int = 96
    later: int = 48
    generations: int = 2
    kept: int = 48
    elites: int = 6
    power: float = 6.0
    epsilon: float = 0.05
    fresh: float = 0.06
    crossed: float = 0.1
    hoped: float = 0.2
    again: float = 0.3
    hope: float = 1.0


@dataclass(slots=True)
class Member:
    """A candidate of the population, with its features and the model's present score and spread."""

    candidate: Candidate
    features: np.ndarray
    score: float = 0.0
    spread: float = 0.0


class Evolutionary:
    """Evolutionary search (see the module). features: of a candidate; a `RaidoError` drops it. prepare: called with candidates whose
    features will be needed."""

    def __init__(
        self,
        space: Space,
        model: Model,
        features: Callable[[Candidate], np.ndarray],
        seed: int,
        settings: Settings | None = None,
        prepare: Callable[[Sequence[Candidate]], None] = lambda candidates: None,
    ) -> None:
        self._space = space
        self._model = model
        self._features = features
        self._prepare = prepare
        self._settings = settings or Settings()
        self._default = space.default()
        self._rng = random.Random(seed)
        self._proposals = Proposals(space)
        self._members: dict[str, Member] = {}
        self._measured: dict[str, tuple[Candidate, float]] = {}  # key -> logarithm of throughput
        self._rows: dict[str, np.ndarray | None] = {}
        self._learnt = 0

    def propose(self, count: int) -> list[Candidate]:
        """The most promising candidates, and some random ones; the default schedule first."""
        self._learn()
        found: list[Candidate] = []
        if self._proposals.take(self._default):
            found.append(self._default)
        self._evolve()
        chance = sum(self._rng.random() < self._settings.epsilon for _ in range(count))
        found += self._most_hoped(count - chance - len(found))
        return self._proposals.fill(found, count, self._rng)

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """Stores a measurement; the model learns it before the next proposal."""
        self._proposals.add(candidate)
        self._members.pop(candidate.key, None)
        if seconds is not None and seconds > 0:
            if candidate.key == self._default.key:
                candidate = self._space.spell_out(candidate)
            self._measured[candidate.key] = candidate, -math.log(seconds)

    def _learn(self) -> None:
        """Updates the model with all measurements, if there are new ones."""
        if len(self._measured) == self._learnt:
            return
        self._learnt = len(self._measured)
        pairs = [(self._row(candidate), value) for candidate, value in self._measured.values()]
        known = [(row, value) for row, value in pairs if row is not None]
        if known:
            self._model.update(np.stack([row for row, _ in known]), np.array([value for _, value in known]))
        self._score(list(self._members.values()))

    def _evolve(self) -> None:
        """Makes new candidates, in generations, and keeps the best."""
        settings = self._settings
        total = settings.later if self._members else settings.first
        for _ in range(settings.generations):
            self._add(self._children(total // settings.generations))
            self._members = {member.candidate.key: member for member in self._best()[: settings.kept]}

    def _children(self, count: int) -> list[Candidate]:
        """New candidates: mutants, crossings and draws."""
        settings, rng = self._settings, self._rng
        fastest, weights = self._fastest()
        best = [member.candidate for member in self._best()[: settings.elites]]
        made: list[Candidate] = []
        for _ in range(count):
            way = rng.random()
            if way < settings.fresh:
                made.append(self._space.sample(rng))
                continue
            way -= settings.fresh
            parent = rng.choices(fastest, weights)[0]
            if way < settings.crossed and (others := [each for each in (*fastest, *best) if each.key != parent.key]):
                made.append(self._space.cross(parent, rng.choice(others), rng))
            elif best and way < settings.crossed + settings.hoped:
                made.append(self._mutant(rng.choice(best)))
            else:
                made.append(self._mutant(parent))
        return made

    def _mutant(self, parent: Candidate) -> Candidate:
        """A candidate with another label at one choice, or at a few."""
        child = self._space.mutate(parent, self._rng)
        while self._rng.random() < self._settings.again:
            child = self._space.mutate(child, self._rng)
        return child

    def _fastest(self) -> tuple[list[Candidate], list[float]]:
        """The fastest measured candidates, and their weights as parents; the default before any measurement."""
        known = [each for each in self._measured.values() if each[0].decisions]
        if not known:
            return [self._space.spell_out(self._default)], [1.0]
        ranked = sorted(known, key=lambda each: (-each[1], each[0].key))[: self._settings.elites]
        weights = [math.exp(self._settings.power * (value - ranked[0][1])) for _, value in ranked]
        return [candidate for candidate, _ in ranked], weights

    def _best(self) -> list[Member]:
        """The population, best scores first."""
        return sorted(self._members.values(), key=lambda member: (-member.score, member.candidate.key))

    def _add(self, candidates: list[Candidate]) -> None:
        """Adds new candidates to the population."""
        taken = self._proposals.keys | self._members.keys()
        fresh = {candidate.key: candidate for candidate in candidates if candidate.key not in taken}
        self._prepare([candidate for key, candidate in fresh.items() if key not in self._rows])
        new: list[Member] = []
        for key, candidate in fresh.items():
            row = self._row(candidate)
            if row is not None:
                self._members[key] = Member(candidate, row)
                new.append(self._members[key])
        self._score(new)

    def _score(self, members: list[Member]) -> None:
        if not members:
            return
        scores, spreads = self._model.predict(np.stack([member.features for member in members]))
        for member, score, spread in zip(members, scores, spreads, strict=True):
            member.score, member.spread = float(score), float(spread)

    def _row(self, candidate: Candidate) -> np.ndarray | None:
        """The features of a candidate; None where lowering refuses it."""
        if candidate.key not in self._rows:
            try:
                self._rows[candidate.key] = np.asarray(self._features(candidate))
            except RaidoError:
                self._rows[candidate.key] = None
        return self._rows[candidate.key]

    def _most_hoped(self, count: int) -> list[Candidate]:
        """Members to measure next, alternately by score and by score plus spread; one of several with equal features."""
        by_score = self._best()
        hope = self._settings.hope
        by_hope = sorted(self._members.values(), key=lambda m: (-m.score - hope * m.spread, m.candidate.key))
        found: list[Candidate] = []
        seen = {row.tobytes() for key in self._measured if (row := self._rows.get(key)) is not None}
        for member in (each for pair in zip(by_score, by_hope, strict=True) for each in pair):
            if len(found) >= count:
                break
            look = member.features.tobytes()
            if look not in seen and self._proposals.add(member.candidate):
                seen.add(look)
                found.append(member.candidate)
        for candidate in found:
            self._members.pop(candidate.key, None)
        return found
