"""Searches of a job by name, with the model's score of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raido.autotune.jobs.job import FeatureMaker, Guide
from raido.autotune.measure.local import Request
from raido.autotune.space import Candidate, Space

if TYPE_CHECKING:
    import numpy as np


def make_guide(search: str, space: Space, seed: int) -> Guide:
    """A search over a space: by the shipped model ("model"), which learns during the job, at random ("random"), or one candidate after
    another ("grid"). The shipped model knows CPUs; on a GPU the model starts empty, and learns from the job's own measurements."""
    from raido.autotune.features import VERSION
    from raido.autotune.search import Evolutionary, GridSearch, RandomSearch

    features = FeatureTable(space)
    if search == "random":
        return Guide(RandomSearch(space, seed), lambda candidate: None, features.as_tuple, VERSION)
    if search == "grid":
        return Guide(GridSearch(space), lambda candidate: None, features.as_tuple, VERSION)
    from raido.autotune.model import CostModel

    model = CostModel.shipped() if space.machine.gpu is None else CostModel.of_no_machine()

    def score(candidate: Candidate) -> float:
        scores, _ = model.predict(features.of(candidate)[None])
        return float(scores[0])

    evolution = Evolutionary(space, model, features.of, seed, prepare=features.prepare)

    return Guide(evolution, score, features.as_tuple, VERSION, features.assist)


class FeatureTable:
    """Features of candidates, each computed once: in this process, or in bulk by an assistant."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._known: dict[str, Any] = {}
        self._maker: FeatureMaker = lambda requests: {}

    def assist(self, maker: FeatureMaker) -> None:
        """Delegates the features of many candidates to `maker` from now on."""
        self._maker = maker

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Has the features of many candidates computed; those that are not returned are computed later, when needed."""
        import numpy as np

        new = {each.key: each for each in candidates if each.key not in self._known}
        made = self._maker([Request(each.key, each.schedule.to_json()) for each in new.values()])
        self._known |= {key: np.array(row, np.float32) for key, row in made.items()}

    def of(self, candidate: Candidate) -> np.ndarray:
        """The features of a candidate, f32[len(FEATURES)]."""
        from raido.autotune.features import features_of
        from raido.schedule.lower import lower

        found = self._known.get(candidate.key)
        if found is None:
            nest = lower(candidate.schedule.graph, candidate.schedule.variants())
            found = self._known[candidate.key] = features_of(nest, self._space.machine, self._space.sizes)
        return found

    def as_tuple(self, candidate: Candidate) -> tuple[float, ...]:
        """The features as Python floats."""
        return tuple(self.of(candidate).tolist())
