"""Measurement of candidates: compiled in parallel processes, run in a separate one, checked, and timed; no candidate can end the job."""
