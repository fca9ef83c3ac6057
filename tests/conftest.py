"""Says at the head of every run which processor it was, and which instruction sets were hidden: what is skipped depends on it."""

from __future__ import annotations

import os

from raido.targets.target import host_cpu


def pytest_report_header() -> str:
    """The line below pytest's own."""
    hidden = os.environ.get("RAIDO_HIDE_FEATURES", "")
    return f"processor: {host_cpu().name}" + (f", without {hidden} (RAIDO_HIDE_FEATURES)" if hidden else "")
