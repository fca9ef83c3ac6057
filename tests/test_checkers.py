"""Type checkers on a user's file: the right types, and errors at the marked lines, nowhere else.

`python tests/test_checkers.py PYTHON` checks the same against the raido that is installed for another Python, as CI does with the wheel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import raido as rd

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
from typing import Annotated, Any

import numpy as np

import raido as rd


@rd.algorithm(img="f32[h, w]")
def blur(img: rd.Array, *, by: float = 3.0) -> rd.Array:
    def along(p: rd.Array) -> rd.Array:
        return (p[0, -1] + p[0, 0] + p[0, 1]) / by

    rows = rd.stencil(along, img, boundary="clamp", name="rows")
    return rd.where(rows > 0.5, rows, -rows)


@rd.algorithm
def dot(a: Annotated[rd.Array, "f32[n]"], b: Annotated[rd.Array, "f32[n]"]) -> rd.Array:
    return rd.sum(a * b) + rd.exp(rd.max(a)) + a[0] + 2 * b[-1] + rd.f32(1)


@rd.algorithm(contract=False)
def both(pair: tuple[Annotated[rd.Array, "f32[n]"], Annotated[rd.Array, "f32[n]"]]) -> tuple[rd.Array, rd.Array]:
    a, b = pair
    halves = rd.loop(3, lambda i, state: state * 0.5, a)
    return rd.map(lambda x, y: rd.sqrt(x) + y, halves, b), rd.scan(rd.add, 0.0, a)


@rd.algorithm(a="f64[n, m]", k="i64[q]")
def everyday(a: rd.Array, k: rd.Array) -> rd.Array:
    changed = a.at[0, 1].set(2.0)
    counts = rd.reduce_by_index(rd.zeros(8, dtype=rd.i64), rd.add, 0, k, 1)
    grown = rd.fori_loop(0, 3, lambda i, state: state * 2 + i, changed)
    return rd.einsum("ij,kj->ik", grown, rd.concatenate([a, rd.ones((2, 3))])) + rd.sum(counts) * rd.linalg.norm(a[0])


@rd.algorithm(a="f32[n]", b="f32[n]")
def composed(a: rd.Array, b: rd.Array) -> rd.Array:
    def body(i: rd.Array, state: rd.Array) -> rd.Array:
        first, _ = both((state, b))
        return first + dot(state, b)

    last: rd.Array = a[-1]
    for row in rd.zeros((2, 3)):
        last = last + row[0]
    positive = rd.filter(lambda x: x > 0, rd.unique(rd.loop(a.ndim, body, a)))
    few, many = rd.partition(lambda x: x < 1, positive)
    return rd.sum(few) / positive.shape[0] + rd.sum(many) + last * a.size


def step(i: int, state: rd.Array) -> rd.Array:
    return state + i


def exchanged(i: rd.Array, state: tuple[rd.Array, rd.Array]) -> tuple[rd.Array, rd.Array]:
    return state[1] + i, state[0]


def sums_and_products(x: tuple[rd.Array, rd.Array], y: tuple[rd.Array, rd.Array]) -> tuple[rd.Array, rd.Array]:
    return x[0] + y[0], x[1] * y[1]


@rd.algorithm(a="f32[n]")
def states(a: rd.Array) -> rd.Array:
    counted: rd.Array = rd.loop(3, step, 0.0) + rd.while_loop(lambda x: x < 3, lambda x: 2 * x, 1)
    first, second = rd.loop(2, exchanged, (a, rd.fori_loop(1, 3, step, a)))
    pair = rd.scan(sums_and_products, (0.0, 1.0), a, rd.scan(lambda x, y: x * y, 1.0, a))
    total: rd.Array
    out: rd.Array
    total, out = rd.loop(a.shape[0], lambda i, s: (s[0] + a[i], s[1].at[i].set(s[0])), (0.0, rd.zeros_like(a)))
    return (first + second + pair[0] + out) * total.astype(rd.f32) + counted + rd.reduce(rd.maximum, -np.inf, pair[1])


@rd.algorithm(a="f32[n, m]", k="i64[n]")
def parameters(a: rd.Array, k: rd.Array, n: Annotated[int, rd.size]) -> tuple[rd.Array, ...]:
    sizes = rd.zeros((n, 2)) + rd.ones([n, 2], dtype=np.float32) + rd.full((*a.shape[:1], k.shape[0] // n + 1), 0.0)
    kinds = a.astype("float64") + a.astype(np.dtype(np.float64)) + rd.sum(a, dtype=float) + rd.real(a.astype(rd.complex64))
    axes = rd.sum(a, axis=(0, 1)) + a.max(axis=np.int64(1)).sum() + rd.softmax(a, axis=(0, 1)).mean(axis=None)
    return sizes, kinds + axes, rd.take(a, k, axis=1), a.reshape(-1), rd.argmin(a, axis=0), rd.random.normal(k[:2].astype(rd.u32), n)


@rd.algorithm(a="f32[n, m]", b="f32[n, m]")
def lambdas(a: rd.Array, b: rd.Array) -> rd.Array:
    window = rd.stencil(lambda p: sum(p[dy, 0] for dy in (-1, 0, 1)), a, boundary="wrap") == 3
    sums, rows = rd.map(lambda x, y: (x.sum() + y.sum(), x * y), a, b)
    return rd.where(window, rows, rd.filter(lambda row: row.max() > 0, b).sum() + sums[:, None])


@rd.algorithm(x="f32[c, h, w]", weights="f32[o, c, 3, 3]")
def any_number_of_axes(x: rd.Array, weights: rd.Array) -> rd.Array:
    def at(o: rd.Array, y: rd.Array, z: rd.Array) -> rd.Array:
        taps = rd.tabulate(weights.shape[1:], lambda c, dy, dx: weights[o, c, dy, dx] * x[c, y + dy, z + dx])
        return rd.sum(taps)

    whole = rd.tabulate(x.shape, lambda c, i, j: x[c, i, j] + 1) + rd.stencil(lambda p, q: p[0, 0, 0] + q, x, invariant=x)
    three = rd.stencil(lambda p, q, r: p[0, 0, 0] + q[0, 0, 1] + r[0, 1, 0], x, x, whole)
    kept = rd.filter(lambda u, v, w: (u > v) & (w > 0), x[0, 0], x[0, 1], x[0, 2])
    return rd.tabulate((weights.shape[0], *x.shape[1:]), at) + rd.sum(three) + rd.sum(kept[0])


def outside(anything: Any, key: np.ndarray[Any, Any]) -> float:
    results = [states(anything), states(key), both((anything, key))[0], dot(a=anything, b=key), rd.random.key(0)]
    number: float = states(anything)
    return number + float(dot(key, key)) + len(results)


algorithm: rd.Algorithm = rd.capture(blur, by=2.0)
s: rd.Schedule = algorithm.schedule()
s["rows"].tile(y=32, x=512).parallel("yo").vectorize("xi").partition_boundaries()
exe: rd.Executable = blur.compile(rd.Target("llvm"), schedule=blur.schedule())
seconds: float = exe.time(np.zeros((4, 5), np.float32)).min
found: rd.Tuning = rd.autotune(blur, {"h": 4, "w": 5}, trials=1)
best: rd.Schedule = found.best

s["rows"].vectorise("x")  # error: no such directive
s["rows"].vectorize("x", lines=3)  # error: no such argument
s["rows"].tile(y="wide").parallel()  # error: no axis
blur.compiled()  # error: no such method
rd.zeroes(3)  # error: no such name
number: int = blur.schedule()  # error: a schedule is no number
word: str = rd.random.key(0)  # error: a key is an array


@rd.algorithm
def wrong(a: Annotated[rd.Array, "f32[n]"]) -> rd.Schedule:
    a[0] = 3.0  # error: arrays do not change
    a.nonsense()  # error: no such method
    rd.loop(3, step, (a, a))  # error: the state is two arrays, that of the body one
    rd.loop(3, exchanged, a)  # error: the state is one array, that of the body two
    rd.loop(3, lambda i, state: (state, state), a)  # error: the body returns another structure
    rd.loop(3, lambda state: state, a)  # error: no counter
    rd.while_loop(lambda x: x > 0, lambda x: (x, x), a)  # error: the body returns another structure
    rd.scan(sums_and_products, (0.0, 1.0), a)  # error: an operator on pairs
    rd.map(lambda x: x * 2, a).nonsense()  # error: no such method
    rd.sqrt(a, a)  # error: one operand
    rd.add(a)  # error: two operands
    rd.sum(a, axis="rows")  # error: an axis is a number
    a.cumsum(axis=(0, 1))  # error: one axis
    rd.zeros("n")  # error: a size is a number
    rd.zeros(3, dtype=64)  # error: a type of elements
    rd.sum(a, out=a)  # error: arrays do not change
    return dot(a, a)  # error: an array is no schedule
"""
STRICT = """# pyright: strict
from typing import NamedTuple

import numpy as np

import raido as rd


@rd.algorithm(k="i64[n]", v="f32[n]", m="f32[h, w]", o="i64[s]")
def keyed(k: rd.Array, v: rd.Array, m: rd.Array, o: rd.Array) -> tuple[rd.Array, ...]:
    keys, values = rd.sort((k, v))
    first = rd.sort(v)
    found, sums = rd.reduce_by_key(lambda x, y: rd.maximum(x, y), 0, k, v)
    (ka, kb), more = rd.reduce_by_key(lambda x, y: x + y, 0, (k, k), v)
    counts, edges = rd.histogram(v, 10)
    plane, xs, ys = rd.histogram2d(v, v, 10)
    space, (e1, e2) = rd.histogramdd((v, v), 10)
    gy, gx = rd.gradient(m)
    slope = rd.gradient(v)
    both = rd.gradient(m, axis=(0, 1))
    part = rd.segmented_reduce(lambda x, y: x + y, 0.0, v, o)
    scanned = rd.segmented_scan(lambda x, y: x * y, 1.0, v, o)
    binned = rd.reduce_by_index(rd.zeros(4), lambda x, y: x + y, 0.0, k, v)
    a, b = rd.broadcast_arrays(v, v)
    rows = rd.unstack(rd.zeros((2, 3)))
    mapped = rd.elementwise(lambda x, y: x * y, v, v)
    return (
        keys + values, first, found, sums, ka + kb, more, counts, edges, plane, xs, ys, space, e1 + e2,
        gy + gx, slope, both[0], part, scanned, binned, a + b, rows[0], mapped,
    )


class Sums(NamedTuple):
    low: rd.Array
    high: rd.Array


def half() -> float:
    return 0.5


@rd.algorithm(x="f64[n]")
def literals(x: rd.Array) -> rd.Array:
    first = rd.cond(x[0] > 0, lambda: 0.0, lambda: x[0])
    both = rd.cond(x[0] > 0, lambda: 1, lambda: 0)
    flag = rd.cond(x[0] > 0, lambda: True, lambda: x[0] != x[1])
    named = rd.cond(x[0] > 0, half, lambda: x[0])
    low, rest = rd.cond(x[0] > 0, lambda: (0.0, x), lambda: (x[0], x + 1))
    high, more = rd.cond(x[0] > 0, lambda: (x[0], 1), lambda: (x[1], 2))
    none, ones = rd.cond(x[0] > 0, lambda: (0, 1.0), lambda: (1, x[0]))
    record = rd.cond(x[0] > 0, lambda: Sums(x, x), lambda: Sums(x + 1, x))
    flat = rd.map(lambda v: 1.0, x)
    halves = rd.tabulate(3, lambda i: 0.5)
    square = rd.tabulate((2, 2), lambda i, j: 1)
    chosen = rd.map(lambda v: rd.cond(v > 0, lambda: 0.0, lambda: v), x)
    nested = rd.cond(x[0] > 0, lambda: rd.cond(x[1] > 0, lambda: 0.0, lambda: x[0]), lambda: x[1])
    values, sums = rd.map(lambda v, w: (v, v + w), x, x)
    rows = rd.map(lambda v: Sums(v, -v), x)
    scalars = first.astype("f64") + both.astype("f64") + flag.astype("f64") + named.astype("f64") + low.sum() + high.sum()
    scalars = scalars + more.astype("f64") + none.astype("f64") + ones.astype("f64") + halves.sum() + square.sum()
    return scalars + rest + record.low + flat.sum() + chosen + values + sums + rows.high + nested.astype("f64")


def named(x: rd.Array) -> rd.Array:
    return x


twice = rd.algorithm(name="twice")(lambda a: 2 * a)
direct = rd.algorithm(lambda a, b: a.sum() + b)
typed = rd.algorithm(name="typed", x="f32[n]")(lambda x: x.sum())


@rd.algorithm
def caller(x: rd.Array) -> rd.Array:
    found: rd.Array = twice(x)
    result: rd.Array = found + typed(x) + direct(x, x)
    return result


def bound(v: rd.Array) -> rd.Array:
    counts, _ = rd.histogram(v, 3)
    return counts


def slope(v: rd.Array) -> rd.Array:
    return rd.gradient(v)


twice(np.zeros(3, np.float32))
"""
MARKED = [k for k, line in enumerate(PROGRAM.splitlines(), 1) if "# error" in line]


def lines_of_mypy(file: Path, python: str) -> list[int]:
    """The lines at which mypy finds errors, at its strictest."""
    cache = str(file.with_name("cache"))
    options = ["--strict", "--output=json", "--cache-dir", cache, "--python-executable", python]
    command = [sys.executable, "-m", "mypy", *options, file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert found or not done.returncode, done.stdout + done.stderr
    if not found:
        return []
    assert {entry["file"] for entry in found} == {file.name}, done.stdout
    return [entry["line"] for entry in found if entry["severity"] == "error"]


def lines_of_pyright(file: Path, python: str) -> list[int]:
    """The lines at which pyright finds errors."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", python, "--outputjson", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"]


def check(folder: Path, python: str) -> None:
    file = folder / "program.py"
    file.write_text(PROGRAM)
    assert sorted(set(lines_of_mypy(file, python))) == MARKED
    assert sorted(set(lines_of_pyright(file, python))) == MARKED
    file.write_text(STRICT)
    assert lines_of_mypy(file, python) == []
    assert lines_of_pyright(file, python) == []


@pytest.mark.slow
def test_checkers_of_types_resolve_the_installed_package(tmp_path: Path) -> None:
    if Path(rd.__file__).parent == ROOT / "api":
        pytest.skip("an editable install from before src/raido, which checkers cannot follow: pip install -e . again")
    check(tmp_path, sys.executable)


def test_the_program_for_checkers_runs() -> None:
    there: dict[str, object] = {}
    exec(PROGRAM.split("\n\nalgorithm:")[0], there)
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    dot, both = there["dot"], there["both"]
    assert isinstance(dot, rd.Algorithm) and isinstance(both, rd.Algorithm)
    np.testing.assert_allclose(dot(a, b), 6 + np.exp(3) + 0 + 2 + 1, rtol=1e-6)
    sums, prefixes = both((a, b))
    np.testing.assert_allclose(sums, np.sqrt(a / 8) + b, rtol=1e-6)
    np.testing.assert_array_equal(prefixes, [0, 1, 3, 6])
    everyday, table = there["everyday"], np.arange(6.0).reshape(2, 3)
    assert isinstance(everyday, rd.Algorithm)
    grown = (np.array([[0, 2, 2], [3, 4, 5.0]]) * 8) + 4
    expected = grown @ np.concatenate([table, np.ones((2, 3))]).T + 3 * np.linalg.norm(table[0])
    np.testing.assert_allclose(everyday(table, np.array([1, 1, 7])), expected, rtol=1e-12)
    states = there["states"]
    assert isinstance(states, rd.Algorithm)
    assert states.interpret(b).tolist() == [36, 44, 52, 60]
    parameters, keys = there["parameters"], np.array([1, 0])
    assert isinstance(parameters, rd.Algorithm)
    m = np.array([[1, 4], [3, 2]], np.float32)
    assert [part.shape for part in parameters.interpret(m, keys, 2)] == [(2, 2), (2, 2), (2, 2), (4,), (2,), (2,)]
    lambdas, ones = there["lambdas"], np.ones((3, 2), np.float32)
    assert isinstance(lambdas, rd.Algorithm)
    np.testing.assert_array_equal(lambdas.interpret(ones, 2 * ones), 2 * ones)
    with pytest.raises(rd.ArgumentError):
        dot.interpret(a.astype(np.float64), b)


def test_the_strict_program_for_checkers_runs() -> None:
    there: dict[str, object] = {}
    exec(STRICT, there)
    keyed, caller, v = there["keyed"], there["caller"], np.arange(4, dtype=np.float32)
    assert isinstance(keyed, rd.Algorithm) and isinstance(caller, rd.Algorithm)
    plain = np.outer(v, v).astype(np.float32)
    found = keyed.interpret(np.array([2, 1, 2, 1]), v, plain, np.array([0, 4]))
    assert found[0].tolist() == [2, 4, 2, 4] and found[2].tolist() == [1, 2]
    assert caller.interpret(v).tolist() == (2 * v + 12 + v).tolist()
    literals = there["literals"]
    assert isinstance(literals, rd.Algorithm)
    assert literals.interpret(np.array([1.0, 2.0])).tolist() == [17.0, 21.0]


def test_annotated_types_are_read() -> None:
    @rd.algorithm
    def f(a: Annotated[rd.Array, "f32[h, w + 1]"], n: Annotated[int, rd.size]) -> Annotated[rd.Array, "f32[h, w + 1]"]:
        return a * n

    assert repr(f) == "<algorithm f(a: f32[h, w + 1], n: size)>"
    with pytest.raises(rd.TraceError, match="cannot read the type"):
        rd.algorithm(lambda a: a, a=Annotated[rd.Array, "f32[h"]).trace()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check(Path(scratch), sys.argv[1])
