"""Text from users inside generated C: string literals, formats of printf and comments, each by one function.

Whatever the text holds (quotes, backslashes, newlines, trigraphs, percent signs, ends of comments, other letters than ASCII,
halves of letters), what comes out is printable ASCII that C and C++ read as exactly that.
"""

from __future__ import annotations

_PIECE = 2000  # bytes; compilers need not take literals of more than 4,095 characters (C99 5.2.4.1)


def c_string(text: str) -> str:
    """A string literal; bytes that are not plain are written in octal, long literals in pieces."""
    data = text.encode(errors="backslashreplace")
    pieces = []
    for start in range(0, max(len(data), 1), _PIECE):
        escaped = "".join(_octal(byte) for byte in data[start : start + _PIECE])
        pieces.append(f'"{escaped}"')
    return "\n  ".join(pieces)


def c_format(text: str) -> str:
    """A format for printf that prints the text, to stand beside other parts of a format: a percent sign is written twice."""
    return c_string(text.replace("%", "%%"))


def c_comment(text: str) -> str:
    """Text inside a comment: nothing ends the comment, begins another, or joins lines."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else ascii(c)[1:-1] if c != "\\" else "\\x5c" for c in text)
    for pair in ("*/", "/*", "//", "??"):
        while pair in plain:
            plain = plain.replace(pair, f"{pair[0]} {pair[1]}")
    return plain


def _octal(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
