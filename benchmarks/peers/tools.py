"""Builds the programs of peers, with compilers of this system or of a system in a folder (by chroot)."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def missing(root: Path | None, *programs: str) -> list[str]:
    """Which of these programs are not installed."""
    path = os.pathsep.join(str(root / part) for part in ("usr/local/bin", "usr/bin", "bin")) if root else None
    return [program for program in programs if shutil.which(program, path=path) is None]


def build(root: Path | None, sources: Sequence[str], commands: Sequence[Sequence[str]], made: str) -> Path:
    """Runs the commands in a folder with copies of the sources, unless they have been run on the same before; gives the path of `made`."""
    files = {Path(source).name: (HERE / source).read_bytes() for source in sources}
    key = hashlib.sha256(repr((sorted(files.items()), commands, str(root))).encode()).hexdigest()[:16]
    inside = Path(tempfile.gettempdir() if root is None else "/var/tmp") / "raido-benchmarks" / key
    folder = inside if root is None else root / inside.relative_to("/")
    if not (folder / made).exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_bytes(text)
        script = " && ".join(" ".join(command) for command in commands)
        shell = ["chroot", str(root)] if root else []
        done = subprocess.run(
            [*shell, "sh", "-c", f"cd {inside} && {script}"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{script}\n{done.stdout}{done.stderr}")
    return folder / made
