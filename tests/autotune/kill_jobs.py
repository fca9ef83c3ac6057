"""`raido tune`, with real processes and times, killed -9 at twenty random moments, then left to end: `python tests/autotune/kill_jobs.py`.

The long form of the test in test_jobs.py. It prints the content of the database before and after each kill, and fails when a measurement is
lost or made twice, or a process stays behind.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from raido.autotune.records.database import Database
from raido.autotune.records.record import Record

KILLS, TRIALS = 20, 150
PROGRAM = """
import raido as rd

@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: p[0, -1] + p[0, 0] + p[0, 1], img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: p[-1, 0] + p[0, 0] + p[1, 0], rows, boundary="clamp", name="cols")
"""


def kept(path: Path) -> list[Record]:
    """What the database holds now."""
    if not path.exists():
        return []
    with Database(path) as database:
        return database.records()


def still_there(group: int) -> list[str]:
    """The processes of a group that have not ended, after a while."""
    found: list[str] = []
    for _ in range(300):
        found = []
        for place in Path("/proc").glob("[0-9]*/stat"):
            fields = place.read_text().rpartition(")")[2].split() if place.exists() else ["Z", "0", "0"]
            if fields[0] != "Z" and int(fields[2]) == group:
                found.append(place.parent.name)
        if not found:
            break
        time.sleep(0.1)
    return found


def main() -> None:
    """Kills, counts, and lets the job end."""
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        path, program = Path(folder) / "tuning.db", Path(folder) / "program.py"
        program.write_text(PROGRAM)
        command = [sys.executable, "-m", "raido.cli", "tune", f"{program}:blur", "--sizes", "h=120,w=160"]
        command += ["--trials", str(TRIALS), "--search", "random", "--db", str(path)]
        for kill in range(KILLS):
            before = len(kept(path))
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            wanted, end = before + rng.randrange(4), time.monotonic() + 60
            while len(kept(path)) < wanted and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.5))
            job.kill()
            assert job.wait() < 0, "the job ended before it was killed"
            after = len(kept(path))
            print(f"kill {kill + 1}: {before} measurements before, {after} after", flush=True)
            assert after >= before and not still_there(job.pid)
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0])
        records = [record for record in kept(path) if record.kind != "final"]
        assert sorted(record.number for record in records) == list(range(TRIALS + 1))
        assert len({record.key for record in records}) == TRIALS + 1
        print(f"{TRIALS} trials and the default schedule, each measured once")


if __name__ == "__main__":
    main()
