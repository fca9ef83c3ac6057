"""Every form of the language has machine code, which agrees with the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import agree

import raido as rd

FORMS: dict[str, Callable[..., Any]] = {
    "scan": lambda a, b: rd.scan(rd.add, 0, a),
    "reduce_by_index": lambda a, b: rd.bincount(a, 5),
    "scatter": lambda a, b: rd.scatter(a, b, a),
    "update": lambda a, b: a.at[b].set(7),
    "filter": lambda a, b: rd.filter(lambda x: x > 1, a),
    "partition": lambda a, b: rd.partition(lambda x: x > 1, a),
    "segmented_reduce": lambda a, b: rd.segmented_reduce(rd.add, 0, a, b),
    "segmented_scan": lambda a, b: rd.segmented_scan(rd.add, 0, a, b),
    "sort": lambda a, b: rd.sort(a),
    "argsort": lambda a, b: rd.argsort(a),
    "unique": lambda a, b: rd.unique(a),
    "repeat": lambda a, b: rd.repeat(a, a),
    "slice": lambda a, b: a[b[1] : b[2]],
    "iota": lambda a, b: rd.iota(a[0]),
    "changing loop": lambda a, b: rd.loop(2, lambda t, x: x[1:], a),
    "loop of rows": lambda a, b: rd.map(lambda k: rd.sum(rd.loop(k, lambda i, x: x * 2, a)), b),
    "branches": lambda a, b: rd.cond(a[0] > 2, lambda: a[1:], lambda: b),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_runs_as_interpreted(form: str) -> None:
    program = rd.algorithm(FORMS[form])
    arguments = np.array([3, 1, 4, 2]), np.array([0, 1, 3, 3])
    agree(program(*arguments), program.interpret(*arguments))
