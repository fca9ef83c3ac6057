"""The rows of the table, in its order."""

from __future__ import annotations

from rows.divergent import DIVERGENT
from rows.images import IMAGES
from rows.indexed import INDEXED
from rows.rays import RAYS
from rows.reductions import PRODUCTS, REDUCTIONS
from rows.row import Row
from rows.stencils import STENCILS

ROWS: dict[str, Row] = {**REDUCTIONS, **INDEXED, **STENCILS, **IMAGES, **PRODUCTS, **DIVERGENT, **RAYS}
