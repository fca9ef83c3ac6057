"""`python -m raido.algo.recipes [--points N] [--write docs/math.md]`: measure every recipe's error and print the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from raido.algo.recipes.accuracy import table

_MARK = "<!-- table: python -m raido.algo.recipes --write docs/math.md -->"


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of the recipes in ulp, against mpmath, as a Markdown table.")
    parser.add_argument("--points", type=int, default=2000, help="arguments for each function and type")
    parser.add_argument("--write", type=Path, help="a Markdown file whose table is replaced")
    options = parser.parse_args()
    rows = "\n".join(table(options.points))
    if options.write is None:
        print(rows)
        return
    head, _, rest = options.write.read_text().partition(_MARK)
    _, _, tail = rest.partition("\n\n\n")
    options.write.write_text(f"{head}{_MARK}\n\n{rows}\n\n\n{tail}".rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
