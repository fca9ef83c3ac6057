"""NumPy's other names, and JAX's, composed of the language, a family a file."""
