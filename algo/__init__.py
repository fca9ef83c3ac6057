"""The algorithm layer: types, expressions, tracing and the reference interpreter. Imports NumPy and ml_dtypes only."""
