"""Files that users name, written whole or not at all: the one that was there stays until the new one is complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new file beside a path, open to whom files of this user are open; it takes the place of the old one when it is whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
    try:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        os.close(handle)
        yield Path(name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
