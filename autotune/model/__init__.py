"""Which schedule is fast, guessed from its features: the trained cost model, and how it is trained.

cost_model  scores, spread, learning during a job
table       measurements as a table to learn from
training    boosters from a table, and how good they are on programs they have not seen
collect     measures schedules of a corpus of programs   (python -m raido.autotune.model.collect)
train       makes the shipped model                      (python -m raido.autotune.model.train)
"""

from raido.autotune.model.cost_model import CostModel

__all__ = ["CostModel"]
