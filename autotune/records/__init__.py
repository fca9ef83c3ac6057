"""Measurements on disk: a SQLite database that many jobs share, what is best in it, and moving it about as text."""
