"""NumPy's further functions, and some of JAX's, composed of the language; one family of functions per file."""
