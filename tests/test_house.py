"""The house stays in order: style, format, layers and types are tests like any other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TYPE_FINDINGS = 70
FOLDERS = ("algo", "schedule", "targets", "autotune")


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_code_is_linted() -> None:
    run("ruff", "check", ".")


def test_code_is_formatted() -> None:
    run("ruff", "format", "--check", ".")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package laid out as it is installed: checkers of types and imports do not read setuptools' map."""
    place = tmp_path_factory.mktemp("house")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "api", place / "raido", ignore=ignore)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, place / "raido" / folder, ignore=ignore)
    return place


def test_imports_point_down_the_layers(package: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", package)
    script = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", script], cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_get_no_worse(package: Path) -> None:
    """A ratchet: the findings left (most of them where an expression of a nest meets index arithmetic) may only become fewer."""
    config = {"include": ["raido"], "pythonVersion": "3.10", "typeCheckingMode": "basic", "reportMissingImports": False}
    (package / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(package), "--outputjson"]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    errors = [
        f"{d['file']}:{d['range']['start']['line']}: {d['message']}"
        for d in report["generalDiagnostics"]
        if d["severity"] == "error"
    ]
    assert len(errors) <= TYPE_FINDINGS, "\n".join(errors)


def test_import_is_quick_and_leaves_tvm_alone() -> None:
    script = "import time, sys; t = time.perf_counter(); import numpy; n = time.perf_counter(); import raido; \
print(time.perf_counter() - n, time.perf_counter() - t, 'tvm' in sys.modules)"
    best = 1e9
    for _ in range(10):
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
