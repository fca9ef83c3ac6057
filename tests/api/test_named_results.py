"""Dicts of results: their names in representations of executables, and `out=` as a dict, which is returned itself."""

from __future__ import annotations

import importlib.util
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd

Ends = namedtuple("Ends", "low high")
X = np.arange(3.0)


@rd.algorithm(x="f64[n]")
def summary(x: rd.Array) -> Any:
    return {"twice": x * 2, "total": rd.sum(x)}


@rd.algorithm(x="f64[n]")
def nested(x: rd.Array) -> Any:
    return x + 1, {"first": x[0]}, Ends(rd.min(x), rd.max(x))


def test_executables_show_the_names_of_results() -> None:
    assert repr(summary.compile()) == "<Executable summary(x: f64[n]) -> twice: f64[n], total: f64>"
    assert repr(nested.compile()).endswith("-> f64[n], [1].first: f64, [2].low: f64, [2].high: f64>")
    assert "-> twice: f64[n], total: f64" in repr(summary.compile().signature)
    assert "<code>twice</code></td><td><code>f64[n]</code>" in summary.compile()._repr_html_()


@pytest.mark.parametrize("given", [X, X.tolist()])  # by the quick way, and by the complete one
def test_what_is_given_as_out_comes_back(given: Any) -> None:
    exe, out = summary.compile(), {"twice": np.empty(3), "total": np.empty(())}
    assert exe(given, out=out) is out and out["twice"].tolist() == [0, 2, 4] and out["total"] == 3
    call = exe.bind(given, out=out)
    call.run()
    assert call.result() is out
    several = (np.empty(3), {"first": np.empty(())}, Ends(np.empty(()), np.empty(())))
    assert nested.compile()(given, out=several) is several and several[2].high == 2
    apart = {"twice": np.empty(6)[::2], "total": np.empty(())}  # copied into
    assert exe(given, out=apart) is apart and apart["twice"].tolist() == [0, 2, 4]


def test_results_that_data_cuts_are_new() -> None:
    positive = rd.algorithm(lambda x: {"kept": rd.filter(lambda v: v > 0, x)}, x="f64[n]").compile()
    out = {"kept": np.empty(3)}
    assert positive(X, out=out)["kept"].tolist() == [1, 2] and positive(X, out=out) is not out


@pytest.mark.parametrize("out", [(np.empty(3), np.empty(())), {"twice": np.empty(3)}, {"twice": X, "sum": X}, X])
def test_another_structure_is_answered_with_the_right_one(out: Any) -> None:
    with pytest.raises(rd.ArgumentError, match=r"summary: out must be a dict") as caught:
        summary(X, out=out)
    assert '\n  try       out={"twice": …, "total": …}' in str(caught.value)


def test_the_same_program_gives_the_same_library_wherever_it_stands(tmp_path: Path) -> None:
    text = "import raido as rd\n\n\n@rd.algorithm(x='f64[n]', i='i64[m]')\ndef taken(x, i):\n    return x[i]\n"
    written = []
    for folder in (tmp_path / "one", tmp_path / "two" / "deeper"):
        folder.mkdir(parents=True)
        (folder / "program.py").write_text(text)
        spec = importlib.util.spec_from_file_location("program", folder / "program.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        library = module.taken.compile().export(folder / "libtaken.so")
        written.append((library.read_bytes(), (folder / "taken.h").read_bytes()))
        with pytest.raises(rd.IndexOutOfRange, match=r"algorithm program\.py:6   return x\[i\]"):
            rd.load(library)(X, np.array([5]))
    assert written[0] == written[1] and str(tmp_path).encode() not in written[0][0]
