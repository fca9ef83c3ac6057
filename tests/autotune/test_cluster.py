"""A cluster of several processes on this machine: builders and runners apart, one of which dies in the middle of a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import distributed
import numpy as np
import pytest
from tuning_programs import QUICK, completed, double, task

import raido as rd
from raido.autotune.jobs.job import Progress
from raido.autotune.measure.cluster import ClusterMeasurer, packed_task, unpacked_task
from raido.autotune.measure.inputs import given_inputs
from raido.autotune.measure.local import Request
from raido.autotune.measure.machine import this_machine
from raido.schedule.fingerprint import fingerprint
from raido.targets.compile import Compilation
from raido.targets.target import Target


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
        self.processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        return self.processes[-1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def test_a_cluster_without_workers_for_a_purpose_is_refused(cluster: Cluster) -> None:
    cluster.first = cluster.worker("build")
    with pytest.raises(
        rd.TuningError, match=r"no worker of tcp.* has the resource 'measure': start some with `dask worker"
    ):
        ClusterMeasurer(task(), cluster.address)


def test_a_worker_that_dies_has_its_trials_done_by_others(cluster: Cluster, tmp_path: Path) -> None:
    """One builder and one runner are killed once a job is under way, each while another of its kind remains."""
    doomed = [cluster.first or cluster.worker("build"), cluster.worker("measure")]
    for resource in ("build", "measure"):
        cluster.worker(resource)
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(4, timeout=300)

    def kill(progress: Progress) -> None:
        if len(progress.records) == 4:
            for process in doomed:
                os.kill(process.pid, signal.SIGKILL)

    tuning = rd.autotune(
        double,
        {"n": 1000},
        trials=12,
        search="random",
        db=tmp_path / "a.db",
        workers=cluster.address,
        progress=kill,
        protocol=QUICK,
    )
    assert all(process.wait(10) == -signal.SIGKILL for process in doomed)
    assert tuning.ended == "trials" and len(tuning.history) == 13 and not tuning.failures
    here = this_machine(Target())
    assert {record.machine for record in tuning.records} == {here.digest}
    assert all(record.host == here.description for record in tuning.records)
    assert len(tuning.finals) == 6


def test_a_worker_that_joins_later_is_given_the_task(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's runner dies before it is asked anything, and another takes its place; inputs are the user's, in several pieces."""
    monkeypatch.setattr("raido.autotune.measure.cluster._PIECE", 1000)
    array = np.arange(1000, dtype=np.float32)
    inputs = given_inputs(Compilation(double.trace(), Target(), None, {}).signature, [array])
    runner = cluster.processes[-1]
    with closing(ClusterMeasurer(replace(task(), inputs=inputs), cluster.address)) as measurer:
        runner.kill()
        runner.wait()
        cluster.worker("measure")
        (found,) = measurer.measure([Request("again", completed(double.schedule()))])
    assert found.key == "again" and found.failure is None and found.seconds


def test_no_scheduler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raido.autotune.measure.cluster._PATIENCE", 0.5)
    with pytest.raises(rd.TuningError, match=r"there is no dask scheduler at tcp://127\.0\.0\.1:9"):
        ClusterMeasurer(task(), "tcp://127.0.0.1:9")


def test_a_task_travels_as_data() -> None:
    before = task()
    after = unpacked_task(packed_task(before), [bytearray(blob) for blob in before.inputs.blobs])
    assert fingerprint(after.program) == fingerprint(before.program)
    assert (after.inputs, after.limits, after.protocol, after.target) == (
        before.inputs,
        before.limits,
        before.protocol,
        before.target,
    )
