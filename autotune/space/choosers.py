"""Strategies that pick options at the choices of a walk: the first, a weighted draw, another candidate's labels, or all but one of these."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from raido.autotune.space.walk import Chooser, Option
from raido.schedule.recorded import Value

NEAR = 0.6  # the probability that a mutated number moves to a neighbouring option
LEAST_OPEN = 0.03  # of a question that a draw would hardly ever answer otherwise


class First:
    """Picks the first option everywhere: the default schedule."""

    def pick(self, name: str, options: Sequence[Option]) -> int:
        return 0


class Weighted:
    """Draws an option by weight."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, name: str, options: Sequence[Option]) -> int:
        return self.rng.choices(range(len(options)), [option.weight for option in options])[0]


class Even:
    """Draws options uniformly, and multiplies their numbers: an unbiased estimate of a tree's number of leaves from one path (Knuth 1975)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.product = 1

    def pick(self, name: str, options: Sequence[Option]) -> int:
        self.product *= len(options)
        return self.rng.randrange(len(options))


class Forced:
    """Picks given labels where they are among the options; `rest` picks at other choices."""

    def __init__(self, labels: Mapping[str, Value], rest: Chooser) -> None:
        self.labels = labels
        self.rest = rest

    def pick(self, name: str, options: Sequence[Option]) -> int:
        if name in self.labels:
            wanted = self.labels[name]
            for at, option in enumerate(options):
                if same_label(option.label, wanted):
                    return at
        return self.rest.pick(name, options)


class Mutated:
    """Picks as `Forced`, but a different label at one choice: for a number often the next larger or smaller one."""

    def __init__(self, labels: Mapping[str, Value], name: str, rng: random.Random) -> None:
        self.labels = labels
        self.name = name
        self.rng = rng
        self.forced = Forced({each: label for each, label in labels.items() if each != name}, Weighted(rng))

    def pick(self, name: str, options: Sequence[Option]) -> int:
        if name != self.name:
            return self.forced.pick(name, options)
        old = self.labels[name]
        others = [at for at, option in enumerate(options) if not same_label(option.label, old)]
        beside = neighbours_of(old, [(at, options[at].label) for at in others])
        if beside and self.rng.random() < NEAR:
            return self.rng.choice(beside)
        weights = [options[at].weight ** 0.5 for at in others]
        return self.rng.choices(others, weights)[0] if others else 0


class Openness:
    """Picks as `Forced`, and records for every choice the probability that a draw would pick another option."""

    def __init__(self, labels: Mapping[str, Value]) -> None:
        self.forced = Forced(labels, First())
        self.open: dict[str, float] = {}

    def pick(self, name: str, options: Sequence[Option]) -> int:
        at = self.forced.pick(name, options)
        self.open[name] = max(LEAST_OPEN, 1 - options[at].weight / sum(option.weight for option in options))
        return at


class Listing:
    """Passes choices on to another strategy, and records the labels offered at each."""

    def __init__(self, asker: Chooser) -> None:
        self.asker = asker
        self.offered: dict[str, tuple[Value, ...]] = {}

    def pick(self, name: str, options: Sequence[Option]) -> int:
        self.offered.setdefault(name, tuple(option.label for option in options))
        return self.asker.pick(name, options)


def neighbours_of(label: Value, others: Sequence[tuple[int, Value]]) -> list[int]:
    """Positions of the next smaller and next larger number among other labels; none where the label is no number."""
    if isinstance(label, bool) or not isinstance(label, int):
        return []
    numbers = [(value, at) for at, value in others if isinstance(value, int) and not isinstance(value, bool)]
    below = max(((value, at) for value, at in numbers if value < label), default=None)
    above = min(((value, at) for value, at in numbers if value > label), default=None)
    return [each[1] for each in (below, above) if each is not None]


def same_label(a: Value, b: Value) -> bool:
    """Whether two labels are equal; 0 differs from False."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)
