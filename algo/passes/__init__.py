"""Passes over a traced program: contraction, sharing, arrays of private size, specialisation, removal of checks."""
