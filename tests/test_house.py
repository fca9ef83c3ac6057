"""The repository's rules as tests: style, format, layers and types."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "raido"
FOLDERS = ("algo", "schedule", "targets", "autotune")
PROGRAM = """# pyright: strict
import numpy as np

import raido as rd


@rd.algorithm(img="f32[h, w]")
def blur(img: rd.Array, *, by: float = 3.0) -> rd.Array:
    def along(p: rd.Array) -> rd.Array:
        return (p[0, -1] + p[0, 0] + p[0, 1]) / by

    rows = rd.stencil(along, img, boundary="clamp", name="rows")
    columns = rd.stencil(lambda p: sum(p[dy, 0] for dy in (-1, 0, 1)), rows)
    sums = rd.map(lambda row, column: (row.sum(), row * column), img, columns)[0]
    scaled = rd.tabulate((img.shape[0], img.shape[1]), lambda i, j: columns[i, j] / sums[i])
    kept = rd.filter(lambda row: row[0] > 0, scaled)
    return rd.where(rows > 0.5, rows, -rows) + kept.sum()


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


def test_src_links_every_file_of_the_package() -> None:
    """A file of `api/` without a link in `src/raido` can be imported nowhere, and is missing from the wheel."""
    links = {path.name: path.resolve() for path in PACKAGE.iterdir() if path.is_symlink()}
    files = [path for path in (ROOT / "api").iterdir() if path.name != "__pycache__"]
    assert links == {path.name: path for path in [*files, *(ROOT / folder for folder in FOLDERS)]}


def test_every_folder_of_code_is_a_package() -> None:
    """A folder without `__init__.py` is missing from the wheel, though everything works in the working tree."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_no_format_of_pythons_interface_depends_on_the_version_that_builds_it() -> None:
    """Formats with `#` take sizes of another type where the headers of 3.13 compile them for an earlier Python."""
    text = (ROOT / "targets" / "runtime" / "raido_call.c").read_text()
    formats = re.findall(r"Py(?:Object_Call|Arg_Parse|_BuildValue)\w*\([^;]*;", text)
    assert formats and not any("#" in call for call in formats)


def test_imports_point_down_the_layers() -> None:
    script = (
        "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_hold(tmp_path: Path) -> None:
    """pyright finds nothing in the package, nor, at its strictest, in a program that uses it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "raido").symlink_to(PACKAGE)  # pyright includes nothing outside of its project
    config = {
        "include": ["raido", *(f"raido/{folder}" for folder in FOLDERS), "program.py"],
        "pythonVersion": "3.10",
        "typeCheckingMode": "basic",
        "reportMissingImports": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path), "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
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
    assert int(raido.split()[1]) < 130, "modules"


def test_import_works_from_any_directory(tmp_path: Path) -> None:
    for place in (ROOT, ROOT / "tests", tmp_path):
        subprocess.run(
            [sys.executable, "-c", "import raido, raido.algo, raido.schedule, raido.targets"], cwd=place, check=True
        )
