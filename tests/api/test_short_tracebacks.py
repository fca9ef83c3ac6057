"""A traceback shows the user's frames and the message; all frames where the environment asks for them."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.trace.tracebacks import LEAVES_NO_FRAME, shortened

X = np.ones((2, 3), np.float32)
BORDER = 0 if LEAVES_NO_FRAME else 1  # frames of raido's


def deep(a: Any) -> Any:
    return rd.map(lambda row: rd.tabulate(3, lambda i: row[i] and 1), a)


def unknown(a: Any) -> Any:
    return rd.map(lambda row: undefined(row), a)  # type: ignore[name-defined]


@rd.algorithm(a="f32[n]", b="i64[n]")
def picked(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.map(lambda i: a[i], b, name="rows")


CALLS: dict[str, Any] = {
    "call": lambda f: rd.algorithm(f)(X),
    "trace": lambda f: rd.algorithm(f).trace(X),
    "interpret": lambda f: rd.algorithm(f).interpret(X),
    "compile": lambda f: rd.algorithm(f).compile(like=(X,)),
    "schedule": lambda f: rd.algorithm(f).schedule(X),
    "inside another": lambda f: rd.algorithm(lambda a: rd.algorithm(f)(a))(X),
}
VIEW = picked.schedule()["rows"]
ONES, FAR = np.ones(3, np.float32), np.array([0, 9, 1])
ILLEGAL: dict[str, tuple[Any, type[Exception]]] = {
    "argument of a call": (lambda: picked(X, FAR), rd.ArgumentError),
    "argument of an executable": (lambda: picked.compile()(X, FAR), rd.ArgumentError),
    "number of arguments": (lambda: picked.compile()(ONES), rd.ArgumentError),
    "size": (lambda: picked.compile()(ONES, FAR[:2]), rd.SizeMismatch),
    "fault": (lambda: picked.compile()(ONES, FAR), rd.IndexOutOfRange),
    "timed fault": (lambda: picked.compile().time(ONES, FAR), rd.IndexOutOfRange),
    "bound fault": (lambda: picked.compile().bind(ONES, FAR).run(), rd.IndexOutOfRange),
    "number of runs": (lambda: picked.compile().time(ONES, FAR, repeat=0), ValueError),
    "kind of source": (lambda: picked.compile().source("ptx"), rd.TargetError),
    "directive that there is not": (lambda: VIEW.vectorise("x"), rd.ScheduleError),
    "illegal directive": (lambda: VIEW.split("x", 0), rd.ScheduleError),
    "directive without its argument": (lambda: VIEW.split("x"), rd.ScheduleError),
    "directive with Halide's arguments": (lambda: VIEW.tile("y", "x", 8, 8), rd.ScheduleError),
    "option that there is not": (lambda: rd.Target("llvm", thread=2), rd.ArgumentError),
    "name that there is not": (lambda: rd.cumsm, AttributeError),
    "name that a module has not": (lambda: rd.fft.ffft, AttributeError),
    "attribute that there is not": (lambda: picked.schedule().shwo(), AttributeError),
    "function outside of an algorithm": (lambda: rd.sum(ONES), rd.TraceError),
    "operator outside of an algorithm": (lambda: rd.scan(rd.add, 0, ONES), rd.TraceError),
    "late name outside of an algorithm": (lambda: rd.cov(X), rd.TraceError),
    "function of a module outside of an algorithm": (lambda: rd.linalg.norm(ONES), rd.TraceError),
    "search that there is not": (lambda: rd.autotune(picked, {"m": 8}, search="best"), rd.ArgumentError),
    "stage that there is not": (lambda: picked.schedule()["cols"], rd.ScheduleError),
    "branch": (lambda: picked.schedule().when("w >"), rd.ScheduleError),
    "hole": (lambda: rd.choose("ty", []), rd.ScheduleError),
    "schedule that is none": (lambda: rd.Schedule.from_json("{", picked), rd.ScheduleError),
    "target": (lambda: rd.Target("llvm", cpu="none"), rd.TargetError),
    "library": (lambda: rd.load("/nowhere/libnone.so"), rd.TargetError),
    "tuning": (lambda: rd.autotune(picked, {"m": 8}, db="/nowhere/tuning.db"), rd.RaidoError),
}


def frames_of(call: Any) -> tuple[BaseException, list[str]]:
    try:
        call()
    except Exception as error:
        return error, [frame.f_globals["__name__"].split(".")[0] for frame, _ in traceback.walk_tb(error.__traceback__)]
    raise AssertionError("no error")


@pytest.fixture(autouse=True)
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAIDO_TRACEBACK", raising=False)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("function", "kind"), [(deep, rd.TraceError), (unknown, NameError)])
def test_users_frames_alone_are_shown(name: str, function: Any, kind: type[Exception]) -> None:
    error, modules = frames_of(lambda: CALLS[name](function))
    assert isinstance(error, kind)
    assert modules.count("raido") == BORDER
    text = "".join(traceback.format_exception(error))
    assert "row" in text and "During handling" not in text
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert last.filename == __file__


@pytest.mark.parametrize("name", ILLEGAL)
def test_calls_and_directives_show_the_users_line(name: str) -> None:
    call, kind = ILLEGAL[name]
    error, modules = frames_of(call)
    assert isinstance(error, kind)
    assert modules.count("raido") == BORDER and len(modules) == 2 + BORDER  # this file's two
    assert "During handling" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("name", ["fault", "illegal directive"])
def test_the_environment_asks_for_all_frames(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("RAIDO_TRACEBACK", "1")
    _, modules = frames_of(lambda: CALLS["call"](deep))
    assert modules.count("raido") > 5
    _, modules = frames_of(ILLEGAL[name][0])
    assert modules.count("raido") > 1


def test_faults_of_raidos_own_keep_their_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raido.algo.trace.algorithm.new_form", None)
    error, modules = frames_of(lambda: CALLS["trace"](lambda a: rd.sum(a) + 1))
    assert isinstance(error, TypeError) and not isinstance(error, rd.RaidoError) and modules.count("raido") > 1


def test_causes_are_shortened_with_the_error() -> None:
    try:
        rd.algorithm(lambda a: a, a="f32[").trace()
    except rd.TraceError as error:
        links = [error, error.__cause__]
        assert all(link is None or _of_raido(link) <= BORDER for link in links)
    else:
        raise AssertionError("no error")


def _of_raido(error: BaseException) -> int:
    walked = traceback.walk_tb(error.__traceback__)
    return sum(frame.f_globals["__name__"].startswith("raido") for frame, _ in walked)


def test_an_error_without_a_traceback_stays_as_it_is() -> None:
    error = rd.TraceError("said")
    assert shortened(error) is error and error.__traceback__ is None


def test_arithmetic_of_indices_that_is_too_deep_is_one_clear_error() -> None:
    def halved(a: Any) -> Any:
        def at(i: Any) -> Any:
            for k in range(400):
                i = (i * 3 + k) // 2
            return a[i % a.shape[0], 0]

        return rd.tabulate(a.shape[0], at)

    error, modules = frames_of(lambda: rd.algorithm(halved).compile(like=(X,)))
    assert isinstance(error, rd.CompileError) and "nested too deeply" in str(error) and "rd.loop" in str(error)
    assert modules.count("raido") <= BORDER


def test_recursion_of_the_users_own_is_named() -> None:
    def endless(a: Any) -> Any:
        return endless(a + 1) + a

    error, _ = frames_of(lambda: rd.algorithm(endless).trace(X))
    assert isinstance(error, RecursionError) and "endless calls itself without end" in str(error)
