"""Pieces of HTML by which algorithms, schedules, executables, timings and tunings display themselves in a notebook.

They carry no style of their own beyond what tables and text need, so that they look like the notebook, in light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from raido.algo.printable import printable


def text(words: str) -> str:
    """A text as HTML, escaped, with its control characters spelled out."""
    return escape(printable(words))


def titled(title: str, *parts: str) -> str:
    """A title in a code font, with parts, which are HTML, below it."""
    return f"<div><p><code><b>{text(title)}</b></code></p>{''.join(parts)}</div>"


def listing(words: str) -> str:
    """Lines of code as preformatted HTML; "" for blank text."""
    return f'<pre style="text-align: left">{text(words.rstrip())}</pre>' if words.strip() else ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts as HTML, with the given column heads."""
    head = "".join(f"<th>{text(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td><code>{text(c)}</code></td>" for c in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
