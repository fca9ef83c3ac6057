"""This checkout beside another one, row by row: `python benchmarks/old_and_new.py FOLDER [ROW …]`.

FOLDER is a checkout of an earlier commit (`git worktree add FOLDER COMMIT`) in which its C has been built (`python setup.py build_ext
--inplace` there). Each of the two runs in a process of its own, with its own package, rows and default schedules; both keep a row's
executable and arrays ready and are called in turn, in alternating order. Figures are ratios of medians, new to old, beside ratios of
minima. One executable against itself differs by up to 4 %, some rows by 9 %.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean, median
from typing import Annotated

import typer

HERE = Path(__file__).resolve().parent.parent
PAUSE = 0.002  # seconds between calls, as in `measure`
FEWEST, MOST = 12, 300  # turns


class Side:
    """A checkout in a process of its own, which makes a row ready and times its calls."""

    def __init__(self, root: Path, cache: str) -> None:
        command = [sys.executable, __file__, "--answer", str(root)]
        environment = {"RAIDO_NUM_THREADS": "2", **os.environ, "RAIDO_CACHE_DIR": cache}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, line: str) -> str:
        """The answer to a line; SystemExit where the process has ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"{self.process.args}: no answer to {line!r}")
        return answer


def answer(root: str) -> None:
    """Answers the lines of standard input for a checkout: "rows", "row NAME" makes it ready, "call" is the seconds of a call."""
    sys.path[:0] = [f"{root}/src", f"{root}/benchmarks"]
    from rows import ROWS

    import raido as rd

    if not str(Path(rd.__file__).resolve()).startswith(str(Path(root).resolve())):
        raise SystemExit(f"raido is that of {rd.__file__}, not of {root}")
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    call = lambda: None
    for line in sys.stdin:
        word, *names = line.split()
        reply = "ready"
        if word == "rows":
            reply = " ".join(ROWS)
        elif word == "row":
            call = lambda: None
            gc.collect()
            row = ROWS[names[0]]
            inputs = row.inputs(1)
            room = row.room(inputs, row.answers(inputs))
            executable = row.algorithm.compile(sizes=row.sizes(inputs))
            out = room[0] if len(room) == 1 else tuple(room)
            call = lambda run=executable, given=inputs, out=out: run(*given, out=out)
            call()
        else:
            start = time.perf_counter()
            call()
            reply = repr(time.perf_counter() - start)
        replies.write(reply + "\n")
        replies.flush()


def compared(sides: dict[str, Side], name: str, seconds: float) -> dict[str, list[float]]:
    """The seconds of the calls of a row, in turns."""
    for side in sides.values():
        side.ask(f"row {name}")
    times: dict[str, list[float]] = {which: [] for which in sides}
    begun = time.monotonic()
    while len(times["new"]) < FEWEST or (time.monotonic() - begun < seconds and len(times["new"]) < MOST):
        for which in sorted(sides, reverse=len(times["new"]) % 2 == 1):
            time.sleep(PAUSE)
            times[which].append(float(sides[which].ask("call")))
    return times


def main(
    folder: Annotated[Path, typer.Argument(help="a checkout of the earlier commit, built")],
    names: Annotated[list[str] | None, typer.Argument(metavar="ROW", help="all when none is named")] = None,
    seconds: Annotated[float, typer.Option(help="for each row, at least twelve turns")] = 6,
) -> None:
    """Prints a line for each row, and the geometric means."""
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        sides = {"old": Side(folder, old), "new": Side(HERE, new)}
        ratios: list[tuple[float, float]] = []
        for name in names or sides["new"].ask("rows").split():
            times = compared(sides, name, seconds)
            middle, least = ({k: f(v) for k, v in times.items()} for f in (median, min))
            ratios.append((middle["new"] / middle["old"], least["new"] / least["old"]))
            ms = f"old {1000 * middle['old']:9.3f} ms  new {1000 * middle['new']:9.3f} ms"
            print(f"{name:20} {ms}  {ratios[-1][0]:.3f}  minima {ratios[-1][1]:.3f}", flush=True)
        means = [geometric_mean(each) for each in zip(*ratios, strict=True)]
        print(f"{'geometric mean':20} {means[0]:.3f}  minima {means[1]:.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(sys.argv[2])
    else:
        typer.run(main)
