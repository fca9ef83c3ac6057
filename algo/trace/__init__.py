"""Tracing: signatures of algorithms, traced values, type promotion, and the building blocks of the combinators."""
