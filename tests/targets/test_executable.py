"""Calls of executables: every way to pass arrays gives the right numbers, every mistake is one clear error, and calls are fast."""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import c_programs as programs
import numpy as np
import pytest

import raido as rd
from raido.algo.errors import ArgumentError, IndexOutOfRange, RaidoError, SizeMismatch, TargetError
from raido.targets.executable import Executable, Timing
from raido.targets.memory_speed import memory_speed
from raido.targets.signature import Signature, Value


@pytest.fixture(scope="module")
def add() -> Executable:
    return programs.make_executable(programs.ADD, programs.add_signature())


@pytest.fixture(scope="module")
def gather() -> Executable:
    return programs.make_executable(programs.GATHER, programs.gather_signature())


@pytest.fixture(scope="module")
def statistics() -> Executable:
    return programs.make_executable(programs.STATISTICS, programs.statistics_signature())


def matrices(h: int = 5, w: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(h * 100 + w)
    return rng.random((h, w), "float32"), rng.random((h, w), "float32")


@pytest.mark.parametrize("shape", [(5, 7), (0, 7), (3, 0), (1, 1), (1500, 1001)])
def test_results_are_right_for_any_size(add: Executable, shape: tuple[int, int]) -> None:
    a, b = matrices(*shape)
    result = add(a, b)
    assert type(result) is np.ndarray and result.shape == shape and result.flags.c_contiguous and result.flags.writeable
    np.testing.assert_array_equal(result, a + 2 * b)


def test_arrays_of_any_layout_are_taken(add: Executable) -> None:
    a, b = matrices()
    wide = np.zeros((10, 21), "float32")
    wide[::2, ::3] = a
    raw = bytearray(a.nbytes + 1)
    unaligned = np.frombuffer(raw, np.uint8)[1:].view("float32").reshape(a.shape)
    unaligned[...] = a
    frozen = a.copy()
    frozen.flags.writeable = False
    for form in (wide[::2, ::3], np.asfortranarray(a), a.astype(">f4"), a[::-1][::-1], unaligned, frozen):
        np.testing.assert_array_equal(add(form, b), a + 2 * b)
    np.testing.assert_array_equal(add(np.broadcast_to(a[:1], a.shape), b), a[:1] + 2 * b)
    np.testing.assert_array_equal(add(a.tolist(), b), a + 2 * b)


def test_dlpack_producers_are_taken_without_a_copy(add: Executable) -> None:
    class Producer:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    class Elsewhere(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("the array is on a GPU")

    a, b = matrices()
    np.testing.assert_array_equal(add(Producer(a), Producer(b)), a + 2 * b)
    with pytest.raises(ArgumentError, match=r'"b" must be f32\[h, w\].*Elsewhere\n.*on a GPU'):
        add(a, Elsewhere(b))


def test_out_receives_the_result(add: Executable) -> None:
    a, b = matrices()
    want = a + 2 * b
    out = np.empty_like(a)
    assert add(a, b, out=out) is out
    np.testing.assert_array_equal(out, want)
    strided = np.zeros((5, 14), "float32")
    assert add(a, b, out=strided[:, ::2]).base is strided
    np.testing.assert_array_equal(strided[:, ::2], want)
    assert not strided[:, 1::2].any()
    swapped = np.empty(a.shape, ">f4")
    np.testing.assert_array_equal(add(a, b, out=swapped), want)


def test_out_may_overlap_inputs(add: Executable) -> None:
    a, b = matrices(40, 50)
    want = a + 2 * b
    np.testing.assert_array_equal(add(a.copy(), b, out=(inside := a.copy())), want)
    np.testing.assert_array_equal(add(inside := a.copy(), b, out=inside), want)
    long = np.zeros(2100, "float32")
    long[100:] = a.ravel()
    np.testing.assert_array_equal(add(long[100:].reshape(40, 50), b, out=long[:2000].reshape(40, 50)), want)


def test_wrong_out_is_refused(add: Executable) -> None:
    a, b = matrices()
    locked = np.empty_like(a)
    locked.flags.writeable = False
    for out, message in (
        (locked, "read-only"),
        (np.empty((5, 8), "float32"), r"must be float32 of shape \(5, 7\), got float32 of shape \(5, 8\)"),
        (np.empty((5, 7)), "got float64"),
        ([1, 2], "must be an array, got a list of int64"),
    ):
        with pytest.raises(ArgumentError, match=message):
            add(a, b, out=out)


def test_wrong_arguments_name_the_argument_what_came_and_what_is_right(add: Executable) -> None:
    a, b = matrices()
    with pytest.raises(ArgumentError) as caught:
        add(a, b.astype("float64"))
    assert str(caught.value) == (
        'add: argument "b" must be f32[h, w], got an array of dtype float64 and shape (5, 7)\n'
        '  try       .astype("float32") converts it'
    )
    with pytest.raises(ArgumentError) as caught:
        add(a)
    assert str(caught.value) == "add takes 2 arguments, got 1\n  takes     a: f32[h, w], b: f32[h, w]"
    with pytest.raises(SizeMismatch) as caught:
        add(a, b[:, :6])
    assert str(caught.value) == (
        'add: "b" has size 6 along dimension 1, which must be w = 7\n'
        '  where     w = 7 is "a" dimension 1\n'
        "  takes     f32[h, w]"
    )
    for wrong in (
        b[0],
        "text",
        None,
        object(),
        np.ma.masked_array(b),
        b.astype("int32"),
        b.astype("U5"),
        [[1], [1, 2]],
    ):
        with pytest.raises(ArgumentError, match='argument "b" must be'):
            add(a, wrong)


def test_faults_name_the_line_the_index_and_the_size(gather: Executable) -> None:
    table, index = np.arange(5.0), np.array([4, 0, 3])
    np.testing.assert_array_equal(gather(table, index), table[index])
    for bad in (7, -2):
        index[1] = bad
        with pytest.raises(IndexOutOfRange) as caught:
            gather(table, index)
        assert str(caught.value).splitlines()[:2] == [
            f"gather: index {bad} is out of range for dimension 0 of size 5",
            "  algorithm user.py:12   return table[i]",
        ]
        with pytest.raises(IndexError):
            gather.time(table, index)
        with pytest.raises(IndexError):
            gather(table[::1], index.astype(">i8"))
    np.testing.assert_array_equal(gather(table, np.array([1])), [1.0])  # nothing is left of the fault


def test_scalars_and_structures(statistics: Executable) -> None:
    x = np.array([1, 2, np.nan], "float32")[:2]
    for gain in (2, 2.0, np.float32(2), np.array(2, "float32"), True + 1, np.float64(2), np.int32(2), np.array(2)):
        total, record = statistics(x, gain)
        assert type(total) is np.float32 and total == 6 and type(record["n"]) is np.int64 and record["n"] == 2
        np.testing.assert_array_equal(record["y"], [2, 4])
    for gain in (2j, "2", np.array([2], "float32"), np.complex64(2)):
        with pytest.raises(ArgumentError, match=r'argument "gain" must be f32 \(a scalar\)'):
            statistics(x, gain)
    scale, n, y = np.zeros((), "float32"), np.zeros((), "int64"), np.zeros(2, "float32")
    result = statistics(x, 3, out=(scale, {"n": n, "y": y}))
    assert result[0] is scale and scale == 9 and n == 2 and y.tolist() == [3, 6]
    assert result[1]["n"] is n and result[1]["y"] is y
    with pytest.raises(ArgumentError, match="overlap each other"):
        statistics(x, 3, out=(y[:1].reshape(()), {"n": n, "y": y}))
    assert np.isnan(statistics(np.array([np.nan], "float32"), 1)[0])


def test_structured_arguments() -> None:
    plain = programs.statistics_signature()
    points = replace(plain, inputs=(Value("p.x", "float32", ("n",)), Value("p.y", "float32", ())))
    for kind in ("record", "namedtuple"):
        body = {"x": 0, "y": 1} if kind == "record" else {"name": "Point", "fields": {"x": 0, "y": 1}}
        output = {"namedtuple": {"name": "Answer", "fields": {"total": 0, "n": 1, "y": 2}}}
        exe = programs.make_executable(
            programs.STATISTICS, replace(points, input_tree={"tuple": [{kind: body}]}, output_tree=output)
        )
        x = np.array([1, 2], "float32")
        answer = exe({"x": x, "y": 3})
        assert answer.total == 9 and answer.n == 2 and type(answer).__name__ == "Answer"
        with pytest.raises(ArgumentError, match="must have the fields"):
            exe({"x": x})
        with pytest.raises(ArgumentError, match="dict of arrays or a structured array"):
            exe(x)
    mixed = np.zeros(3, [("x", "f4"), ("y", "i4")])
    mixed["x"] = 1, 2, 3
    columns = Signature(
        "columns",
        (Value("p.x", "float32", ("n",)), Value("p.y", "int32", ("n",))),
        ("n",),
        (Value("result", "float32", ("n",)),),
        {"tuple": [{"record": {"x": 0, "y": 1}}]},
        0,
    )
    source = "int32_t entry(const float* x, const int32_t* y, int64_t n, float* out, RdFault* f)"
    exe = programs.make_executable(source + "{ (void)y, (void)f; memcpy(out, x, 4 * n); return 0; }", columns)
    assert exe(mixed).tolist() == [1, 2, 3]


def test_existential_sizes_cut_the_result() -> None:
    positive = programs.make_executable(programs.POSITIVE, programs.positive_signature())
    assert "k <= n" in repr(positive)
    x = np.array([3, -1, 0, 5, -2, -7, -8, 1], "int32")
    assert positive(x).tolist() == [3, 5, 1] and positive(-abs(x)).tolist() == [] and positive(x[:0]).tolist() == []
    out = np.zeros(8, "int32")
    assert positive(x, out=out).base is out and out.tolist() == [3, 5, 1, 0, 0, 0, 0, 0]


def test_sizes_follow_from_formulas() -> None:
    @rd.algorithm
    def ends(x: rd.f64["2*n - 1"], y: rd.f64["n + m"]):
        return x[0] + y[-1], rd.iota(x.shape[0] + y.shape[0])

    total, counted = ends(np.ones(5), np.ones(7))
    assert total == 2 and len(counted) == 12
    for x, y, formula in ((np.ones(4), np.ones(7), "n"), (np.ones(5), np.ones(2), "m")):
        with pytest.raises(SizeMismatch, match=rf"which .*{formula}.* cannot be"):
            ends(x, y)


def test_sizes_are_checked_before_anything_runs() -> None:
    exe = programs.make_executable(programs.DIFFERENCES, programs.differences_signature())
    base, x, y = (np.arange(n, dtype="float32") for n in (4, 5, 4))
    np.testing.assert_array_equal(exe(base, x, y), (base + x[1:] - x[:-1] + y)[:3])
    with pytest.raises(SizeMismatch, match=r'"x" has size 4 along dimension 0, which must be n \+ 1 = 5'):
        exe(base, x[:4], y)
    with pytest.raises(SizeMismatch) as caught:
        exe(base, x, y[:3])
    assert str(caught.value) == (
        'differences: argument "base" has size 4 (n), argument "y" has size 3 (m); they must agree\n'
        "  algorithm user.py:7   return base + y"
    )
    with pytest.raises(SizeMismatch, match="negative size"):
        exe(base[:0], x[:1], y[:0])


def test_size_arguments_and_failures_without_a_fault() -> None:
    exe = programs.make_executable(programs.FAILING, programs.failing_signature())
    assert exe(0) == 0 and exe(np.int64(0)) == 0
    with pytest.raises(RaidoError, match="failing: ValueError: it went wrong"):
        exe(1)
    with pytest.raises(MemoryError, match="failing: not enough memory"):
        exe(2)
    with pytest.raises(MemoryError, match="failing: cannot allocate 1048576 bytes"):
        exe(3)
    assert exe(0) == 0
    with pytest.raises(SizeMismatch, match="must not be negative"):
        exe(-1)
    with pytest.raises(SizeMismatch, match="larger than any array"):
        exe(1 << 64)
    for wrong in (1.0, "1", True):
        with pytest.raises(ArgumentError, match='"how" is a size and must be an int'):
            exe(wrong)


def test_threads_can_be_bounded_and_results_have_the_same_bits(add: Executable) -> None:
    a, b = matrices(300, 11)
    want = add(a, b)
    for threads in (1, 2, 8, None):
        np.testing.assert_array_equal(add.with_threads(threads)(a, b), want)
    with pytest.raises(TargetError, match="at least 1"):
        add.with_threads(0)


def test_calls_hold_on_to_nothing(add: Executable, gather: Executable) -> None:
    a, b = matrices()
    out, table, index = np.empty_like(a), np.arange(5.0), np.array([1, 9])
    held = (a, b, out, table, index, a.dtype, table.dtype)
    iterations = 100

    def every_way() -> list[int]:
        for _ in range(iterations):
            add(a, b)
            add(a, b, out=out)
            add(a[::2], b[::2])
            gather(table, index[:1])
            for wrong in (lambda: gather(table, index), lambda: add(a, b[:3]), lambda: add(a, b, out=index)):
                with pytest.raises(RaidoError):
                    wrong()
        gc.collect()
        return [sys.getrefcount(thing) for thing in held]

    every_way()
    before = every_way()
    assert max(now - then for now, then in zip(every_way(), before, strict=True)) < iterations // 2


def test_many_threads_call_one_executable(add: Executable, gather: Executable) -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        a, b = matrices(20 + seed, 30)
        table = np.arange(5.0)
        for i in range(200):
            if not np.array_equal(add(a, b), a + 2 * b):
                wrong.append("add")
            try:
                gather(table, np.array([0, 5 + seed if i % 2 else 1]))
            except IndexError as error:
                if f"index {5 + seed} " not in str(error) or not i % 2:
                    wrong.append(str(error))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_time_and_source(add: Executable) -> None:
    a, b = matrices(10, 10)
    timing = add.time(a, b, repeat=7)
    assert len(timing.runs) == 7 and 0 < timing.min <= timing.median and timing.bytes == 1200
    assert timing.bandwidth > 0
    assert "entry" in add.source("c") and add.source("lazy") == "made when asked"
    with pytest.raises(TargetError, match='no source of kind "ptx"; there is: "c", "lazy"'):
        add.source("ptx")
    assert repr(add) == "<Executable add(a: f32[h, w], b: f32[h, w]) -> f32[h, w]>"
    with pytest.raises(ValueError, match="at least 1"):
        add.time(a, b, repeat=0)


def test_a_timing_is_held_against_a_copy_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = Timing((0.5, 1.0), 10**9)
    memory_speed.cache_clear()
    assert repr(timing) == "<Timing 500 ms; median 750 ms of 2 runs; 2 GB/s>" and not memory_speed.cache_info().currsize
    monkeypatch.setattr("raido.targets.memory_speed.memory_speed", functools.cache(lambda: 8e9))
    assert timing.share == 0.25
    assert repr(timing) == "<Timing 500 ms; median 750 ms of 2 runs; 2 GB/s, 25% of a copy's 8 here>"
    assert "25% of a copy&#x27;s 8 here" in timing._repr_html_()
    monkeypatch.setattr("raido.targets.memory_speed.memory_speed", functools.cache(lambda: None))
    assert timing.share is None and repr(timing).endswith("2 GB/s>")


def test_no_more_memory_is_used_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(shape: tuple[int, ...], dtype: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("raido.targets.memory_speed.allocate_array", refuse)
    assert memory_speed.__wrapped__() is None


def test_signatures_survive_json() -> None:
    for make in (programs.differences_signature, programs.positive_signature, programs.statistics_signature):
        assert Signature.from_json(make().to_json()) == make()
    for text in ("{}", "[]", "nonsense", '{"format": 99}'):
        with pytest.raises(TargetError):
            Signature.from_json(text)


def test_flags_and_nested_structures() -> None:
    signature = Signature(
        "choose",
        (Value("flag", "bool", ()), Value("p[0].u", "int16", ()), Value("p[1]", "uint8", ("n",))),
        ("n",),
        (Value("result", "uint8", ("n",)),),
        {"tuple": [0, {"tuple": [{"record": {"u": 1}}, 2]}]},
        0,
    )
    exe = programs.make_executable(
        """int32_t entry(const uint8_t* flag, const int16_t* u, const uint8_t* x, int64_t n, uint8_t* out, RdFault* f) {
          (void)f; for (int64_t i = 0; i < n; i++) out[i] = *flag ? x[i] + *u : x[i]; return 0; }""",
        signature,
    )
    x = np.array([1, 2], "uint8")
    for flag in (True, np.bool_(True), np.array(True)):
        for u in (-1, np.int16(-1), np.array(-1, "int16")):
            assert exe(flag, ({"u": u}, x)).tolist() == [0, 1]
    assert exe(False, [{"u": 7}, x]).tolist() == [1, 2]
    for wrong in ((1, ({"u": 0}, x)), (True, ({"u": 1 << 15}, x)), (True, (x, x)), (True, ({"u": 0},)), (True, x)):
        with pytest.raises(ArgumentError, match=r"^choose: "):
            exe(*wrong)


def python_work(call: Callable[[], Any]) -> tuple[int, int]:
    """Instructions of Python that a call runs, and functions in C that it calls: the same on every machine, however busy."""
    counts = {"opcode": 0, "c_call": 0}

    def step(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts["opcode"] += event == "opcode"
        return step

    def profile(frame: FrameType, event: str, _: Any) -> None:
        counts["c_call"] += event == "c_call"

    for install, function in ((trace, step), (sys.setprofile, profile)):
        call()
        install(function)  # type: ignore[operator]
        try:
            call()
        finally:
            install(None)
    return counts["opcode"], counts["c_call"]


def trace(step: Any) -> None:
    """`sys.settrace`, whose instructions Python 3.13.0 does not report: from 3.12 on `sys.monitoring` counts them."""
    if sys.version_info < (3, 12):
        sys.settrace(step)
        return
    monitor, tool = sys.monitoring, sys.monitoring.PROFILER_ID
    if step is None:
        monitor.set_events(tool, 0)
        monitor.free_tool_id(tool)
        return
    monitor.use_tool_id(tool, "raido's tests")
    monitor.register_callback(
        tool, monitor.events.INSTRUCTION, lambda code, offset: step(sys._getframe(), "opcode", None)
    )
    monitor.set_events(tool, monitor.events.INSTRUCTION)


@pytest.mark.parametrize("which", ["plain", "out", "faults", "existential", "structure", "structured out"])
def test_a_call_is_hardly_any_python(add: Executable, gather: Executable, statistics: Executable, which: str) -> None:
    """But for the caller's own line, which is counted, only what nests results."""
    a, b = matrices(2, 2)
    out = np.empty_like(a)
    one = add.with_threads(None)
    calls = {"plain": lambda: one(a, b), "out": lambda: one(a, b, out=out)}
    table, index = np.arange(5.0), np.array([1])
    calls["faults"] = lambda: gather(table, index)
    positive = programs.make_executable(programs.POSITIVE, programs.positive_signature())
    x, y = np.array([1, -1], "int32"), np.zeros(2, "float32")
    calls |= {"existential": lambda: positive(x), "structure": lambda: statistics(y, 2.0)}
    results = (np.zeros((), "float32"), {"n": np.zeros((), "int64"), "y": y.copy()})
    calls["structured out"] = lambda: statistics(y, 2.0, out=results)
    instructions, functions = python_work(calls[which])
    assert 3 < instructions < (300 if which in ("existential", "structure", "structured out") else 60)
    assert functions < 12


def test_long_expressions_compile() -> None:
    """An expression as deep as a loop that was unrolled in Python, deeper than Python's own stack."""

    @rd.algorithm
    def deep(x: rd.f32["n"]):
        y = x
        for _ in range(1100):
            y = y * np.float32(0.5) + x
        return y

    x = np.linspace(0, 1, 37, dtype=np.float32)
    np.testing.assert_array_equal(deep(x), deep.interpret(x))
