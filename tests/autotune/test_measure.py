"""Measuring: the requested candidate is measured, and a candidate's failure affects no other."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_jobs import MadeUpTime
from tuning_programs import BODIES, SIZES, completed, double, object_of, task

import raido as rd
from raido.autotune.jobs.guides import FeatureTable
from raido.autotune.measure.ahead import builder_ahead
from raido.autotune.measure.local import RUNNER, BuilderProcess, Built, LocalMeasurer, Request, RunnerProcess
from raido.autotune.measure.machine import measuring_alone
from raido.autotune.measure.measurement import Limits, Measurement, Protocol
from raido.autotune.measure.programs import pack_target
from raido.autotune.measure.run import in_turns, timed
from raido.autotune.space import Space
from raido.targets.child import Child, ChildFailed
from raido.targets.compile import Compilation
from raido.targets.target import Target

HERE = pack_target(Target())


@pytest.fixture(scope="module")
def reference() -> Built:
    work = Compilation(double.trace(), Target(), None, {})
    return Built("default", work.signature.to_json(), work.object_bytes)


@pytest.fixture
def runner(reference: Built) -> Iterator[RunnerProcess]:
    process = RunnerProcess(task(limits=Limits(run=1.0)), reference)
    yield process
    process.close()


def test_every_failure_is_told_apart_and_the_next_candidate_is_measured(
    runner: RunnerProcess, reference: Built, tmp_path: Path
) -> None:
    for what, body in BODIES.items():
        bad = replace(reference, key=what, code=object_of(body, tmp_path))
        assert runner.measure(bad).failure == {"exit": "crash"}.get(what, what)
        good = runner.measure(reference)
        assert good.failure is None and good.best is not None and 0 < good.best < 0.1


def test_a_runner_killed_from_outside_is_replaced(runner: RunnerProcess, reference: Built) -> None:
    runner.start()
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.measure(reference).failure == "memory"
    assert runner.measure(reference).failure is None


def test_the_place_of_a_wrong_element_is_said(runner: RunnerProcess, reference: Built, tmp_path: Path) -> None:
    found = runner.measure(replace(reference, code=object_of(BODIES["wrong"], tmp_path)))
    assert "1 of 1000 elements differ, first at [999]" in found.detail


def test_candidates_are_the_code_that_is_compiled_for_their_sizes() -> None:
    builder = BuilderProcess(task())
    try:
        built = builder.build(Request("default", completed(double.schedule())))
    finally:
        builder.close()
    assert bytes(built.code) == Compilation(double.trace(), Target(), None, SIZES).object_bytes
    assert bytes(built.code) != Compilation(double.trace(), Target(), None, {}).object_bytes


def test_features_of_many_candidates_are_computed_elsewhere_to_the_last_bit() -> None:
    space = Space(double.schedule(), Target().machine, SIZES)
    rng = random.Random(0)
    candidates = [space.sample(rng) for _ in range(6)]
    requests = [Request(each.key, each.schedule.to_json()) for each in candidates]
    measurer = LocalMeasurer(task(), builders=2)
    try:
        found = measurer.features([*requests, Request("refused", '{"raido schedule": 1}')])
    finally:
        measurer.close()
    here = FeatureTable(space)
    assert found.keys() == {each.key for each in candidates}
    assert all(tuple(found[each.key]) == here.as_tuple(each) for each in candidates)


def test_a_builder_launched_ahead_is_the_first_and_others_start_with_work_for_them() -> None:
    with builder_ahead(True) as ahead:
        assert ahead is not None
        pid, measurer = ahead.pid, LocalMeasurer(task(), builders=2, ahead=ahead)
        try:
            default = completed(double.schedule())
            list(measurer.measure([Request("default", default)]))
            assert [builder.pid for builder in measurer.builders] == [pid, None]
            found = list(measurer.measure([Request(key, default) for key in ("again", "and again")]))
            assert [each.failure for each in found] == [None, None]
            first, second = (builder.pid for builder in measurer.builders)
            assert first == pid and second not in (None, pid)
        finally:
            measurer.close()
    assert ahead.pid is None
    with builder_ahead(False) as none:
        assert none is None


def test_a_builder_launched_ahead_ends_with_a_request_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[Child] = []
    launch = Child.launch
    monkeypatch.setattr(Child, "launch", lambda self: launched.append(self) or launch(self))
    with pytest.raises(rd.ArgumentError):
        rd.autotune(double, {"n": -1})
    assert len(launched) == 1 and launched[0].pid is None
    rd.autotune(double, {"n": 8}, trials=0)
    assert len(launched) == 1


def test_candidates_are_compiled_elsewhere_and_measured_in_order() -> None:
    measurer = LocalMeasurer(task(), builders=1)
    try:
        narrow = double.schedule()
        narrow["out"].split("x", 64).vectorize("xi")
        requests = [
            Request("default", completed(double.schedule())),
            Request("refused", '{"raido schedule": 1}'),
            Request("narrow", completed(narrow)),
        ]
        found = list(measurer.measure(requests))
        assert [each.key for each in found] == ["default", "refused", "narrow"]
        assert [each.failure for each in found] == [None, "compile", None]
        assert "ScheduleError" in found[1].detail and found[0].machine == found[2].machine != ""
        finals = measurer.compare([requests[0], requests[2]])
        assert [each.key for each in finals] == ["default", "narrow"]
        assert [len(each.seconds) for each in finals] == [3, 3]
    finally:
        measurer.close()


def test_a_request_that_outlasts_its_time_is_left_out_and_not_held_against_it() -> None:
    measurer = LocalMeasurer(task(), builders=1)
    try:
        request = Request("default", completed(double.schedule()))
        assert not list(measurer.measure([request], None, 0.0))
        assert not list(measurer.measure([request], None, 1e-3))
        (measurement,) = measurer.measure([request])
        assert measurement.failure is None and measurement.seconds
    finally:
        measurer.close()


def test_a_program_that_faults_on_its_inputs_says_what_to_do() -> None:
    @rd.algorithm
    def shifted(a: rd.f32["n"], i: rd.i64["n"]):
        return rd.map(lambda k: a[k + 1], i)

    measurer = LocalMeasurer(task(shifted, {"n": 50}), builders=1)
    with pytest.raises(rd.TuningError, match=r"faults under its default schedule[\s\S]*IndexOutOfRange[\s\S]*ranges="):
        list(measurer.measure([Request("default", completed(shifted.schedule(), {"n": 50}))]))
    measurer.close()


def test_processes_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import time
            from raido.autotune.measure.local import RUNNER
            from raido.targets.child import Child
            assert __name__ == "__main__", "a child ran the user's script"
            child = Child(RUNNER)
            child.request({"do": "inputs", "specs": [], "sizes": {}, "places": [], "target": {"kind": "llvm"}})
            print(child.pid, flush=True)
            time.sleep(60)
        """)
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(200):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    pytest.fail("the child is still there")


def test_what_a_child_cannot_do_is_a_failure_and_leaves_it_alive() -> None:
    child = Child(RUNNER)
    with pytest.raises(ChildFailed, match="AttributeError"):
        child.request({"do": "nothing of the kind"})
    pid = child.pid
    assert (
        child.request({"do": "inputs", "specs": [], "sizes": {}, "places": [], "target": HERE}) == ({}, [])
        and child.pid == pid
    )
    child.close()


class Clock:
    """A call whose runs take what a list says."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)

    def time(self, number: int = 1) -> float:
        return self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def times(protocol: Protocol, best: float | None, *seconds: float, usual: tuple[float, ...] = (1.0,)) -> list[float]:
    """The quotients that are taken of a candidate, beside a default schedule of these times."""
    runs, quotients = timed(Clock(*seconds), Clock(*usual), protocol, best)  # type: ignore[arg-type]
    assert len(runs) == len(quotients)
    return quotients


def test_runs_are_repeated_until_quotients_agree() -> None:
    protocol = Protocol(runs=10, agree=3, spread=0.02, least=0)
    assert times(protocol, None, 9.0, 1.0, 2.0, 1.01, 3.0, 1.015, 1.01, 5.0) == [1.0, 2.0, 1.01, 3.0, 1.015]
    assert len(times(protocol, None, *(1.0 / 2**k for k in range(30)))) == 10
    assert times(protocol, None, 1e-6, usual=(1e-6,)) == [1.0] * 3
    assert len(times(replace(protocol, least=0.01, runs=10**6), None, 1e-6, usual=(1e-6,))) > 100


def test_candidates_without_a_hope_are_given_up() -> None:
    protocol = Protocol(runs=10, agree=3, spread=0.02, least=0)
    assert times(protocol, 1.0, 6.0) == [6.0]
    assert times(protocol, 1.0, 9.0, 4.0, 3.0, 2.0, 1.0, usual=(2.0, 1.0)) == [4.0, 3.0, 2.0]
    assert times(protocol, 1.0, 4.0, 4.0, 3.0, 1.5, 1.0)[:4] == [4.0, 3.0, 1.5, 1.0]


def test_the_pace_of_the_machine_divides_out() -> None:
    protocol = Protocol(runs=10, agree=3, spread=0.02, least=0)
    assert times(protocol, None, 1.0, 1.0, 2.0, 3.0, usual=(2.0, 2.0, 4.0, 6.0)) == [0.5, 0.5, 0.5]


def test_finalists_take_turns() -> None:
    order: list[str] = []

    class Named(Clock):
        def __init__(self, name: str) -> None:
            super().__init__(1.0)
            self.name = name

        def time(self, number: int = 1) -> float:
            order.append(self.name)
            return 1.0

    found = in_turns([Named("a"), Named("b")], Protocol(rounds=3, final_least=0))  # type: ignore[list-item]
    assert found == [[1.0] * 3, [1.0] * 3] and "".join(order) == "ab" + "ab" + "ba" + "ab"


def test_a_measurement_knows_its_best_its_median_and_its_spread() -> None:
    found = Measurement("key", (2.0, 1.0, 1.5))
    assert (found.best, found.median, found.spread) == (1.0, 1.5, 0.5)
    failed = Measurement("key", (1.0,), "wrong")
    assert failed.best is failed.median is failed.spread is None


def test_a_job_waits_while_another_measures_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MadeUpTime()
    monkeypatch.setattr("raido.autotune.measure.machine.time", clock)
    code = "from raido.autotune.measure.machine import measuring_alone\nimport time\n"
    code += "with measuring_alone():\n    print('held', flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    begun = clock.now
    with measuring_alone(30):
        assert 30 <= clock.now - begun < 31

    def end_the_other(seconds: float) -> None:
        clock.now += seconds
        if clock.now - begun > 5:
            other.kill()
            other.wait()

    clock.sleep, begun = end_the_other, clock.now  # type: ignore[method-assign]
    with measuring_alone(30):
        assert 5 < clock.now - begun < 6
    other.communicate()


def test_large_arrays_travel() -> None:
    array = np.arange(3_000_000, dtype=np.float32)
    child = Child(RUNNER)
    specs = [{"given": 0, "dtype": "<f4", "shape": [3_000_000]}]
    assert child.request(
        {"do": "inputs", "specs": specs, "sizes": {}, "places": [0], "target": HERE}, (memoryview(array),), 20
    ) == (
        {},
        [],
    )
    child.close()
