"""Representations of algorithms, schedules, executables, timings and tunings in a notebook, which is executed, and at a prompt."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.trace.tracebacks import LEAVES_NO_FRAME

CELLS = {
    "imports": "import numpy as np\nimport raido as rd\nimg = np.ones((30, 40), np.float32)",
    "algorithm": """@rd.algorithm
def blur(img: rd.f32["h", "w"], *, by=3.0):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / by, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / by, rows, boundary="clamp", name="cols<b>")
blur""",
    "schedule": 's = blur.schedule()\ns["cols<b>"].tile(y=8, x=16).parallel("yo")\ns',
    "executable": "exe = blur.compile(schedule=s)\nexe",
    "timing": "exe.time(img, repeat=3)",
    "tuning": 'rd.autotune(blur, {"h": 16, "w": 32}, trials=0)',
    "argument": "exe(img[0])",
    "directive": 's["rows"].vectorise("x")',
}
REFUSED = {"argument": "ArgumentError", "directive": "ScheduleError"}
TIMES = r"\d[\d.e-]* ms"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each cell shows, by type of content, of a notebook that a kernel has run."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    tags = {name: ["raises-exception"] * (name in REFUSED) for name in CELLS}
    cells = [nbformat.v4.new_code_cell(text, metadata={"tags": tags[name]}) for name, text in CELLS.items()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}  # it leaves a database there
    client.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute()
    return {name: _data(cell) for name, cell in zip(CELLS, notebook.cells, strict=True)}


def _data(cell: Any) -> dict[str, str]:
    shown = {output["output_type"]: output for output in cell["outputs"]}
    if "error" in shown:
        return {"error": re.sub(r"\x1b\[[\d;]*m", "", "\n".join(shown["error"]["traceback"]))}
    return dict(shown["execute_result"]["data"]) if "execute_result" in shown else {}


@pytest.mark.slow
def test_an_algorithm_shows_its_parameters_and_its_lines(shown: dict[str, dict[str, str]]) -> None:
    assert shown["algorithm"]["text/plain"] == "<algorithm blur(img: f32[h, w], *, by=3.0)>"
    html = shown["algorithm"]["text/html"]
    assert "blur(img: f32[h, w], *, by=3.0)" in html and "boundary=&quot;clamp&quot;" in html


@pytest.mark.slow
def test_a_schedule_shows_stages_axes_and_directives(shown: dict[str, dict[str, str]]) -> None:
    assert shown["schedule"]["text/plain"] == "<Schedule of blur: 2 steps; stages rows, cols<b>>"
    html = shown["schedule"]["text/html"]
    row = r"<td><code>cols&lt;b&gt;</code></td><td><code>[^<]*:\d+</code></td><td><code>yo, xo, yi, xi</code></td>"
    assert re.search(row, html), html
    assert ".tile(y=8, x=16).parallel(&quot;yo&quot;)" in html and "by default" in html and "<b>&gt;" not in html


@pytest.mark.slow
def test_an_executable_shows_its_interface(shown: dict[str, dict[str, str]]) -> None:
    assert shown["executable"]["text/plain"] == "<Executable blur(img: f32[h, w]) -> f32[h, w]>"
    assert "<td><code>img</code></td><td><code>f32[h, w]</code></td>" in shown["executable"]["text/html"]


@pytest.mark.slow
def test_a_timing_shows_milliseconds_and_bandwidth(shown: dict[str, dict[str, str]]) -> None:
    plain = rf"<Timing {TIMES}; median {TIMES} of 3 runs; \d[\d.e-]* GB/s>"
    assert re.fullmatch(plain, shown["timing"]["text/plain"]), shown["timing"]["text/plain"]
    assert "<code>0.0096 MB</code>" in shown["timing"]["text/html"]


@pytest.mark.slow
def test_a_tuning_shows_its_best_schedule(shown: dict[str, dict[str, str]]) -> None:
    assert shown["tuning"]["text/plain"].startswith("<Tuning blur on llvm:")
    assert "s = blur.schedule()" in shown["tuning"]["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_shows_the_cell_and_the_message(shown: dict[str, dict[str, str]], name: str) -> None:
    text = shown[name]["error"]
    assert REFUSED[name] in text and CELLS[name] in text
    files = [line for line in text.splitlines() if line.startswith("File ")]
    assert len(files) <= (0 if LEAVES_NO_FRAME else 1), text  # the border, on Python 3.10


def test_what_is_shown_is_never_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raido.targets.memory_speed.measured_speed", lambda: 1e10)

    @rd.algorithm(a="f32[n]")
    def f(a: rd.Array, *, word: str = "<script>") -> rd.Array:
        return rd.map(lambda x: x + 1, a, name="s<i>")

    s = f.schedule()
    for value in (f, s, f.compile(), f.compile().time(np.ones(3, np.float32), repeat=1)):
        assert "<script>" not in value._repr_html_() and "<i>" not in value._repr_html_()
    assert repr(rd.capture(f, word="x" * 200)).count("x") < 60
