"""Files that only this user, or root, can have written: compiled programs, which are executed, and lock files, which are waited for.

Every check is made on an open descriptor, and every name is looked up in an open, checked folder, so no other user can exchange a file
between its check and its use, even with write access to the folders above. Links are not followed, and opening never blocks (on a FIFO,
say). Root is trusted as it is with the interpreter: a folder that comes with a container's image may belong to root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
ELSEWHERE = "name a folder of your own in RAIDO_CACHE_DIR"


class Untrusted(OSError):
    """A file or folder is not used, because another user could have written it; the message has the reason and the remedy."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}; {remedy}")


def open_folder(path: str, within: int | None = None, *, make: bool = False) -> int:
    """Opens a trusted folder, by its path or by its name in folder `within`, and returns its descriptor; with `make` a missing one is
    created, for this user alone."""
    flags = _OPEN | os.O_RDONLY | os.O_DIRECTORY
    try:
        descriptor = os.open(path, flags, dir_fd=within)
    except FileNotFoundError:
        if not make:
            raise
        _make_folder(path, within)
        descriptor = os.open(path, flags, dir_fd=within)
    except OSError:
        if target := _link(path, within):
            why = f"{_path(path, within)} is a link to {target}, and links are not followed"
            raise Untrusted(why, ELSEWHERE if within is None else "remove it") from None
        raise
    return _checked(descriptor, path, within)


def open_file(name: str, within: int, flags: int) -> tuple[int, os.stat_result]:
    """Opens a trusted regular file in folder `within`; returns its descriptor and status. O_CREAT creates it for this user alone."""
    try:
        descriptor = os.open(name, _OPEN | flags, 0o600, dir_fd=within)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a FIFO, a folder
            raise Untrusted(f"{_path(name, within)} is no regular file", "remove it") from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Untrusted(f"{_path(name, within)} is no regular file", "remove it")
    return _checked(descriptor, name, within, status), status


def write_file(name: str, within: int, content: bytes) -> None:
    """Writes a file, for this user alone, into an open folder: to a temporary name, then renamed, so that readers see a whole file or none."""
    beside = f".new-{secrets.token_hex(8)}"
    descriptor = os.open(beside, _OPEN | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=within)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(beside, name, src_dir_fd=within, dst_dir_fd=within)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=within)
        raise


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Yields the descriptor and closes it on exit."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _checked(descriptor: int, name: str, within: int | None, status: os.stat_result | None = None) -> int:
    """The descriptor; closes it and raises `Untrusted` where another user owns the file or may write to it."""
    status = status or os.fstat(descriptor)
    owned = status.st_uid in (os.geteuid(), 0)
    if owned and not status.st_mode & OTHERS_WRITE:
        return descriptor
    os.close(descriptor)
    path = _path(name, within)
    if not owned:
        remedy = ELSEWHERE if within is None else "remove it"
        raise Untrusted(f"{path} belongs to {_user(status.st_uid)}, not to {_user(os.geteuid())}", remedy)
    who = "everybody" if status.st_mode & stat.S_IWOTH else f"its group ({status.st_gid})"
    raise Untrusted(f"{path} may be written by {who}", f"if you trust what is in it, chmod -R go-w {shlex.quote(path)}")


def _link(path: str, within: int | None) -> str:
    """The target of a symbolic link, "" for any other file."""
    try:
        return os.readlink(path, dir_fd=within)
    except OSError:
        return ""


def _path(name: str, within: int | None) -> str:
    """Full path of a name in an open folder, for messages."""
    return name if within is None else os.path.join(os.readlink(f"/proc/self/fd/{within}"), name)


def _make_folder(path: str, within: int | None) -> None:
    """Creates a folder and its missing parents, for this user alone. Refuses as root inside another user's folder."""
    if within is not None:
        with contextlib.suppress(FileExistsError):  # another process has just made it
            os.mkdir(path, 0o700, dir_fd=within)
        return
    missing = [Path(path)]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    above = missing[-1].parent
    owner = above.stat().st_uid
    if os.geteuid() == 0 and owner != 0:  # whom no mode stops, and whose folders would be in the other's way (sudo)
        remedy = f"name a folder of root's in RAIDO_CACHE_DIR, or mkdir -p {shlex.quote(path)}"
        raise Untrusted(f"{above} belongs to {_user(owner)}, and root makes no folders there", remedy)
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
