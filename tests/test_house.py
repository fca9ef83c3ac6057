"""The house stays in order: style, format, layers and types are tests like any other."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"algo": "algo", "schedule": "schedule", "targets": "targets", "autotune": "autotune"}


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_code_is_linted() -> None:
    run("ruff", "check", ".")


def test_code_is_formatted() -> None:
    run("ruff", "format", "--check", ".")


def test_imports_point_down_the_layers() -> None:
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_are_right(tmp_path: Path) -> None:
    """The folders are laid out as the package they become, since a type checker does not read setuptools' map."""
    package = tmp_path / "raido"
    package.mkdir()
    for file in (ROOT / "api").iterdir():
        (package / file.name).symlink_to(file)
    for folder, name in FOLDERS.items():
        (package / name).symlink_to(ROOT / folder)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps(
            {"include": ["raido"], "pythonVersion": "3.10", "typeCheckingMode": "basic", "reportMissingImports": False}
        )
    )
    run("pyright", "--pythonpath", sys.executable, "-p", str(tmp_path), cwd=tmp_path)


def test_import_is_quick_and_leaves_tvm_alone() -> None:
    script = "import time, sys; t = time.perf_counter(); import numpy; n = time.perf_counter(); import raido; \
print(time.perf_counter() - n, time.perf_counter() - t, 'tvm' in sys.modules)"
    best = 1e9
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        _, whole, tvm = done.stdout.split()
        assert tvm == "False"
        best = min(best, float(whole))
        time.sleep(0.05)
    assert best < 0.2


def test_import_works_from_any_directory(tmp_path: Path) -> None:
    for place in (ROOT, ROOT / "tests", tmp_path):
        subprocess.run(
            [sys.executable, "-c", "import raido, raido.algo, raido.schedule, raido.targets"], cwd=place, check=True
        )
