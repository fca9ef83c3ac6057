"""The command for machines with a GPU, at tiny sizes over the driver without one: every part, its results and its table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_driver import load_driver
from twin_compiler import twin_compiler

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

import gpu
import gpu_programs
from typer.testing import CliRunner

import raido as rd
from raido.targets.cuda.opened import open_device

ROWS = ("copy", "jacobi2d_5")


class Imagined:
    """An array of a library that can copy it, and no more."""

    def __init__(self, array: rd.DeviceArray) -> None:
        self.array = array

    def copy(self) -> rd.DeviceArray:
        return rd.device_array(self.array, "cuda")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs, compiled for the driver."""
    made = tmp_path_factory.mktemp("gpu")
    with twin_compiler(load_driver()) as compiler, pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_programs, "make_kernels", compiler.make_kernels)
        patch.setattr(gpu_programs, "version", lambda: "none")
        gpu_programs.prepare(made, "sm_90", range(1, 2), ROWS, 2, lambda said: None)
        compiler.build()
        yield made
    open_device().close()


def test_everything_is_run_and_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imagined", SimpleNamespace(from_dlpack=Imagined))
    libraries = {
        name: gpu.Library(module, lambda module: 0) for name, module in (("CuPy", "imagined"), ("PyTorch", "nowhere"))
    }
    monkeypatch.setattr(gpu, "LIBRARIES", libraries)
    sanitizer = tmp_path / "compute-sanitizer"
    sanitizer.write_text('#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors"\n')
    sanitizer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    out = tmp_path / "results.json"
    arguments = [f"--folder={folder}", f"--out={out}", "--scale=50000", "--samples=2", "--budget=100"]
    done = CliRunner().invoke(app(), arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    ((name, found),) = json.loads(out.read_text()).items()
    assert name == "Imagined GPU 0" and found["compiled for"] == "sm_90"
    assert found["corpus"] == {"programs": 2, "wrong": []} and found["law"] == {"programs": 1, "wrong": []}
    assert found["sanitizer"] == dict.fromkeys(("memcheck", "racecheck"), "ERROR SUMMARY: 0 errors")
    rows = found["table"]
    assert [list(row["seconds"]) for row in rows.values()] == [
        ["raido", gpu.COPY, "CUDA by hand", "CuPy"],
        ["raido", gpu.COPY, "CUDA by hand"],
    ]
    assert all(seconds > 0 for row in rows.values() for seconds in row["seconds"].values())
    assert all("Vulkan" in row["absent"] for row in rows.values())
    assert "No module named 'nowhere'" in rows["copy"]["absent"]["PyTorch"]
    text = gpu.table(rows)
    assert text.splitlines()[0].startswith("| row | raido, ms | GB/s | of a copy | raido / CUDA by hand |")
    assert len(text.splitlines()) == 4 and "| copy of 10⁸ f32 |" in text


def test_what_is_wrong_is_said(folder: Path, tmp_path: Path) -> None:
    corpus = gpu_programs.read_part(folder, "corpus")
    wrong = gpu_programs.Checked("wrong", corpus[1].executable, corpus[1].arguments, corpus[1].want + 1, (True,))
    found = gpu.run_corpus([corpus[0], wrong])
    assert found["programs"] == 2 and [each["program"] for each in found["wrong"]] == ["wrong"]
    law = gpu_programs.read_part(folder, "law")[0]
    other = gpu_programs.Checked("other", law.executable, law.arguments, ValueError, law.exact)
    assert "expected ValueError" in gpu.run_law([other])["wrong"][0]["fault"]
    text = gpu.table({"sum": {"wrong": "raido: 3 of 9 results are wrong"}})
    assert "| raido: 3 of 9 results are wrong |" in text


def test_a_part_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"gpu\.py --prepare. where TVM and NVRTC are"):
        gpu_programs.read_part(tmp_path, "law")
    done = CliRunner().invoke(app(), ["--only=speed"])
    assert str(done.exception or done.output).startswith("no such part: speed") or "no such part" in done.output


def app() -> Any:
    import typer

    found = typer.Typer(add_completion=False)
    found.command()(gpu.main)
    return found
