"""Measuring candidates: compiled in parallel processes, run in one of their own, checked, and timed; nothing they do ends the job."""
