"""Measurements on disk: a SQLite database shared by many jobs, the choice of the best record, and export as text."""
