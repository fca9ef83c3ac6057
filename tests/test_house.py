"""The house stays in order: style, format, layers and types are tests like any other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("algo", "schedule", "targets", "autotune")
PROGRAM = """# pyright: strict
import numpy as np

import raido as rd


@rd.algorithm(img="f32[h, w]")
def blur(img: rd.Array, *, by: float = 3.0) -> rd.Array:
    def along(p: rd.Array) -> rd.Array:
        return (p[0, -1] + p[0, 0] + p[0, 1]) / by

    rows = rd.stencil(along, img, boundary="clamp", name="rows")
    return rd.where(rows > 0.5, rows, -rows)


s = blur.schedule()
s["rows"].tile(y=32, x=512).parallel("yo").vectorize("xi")
exe = blur.compile(schedule=s)
print(exe(np.zeros((4, 5), np.float32)), s.show())
"""


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


def test_every_folder_of_code_is_packaged() -> None:
    """A folder that pyproject.toml does not name is missing from the wheel, though everything works in the working tree."""
    text = (ROOT / "pyproject.toml").read_text()
    packaged = set(
        re.findall(r'"(raido[\w.]*)"', text[text.index("packages = [") : text.index("[tool.setuptools.package-data]")])
    )
    files = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert packaged == {"raido"} | {".".join(("raido", *file.parent.parts)) for file in files}


def test_imports_point_down_the_layers(package: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", package)
    script = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", script], cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_hold(package: Path) -> None:
    """pyright finds nothing in the package, nor, at its strictest, in a program that uses it."""
    (package / "program.py").write_text(PROGRAM)
    config = {
        "include": ["raido", "program.py"],
        "pythonVersion": "3.10",
        "typeCheckingMode": "basic",
        "reportMissingImports": False,
    }
    (package / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(package), "--outputjson"]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] > 100
    errors = [
        f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}"
        for d in report["generalDiagnostics"]
        if d["severity"] == "error"
    ]
    assert not errors, "\n".join(errors)


def test_import_is_quick_and_leaves_tvm_alone() -> None:
    """At most half the work of importing NumPy, which is part of it: functions that are called, which are as many however busy the
    machine is. Today a fifth of 140,000; what only some commands need is imported by them."""
    script = """if True:
        import sys
        calls = 0
        def count(frame, event, _):
            global calls
            calls += event in ("call", "c_call")
        for name in ("numpy", "raido"):
            calls, before = 0, set(sys.modules)
            sys.setprofile(count)
            __import__(name)
            sys.setprofile(None)
            print(calls, len(set(sys.modules) - before))
        print(*sorted({"asyncio", "matplotlib", "multiprocessing", "rich", "scipy", "tvm", "tvm_ffi", "typer", "xgboost"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    numpy, raido, late = done.stdout.splitlines()
    assert late == ""
    assert 1000 < int(raido.split()[0]) < int(numpy.split()[0]) / 2
    assert int(raido.split()[1]) < 120, "modules"


def test_import_works_from_any_directory(tmp_path: Path) -> None:
    for place in (ROOT, ROOT / "tests", tmp_path):
        subprocess.run(
            [sys.executable, "-c", "import raido, raido.algo, raido.schedule, raido.targets"], cwd=place, check=True
        )
