"""Tuning jobs: a search under a budget, its state in the database, its live view and its result."""
