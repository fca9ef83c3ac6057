"""Handmade kernels and operands of operations, shared with the tests beside."""

import sys
from pathlib import Path

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parent), *(str(here.parent / folder) for folder in ("targets", "laws"))]
