"""Which candidate to measure next: evolutionary search led by the cost model; random and grid search to compare it with."""

from raido.autotune.search.baselines import GridSearch, RandomSearch
from raido.autotune.search.evolutionary import Evolutionary, Model, Settings
from raido.autotune.search.search import Search

__all__ = ["Evolutionary", "GridSearch", "Model", "RandomSearch", "Search", "Settings"]
