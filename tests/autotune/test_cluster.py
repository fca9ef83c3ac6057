"""A cluster of several processes on this machine: builders and runners apart, one of which dies in the middle of a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tuning_programs import completed, double, task

import raido as rd
from raido.autotune.measure.cluster import ClusterMeasurer, packed_task, unpacked_task
from raido.autotune.measure.local import Request
from raido.autotune.measure.machine import this_machine
from raido.schedule.fingerprint import fingerprint
from raido.targets.target import Target

_QUIET = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s", "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.first: subprocess.Popen[bytes] | None = None
        self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(folder / "scheduler.json"))
        for _ in range(600):
            if (folder / "scheduler.json").exists():
                break
            time.sleep(0.1)

    def worker(self, resource: str) -> subprocess.Popen[bytes]:
        return self._start(
            *("worker", "--scheduler-file", str(self.folder / "scheduler.json"), "--resources", f"{resource}=1"),
            *("--no-nanny", "--no-dashboard", "--nthreads", "1", "--local-directory", str(self.folder)),
        )

    @property
    def address(self) -> str:
        return json.loads((self.folder / "scheduler.json").read_text())["address"]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        environment = {**os.environ, **_QUIET}
        self.processes.append(
            subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        )
        return self.processes[-1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def requests(count: int) -> list[Request]:
    """Schedules of `double` that differ."""
    found = []
    for number in range(count):
        schedule = double.schedule()
        schedule["out"].split("x", 16 + number).vectorize("xi", 8)
        found.append(Request(f"candidate {number}", completed(schedule)))
    return found


def test_a_cluster_without_workers_for_a_purpose_is_refused(cluster: Cluster) -> None:
    cluster.first = cluster.worker("build")
    with pytest.raises(
        rd.TuningError, match=r"no worker of tcp.* has the resource 'measure': start some with `dask worker"
    ):
        ClusterMeasurer(task(), cluster.address)


def test_a_worker_that_dies_has_its_trials_done_by_others(cluster: Cluster) -> None:
    """One builder and one runner are killed once a job is under way, each while another of its kind remains."""
    doomed = [cluster.first or cluster.worker("build"), cluster.worker("measure")]
    for resource in ("build", "measure"):
        cluster.worker(resource)
    measurer = _patiently(cluster)
    wanted = requests(14)
    found = []
    for number, measurement in enumerate(measurer.measure(wanted)):
        found.append(measurement)
        if number == 1:
            for process in doomed:
                os.kill(process.pid, signal.SIGKILL)
    assert sorted(each.key for each in found) == sorted(each.key for each in wanted)
    assert [each.failure for each in found] == [None] * 14
    assert {each.machine for each in found} == {this_machine(Target()).digest} and all(
        each.host["cpu"] for each in found
    )
    finals = measurer.compare(wanted[:2])
    assert [len(each.seconds) for each in finals] == [3, 3]
    measurer.close()


def _patiently(cluster: Cluster) -> ClusterMeasurer:
    """A measurer, once all four workers have come."""
    import distributed

    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(4, timeout=120)
    return ClusterMeasurer(task(), cluster.address)


def test_a_job_runs_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    tuning = rd.autotune(double, {"n": 1000}, trials=3, search="random", db=tmp_path / "a.db", workers=cluster.address)
    assert tuning.ended == "trials" and len(tuning.history) == 4 and len(tuning.finals) >= 2
    assert {record.host["cpu"] for record in tuning.history if record.failure is None} == {Target().cpu}


def test_no_scheduler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raido.autotune.measure.cluster._PATIENCE", 0.5)
    with pytest.raises(rd.TuningError, match=r"there is no dask scheduler at tcp://127\.0\.0\.1:9"):
        ClusterMeasurer(task(), "tcp://127.0.0.1:9")


def test_a_task_travels_as_data() -> None:
    before = task()
    after = unpacked_task(packed_task(before))
    assert fingerprint(after.program) == fingerprint(before.program)
    assert (after.inputs, after.limits, after.protocol, after.target) == (
        before.inputs,
        before.limits,
        before.protocol,
        before.target,
    )
