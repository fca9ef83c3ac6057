"""NumPy's other names, composed of the language: nothing here knows the graph."""
