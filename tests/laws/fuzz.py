"""The long run of the law: `python tests/laws/fuzz.py --programs 50000 --first 100000`.

Counter-examples are narrowed by dropping statements and schedule steps, and written to a file each; the run goes on.
"""

from __future__ import annotations

import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

import typer

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from law import check  # noqa: E402


def attempt(seed: int, compiled: bool) -> tuple[int, int, str]:
    """(seed, runs compared, counter-example or "")."""
    try:
        return seed, check(seed, statements=2 + seed % 4, steps=1 + seed % 9, compiled=compiled), ""
    except BaseException:
        return seed, 0, narrow(seed, compiled)


def narrow(seed: int, compiled: bool) -> str:
    """The smallest form of a counter-example that still fails: fewest statements, then fewest steps."""
    for statements in range(1, 2 + seed % 4 + 1):
        for steps in (0, 1, 2, 3, 5, 1 + seed % 9):
            try:
                check(seed, statements=statements, steps=steps, compiled=compiled)
            except BaseException:  # noqa: PERF203
                return f"seed {seed}, statements {statements}, steps {steps}\n{traceback.format_exc()}"
    return f"seed {seed}: fails only in the full form\n{traceback.format_exc()}"


def main(
    programs: Annotated[int, typer.Option(help="how many programs")] = 2000,
    first: Annotated[int, typer.Option(help="the first seed")] = 0,
    workers: Annotated[int, typer.Option()] = 2,
    compiled: Annotated[bool, typer.Option(help="also run compiled code")] = True,
    out: Annotated[Path, typer.Option(help="where counter-examples are written")] = Path("out/fuzz"),
) -> None:
    """Check that many random programs and count."""
    out.mkdir(parents=True, exist_ok=True)
    start, runs, broken = time.time(), 0, 0
    with ProcessPoolExecutor(workers, max_tasks_per_child=200) as pool:
        for k, done in enumerate(as_completed([pool.submit(attempt, first + i, compiled) for i in range(programs)]), 1):
            seed, compared, story = done.result()
            runs += compared
            if story:
                broken += 1
                (out / f"{seed}.txt").write_text(story)
                print(story.strip().splitlines()[0], "—", story.strip().splitlines()[-1][:200], flush=True)
            if k % 500 == 0:
                print(f"{k} programs, {runs} comparisons, {broken} broken, {time.time() - start:.0f} s", flush=True)
    print(f"{programs} programs, {runs} comparisons, {broken} broken, {time.time() - start:.0f} s")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    typer.run(main)
