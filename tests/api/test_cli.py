"""The command line as a user meets it: files in, files out, one line for each failure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from raido.cli import main

PROGRAM = """
import raido as rd

@rd.algorithm
def blur(img: rd.f32["h", "w"], *, by=3):
    return rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / by, img, boundary="clamp", name="rows")

def wide(algorithm):
    s = algorithm.schedule()
    s["rows"].split("y", 8).vectorize("x").parallel("yo")
    return s
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / f"{tmp_path.name}.py"
    file.write_text(PROGRAM)
    return f"{file}:blur"


def run(*arguments: str) -> int:
    try:
        main(list(arguments))
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_arrays_in_and_out(program: str, tmp_path: Path) -> None:
    image = np.random.default_rng(1).random((20, 30), dtype=np.float32)
    np.save(tmp_path / "a.npy", image)
    out = tmp_path / "b.npy"
    assert (
        run("run", program, "-i", str(tmp_path / "a.npy"), "-o", str(out), "--schedule", "wide", "--set", "by=2") == 0
    )
    p = np.pad(image, ((0, 0), (1, 1)), mode="edge")
    np.testing.assert_allclose(np.load(out), (p[:, :-2] + p[:, 1:-1] + p[:, 2:]) / 2, rtol=1e-6)


def test_images_in_and_out(program: str, tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.full((8, 9, 3), 100, np.uint8)).save(tmp_path / "a.png")
    assert run("run", program, "-i", str(tmp_path / "a.png"), "-o", str(tmp_path / "b.png")) == 0
    assert (np.asarray(Image.open(tmp_path / "b.png")) == 100).all()


def test_a_library_and_its_header_are_built(program: str, tmp_path: Path) -> None:
    assert run("build", program, "-o", str(tmp_path / "libblur.so")) == 0
    assert "blur" in (tmp_path / "blur.h").read_text()


@pytest.mark.parametrize("what", ["nest", "schedule", "gang", "asm"])
def test_show_prints_every_stage(program: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", program, "--as", what) == 0
    assert len(capsys.readouterr().out) > 50


def test_show_writes_a_page(program: str, tmp_path: Path) -> None:
    assert run("show", program, "--html", str(tmp_path / "page.html")) == 0
    assert "parallel" in (tmp_path / "page.html").read_text()


def test_targets_and_cache_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAIDO_CACHE_DIR", str(tmp_path))
    assert run("targets") == 0 and run("cache", "show") == 0 and run("cache", "clear") == 0
    assert "llvm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.py:f"], "no such file"),
        (["run", "{program}x"], "has no algorithm"),
        (["run", "{program}"], "takes 1"),
        (["run", "{program}", "-i", "missing.npy"], "no such file"),
        (["run", "nothing"], "FILE.py:ALG"),
        (["show", "{program}", "--schedule", "nope"], "no function"),
        (["show", "{program}", "--set", "by"], "NAME=VALUE"),
    ],
)
def test_a_failure_is_one_line(
    program: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*[a.replace("{program}", program) for a in arguments]) == 1
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1
