"""All productions of the test against NumPy, with weights."""

from __future__ import annotations

from typing import Any

from numpy_law.elementwise import ELEMENTWISE
from numpy_law.indexing import INDEXING
from numpy_law.moves import MOVES
from numpy_law.reductions import REDUCTIONS
from numpy_law.stencils import STENCILS

FAMILIES: list[tuple[Any, float]] = [*ELEMENTWISE, *REDUCTIONS, *INDEXING, *MOVES, *STENCILS]
