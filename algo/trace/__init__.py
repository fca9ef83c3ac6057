"""Tracing: signatures, traced values, how types meet, and what every combinator is built from."""
