"""Search strategies, which choose the next candidates to measure: evolutionary, led by the cost model; random and grid as baselines."""

from raido.autotune.search.baselines import GridSearch, RandomSearch
from raido.autotune.search.evolutionary import Evolutionary, Model, Settings
from raido.autotune.search.search import Search

__all__ = ["Evolutionary", "GridSearch", "Model", "RandomSearch", "Search", "Settings"]
