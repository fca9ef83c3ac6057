"""Golden texts kept in a file: blocks that begin with `## name`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def read(file: Path) -> dict[str, str]:
    """The texts by name."""
    blocks = file.read_text(encoding="utf-8").split("\n## ")[1:]
    return {name: text.strip("\n") for name, _, text in (block.partition("\n") for block in blocks)}


def write(file: Path, first_line: str, texts: Mapping[str, str]) -> None:
    """The file, written anew."""
    blocks = "".join(f"\n## {name}\n{text}\n" for name, text in texts.items())
    file.write_text(first_line + "\n" + blocks, encoding="utf-8")
