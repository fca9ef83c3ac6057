"""`raido show --html`: one page about an algorithm under a schedule, readable offline, on a screen in light or dark, and on paper.

The page shows the user's source lines, the schedule with every default written out, the stages with their axes and compute sites, the
loop nest coloured by kind of line, and, folded away and left out in print, the machine code.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raido.algo.html import table
from raido.algo.printable import printable
from raido.targets.replacing import replaced

if TYPE_CHECKING:
    from raido import Schedule

STYLE = """
:root { --ink: #1b1f24; --paper: #fff; --soft: #f5f6f8; --line: #d9dde2; --loop: #0550ae; --word: #8250df; --memory: #953800;
        --check: #b31d28; --note: #59636e }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #161b22; --line: #30363d; --loop: #79c0ff;
        --word: #d2a8ff; --memory: #ffa657; --check: #ff7b72; --note: #9198a1 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem; max-width: 76rem; color: var(--ink);
       background: var(--paper) }
h1 { font-size: 1.4rem; margin-bottom: 0 } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem } .where { color: var(--note); margin: 0 }
pre { font: 13px/1.45 ui-monospace, monospace; background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
      padding: .8rem 1rem; overflow-x: auto; margin: 0; tab-size: 2 }
table { border-collapse: collapse; font-size: 14px } td, th { text-align: left; padding: .2rem 1.2rem .2rem 0; vertical-align: top;
      border-bottom: 1px solid var(--line) } th { color: var(--note); font-weight: 600 } code { font-family: ui-monospace, monospace }
summary { font-size: 1.05rem; font-weight: 600; margin: 2rem 0 .4rem; cursor: pointer }
.loop { color: var(--loop); font-weight: 600 } .word { color: var(--word) } .memory { color: var(--memory) } .check { color: var(--check) }
@media print { :root { --ink: #000; --paper: #fff; --soft: #fff; --line: #999; --loop: #000; --word: #000; --memory: #000;
      --check: #000; --note: #444 }
  @page { margin: 15mm } body { margin: 0; max-width: none; font-size: 10pt }
  pre { font-size: 8pt; white-space: pre-wrap; overflow-wrap: anywhere; border: none; border-left: 2px solid #999;
        border-radius: 0; padding: 0 0 0 .6rem } h2 { break-after: avoid } tr { break-inside: avoid } details { display: none } }
"""


def write_page(path: Path, title: str, schedule: Schedule, code: str | None = None) -> None:
    """Writes the page of a complete schedule; an old file is replaced only when the new one is complete."""
    write_whole(path, render_page(title, schedule, code))


def write_whole(path: Path, page: str) -> None:
    """Writes text with its control characters escaped; an old file is replaced only when the new one is complete."""
    with replaced(path) as new:
        new.write_text(printable(page), encoding="utf-8")


def render_page(title: str, schedule: Schedule, code: str | None = None) -> str:
    """The page as HTML."""
    program = schedule.graph.program
    parameters = ", ".join(f"{p.name}: {_type(p)}" for p in program.parameters)
    results = ", ".join(_type(r) for r in program.results)
    parts = [
        f"<h1>{escape(program.name)}({escape(parameters)}) → {escape(results)}</h1>",
        f'<p class="where">{escape(title)}</p>',
        _section("Algorithm", _source(schedule)),
        "<h2>Stages</h2>" + table(("stage", "axes", "where", "line"), _stages(schedule)),
        _section("Schedule, with every default written out", escape(str(schedule))),
        _section("Loop nest", _coloured(schedule.nest_text())),
        f"<details><summary>Machine code</summary><pre>{escape(code)}</pre></details>" if code else "",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _section(heading: str, inner: str) -> str:
    return f"<h2>{heading}</h2><pre>{inner.rstrip()}</pre>" if inner.strip() else ""


def _type(array: Any) -> str:
    from raido.algo.trace.types import describe

    return describe(array.dtype, array.shape)


def _source(schedule: Schedule) -> str:
    """The user's source lines that stages come from, numbered, in the order of files and lines, as HTML."""
    sites = {(s.file, s.line): s.text for s in schedule.graph.program.sites.values() if s.line}
    several = len({file for file, _ in sites}) > 1
    rows = []
    for (file, line), text in sorted(sites.items()):
        location = f"{Path(file).name}:{line}" if several else f"{line}"
        rows.append(f'<span class="check">{escape(location):>5}</span>  {escape(text)}')
    return "\n".join(rows)


def _stages(schedule: Schedule) -> list[tuple[str, ...]]:
    """One row for each stage: its names, its axes, its placement directives, and the number of its source line."""
    from raido.schedule.stages.reads import flatten

    rows = []
    for stage, _ in flatten(schedule.graph.stages):
        placed = [s for s in schedule.directives if s.stage in stage.names and s.name in _PLACEMENT]
        where = ", ".join(f".{s.name}({', '.join(str(v) for _, v in s.args)})" for s in placed)
        axes = ", ".join(getattr(axis, "name", "") for axis in getattr(stage, "all_axes", ())) or "—"
        rows.append((", ".join(stage.names), axes, where or "—", "" if stage.site is None else str(stage.site.line)))
    return rows


_PLACEMENT = ("inline", "root", "compute_at", "store_at", "compute_with")
_KINDS = (
    ("loop", r"^\s*(?:parallel|for|while)\b[^:]*"),
    ("word", r"^\s*(?:if|else|produce|nest)\b"),
    ("memory", r"^\s*\w+: \w+\[.*$|^\s*\w+: \w+ register$"),
    ("check", r"^\s*check .*$"),
)
_LINE = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS))


def _coloured(nest: str) -> str:
    """The loop nest as HTML, with loops, tests, memory and checks each in a class of their own."""
    lines = []
    for line in nest.splitlines():
        found = _LINE.match(line)
        if found is None:
            lines.append(escape(line))
            continue
        indent = line[: len(line) - len(line.lstrip())]
        marked = escape(found.group().removeprefix(indent))
        lines.append(f'{indent}<span class="{found.lastgroup}">{marked}</span>{escape(line[found.end() :])}')
    return "\n".join(lines)
