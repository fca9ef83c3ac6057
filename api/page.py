"""`raido show --html`: one page with the algorithm's loop nest and the completed schedule, readable without any network."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raido import Schedule

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; color: #1b1f24; background: #fff }}
pre {{ font: 13px/1.45 ui-monospace, monospace; background: #f5f6f8; padding: 1rem; overflow-x: auto; border-radius: 6px }}
h1 {{ font-size: 1.3rem }} h2 {{ font-size: 1rem; margin-top: 2rem }}
</style></head><body>
<h1>{title}</h1>
<h2>Schedule, with every default written out</h2><pre>{schedule}</pre>
<h2>Loop nest</h2><pre>{nest}</pre>
</body></html>
"""


def write_page(path: Path, title: str, schedule: Schedule) -> None:
    """Writes the page of a complete schedule."""
    render = type(schedule).render
    nest = render(schedule) if render else ""
    page = _PAGE.format(title=escape(title), schedule=escape(str(schedule)), nest=escape(nest))
    path.write_text(page, encoding="utf-8")
