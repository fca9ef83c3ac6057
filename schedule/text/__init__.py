"""Schedules as text: Python, JSON, differences, and sizes in tests."""
