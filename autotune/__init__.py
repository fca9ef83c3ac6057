"""Which schedule: search, cost model, measurements."""
