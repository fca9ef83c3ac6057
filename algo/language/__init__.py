"""The user's language: combinators, NumPy's functions, indexing, moves, updates, control flow, records and complex numbers."""
