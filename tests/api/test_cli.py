"""The command line from a user's view: files in, files out, one line for each failure."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from raido.algo.errors import TargetError
from raido.cli import main
from raido.locate import find_algorithm
from raido.progress import progress
from raido.targets.cache import Cache
from raido.targets.compile import compile_program
from raido.targets.cuda.nvrtc import supported_architectures

PROGRAM = """
import raido as rd

@rd.algorithm
def blur(img: rd.f32["h", "w"], *, by=3):
    return rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / by, img, boundary="clamp", name="rows")

@rd.algorithm
def parts(img: rd.f32["h", "w"], places: rd.i64["n"], gain: rd.f32):
    return (img * gain).named("scaled"), (rd.sum(img), img[0, places])

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


def test_several_results_go_to_several_files(program: str, tmp_path: Path) -> None:
    image = np.arange(12, dtype="f").reshape(3, 4)
    np.save(tmp_path / "a.npy", image)
    np.save(tmp_path / "at.npy", np.array([3, 0]))
    names = [str(tmp_path / name) for name in ("scaled.npy", "total.npy", "picked.npy")]
    inputs = ["-i", str(tmp_path / "a.npy"), "-i", str(tmp_path / "at.npy"), "-i", "0.5"]
    outputs = [part for name in names for part in ("-o", name)]
    assert run("run", program.replace("blur", "parts"), *inputs, *outputs) == 0
    scaled, total, picked = (np.load(name) for name in names)
    np.testing.assert_array_equal(scaled, image / 2)
    assert total == 66 and picked.tolist() == [3, 0]
    assert run("run", program.replace("blur", "parts"), *inputs, *outputs[:4]) == 1


def test_a_library_and_its_header_are_built(program: str, tmp_path: Path) -> None:
    assert run("build", program, "-o", str(tmp_path / "libblur.so")) == 0
    assert "blur" in (tmp_path / "blur.h").read_text()


@pytest.mark.parametrize("what", ["nest", "schedule", "gang", "asm"])
def test_show_prints_every_stage(program: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", program, "--as", what) == 0
    assert len(capsys.readouterr().out) > 50


def test_show_prints_code_for_other_processors(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for cpu, register in (("sapphirerapids", "zmm"), ("haswell", "ymm"), ("nehalem", "xmm")):
        assert run("show", program, "--as", "asm", "--target", f"llvm:{cpu}", "--schedule", "wide") == 0
        assert register in capsys.readouterr().out


def test_show_prints_code_for_a_gpu(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, word in (("schedule", 'bind("xi", "thread.x")'), ("nest", "thread.x xi in"), ("spirv", "ExecutionMode")):
        assert run("show", program, "--as", kind, "--target", "vulkan:any") == 0
        assert word in capsys.readouterr().out
    assert run("show", program, "--as", "asm", "--target", "vulkan:any") == 1
    assert "the forms are schedule, nest, kernels, tir, spirv" in capsys.readouterr().err


def test_show_writes_a_page(program: str, tmp_path: Path) -> None:
    assert run("show", program, "--html", str(tmp_path / "page.html")) == 0
    page = (tmp_path / "page.html").read_text()
    for words in ('class="loop">parallel', "blur(img: f32[h, w]) → f32[h, w]", "@media print", "<summary>Machine code"):
        assert words in page
    assert [path.name for path in tmp_path.glob("*.html")] == ["page.html"]


def test_targets_and_cache_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAIDO_CACHE_DIR", str(tmp_path))
    assert run("targets") == 0
    assert "llvm" in capsys.readouterr().out
    assert run("cache", "show") == 0
    assert capsys.readouterr().out == f"0 programs, 0.0 MB in {tmp_path}\n"


def test_the_cache_says_what_it_holds(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = Cache(tmp_path / "cache")
    monkeypatch.setattr("raido.targets.cache.default_folder", lambda: tmp_path / "cache")
    schedule = find_algorithm(program).schedule()
    compile_program(schedule.graph.program, schedule=schedule, cache=cache)
    schedule["rows"].vectorize("x")
    compile_program(schedule.graph.program, schedule=schedule, sizes={"h": 32}, cache=cache)
    for entry in cache.entries():
        path = next(cache.folder.rglob(f"{entry.key}*"))
        if cache.describe(entry.key)["steps"]:  # type: ignore[index]
            os.utime(path, (0, time.time() - 86400))
    assert run("cache", "show") == 0
    head, new, old, total = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["PROGRAM", "TARGET", "SIZES", "SCHEDULE"] and total.startswith("2 programs")
    assert new.split()[:4:3] == ["blur", "default"] and old.split()[2:5] == ["h=32", "1", "steps"]
    assert new.split()[-1].endswith(".py:6")
    assert run("cache", "clear", "--older", "12h") == 0
    assert capsys.readouterr().out == "removed 1 program\n" and len(cache.entries()) == 1
    next(cache.folder.rglob("*.entry")).write_bytes(b"damaged")
    assert run("cache", "show") == 0
    assert "(damaged)" in capsys.readouterr().out
    assert run("cache", "clear") == 0 and not cache.entries()


@pytest.mark.parametrize(
    "command", [[], ["run"], ["build"], ["show"], ["targets"], ["cache", "show"], ["cache", "clear"]]
)
def test_every_command_explains_itself(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith(" ".join(["Usage: raido", *command])) and "--help" in text
    assert run(*command, "--nonsense") == 2
    assert run("--version") == 0


def test_a_reader_that_has_seen_enough_is_no_news(program: str) -> None:
    command = f"{sys.executable} -m raido.cli show {program} --as asm | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1


def test_long_work_shows_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("raido.progress.PATIENCE", 0.01)
    with progress("compiling"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress("compiling"):
        time.sleep(0.2)
    assert "compiling" in capsys.readouterr().err


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
        (["show", "{program}", "--set", "bye=3"], "no static parameter 'bye'"),
        (["show", "{program}", "--set", "by='x'"], "str in an expression"),
        (["show", "{program}", "--as", "ptx"], "the forms are schedule, nest, gang, tir"),
        (["show", "{program}", "--target", "metal"], 'unknown target "metal"'),
        (["show", "{program}", "--html", "{folder}/none/a.html"], "No such file or directory"),
        (["show", "{folder}/broken.py:f"], "SyntaxError"),
        (["show", "{program}", "--schedule", "{folder}/broken.json"], "not a schedule in JSON"),
        (["show", "{program}", "--schedule", "{folder}/none.json"], "No such file"),
        (["build", "{program}", "-o", "{folder}/a.dll"], 'ends in ".so"'),
        (["run", "{program}", "-i", "{folder}"], "is a folder"),
        (["run", "{program}", "-i", "{folder}/broken.npy"], "cannot read"),
        (["run", "{program}", "-i", "{folder}/broken.png"], "cannot read"),
        (["run", "{program}", "-i", "3.5"], "f32[h, w]"),
        (["run", "{program}", "-i", "{folder}/f64.npy"], "astype"),
        (["run", "{program}", "-i", "{folder}/f32.npy", "-o", "{folder}/a.xyz"], "no image format"),
        (["run", "{program}", "-i", "{folder}/f32.npy", "-o", "{folder}/none/a.npy"], "no such folder"),
        (["run", "{program}", "-i", "{folder}/f32.npy", "-o", "a.npy", "-o", "b.npy"], "returns 1"),
        (["cache", "clear", "--older", "soon"], "a number and a unit"),
    ],
)
def test_a_failure_is_one_line(
    program: str, tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("broken.py", "broken.json", "broken.npy", "broken.png"):
        (tmp_path / name).write_text("def (")
    np.save(tmp_path / "f64.npy", np.zeros((3, 4)))
    np.save(tmp_path / "f32.npy", np.zeros((3, 4), "f"))
    before = sorted(tmp_path.iterdir())
    assert run(*[a.replace("{program}", program).replace("{folder}", str(tmp_path)) for a in arguments]) == 1
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before


def test_libraries_for_cuda_have_code_for_the_architectures_that_are_named(program: str, tmp_path: Path) -> None:
    library = tmp_path / "libblur.so"
    names = ("--target", "cuda:sm_90", "--architectures", "sm_80, compute_80")
    try:
        supported_architectures()
    except TargetError as error:
        pytest.skip(str(error))
    assert run("build", program, "-o", str(library), *names) == 0
    _, found, rows = library.read_bytes().partition(b"RaidoCU\0" + struct.pack("<Q", 2))
    assert found and [struct.unpack_from("<II", rows, 24 * k) for k in range(2)] == [(80, 0), (80, 1)]


@pytest.mark.parametrize(
    ("target", "names", "said"),
    [
        ("cuda:sm_90", "sm_8", "architectures= has 'sm_8'"),
        ("llvm", "sm_80", 'for programs for CUDA, and this one is for "llvm": give --target cuda:sm_90'),
    ],
)
def test_architectures_that_there_are_not(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, names: str, said: str
) -> None:
    assert run("build", program, "-o", str(tmp_path / "libblur.so"), "--target", target, "--architectures", names) == 1
    error = capsys.readouterr().err
    assert said in " ".join(error.split()) and error.count("raido:") == 1


def test_the_command_is_a_module_as_well() -> None:
    command = [sys.executable, "-m", "raido", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"raido {version('raido')}\n"
