"""The user's language: combinators, NumPy's functions, indexing, moves, updates, control, records and complex numbers."""
