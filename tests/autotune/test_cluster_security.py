"""A cluster that requires a TLS certificate of its own; and the error when its scheduler ends."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import distributed
import pytest
from test_cluster import Cluster
from tuning_programs import QUICK, completed, double, task

import raido as rd
from raido.autotune.measure.cluster import ClusterMeasurer
from raido.autotune.measure.local import Request
from raido.cli import main


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def certificates(folder: Path) -> dict[str, Path]:
    """An authority, and a key with a certificate of it."""
    files = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key")}
    folder.mkdir()
    authority = folder / "authority.key"
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj")
    openssl(*new, "/CN=authority", "-x509", "-days", "2", "-keyout", authority, "-out", files["ca"])
    openssl(*new, "/CN=member", "-keyout", files["key"], "-out", folder / "request.pem")
    openssl(
        *("x509", "-req", "-in", folder / "request.pem", "-CA", files["ca"], "-CAkey", authority, "-CAcreateserial"),
        *("-days", "2", "-out", files["cert"]),
    )
    return files


def options(files: dict[str, Path]) -> list[str]:
    return [f"--tls-{'ca-file' if name == 'ca' else name}={path}" for name, path in files.items()]


class SecureCluster(Cluster):
    """A cluster whose processes all have a certificate."""

    def __init__(self, folder: Path, files: dict[str, Path]) -> None:
        self.files = files
        super().__init__(folder)

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        return super()._start(kind, *arguments, *options(self.files), *(["--protocol", "tls"]))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    return certificates(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Iterator[Cluster]:
    made = SecureCluster(tmp_path_factory.mktemp("cluster"), files)
    made.worker("build")
    made.worker("measure")
    yield made
    made.close()


def test_a_job_is_measured_over_tls(cluster: Cluster, files: dict[str, Path], tmp_path: Path) -> None:
    assert cluster.address.startswith("tls://")
    security = distributed.Security(
        tls_ca_file=str(files["ca"]), tls_client_cert=str(files["cert"]), tls_client_key=str(files["key"])
    )
    with distributed.Client(cluster.address, security=security, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=300)
    tuning = rd.autotune(
        double, {"n": 1000}, trials=2, search="random", db=tmp_path / "a.db", workers=cluster.address, tls=files,
        protocol=QUICK,
    )  # fmt: skip
    assert tuning.ended == "trials" and len(tuning.history) == 3 and not tuning.failures


def test_who_has_no_certificate_of_the_cluster_is_not_admitted(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raido.autotune.measure.cluster._PATIENCE", 3)
    strangers = {name: str(path) for name, path in certificates(tmp_path / "theirs").items()}
    with pytest.raises(rd.TuningError, match=r"there is no dask scheduler at tls://[\s\S]*started with"):
        ClusterMeasurer(task(), cluster.address, strangers)
    with pytest.raises(
        rd.TuningError, match=r"there is no dask scheduler at tls://[\s\S]*--tls-ca, --tls-cert and --tls-key"
    ):
        ClusterMeasurer(task(), cluster.address)
    with pytest.raises(rd.TuningError, match=r"there is no dask scheduler at tcp://"):
        ClusterMeasurer(task(), cluster.address.replace("tls://", "tcp://"))


def test_certificates_are_looked_at_before_any_work(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "a.db"
    (tmp_path / "empty.pem").touch()
    cases = [
        ({"ca": "a", "cert": "b"}, "tls://h:1", "tls is a table of three files"),
        ({**files, "key": tmp_path / "none.pem"}, "tls://h:1", r"'key'.*none\.pem.* cannot be used: No such file"),
        ({**files, "key": tmp_path / "empty.pem"}, "tls://h:1", "no -----BEGIN line"),
        ({**files, "key": 5}, "tls://h:1", "'key'.*cannot be used"),
        (files, "tcp://h:1", "the address of the workers begins with tls://, unlike 'tcp://h:1'"),
        (files, None, "the address of the workers begins with tls://, unlike None"),
    ]
    for tls, workers, words in cases:
        with pytest.raises(rd.ArgumentError, match=words):
            rd.autotune(double, {"n": 10}, trials=1, db=db, workers=workers, tls=tls)
    (tmp_path / "p.py").write_text("import raido as rd\n@rd.algorithm\ndef f(a: rd.f32['n']):\n    return a * 2\n")
    with pytest.raises(SystemExit):
        main(
            ["tune", f"{tmp_path / 'p.py'}:f", "--db", str(db), "--workers", "tls://h:1", "--tls-ca", str(files["ca"])]
        )
    assert "tls is a table of three files" in capsys.readouterr().err


def test_a_scheduler_that_goes_is_one_clear_error(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        cluster.worker("build")
        cluster.worker("measure")
        with distributed.Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=300)
        with closing(ClusterMeasurer(task(), cluster.address)) as measurer:
            cluster.processes[0].kill()
            cluster.processes[0].wait()
            with pytest.raises(rd.TuningError, match=r"the dask scheduler at tcp://.* is gone[\s\S]*the job continues"):
                list(measurer.measure([Request("a", completed(double.schedule()))]))
            with pytest.raises(rd.TuningError, match=r"the dask scheduler at tcp://.* is gone"):
                measurer._send_task()
    finally:
        cluster.close()
