"""Text from elsewhere (files, databases, other machines) made safe for a terminal, which would obey its control characters."""

from __future__ import annotations

import re

# C0 without tabs and line feeds, DEL, C1; marks and overrides of direction; other line ends; lone surrogates; tags
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """The text with control characters, and characters that hide or reorder others, escaped as in `\\x1b`; tabs and line feeds stay.

    >>> printable("blur\\x1b[2J")
    'blur\\\\x1b[2J'
    """
    return text if text.isprintable() else _OBEYED.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
