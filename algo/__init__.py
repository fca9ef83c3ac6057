"""What is computed: types, expressions, tracing and the reference interpreter. Imports NumPy and ml_dtypes only."""
