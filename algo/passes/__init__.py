"""Passes over a traced program: contraction, sharing, arrays of private size, known sizes, trust."""
