"""Jobs: a search under a budget, its state in the database, what it looks like while it runs and what it gives."""
