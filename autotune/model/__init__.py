"""The cost model, which predicts from features which schedule is fast, and its training.

cost_model  scores, spread, learning during a job
table       measurements as a training table
training    boosters from a table, and their quality on unseen programs
collect     measures schedules of a corpus of programs   (python -m raido.autotune.model.collect)
train       makes the shipped model                      (python -m raido.autotune.model.train)
"""

from raido.autotune.model.cost_model import CostModel

__all__ = ["CostModel"]
