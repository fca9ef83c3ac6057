"""Output of the command line; control characters in text from files and databases are escaped, so that a terminal does not obey them."""

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
    """Sets standard output and error to escape the characters that their encoding lacks, instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # a stream that is not a file, or is closed
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
