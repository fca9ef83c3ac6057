"""Remedies in messages exist, and unknown names are answered with similar ones."""

from __future__ import annotations

import inspect
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.trace.remedies import numpy_name, rd_remedy

ALGO = Path(inspect.getfile(rd.Array)).resolve().parents[1]
NAMED = re.compile(r"\brd\.([A-Za-z_][\w.]*\w)")
HOMES: dict[str, Any] = {"": np, "linalg.": np.linalg, "fft.": np.fft}
FUNCTIONS = sorted(
    f"{home}{name}"
    for home, module in HOMES.items()
    for name in dir(module)
    if not name.startswith("_") and callable(getattr(module, name)) and not inspect.isclass(getattr(module, name))
)


def exists(dotted: str) -> bool:
    """Whether there is `rd.` and that name."""
    found: Any = rd
    for part in dotted.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_remedies_for_numpys_functions_exist() -> None:
    offered = {name: rd_remedy(name) for name in FUNCTIONS}
    assert offered["sin"] == "rd.sin" and offered["concatenate"] in ("rd.concatenate", "rd.concat")
    missing = {name: remedy for name, remedy in offered.items() if not all(map(exists, NAMED.findall(remedy or "")))}
    assert not missing


def test_functions_that_raido_has_are_offered_under_their_own_name() -> None:
    other_meaning = {"choose", "partition", "size", "load", "shape", "ndim"}
    for name in sorted({name for name in FUNCTIONS if exists(name)} - other_meaning):
        assert rd_remedy(name) == f"rd.{name}"


def test_a_library_that_fails_on_a_traced_value_is_named_with_its_remedy() -> None:
    special = pytest.importorskip("scipy.special")
    with pytest.raises(rd.TraceError, match=r"`scipy.special.logsumexp` of a traced value") as caught:
        rd.algorithm(lambda x: special.logsumexp(x)).interpret(np.ones(3))
    assert "try       rd.logsumexp" in str(caught.value) and "special.logsumexp(x)" in str(caught.value)
    with pytest.raises(TypeError, match="unexpected keyword"):  # the user's own mistake stays what it is
        rd.algorithm(lambda x: x + special.logsumexp(np.ones(2), nothing=1)).interpret(np.ones(3))


def test_remedies_in_messages_exist() -> None:
    """All that `remedy=` says in the sources of the language."""
    missing: list[str] = []
    for file in sorted(ALGO.rglob("*.py")):
        for text in re.findall(r"remedy=f?(\"[^\"]*\"|'[^']*')", file.read_text("utf-8")):
            plain = re.sub(r"rd\.\{[^}]*\}", "", text)
            missing += [f"{file.name}: {text}" for name in NAMED.findall(plain) if not exists(name)]
    assert not missing


@pytest.mark.parametrize(
    ("function", "name"),
    [(np.cumsum, "cumsum"), (np.linalg.norm, "linalg.norm"), (np.fft.fft, "fft.fft"), (np.dot, "dot"), (np.sin, "sin")],
)
def test_functions_have_their_names_under_np(function: Any, name: str) -> None:
    assert numpy_name(function) == name


@pytest.mark.parametrize(("wrong", "near"), [("arrray", "rd.array"), ("reshap", "rd.reshape"), ("sacn", "rd.scan")])
def test_near_names_are_told(wrong: str, near: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{wrong}'; near: .*{re.escape(near)}"):
        getattr(rd, wrong)


def test_far_names_are_not_answered() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'xylophone'$"):
        _ = rd.xylophone  # type: ignore[attr-defined]


MESSAGES: dict[str, tuple[Any, str, str]] = {
    "math": (lambda v: math.sin(v), "`math.sin` of a traced value", "rd.sin"),
    "math of integers": (lambda v: math.floor(v), "`math.floor` of a traced value", "rd.floor"),
    "float": (lambda v: float(v), "`float()` of a traced value", "rd.f64(x)"),
    "complex": (lambda v: complex(v), "`complex()` of a traced value", "rd.complex128(x)"),
    "numpy's types": (lambda v: np.float64(v), "`np.float64` of a traced value", "rd.f64(x)"),
    "array": (lambda v: np.array(v), "`np.array` of a traced value", "rd.array"),
    "format": (lambda v: f"{v:.3f}", "the format '.3f' of a traced value", "format the result"),
    "list": (lambda v: v * [1.0], "list in an expression", "rd.array([...])"),
    "dict": (lambda v: v + {"a": 1}, "dict in an expression", "rd.record"),
    "state in a dict": (lambda v: rd.loop(3, lambda i, s: s, {"a": v}), "dict in an expression", "rd.record"),
    "where": (
        lambda v: rd.where(v > 0),
        r"rd.where takes 3 values, (condition, x, y), not 1",
        "rd.where(condition, x, y)",
    ),
    "one too many": (lambda v: rd.sin(v, v), "rd.sin takes 1 value, (x), not 2", ""),
    "a method of a ufunc": (
        lambda v: np.add.reduce(v),
        "`np.add.reduce` on a traced value",
        "rd.reduce(rd.add, neutral, a)",
    ),
    "no function": (lambda v: np.choose(v, [v]), "`np.choose` on a traced value", ""),
}


def test_weights_in_second_place_are_no_number_of_bins() -> None:
    with pytest.raises(rd.ShapeError, match=r"f64\[n\] is no number of bins(.|\n)*try +rd\.bincount\(a, weights=…\)"):
        rd.algorithm(lambda a, w: rd.bincount(a, w)).trace(rd.i64["n"], rd.f64["n"])


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_say_what_to_write(name: str) -> None:
    f, said, remedy = MESSAGES[name]
    with pytest.raises(rd.TraceError) as caught:
        rd.algorithm(lambda a: rd.map(f, a)).trace(rd.f32["n"])
    text = str(caught.value)
    assert text.startswith(said)
    tried = text.partition("\n  try ")[2]
    assert remedy in tried if remedy else not tried


SIZES: dict[str, tuple[Any, str, str]] = {
    "rounded by math": (lambda n: rd.zeros(math.ceil(n / 2)), "`math.ceil` of a size", "-(-n // k)"),
    "rounded by NumPy": (lambda n: rd.zeros(int(np.ceil(n / 2))), "`np.ceil` on a traced value", "-(-n // k)"),
    "rounded by int": (lambda n: rd.zeros(int(n / 2)), "`int()` of a size", "n // k"),
    "not rounded": (lambda n: rd.zeros(n / 2), "a size is an integer, not f64", "n // k"),
    "root": (lambda n: rd.zeros(3) / math.sqrt(n), "`math.sqrt` of a size", "rd.sqrt"),
    "NumPy's array": (lambda n: np.linspace(0, 1, n), "`np.linspace` of a size", "rd.linspace"),
    "NumPy's random numbers": (lambda n: np.random.rand(n), "`np.random.rand` of a size", "rd.random.uniform"),
    "number of elements": (lambda n: rd.zeros(3) / np.prod((n, 2)), "`np.prod` of a size", "a.size"),
    "range": (lambda n: rd.loop(range(3), lambda i, s: s, n), "rd.loop(n, ...): n must be an integer", "rd.fori_loop"),
    "another structure": (
        lambda n: rd.loop(3, lambda i, s: (s, s), rd.zeros(3)),
        "the loop's body returns another structure than `init`: (f64[3], f64[3]), not f64[3]",
        "a body that returns f64[3], or an `init` like (f64[3], f64[3])",
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_messages_on_sizes_say_what_to_write(name: str) -> None:
    f, said, remedy = SIZES[name]
    with pytest.raises(rd.RaidoError) as caught:
        rd.algorithm(lambda a: f(a.shape[0])).trace(rd.f32["n"])
    text = str(caught.value)
    assert text.startswith(said) and remedy in text.partition("\n  try ")[2] and __file__ in text


def test_functions_that_numpy_has_in_modules_are_answered_with_those_of_the_module() -> None:
    assert rd_remedy("linalg.vector_nrm") == "rd.linalg.vector_norm"
    assert "np.linalg.eig" in (rd_remedy("linalg.eig") or "")
    assert rd_remedy("linalg.eigh") == "rd.linalg.eigh"
    assert "rd.tabulate" in (rd_remedy("lib.stride_tricks.sliding_window_view") or "")


def test_an_empty_format_is_the_repr() -> None:
    seen: list[str] = []
    rd.algorithm(lambda a: seen.append(f"{a}") or a).trace(rd.f32["n"])
    assert seen == ["<traced f32[n]>"]


@pytest.mark.parametrize(
    ("call", "said", "remedy"),
    [
        ("scipy.special.softmax(a)", "`scipy.special.softmax` of a traced value", "rd.softmax"),
        ("softmax(a)", "`scipy.special.softmax` of a traced value", "rd.softmax"),
        ("scipy.special.expit(a)", "`scipy.special.expit` of a traced value", "1 / (1 + rd.exp(-x))"),
        ("scipy.special.gamma(a)", "`scipy.special.gamma` of a traced value", "the call outside of the algorithm"),
        ("scipy.ndimage.gaussian_filter(a, 1)", "`scipy.ndimage.gaussian_filter` of a traced value", "rd.stencil"),
        ("scipy.linalg.solve(a, a)", "`scipy.linalg.solve` of a traced value", "rd.linalg.solve"),
    ],
)
def test_functions_of_scipy_are_answered_at_the_users_line(call: str, said: str, remedy: str, tmp_path: Path) -> None:
    for module in ("linalg", "ndimage", "special"):
        pytest.importorskip(f"scipy.{module}")
    scipy: Any = sys.modules["scipy"]
    file = tmp_path / "users.py"
    file.write_text(f"def f(a):\n    return {call}\n")
    names = {"scipy": scipy, "softmax": scipy.special.softmax}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(rd.TraceError) as caught:
        rd.algorithm(a="f64[n]")(names["f"]).trace()
    text = str(caught.value)
    assert text.startswith(said) and f"{file}:2" in text and remedy in text.partition("\n  try ")[2]


def test_indices_that_leave_an_array_are_answered_with_a_gather() -> None:
    f = rd.algorithm(lambda x: rd.map(lambda i: x[i - 1], rd.iota(x.shape[0])))
    for run in (f.interpret, f):
        with pytest.raises(rd.IndexOutOfRange, match="does not count from the end") as caught:
            run(np.ones(3))
        assert 'rd.gather(a, i, mode="clamp")' in str(caught.value)
    remedied = rd.algorithm(lambda x: rd.map(lambda i: rd.gather(x, i - 1, mode="wrap"), rd.iota(x.shape[0])))
    assert remedied.interpret(np.arange(3.0)).tolist() == [2, 0, 1]
