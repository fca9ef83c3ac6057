"""Misspelt attributes and arguments, and forms of other languages, are answered with the intended name."""

from __future__ import annotations

import operator
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.trace import remedies

X = np.ones((2, 3), np.float32)


@rd.algorithm(img="f32[h, w]")
def blur(img: rd.Array) -> rd.Array:
    rows = rd.stencil(lambda p: p[0, -1] + p[0, 1], img, name="rows")
    return rd.stencil(lambda p: p[-1, 0] + p[1, 0], rows, name="cols")


def traced(function: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: rd.algorithm(function).trace(X)


def cols() -> Any:
    return blur.schedule()["cols"]


UNKNOWN = {
    "method": (traced(lambda a: a.cumsm()), "a.cumsm: ", r"try +\.cumsum$"),
    "function as a method": (traced(lambda a: a.median()), "a.median: ", r"try +rd\.median\(a\)"),
    "method that changes": (traced(lambda a: a.sort()), "a.sort: ", r"try +b = rd\.sort\(a, axis\)"),
    "change": (traced(lambda a: a.at[0].sett(1)), r"a\.at\[key\]\.sett: ", r"try +\.set"),
    "change without a key": (traced(lambda a: a.at.add(1)), r"a\.at\.add: ", r"try +a\.at\[key\]"),
    "field": (traced(lambda a: rd.record(speed=rd.f32)(speed=1.0).sped), r"record\.sped: ", r"try +\.speed"),
    "schedule": (lambda: blur.schedule().complet(), r"schedule\.complet: ", r"try +\.complete"),
    "stage": (lambda: blur.schedule().rows, r"schedule\.rows: ", r'try +s\["rows"\]'),
    "directive of no stage": (lambda: blur.schedule().vectorize("x"), "schedule", r'try +s\["cols"\]\.vectorize'),
    "algorithm": (lambda: blur.compil(), r"blur\.compil: ", r"try +\.compile"),
    "method of a schedule": (lambda: blur.show(), r"blur\.show: ", r"try +blur\.schedule\(\)\.show\(…\)$"),
    "method of an executable": (
        lambda: blur.export("x.so"),
        r"blur\.export: ",
        r"try +blur\.compile\(\)\.export\(…\)$",
    ),
    "tuning": (lambda: blur.autotune(), r"blur\.autotune: ", r"try +rd\.autotune\(blur, sizes\)"),
    "executable": (lambda: blur.compile().tim(X), r"exe\.tim: ", r"try +\.time"),
    "name of JAX": (lambda: rd.random.PRNGKey(0), "PRNGKey", r"raido has rd\.random\.key"),
    "dtype of NumPy": (lambda: rd.float32, "float32", r"raido has rd\.f32"),
    "number of NumPy": (lambda: rd.pi, "pi", r"it is np\.pi"),
    "NumPy's order": (lambda: rd.argpartition, "argpartition", r"raido has rd\.argsort"),
    "function of JAX": (lambda: rd.cummax, "cummax", r"raido has rd\.scan\(rd\.maximum, -np\.inf, a\)"),
    "decomposition of NumPy's": (lambda: rd.linalg.eig, "eig", r"raido has rd\.linalg\.svd.* np\.linalg\.eig"),
    "norm of a condition": (lambda: rd.linalg.cond, "cond", r"raido has s\[0\] / s\[-1\]"),
    "windows": (lambda: rd.windows, "windows", r"raido has rd\.stencil.* rd\.tabulate"),
    "decomposition": (lambda: rd.svd, "svd", r"raido has rd\.linalg\.svd"),
    "change of JAX": (traced(lambda a: a.at[0].divide(2)), r"a\.at\[key\]\.divide: ", r"try +a\.at\[key\]\.multiply"),
    "reading by at": (traced(lambda a: a.at[0].get()), r"a\.at\[key\]\.get: ", r"try +a\[key\]$"),
    "method of a window": (traced(lambda a: rd.stencil(lambda p: p.sum(), a)), r"p\.sum: ", r"try +p\[dy, dx\]"),
    "method of an algorithm": (lambda: blur.compile().interpret(X), r"exe\.interpret: ", r"try +blur\.interpret\(…\)"),
    "print of an executable": (lambda: blur.compile().show(), r"exe\.show: ", r'try +exe\.source\("nest"\)$'),
    "schedule of an executable": (
        lambda: blur.compile().schedule,
        "exe",
        r'try +exe\.source\("schedule"\), blur\.sched',
    ),
    "run of an executable": (lambda: blur.compile().run(X), r"exe\.run: ", r"try +exe\(…\), or call = exe\.bind\(…\)"),
    "compile of a schedule": (lambda: blur.schedule().compile(), "schedule", r"try +blur\.compile\(schedule=s\)"),
    "time of a schedule": (lambda: blur.schedule().time(X), "schedule", r"blur\.compile\(schedule=s\)\.time\(…\)"),
    "module of SciPy": (lambda: rd.special.erf, "special", r"raido has rd\.erf, rd\.erfc"),
    "function of SciPy": (lambda: rd.ndtr, "ndtr", r"raido has rd\.erfc\(-x / math\.sqrt\(2\)\) / 2"),
    "segments of JAX": (lambda: rd.segment_max, "segment_max", r"raido has rd\.reduce_by_index\(.*rd\.maximum"),
    "convolution": (lambda: rd.conv2d, "conv2d", r"raido has rd\.stencil.*rd\.tabulate"),
    "method of torch": (traced(lambda a: a.permute(1, 0)), r"a\.permute: ", r"try +a\.transpose\(1, 0\)"),
    "type of torch": (traced(lambda a: a.float()), r"a\.float: ", r"try +a\.astype\(rd\.f32\)"),
    "change of torch": (traced(lambda a: a.at[0].mul(2)), r"a\.at\[key\]\.mul: ", r"try +a\.at\[key\]\.multiply"),
    "name in a module": (lambda: rd.norm, "norm", r"raido has rd\.linalg\.norm$"),
    "random numbers": (lambda: rd.normal, "normal", r"raido has rd\.random\.normal$"),
    "name of torch": (lambda: rd.clamp, "clamp", r"raido has rd\.clip$"),
    "Python's range": (lambda: rd.range, "range", r"raido has rd\.iota$"),
    "no user's name": (traced(lambda a: a.nope()), r"a\.nope: ", r"^  algorithm .*\Z"),
    "no name of a module": (lambda: rd.linalg.expm, "raido.linalg", r"it has cholesky, .*vector_norm"),
    "module": (lambda: rd.random.unifrm, "raido.random", r"near: rd\.random\.uniform"),
}
MISFITS = {
    "keyword": (traced(lambda a: rd.stencil(lambda p: p[0], a, boundry="clamp")), r"rd\.stencil: ", r"try +boundary="),
    "keyword of a method": (traced(lambda a: a.sum(axs=0)), r"rd\.sum: ", r"try +axis="),
    "keyword of a late name": (traced(lambda a: rd.cov(a, rowva=False)), r"rd\.cov: ", r"try +rowvar="),
    "missing": (traced(lambda a: a.at[0].set()), r'a\.at\[key\]\.set: the argument "value"', r"takes +\(value"),
    "static": (lambda: blur.compile(scheduel=None), "'scheduel'", r"try +schedule="),
    "option of a timing": (lambda: blur.compile().time(X, repeats=3), "'repeats'", r"try +repeat="),
    "option of a decorator": (lambda: repr(rd.algorithm(contrat=False)(lambda a: a)), "'contrat'", r"try +contract="),
    "sizes for NumPy": (
        traced(lambda a: a + np.zeros(rd.filter(lambda r: r[0] > 0, a).shape)),
        "np.zeros",
        r"try +rd\.zeros",
    ),
    "branch by JAX": (traced(lambda a: rd.cond(a[0, 0] > 0, lambda x: x, lambda x: -x, a)), r"rd\.cond: ", "takes"),
    "a slice of one": (
        lambda: rd.algorithm(x="f32[h, w]")(lambda x: x - x[:, :1])(np.zeros((2, 3), "f4")),
        "must agree",
        r"try +a\[:, 0, None\]",
    ),
    "a number to each row": (
        lambda: rd.algorithm(x="f32[h, w]")(lambda x: x - rd.sum(x, 1))(np.zeros((2, 3), "f4")),
        r"rank 1\) has size 2 \(h\); they must agree",
        r"try +a\[:, None\] .* keepdims=True",
    ),
    "a number to each row, interpreted": (
        lambda: rd.algorithm(x="f32[h, w]")(lambda x: x - rd.sum(x, 1)).interpret(np.zeros((2, 3), "f4")),
        "rank 1",
        r"try +a\[:, None\] .* keepdims=True",
    ),
    "keyword of an algorithm": (lambda: blur(imgs=X), "blur has no parameter 'imgs'", r"try +img=\n +takes +img$"),
    "option of compile in a call": (
        lambda: blur(X, schedule=blur.schedule()),
        "blur has no parameter 'schedule'",
        r"try +blur\.compile\(schedule=…\), which gives the function to call\n +takes +img$",
    ),
    "nearly an option of compile in a call": (
        lambda: blur(X, scheduel=None),
        "blur has no parameter 'scheduel'",
        r"try +blur\.compile\(schedule=…\)",
    ),
    "part of a target": (
        lambda: blur.compile(threads=3),
        r"blur\.compile has no argument 'threads'",
        r'try +blur\.compile\(rd\.Target\("llvm", threads=…\)\)\n +takes +target, schedule, sizes, .*img$',
    ),
    "sizes without names": (lambda: blur.compile(sizes=[3, 4]), "dict of sizes", r'try +sizes=\{"h": 64, "w": 64\}'),
    "compiling without types": (
        lambda: rd.algorithm(lambda x: x).compile(),
        "the type of 'x' is not declared",
        r'try +algorithm\.compile\(like=\(rd\.f32\["n"\],\)\)',
    ),
    "a schedule without types": (
        lambda: rd.algorithm(lambda x, y: x).schedule(),
        "the type of 'x' is not declared",
        r'try +algorithm\.schedule\(rd\.f32\["n"\], rd\.f32\["n"\]\)',
    ),
    "missing argument of an algorithm": (lambda: blur(), r"takes 1 argument \(img\), not 0; 'img' is missing", ""),
    "unclosed type": (lambda: rd.algorithm(lambda x: x, x="f32[n").trace(), r"'\[' was never closed", ""),
    "an example for compile": (lambda: blur.compile(like=X), "`like` is a tuple", r"try +like=\(x,\)$"),
    "an example as a target": (lambda: blur.compile(X), "not ndarray", r"like=\(x, …\) for examples"),
    "the processor": (lambda: blur.compile("cpu"), 'unknown target "cpu"', 'try +"llvm"$'),
    "a name as a kind": (
        lambda: rd.Target("llvm:haswell"),
        "no kind of target",
        'try +rd.Target\\("llvm", cpu="haswell"\\)$',
    ),
    "a kind of processor": (lambda: blur.compile("haswell"), 'unknown target "haswell"', 'try +"llvm:haswell"$'),
    "a type in a decorator": (lambda: rd.algorithm("f32[n]"), "of a function", r'try +@rd\.algorithm\(x="f32\[n\]"\)'),
    "sizes by name for the tuner": (
        lambda: rd.autotune(blur, sizes={"h": 4, "w": 4}, trials=0),
        "no option 'sizes'",
        "try +rd.autotune\\(blur, .*second argument$",
    ),
    "by position": (
        lambda: rd.algorithm(x="f32[n]")(lambda x, *, width=3: x)(np.zeros(3, "f4"), 4),
        r"takes 1 argument \(x\), not 2; by name: width=$",
        "",
    ),
    "tiles by Halide": (lambda: cols().tile("x", "y", "xo", "yo", "xi", "yi", 8, 4), "tile", r"try +tile\(y=4, x=8\)"),
    "tiles by size": (lambda: cols().tile(4, 8), "tile", r"try +tile\(y=4, x=8\)"),
    "split": (lambda: cols().split("x", "xo", "xi", 8), "split", r'try +split\("x", 8, names=\("xo", "xi"\)\)'),
    "directive": (lambda: cols().split("x", factr=8), 'cannot split stage "cols"', r"try +factor="),
    "stage as an argument": (lambda: blur.schedule()["rows"].compute_at(cols(), "y"), "compute_at", r'stage, "cols"'),
}


def said_of(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, rd.RaidoError)
    return str(caught.value)


@pytest.mark.parametrize("name", UNKNOWN)
def test_attributes_are_answered_with_near_ones(name: str) -> None:
    call, head, remedy = UNKNOWN[name]
    text = said_of(call, AttributeError)
    assert re.search(head, text.splitlines()[0]), text
    assert re.search(remedy, text, re.MULTILINE), text


@pytest.mark.parametrize("name", MISFITS)
def test_arguments_are_answered_with_what_was_meant(name: str) -> None:
    call, head, remedy = MISFITS[name]
    text = said_of(call, Exception)
    assert re.search(head, text.splitlines()[0]), text
    assert re.search(remedy, text, re.MULTILINE), text


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a.at[0],
        lambda a: (a, a.at[0]),
        lambda a: a.at[0] + 1,
        lambda a: 1 - a.at[0],
        lambda a: a + a.at[0],
        lambda a: rd.sum(a.at[0]),
        lambda a: rd.map(lambda row: row, a.at),
        lambda a: [*a.at[0]],
        lambda a: np.float32(1) + a.at[0],
    ],
)
def test_a_place_without_a_change_is_no_value(use: Callable[[Any], Any]) -> None:
    text = said_of(traced(use), rd.TraceError)
    assert "is used as a value" in text and "a.at[key].set(v)" in text and "lambda a:" in text


def test_every_remedy_for_a_name_from_elsewhere_exists() -> None:
    for remedy in remedies._ELSEWHERE.values():
        for dotted in re.findall(r"rd((?:\.\w+)+)", remedy):
            assert operator.attrgetter(dotted[1:])(rd) is not None


def test_public_functions_are_pickled_by_their_public_names() -> None:
    for function in (rd.sum, rd.amax, rd.cov, rd.fft.fft, rd.linalg.norm, rd.add, rd.load):
        assert pickle.loads(pickle.dumps(function)) is function
    assert rd.fft.fft.__module__ == "raido.fft" and "takes" not in dir(rd) and "near_names" not in dir(rd)


def test_errors_print_as_public_classes_and_can_be_pickled() -> None:
    for call, shown in ((lambda: blur.compil(), "RaidoError"), (lambda: cols().splt("x", 4), "ScheduleError")):
        with pytest.raises(rd.RaidoError) as caught:
            call()
        kind = type(caught.value)
        assert f"{kind.__module__}.{kind.__qualname__}" == f"raido.{shown}"
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is kind and str(again) == str(caught.value)
    assert rd.ShapeError.__module__ == rd.RaidoError.__module__ == rd.CopyWarning.__module__ == "raido"


@pytest.mark.parametrize("module", [rd.fft, rd.linalg, rd.random])
def test_a_module_lists_its_public_names(module: Any) -> None:
    assert [name for name in dir(module) if not name.startswith("__")] == sorted(module.__all__)


def test_a_request_that_cannot_be_met_makes_no_database(tmp_path: Path) -> None:
    for wrong in ({"search": "best"}, {"trials": -1}, {"trails": 2}):
        with pytest.raises(rd.ArgumentError):
            rd.autotune(blur, {"h": 4, "w": 4}, db=tmp_path / "tuning.db", **wrong)
    assert not list(tmp_path.iterdir())
