"""Objects that follow the execution ABI, compiled from C, so that the runtime, loader and exporter are tested without TVM."""

from __future__ import annotations

import pytest
from c_programs import build_object


@pytest.fixture
def compile_c():
    return build_object
