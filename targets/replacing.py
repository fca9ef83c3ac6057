"""Atomic replacement of files that the user names: the old file stays until the new one is complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file in the same folder, with the permissions of the umask; on success it replaces `path`, on an
    exception it is deleted."""
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
