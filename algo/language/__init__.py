"""What users write with: combinators, NumPy's functions, indexing, moves, updates, control, records and complex numbers."""
