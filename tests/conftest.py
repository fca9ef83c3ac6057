"""Prints the processor and the hidden instruction sets at the head of every run, because they decide which tests are skipped."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from raido.targets.target import host_cpu

# Python looks for cycles after 700 new objects, and finds next to none in the graphs and nests that tests make: a tenth of their time.
gc.set_threshold(100_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of this folder come first: checkers of types, documents and examples take long, and at the end one of two processes would wait."""
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


def pytest_collection_finish() -> None:
    """What there is now stays until the end, and need not be looked through again: some hundred thousand objects."""
    gc.freeze()


def pytest_report_header() -> str:
    """The line below pytest's own."""
    hidden = os.environ.get("RAIDO_HIDE_FEATURES", "")
    return f"processor: {host_cpu().name}" + (f", without {hidden} (RAIDO_HIDE_FEATURES)" if hidden else "")
