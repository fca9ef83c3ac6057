"""How the command line says something: whatever stood in a file or a database is shown, never obeyed by the terminal."""

from __future__ import annotations

import contextlib
import sys

from raido.algo.printable import printable


def say(text: object) -> None:
    """Prints an answer on standard output."""
    print(printable(str(text)))


def complain(text: object) -> None:
    """Prints a remark or an error on standard error."""
    print(printable(str(text)), file=sys.stderr)


def take_any_text() -> None:
    """From here on, characters that the terminal's encoding lacks are spelled out; printing them would be an error."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # a stream that is no file, or closed
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
