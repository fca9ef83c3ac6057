"""Lock files are created where only this user can write; without such a place all go on unlocked, with one warning."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from raido.autotune.measure import locks
from raido.autotune.measure.locks import locking
from raido.autotune.measure.machine import measuring_alone


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RAIDO_CACHE_DIR", str(tmp_path / "own"))
    locks._warn.cache_clear()
    yield tmp_path / "own"
    locks._warn.cache_clear()


def test_a_lock_is_held_by_one_and_by_its_name(folder: Path) -> None:
    with locking("a") as mine, locking("a") as theirs, locking("b") as other:
        assert mine() and not theirs() and other() and mine()
    with locking("a") as theirs:
        assert theirs()
    assert stat.S_IMODE((folder / "locks").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_lock_goes_with_its_holder(folder: Path) -> None:
    script = "from raido.autotune.measure.locks import locking\nwith locking('a') as mine: print(mine(), flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "True\n"
    with locking("a") as mine:
        assert not mine()
        holder.kill()
        holder.communicate()
        assert mine()


def test_another_running_machine_has_locks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home directory may be shared by machines, each of which measures by itself."""
    with locking("a") as mine:
        assert mine()
        monkeypatch.setattr(locks, "_running_machine", lambda: "another")
        with locking("a") as theirs:
            assert theirs()


@pytest.mark.parametrize("harm", ["pipe", "link", "open", "folder", "no home"])
def test_what_is_not_this_users_own_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    folder.mkdir(mode=0o700)
    words = "is no regular file"
    if harm == "pipe":
        os.mkfifo(folder / "locks")
    elif harm == "link":
        (folder / "locks").symlink_to(folder.parent / "victim")
    elif harm == "open":
        (folder / "locks").touch()
        (folder / "locks").chmod(0o666)
        words = "may be written by everybody"
    elif harm == "folder":
        folder.chmod(0o1777)
        words = "may be written by everybody"
    else:
        monkeypatch.setattr(locks, "default_folder", lambda: None)
        words = "no home directory"
    with pytest.warns(RuntimeWarning, match=f"works without locks.*{words}") as said:
        with locking("a") as mine, locking("a") as theirs:
            assert mine() and theirs()
        with measuring_alone(), measuring_alone(patience=60):
            pass
    assert len(said) == 1 and not (folder.parent / "victim").exists()


def test_nothing_is_said_where_all_is_well() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with measuring_alone():
            pass
