"""The documents are true: their programs run and print the output below them, links and paths lead somewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import pytest

from raido.algo.errors import TargetError
from raido.schedule.directives import RULES
from raido.targets.vulkan.library import find_device

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
ids = lambda path: path.name


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if "```python" in d.read_text("utf-8")], ids=ids)
def test_programs_run_and_print_what_is_shown(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a document are one program; a block of text below one is what it prints."""
    monkeypatch.chdir(tmp_path)
    if document.name == "gpu.md":
        require_device()
    text = document.read_text("utf-8")
    names: dict[str, Any] = {"__name__": document.stem}
    programs = list(PROGRAMS.finditer(text))
    assert len(programs) == text.count("```python"), "each block is found"
    for found in programs:
        line = text[: found.start()].count("\n") + 1
        source = "\n" * line + found[1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(document), "exec"), names)
        if found[2] is not None:
            assert printed.getvalue().strip() == found[2].strip(), f"{document.name}:{line}"


def require_device() -> None:
    """Skips the test, saying why, where there is no device."""
    try:
        find_device()
    except TargetError as error:
        pytest.skip(f"{error}; apt-get install mesa-vulkan-drivers libvulkan1")


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_links_lead_to_files(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8")):
        assert link.startswith("https://") or (document.parent / link).exists(), link


@pytest.mark.parametrize("document", [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=ids)
def test_files_that_are_named_exist(document: Path) -> None:
    """A path from the root, or the end of one where the folder was named before."""
    ours = [p.relative_to(ROOT).as_posix() for folder in FOLDERS for p in (ROOT / folder).rglob("*")]
    named = re.findall(r"`([\w/.]+/|[\w/]+\.(?:py|c|h|md|json))`", document.read_text("utf-8"))
    assert len(named) > 20
    for name in named:
        path = name.rstrip("/")
        assert (ROOT / path).exists() or any(f"/{each}".endswith(f"/{path}") for each in ours), name


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_guide_has_every_directive(name: str) -> None:
    assert f"`{name}(" in (ROOT / "docs" / "guide.md").read_text("utf-8")


FOLDERS = ("algo", "schedule", "targets", "autotune", "api", "tests", "docs", "examples", "benchmarks")


def test_the_map_shows_what_the_compiler_prints() -> None:
    """`python examples/follow_one_program.py --write` brings it up to date."""
    path = ROOT / "examples" / "follow_one_program.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    follow = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(follow)
    now = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    for kind in ("schedule", "nest", "gang"):
        assert f"<!-- printed: {kind} -->" in now
    code = re.compile(
        r"<!-- printed: asm -->.*?(?=\nThe lines)", re.DOTALL
    )  # LLVM's own text may move without a change of ours
    assert code.sub("", follow.with_texts(now)) == code.sub("", now)
