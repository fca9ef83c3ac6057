"""Common mistakes of newcomers: each is answered by one message of raido's, whose remedy exists and runs."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import raido as rd

V = np.arange(5.0)
X = np.arange(12, dtype=np.float32).reshape(3, 4)
GENERATOR = np.random.default_rng(0)
Pair = rd.record(a=rd.f64, b=rd.f64)


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, name="cols")


@rd.algorithm
def nearest(points: rd.f32["n", "d"], centres: rd.f32["k", "d"]):
    difference = points[:, None, :] - centres[None, :, :]
    distances = rd.sum(difference * difference, axis=2, name="distances")
    return rd.min(distances, axis=1, name="least") + 1


def of(function: Callable[..., Any], *arguments: Any, **types: Any) -> Callable[[], Any]:
    """A call of an algorithm; without arguments, of five floats."""
    return lambda: rd.algorithm(function, **types)(*(arguments or (V,)))


def cols() -> Any:
    return blur.schedule()["cols"]


def foreign() -> Any:
    kept: list[Any] = []
    rd.algorithm(lambda x: kept.append(x) or x * 2)(V)
    return rd.algorithm(lambda y: y + kept[0])(V[:3])


@rd.algorithm
def endless(x: rd.f64["n"]):
    return endless(x)


def unread(x: rd.f46["n"]):  # type: ignore
    return x


class Model:
    @rd.algorithm
    def double(self, x):
        return 2 * x


@dataclasses.dataclass
class Parts:
    a: Any


def dropped(x: Any) -> Any:
    x.at[0].set(1)
    return x


def at_assigned(x: Any) -> Any:
    x.at[0] = 1
    return x


def deleted(x: Any) -> Any:
    del x[0]
    return x


def reshaped(x: Any) -> Any:
    x.shape = (1, 5)
    return x


def with_hole() -> Any:
    s = blur.schedule()
    s["cols"].split("y", rd.choose("strip", [4, 8]))
    return blur.compile(schedule=s)


LEAK = "uses a value of a loop's body, or of another function of elements, outside of it"


def leaks(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function that uses what its inner function was given: `keep(anything, value)` keeps a value, and gives it."""

    def algorithm(x: Any) -> Any:
        kept: list[Any] = []

        def keep(_: Any, value: Any) -> Any:
            kept.append(value)
            return value

        run(keep, x)
        return kept[0] * 2

    return algorithm


def made(line: str, dtype: str, used: str = r"\S+test_messages.py:\d+   return kept\[0\] \* 2") -> str:
    """The lines of a message about a value that left its function: where it was made, its type, where it is used."""
    return (
        rf"^  algorithm \S+test_messages.py:\d+   {line}\n  type      {dtype}\n  used      {used}\n  why       it has"
    )


KEPT: list[Any] = []


def element_returned(x: Any) -> Any:
    kept: list[Any] = []

    def element(v: Any) -> Any:
        kept.append(v * 2)
        return v

    return rd.map(element, x), kept[0]


def element_kept(x: Any) -> Any:
    KEPT.clear() if len(KEPT) > 3 else None
    rd.map(lambda v: KEPT.append(v * 2) or v, x)
    return KEPT[0] + x


def traced_value() -> Any:
    kept: list[Any] = []
    rd.algorithm(lambda x: kept.append(x * 2) or x, name="f")(V)
    return kept[0]


def outside() -> Any:
    return np.asarray(traced_value())


def earlier() -> Any:
    kept: list[Any] = []
    f = rd.algorithm(lambda x: kept.append(x * 2) or x + kept[0], name="f")
    f(V)
    return f(np.ones((3, 3)))


SAID: dict[str, tuple[Callable[[], Any], str, str]] = {
    # remedies
    "a write out of range": (
        of(lambda x, i: x.at[i].set(1), V, 9),
        "index 9",
        r"rd\.scatter\(a, i, v\), which leaves out what lies outside$",
    ),
    "a sum out of range": (
        of(lambda x, i: x.at[i].min(1.0), V, 9),
        "index 9",
        r"rd\.reduce_by_index\(a, rd\.minimum, ",
    ),
    "a list of ints for bools": (
        of(lambda x: ~x, [1, 0, 1], x="bool[n]"),
        r"a list of int64, of shape \(3,\)",
        r'np\.array\(x, "bool"\) converts it',
    ),
    "a list of floats for ints": (
        of(lambda x: x, [1.5, 2], x="i64[n]"),
        "a list of float64",
        r'np\.array\(x, "int64"\)',
    ),
    "a number too large": (of(lambda x: x, [1, 300], x="u8[n]"), "a list of int64", "why +uint8 holds 0 to 255"),
    "fields of a record": (of(lambda p: p.a, {"p_a": V}, p=Pair["n"]), r"\(a: f64\[n\], b: f64\[n\]\)", "p_a"),
    "a comparison without parentheses": (of(lambda x: (x > 0) & x), "bit operation on f64", r"x != 0 .*parentheses"),
    "the bits of f64": (of(lambda x: ~x), "bit operation on f64", r"x == 0 .*x\.view\(rd\.i64\)"),
    "a view of another width": (of(lambda x: x.view(rd.i32)), "same width", r"rd\.i64, rd\.u64"),
    "a function of math": (of(lambda x: rd.map(math.sin, x)), r"`math\.sin` of a traced value", r"rd\.sin$"),
    "in_axes": (of(lambda x: rd.map(lambda a: a, x, in_axes=1)), '"in_axes"', r"rd\.swapaxes\(a, 0, 1\)"),
    "an axis for its name": (of(lambda x: rd.map(lambda a: a, x, axes=1)), "sequence of names", r'axes=\("x",\)$'),
    "axes for their names": (of(lambda x: rd.scan(rd.add, 0.0, x, axes=(1,))), "sequence of names", r'axes=\("x",\)$'),
    "names for no axes": (
        of(lambda x: rd.reduce(rd.add, 0.0, x, axes="ab")),
        "2 axis names for 0 axes",
        "no axes=: .*number",
    ),
    "root of Halide": (lambda: cols().compute_root(), "compute_root", r"try +root\(\)$"),
    "memoize of Halide": (lambda: cols().memoize(), "memoize", r'directive "memoize"\n +directives'),
    "places in reverse": (
        lambda: nearest.schedule()["least"].compute_at("distances", "x"),
        'cannot compute stage "least" at loop',
        r'"distances" runs before "least", which needs it\n +try +s\["distances"\]\.compute_at.*"least" x',
    ),
    "a loop with the body first": (
        of(lambda x: rd.loop(lambda i, s: s, x, 3)),
        "a function where a value",
        r"rd\.loop\(n, body, init\), rd\.while_loop\(condition, body, init\)$",
    ),
    "a reduction as an operator": (
        of(lambda x: rd.reduce(rd.sum, 0, x)),
        "`sum` as the operator",
        r"rd\.add, or rd\.sum",
    ),
    "Python's max as an operator": (
        of(lambda x: rd.scan(max, 0, x)),
        "`max` as the operator",
        r"rd\.maximum, or rd\.max",
    ),
    # Python's errors
    "a value of another trace": (foreign, "traced value of another algorithm", "try +pass arrays as arguments"),
    "a window as a value": (of(lambda x: rd.stencil(lambda p: p * 2, x)), "a window is used", r"p\[0\], its element"),
    "a window in a function": (of(lambda x: rd.stencil(lambda p: rd.sin(p), x)), "a window is used", r"p\[0\], its"),
    "an assignment to at": (of(at_assigned), "arrays do not change", r"b = a\.at\[i\]\.set\(v\)"),
    "an element deleted": (of(deleted), "arrays do not change", r"b = rd\.delete\(a, i\)"),
    "a shape assigned": (of(reshaped), "arrays do not change: `.shape`", r"b = a\.reshape\(shape\)"),
    "zeros of NumPy": (of(lambda x: x + np.zeros(x.shape[0])), r"`np\.zeros` of a traced value", r"try +rd\.zeros$"),
    "random numbers of NumPy": (
        of(lambda x: x + GENERATOR.random(x.shape[0])),
        "a function outside of raido of a traced value",
        "algorithm .*test_messages",
    ),
    "a cast of two": (of(lambda x: rd.f32(x, x)), r"rd\.f32: too many positional", r"takes +\(value\)"),
    "sizes of a size": (lambda: rd.size[3], r"rd\.size is one number", r'rd\.i64\["n"\]'),
    "a key of a dict": (of(lambda x: {1: 2}[x[0]]), "a traced value as a key", r"rd\.array\(values\)\[i\]"),
    "a traced argument": (lambda: of(lambda x: x, rd.array([1.0]))(), "'x' is a traced value", r"np\.array\(…\)"),
    "a traced argument of a type": (
        of(lambda x: x, rd.array([1.0]), x="f64[n]"),
        "got a traced value",
        r"np\.array\(…\)",
    ),
    "a call of itself": (lambda: endless(V), "endless calls itself without end", r"rd\.while_loop"),
    # clearer ones
    "objects": (of(lambda x: x, np.array([1, None])), "a ndarray of dtype object", ""),
    "a function before the sizes": (
        of(lambda x: rd.tabulate(lambda i: x[i], 3)),
        "a size is expected",
        r"rd\.tabulate\(shape, f\)",
    ),
    "values of scatter": (
        of(lambda x: rd.scatter(x, rd.iota(3), x), x="f64[5]"),
        "a dimension of the indices or rows is 3",
        "",
    ),
    "a float as a factor": (lambda: cols().split("y", 32.0), "cannot split", "whole number, not 32.0: write 32"),
    "a list of axes": (lambda: cols().reorder(["x", "y"]), "cannot reorder", r'try +reorder\("x", "y"\)'),
    "a list to fuse": (lambda: cols().fuse(["y", "x"]), "cannot fuse", r'try +fuse\("y", "x"\)'),
    "an axis as a keyword": (lambda: cols().split(y=32), "cannot split", r'try +split\("y", 32\)'),
    "a body without a value": (
        of(lambda x: rd.loop(3, lambda i, s: None, x)),
        "returned None",
        "in a loop, of the state",
    ),
    "no key": (
        of(lambda x: rd.random.normal(0, 1, 5)),
        "gives floats, not 5",
        r"rd\.random\.normal\(key, shape, dtype\)",
    ),
    "a generator": (
        of(lambda x: rd.random.normal(np.random.default_rng(0), 5)),
        "needs a key",
        r"rd\.random\.key\(seed\)",
    ),
    "two ranks": (of(lambda x: rd.concatenate([x, x[0]])), "of one rank", r"these are f64\[x_0\], f64\n +try"),
    "two shapes": (of(lambda x: rd.stack([x, x[0]])), "of one shape", r"these are f64\[x_0\], f64"),
    "pi": (lambda: rd.pi, "it is np.pi", ""),
    "dim": (of(lambda x: rd.sum(x, dim=0)), '"dim"', "try +axis=$"),
    "reverse": (of(lambda x: rd.sort(x, reverse=True)), '"reverse"', "try +descending=$"),
    "half a size": (of(lambda x: x[: x.shape[0] / 2]), "the bound of a slice", "n // k"),
    "a traced step": (of(lambda x: x[:: x.shape[0]]), "the step of a slice", r"rd\.iota"),
    "None among results": (of(lambda x: {"a": x, "b": None}), "None where a value", "leave it out"),
    "a size as n": (of(lambda x: rd.fft.rfft(x, x.shape[0] // 2)), "n of rd.fft.rfft is an int", "no n, for the whole"),
    "a generator as a key": (of(lambda k: k, np.random.default_rng(0)), "a Generator", r"rd\.random\.key\(seed\)"),
    "a generator for a type": (of(lambda k: k, GENERATOR, k="u32[2]"), "must be u32", r"rd\.random\.key\(seed\)"),
    "a key of another type": (
        of(lambda k: rd.random.normal(k, 3), np.zeros(2, np.uint64)),
        "a key of u32, not u64",
        r"key: rd\.u32\[2\]$",
    ),
    "the name of a file": (of(lambda x: x, "a.npy"), "a str; an array", r"np\.load\(path\)"),
    "the name of a file for a type": (of(lambda x: x, "a.npy", x="f64[n]"), "the string 'a.npy'", r"np\.load\(path\)"),
    "a string in arithmetic": (of(lambda x: x + "1"), "str in an expression", "outside of expressions"),
    "a product without its sign": (of(lambda x: x, x="f64[2n]"), r"a product is written 'f64\[2\*n\]'", ""),
    "a product in a size": (lambda: rd.f64["n", "2m + 1"], r"a product is written '2\*m \+ 1'", ""),
    "a directive without an axis": (lambda: cols().parallel(), 'cannot parallelize stage "cols"', "takes +"),
    "a strategy without a name": (lambda: cols().strategy(), r"cannot apply \.strategy\(…\) to stage", "takes +"),
    "an array outside": (lambda: np.asarray(rd.array([1.0])), "outside of an algorithm", r"np\.array\(values\)"),
    "a number outside": (lambda: float(rd.f32(3)), "outside of an algorithm", r"np\.float32\(x\)"),
    "arithmetic outside": (lambda: rd.array([1.0]) + 1, "inside an algorithm", "NumPy itself outside"),
    "a state outside of its loop": (
        of(leaks(lambda keep, x: rd.loop(3, keep, x))),
        LEAK,
        made(r"of\(leaks\(lambda keep, x: rd\.loop\(3, keep, x\)\)\),", r"f64\[x_0\]"),
    ),
    "a counter outside": (
        of(leaks(lambda keep, x: rd.loop(3, lambda i, s: s + keep(s, i), x))),
        LEAK,
        made(r".*rd\.loop\(3, lambda i, s: s \+ keep\(s, i\), x\).*", "i64"),
    ),
    "an element outside": (
        of(leaks(lambda keep, x: rd.map(lambda v: keep(0, v + 1), x))),
        LEAK,
        made(r".*keep\(0, v \+ 1\).*", "f64"),
    ),
    "an element of an inner function": (
        of(leaks(lambda keep, x: rd.map(lambda v: rd.sum(rd.map(lambda w: w * v, x)) + keep(0, v * 3), x))),
        LEAK,
        made(r".*keep\(0, v \* 3\).*", "f64"),
    ),
    "an operand outside": (
        of(leaks(lambda keep, x: rd.reduce(lambda a, b: keep(0, a) + b, 0.0, x))),
        LEAK,
        made(r".*rd\.reduce.*", "f64"),
    ),
    "a window outside": (
        of(leaks(lambda keep, x: rd.stencil(lambda p: keep(0, p[1] / 2), x))),
        LEAK,
        made(r".*p\[1\] / 2.*", "f64"),
    ),
    "a state of a while loop": (
        of(leaks(lambda keep, x: rd.while_loop(lambda s: rd.sum(s) < 3, lambda s: keep(0, s) + 1, x))),
        LEAK,
        made(r".*rd\.while_loop.*", r"f64\[x_0\]"),
    ),
    "an element as a result": (of(element_returned), LEAK, made(r"kept\.append\(v \* 2\)", "f64", "as a result")),
    "an element kept by a name outside": (of(element_kept), LEAK, "return it from the function"),
    "a value of an earlier trace": (
        earlier,
        "f uses a traced value of another algorithm, or of an earlier trace",
        r"it is f64\[x_0\], made",
    ),
    "a traced value outside": (outside, "outside of an algorithm", "return it from f: what a call gives is NumPy's"),
    "a number of a traced value outside": (
        lambda: float(traced_value()),
        "outside of an algorithm",
        "why +it was made while f was traced",
    ),
    "a loop by JAX": (
        of(lambda x: rd.loop(0, 3, lambda i, s: s + x[i], 0.0)),
        r"rd\.loop: too many",
        r"try +rd\.fori_loop\(lower, upper, body, init\)",
    ),
    "a loop by JAX with init": (of(lambda x: rd.loop(0, 3, lambda i, s: s, init=x)), "'init'", r"try +rd\.fori_loop"),
    "a loop without its first index": (
        of(lambda x: rd.fori_loop(3, lambda i, s: s, x)),
        "init_val",
        r"rd\.loop\(n, body",
    ),
    "branches with parameters": (
        of(lambda x: rd.cond(x[0] > 0, lambda a: a, lambda a: -a)),
        r"takes \(a\) is called as then\(\)",
        r"try +rd\.cond\(p, lambda: f\(x\), lambda: g\(x\)\)",
    ),
    "an axis more": (
        of(lambda x: rd.loop(3, lambda i, v: v[None], x)),
        "changes its rank",
        r"v\[0\] takes an axis away",
    ),
    "an axis more of a scalar": (
        of(lambda x: rd.loop(3, lambda i, v: v[None], 0.0)),
        "is a scalar, its body returns an array",
        r"try +rd\.sum\(v\), v\[0\]",
    ),
    "an element of an element": (of(lambda x: rd.map(lambda v: v[0], x)), "a scalar has no", "try +the value itself"),
    "a slice of a window": (
        of(lambda x: rd.stencil(lambda p: rd.sum(p[-1:2]), x)),
        "must be an integer constant, not -1:2",
        r"try +sum\(p\[k\] for k in range\(-1, 2\)\), or rd\.stack\(\[…\]\) of them",
    ),
    "a slice of a window of rank 2": (
        of(lambda x: rd.stencil(lambda p: rd.sum(p[0, :]), x), X),
        "not :",
        r"try +sum\(p\[0, k\] for k in range\(-1, 2\)\)",
    ),
    "a traced offset": (
        of(lambda x: rd.stencil(lambda p: rd.sum(rd.tabulate(3, lambda i: p[i])), x)),
        "must be an integer constant",
        r"rd\.gather\(a, i\)",
    ),
    "a character": (of(lambda x: x == "a"), "str in an expression", r"ord\('a'\) for a character"),
    "a byte": (of(lambda x: x == b"a"), "bytes in an expression", r"ord\('a'\) for a character"),
    "a literal too large": (of(lambda x: x + 300, np.zeros(3, np.uint8)), "300 does not fit u8", r"try +rd\.i64\(x\)"),
    "a sparse matrix": (
        of(lambda m: m, scipy.sparse.eye(3), m="f64[n, k]"),
        "dia_matrix",
        r"m\.data, m\.indices and m\.indptr of m\.tocsr\(\)",
    ),
    "debug": (lambda: rd.debug, "no attribute 'debug'; raido has what an algorithm returns", ""),
    "a branch on a size": (
        of(lambda x: x if x.shape[0] > 3 else 2 * x),
        "`if` on a size",
        r"rd\.cond\(n > 3.*f32\[640\]",
    ),
    "a branch on made data": (
        of(lambda x: x if rd.any(rd.zeros(x.shape[0]) > 0) else 2 * x),
        "`if` on a traced value",
        r"rd\.where",
    ),
    "Python's sum": (of(lambda x: sum(x)), "cannot iterate over", r"try +rd\.sum\(a\), rd\.map"),
    "a method": (lambda: Model().double(V), r"takes 2 arguments \(self, x\)", "a @staticmethod, without self"),
    "a partial function": (lambda: rd.algorithm(functools.partial(max, V)), "not of functools.partial", r"rd\.capture"),
    "any number of arguments": (of(lambda *xs: xs[0]), r"cannot take \*xs", r"f\(\(a, b\)\)"),
    "a dataclass": (of(lambda p: p.a, Parts(V)), "argument 'p' is a Parts", r"vars\(p\)"),
    "a dataclass as a result": (of(lambda x: Parts(x)), "Parts in an expression", "NamedTuple"),
    "a float as an index": (of(lambda x: x[1.0]), "an index cannot be 1.0", r"rd\.i64\(x\) of a float"),
    "the size of torch": (of(lambda x: x.size(0)), "an array is called", r"a\.shape\[0\]"),
    "an executable inside": (of(lambda x: blur.compile()(x), X), "got a traced value", "the algorithm itself, f"),
    "an interpreter inside": (of(lambda x: blur.interpret(x), X), "got a traced value", "not f.interpret"),
    "branches by JAX": (of(lambda x: rd.cond(x[0] > 0, abs, abs, x)), "too many", r"try +rd\.cond\(p, lambda: f\(x\)"),
    "a size of random numbers": (of(lambda k: rd.random.normal(k, size=3), rd.random.key(0)), '"size"', "try +shape=$"),
    "a mean": (of(lambda k: rd.random.normal(k, loc=3), rd.random.key(0)), '"loc"', r"m \+ s \* rd\.random\.normal"),
    "sizes of a contraction": (
        of(lambda x: rd.einsum("ij,jk->ik", x, x), X, x="f32[n, m]"),
        r"axis 'j' of operand 1 has size 4 \(m\), axis 'j' of operand 2 has size 3",
        "",
    ),
    "a type of any rank": (of(lambda x: x, x="f64[...]"), r"`\.\.\.` in the type", "no type for the parameter"),
    "a size of any rank": (lambda: rd.f64["..."], r"`\.\.\.` in a type", "no type for the parameter"),
    "a short name of a type": (of(lambda x: x, x="c64[n]"), "no dtype 'c64'", "try +complex64$"),
    "a misspelt type": (of(lambda x: x, x="float23[n]"), "no dtype 'float23'", "float32"),
    "a type that there is not": (lambda: of(unread)(), "no attribute 'f46'", ""),
    "a schedule with holes": (with_hole, "with holes", r"try +s\.with_\(strip=4\)"),
    "an attribute": (of(lambda data: data.foo), r"data\.foo: ", "algorithm"),
    "a change that is dropped": (of(dropped), "the changed array is dropped", r"a = a\.at\[i\]\.set\(v\)"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_mistake_is_answered(name: str) -> None:
    call, head, rest = SAID[name]
    with pytest.raises(rd.RaidoError) as caught:
        call()
    text = str(caught.value)
    assert re.search(head, text.splitlines()[0]) and re.search(rest, text, re.MULTILINE), text


def test_remedies_run() -> None:
    scattered = rd.algorithm(lambda x, i: rd.scatter(x, i, 1.0))
    assert scattered(V, 9).tolist() == V.tolist() and scattered(V, 2)[2] == 1
    lowered = rd.algorithm(lambda x, i: rd.reduce_by_index(x, rd.minimum, np.inf, i, -1.0))
    assert lowered(V, 9).tolist() == V.tolist() and lowered(V, 2)[2] == -1
    largest = rd.algorithm(lambda x, s: rd.reduce_by_index(rd.full(2, -np.inf), rd.maximum, -np.inf, s, x))
    assert largest(V, np.array([0, 1, 1, 0, 1])).tolist() == [3, 4]
    convolved = rd.algorithm(
        lambda a, w: rd.tabulate((1, 2, 3), lambda o, y, x: rd.sum(w[o] * a[:, y : y + 3, x : x + 3]))
    )
    assert convolved(np.ones((2, 4, 5)), np.ones((1, 2, 3, 3))).tolist() == [[[18.0] * 3] * 2]
    whole = rd.algorithm(lambda x: rd.fft.rfft(x, x.shape[0]))
    assert whole(np.ones(8)).tolist() == np.fft.rfft(np.ones(8)).tolist()
    assert blur.compile().bind(X)().tolist() == blur(X).tolist()
    every = rd.algorithm(lambda x, k: x[rd.iota((x.shape[0] + k - 1) // k) * k], k="size")
    assert every(V, 2).tolist() == V[::2].tolist()
    assert rd.algorithm(lambda x: rd.logaddexp(x, 0))(V[1]) == pytest.approx(math.log1p(math.e))
    assert rd.algorithm(lambda x: x * rd.erfc(-x / math.sqrt(2)) / 2)(V[1]) == pytest.approx(0.8413447460685429)


def test_parts_of_dicts_have_names_in_brackets_too() -> None:
    f = rd.algorithm(lambda p: p["a"] * 2 + p.b)
    assert f({"a": V, "b": V}).tolist() == f.interpret({"a": V, "b": V}).tolist() == (3 * V).tolist()


def test_representations_name_arguments_and_lines() -> None:
    @rd.algorithm
    def steps(x: rd.f64["n"], count: rd.size):
        return rd.loop(count, lambda i, s: s + 1, x)

    exe = steps.compile()
    assert repr(exe) == "<Executable steps(x: f64[n], count: size) -> f64[n]>"
    assert repr(exe.signature) == "<Signature steps(x: f64[n], count: size) -> f64[n]>"
    assert repr(steps.trace()) == "<Program steps(x: f64[n]) -> f64[n]>"
    assert "<code>count</code></td><td><code>size</code>" in exe._repr_html_()
    assert repr(rd.constant(0)) == "rd.constant(0)"
    assert re.fullmatch(r'<stage "cols": axes y, x; test_messages\.py:\d+>', repr(cols()))
    assert re.search(r"test_messages\.py:\d+", blur.schedule()._repr_html_())


def test_a_header_says_to_which_results_a_count_belongs(tmp_path: Path) -> None:
    @rd.algorithm
    def positive(x: rd.f64["n"]):
        kept = rd.filter(lambda v: v > 0, x)
        return kept, kept * 2, rd.sum(x)

    header = Path(positive.compile().export(tmp_path / "libpositive.so")).with_name("positive.h").read_text()
    assert "result_1  output, float64[n], of which count_1 are written" in header
    assert "count_1   output: the number of elements of result_0 and result_1, at most n" in header


def test_dir_lists_what_users_may_use() -> None:
    assert {"compile", "interpret", "schedule", "trace"} <= {*dir(blur)} and not {"arrange", "inline"} & {*dir(blur)}
    seen: list[str] = []
    rd.algorithm(lambda x: seen.extend(dir(x)) or x)(V)
    assert rd.algorithm(lambda x: x.trace())(X) == np.trace(X)
    assert {"dtype", "shape", "at", "named", "trace"} <= {*seen} and not {"made_in", "node", "weak", "extents"} & {
        *seen
    }


def test_a_number_beyond_its_type_is_infinite_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(rd.algorithm(lambda x: x, x="f32")(1e300))
        assert np.isinf(rd.algorithm(lambda x: x, x="f32[n]")([1e300])).all()
        assert np.isinf(rd.algorithm(lambda x: x, x="f32").interpret(1e300))


def test_what_newcomers_try_has_a_remedy() -> None:
    x = np.arange(3.0)
    masked = rd.algorithm(lambda x: x[x > 1] + x, x="f64[n]")
    cut = rd.algorithm(lambda x, k: x[:k], x="f64[n]", k="i64")
    untyped = rd.algorithm(lambda a: rd.sort(a, name="sorted"))
    schedule = untyped.schedule("f64[n]")
    said = {
        r"raido has no derivatives": lambda: rd.grad,  # type: ignore[attr-defined]
        r"\.mean\(axis=\(1, 3\)\)": lambda: rd.avg_pool,  # type: ignore[attr-defined]
        r"rd\.linalg\.lstsq\(rd\.vander\(x, degree \+ 1\), y\)": lambda: rd.polyfit,  # type: ignore[attr-defined]
        r"try +schedule=": lambda: untyped.compile(schedule),  # type: ignore[arg-type]
        r"whole number, not 2\.5": lambda: rd.algorithm(lambda a: a + 1).schedule("f64[n]")["elementwise_1"].split("x", 2.5),
        r"rd\.algorithm\(lambda x: rd\.softmax\(x\)\)": lambda: rd.algorithm(rd.softmax, x="f64[n]"),
        r"sizes 1 and 3 do not agree(?s:.)*dimension 0 of 'x'": lambda: masked(x),
        r"leaves a dimension of size 3(?s:.)*try +rd\.clip\(k, 0, a\.shape\[0\]\)": lambda: cut(x, 7),
        r"returns no list(?s:.)*a tuple": lambda: rd.algorithm(lambda x: [x, x], x="f64[n]")(x),
        r"one value of dtype float64": lambda: rd.algorithm(lambda x: x, x="f64[n]")(np.array(3.0)),
    }  # fmt: skip
    for words, wrong in said.items():
        with pytest.raises((rd.RaidoError, AttributeError), match=words):
            wrong()
    assert cut(x, 2).tolist() == [0, 1]
    within = rd.algorithm(lambda x, k: x[: rd.clip(k, 0, x.shape[0])], x="f64[n]", k="i64")
    assert within(x, 7).tolist() == [0, 1, 2]
    coefficients = rd.algorithm(lambda x, y: rd.linalg.lstsq(rd.vander(x, 2), y)[0])
    np.testing.assert_allclose(coefficients.interpret(x, 2 * x + 1), [2, 1])


def test_dicts_are_arguments_inside_algorithms() -> None:
    untyped = rd.algorithm(name="untyped")(lambda p: p["a"] - p["b"])
    typed = rd.algorithm(name="typed", p={"a": "f64[n]", "b": "f64[n]"})(lambda p: p["a"] - p["b"])
    for outer in (lambda x, y: untyped({"b": x, "a": y}), lambda x, y: typed({"b": x, "a": y})):
        assert rd.algorithm(outer).interpret(np.ones(2), np.arange(2.0)).tolist() == [-1, 0]
    for passed in (lambda q: untyped(q), lambda q: typed(q)):
        assert rd.algorithm(passed).interpret({"b": np.ones(2), "a": np.arange(2.0)}).tolist() == [-1, 0]
    with pytest.raises(rd.ArgumentError, match="must have the fields a, b"):
        rd.algorithm(lambda x: typed({"a": x, "c": x})).interpret(np.ones(2))


def test_what_a_newcomer_meant_is_named() -> None:
    """Fields of a record; the axis of a map; the order of a loop's parameters; one branch instead of both."""
    pair = rd.record(x=rd.f64, y=rd.f64)

    @rd.algorithm
    def other_field(v: pair["n"]):  # type: ignore[valid-type]
        return rd.map(lambda p: p.z, v)

    x = np.ones(4)
    cases: list[tuple[Any, str]] = [
        (lambda: other_field.interpret({"x": x, "y": x}), "its fields: x, y"),
        (lambda: rd.algorithm(lambda a: rd.map(lambda v: v, a, axis=1)).interpret(x), "rd.moveaxis(a, axis, 0)"),
        (lambda: rd.algorithm(lambda a: rd.loop(3, lambda s, i: s + a[i], 0.0)).interpret(x), "body(i, state)"),
        (lambda: rd.algorithm(lambda a: rd.where(a > 0, a[rd.iota(4) - 1], 0)).interpret(x), "rd.cond(p, lambda: a[i]"),
        (lambda: rd.algorithm(lambda a: rd.stack(list(a))).interpret(x[:0]), "rd.filter to keep some"),
    ]
    for call, remedy in cases:
        with pytest.raises(rd.RaidoError) as caught:
            call()
        assert remedy in str(caught.value)
