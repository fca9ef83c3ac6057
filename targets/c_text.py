"""Escapes the user's text for generated C: string literals, printf formats and comments, each by one function.

Any text is accepted (quotes, backslashes, newlines, trigraphs, percent signs, comment ends, non-ASCII letters, lone surrogates); the result
is printable ASCII that C and C++ read as exactly that text.
"""

from __future__ import annotations

_PIECE = 2000  # bytes; compilers need not take literals of more than 4,095 characters (C99 5.2.4.1)


def c_string(text: str) -> str:
    """A string literal. Bytes that are not plain ASCII are written as octal escapes; long text becomes adjacent literals of `_PIECE` bytes."""
    data = text.encode(errors="backslashreplace")
    pieces = []
    for start in range(0, max(len(data), 1), _PIECE):
        escaped = "".join(_octal(byte) for byte in data[start : start + _PIECE])
        pieces.append(f'"{escaped}"')
    return "\n  ".join(pieces)


def c_format(text: str) -> str:
    """A printf format that prints the text, to be joined with other formats: percent signs are doubled."""
    return c_string(text.replace("%", "%%"))


def c_comment(text: str) -> str:
    """Text inside a comment: it neither ends the comment, nor begins another, nor joins lines."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else ascii(c)[1:-1] if c != "\\" else "\\x5c" for c in text)
    for pair in ("*/", "/*", "//", "??"):
        while pair in plain:
            plain = plain.replace(pair, f"{pair[0]} {pair[1]}")
    return plain


def _octal(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
