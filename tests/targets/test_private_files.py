"""Executed files and lock files belong to this user: no file that another user could have written is used, and nothing hangs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import raido as rd
from raido.targets.cache import Cache, default_folder, key_of
from raido.targets.compile import compile_program
from raido.targets.private_files import Untrusted, closing, open_file, open_folder

KEY = key_of("a")
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every user may enter and read; that of pytest is closed to others."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def filled(folder: Path) -> tuple[Cache, Path]:
    """A cache with one entry, and the entry's path."""
    Cache(folder).put(KEY, b"object", {"a": 1})
    return Cache(folder), folder / KEY[:2] / f"{KEY}.entry"


def test_what_is_made_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _, entry = filled(tmp_path / "new" / "cache")
    finally:
        os.umask(before)
    for folder in (tmp_path / "new", tmp_path / "new" / "cache", entry.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "its group may write": (lambda path: path.chmod(0o770), r"written by its group .*; .* chmod -R go-w .*cache"),
    "everybody may write": (lambda path: path.chmod(0o1777), r"written by everybody; .* chmod -R go-w .*cache"),
    "a link": (
        link,
        "is a link to elsewhere, and links are not followed; name a folder of your own in RAIDO_CACHE_DIR",
    ),
}
OTHERS = {
    "another's": (lambda path: os.chown(path, NOBODY, NOBODY), r"belongs to user \w+, not to user \w+; name a folder"),
}


@pytest.mark.parametrize("where", ["folder", "part"])
@pytest.mark.parametrize("harm", [*FOLDERS, pytest.param("another's", marks=as_root)])
def test_a_folder_that_others_could_write_is_not_used_and_said_once(tmp_path: Path, harm: str, where: str) -> None:
    cache, entry = filled(tmp_path / "cache")
    folder = tmp_path / "cache" if where == "folder" else entry.parent
    spoil, words = {**FOLDERS, **OTHERS}[harm]
    spoil(folder)
    words = words if where == "folder" else words.partition(";")[0]
    with pytest.warns(RuntimeWarning, match=f"works without a compile cache: {folder}.*{words}") as said:
        assert cache.get(KEY) is None and not cache.put(KEY, b"new", {}) and cache.describe(KEY) is None
        cache.entries(), cache.clear(), cache.prune(0), cache.remove(KEY)
    assert len(said) == 1
    assert len(list(tmp_path.rglob("*.entry"))) == 1, "it left alone what it does not trust"


@pytest.mark.parametrize(
    "harm", ["its group may write", "everybody may write", "a link", pytest.param("another's", marks=as_root), "FIFO"]
)
def test_an_entry_that_others_could_write_is_replaced(tmp_path: Path, harm: str) -> None:
    cache, entry = filled(tmp_path / "cache")
    if harm == "FIFO":
        entry.unlink()
        os.mkfifo(entry)
    else:
        {**FOLDERS, **OTHERS}[harm][0](entry)
    with pytest.warns(RuntimeWarning, match=f"does not use a compiled program: {entry} ") as said:
        assert cache.get(KEY) is None and cache.describe(KEY) is None
        assert cache.put(KEY, b"new", {}) and cache.get(KEY) == (b"new", {})
    assert len(said) == 1 and not entry.is_symlink()


def test_a_device_or_a_folder_in_the_place_of_an_entry_is_no_program(tmp_path: Path) -> None:
    cache, entry = filled(tmp_path / "cache")
    entry.unlink()
    entry.mkdir()
    with pytest.warns(RuntimeWarning, match="is no regular file; remove it"):
        assert cache.get(KEY) is None and not cache.put(KEY, b"new", {})


def test_the_folder_that_was_checked_is_the_one_that_is_used(tmp_path: Path) -> None:
    """Another user who exchanges a folder after the check changes nothing: names are looked up in what is open."""
    _, entry = filled(tmp_path / "cache")
    with closing(open_folder(str(entry.parent))) as folder:
        (tmp_path / "cache").rename(tmp_path / "old")
        (tmp_path / "cache" / KEY[:2]).mkdir(parents=True)
        entry.write_bytes(b"another")
        descriptor, status = open_file(entry.name, folder, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            assert len(file.read()) == status.st_size > len(b"another")


@as_root
def test_a_folder_of_root_that_may_only_be_read_serves_all_users(open_place: Path) -> None:
    """As in the image of a container that brings compiled programs along."""
    _, entry = filled(open_place / "cache")
    for path in (open_place / "cache", entry.parent):
        path.chmod(0o755)
    entry.chmod(0o644)
    with acting_as(NOBODY):
        cache = Cache(open_place / "cache")
        assert cache.get(KEY) == (b"object", {"a": 1})
        with pytest.warns(RuntimeWarning, match="cannot be written .Permission denied.: name a folder") as warned:
            assert not cache.put(KEY, b"new", {})
        assert warned[0].filename == __file__  # the user's own line
        assert cache.get(KEY) == (b"object", {"a": 1})


@as_root
def test_a_folder_that_another_user_was_quicker_to_make_is_not_used(open_place: Path) -> None:
    open_place.chmod(0o1777)
    with acting_as(1):
        _, entry = filled(open_place / "cache")
        (open_place / "cache").chmod(0o755)
        entry.parent.chmod(0o755)
        entry.chmod(0o644)
    with (
        acting_as(NOBODY),
        pytest.warns(RuntimeWarning, match=r"belongs to user \w+, not to user \w+"),
    ):
        assert Cache(open_place / "cache").get(KEY) is None


@as_root
def test_root_makes_no_folders_in_the_home_of_another(open_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo with the user's HOME: folders of root's would be in the user's way ever after."""
    os.chown(open_place, NOBODY, NOBODY)
    monkeypatch.setenv("HOME", str(open_place))
    for name in ("RAIDO_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.warns(RuntimeWarning, match=r"root makes no folders there; name a folder of root's in RAIDO_CACHE_DIR"):
        assert not Cache().put(KEY, b"x", {})
    assert not list(open_place.iterdir())
    with acting_as(NOBODY):
        assert Cache().put(KEY, b"x", {})


@as_root
def test_a_home_that_may_only_be_read_is_no_place(open_place: Path) -> None:
    with acting_as(NOBODY), pytest.warns(RuntimeWarning, match=r"cannot be written .Permission denied"):
        assert not Cache(open_place / ".cache" / "raido").put(KEY, b"x", {})


def test_without_a_home_there_is_no_cache_rather_than_one_in_a_shared_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAIDO_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "relative")
    assert default_folder() is None
    with pytest.warns(RuntimeWarning, match="there is no home directory.*RAIDO_CACHE_DIR") as said:
        cache = Cache()
        assert cache.get(KEY) is None and not cache.put(KEY, b"x", {}) and cache.entries() == []
    assert len(said) == 1
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no such user")))
    assert default_folder() is None


def test_a_full_disk_is_no_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    write = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    script = f"{write}\nfrom raido.targets.cache import Cache\nprint(Cache({str(tmp_path)!r}).put({KEY!r}, bytes(999), {{}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n" and "cannot be written (File too large)" in done.stderr
    assert cache.get(KEY) is None and [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_trusted_opening_refuses_by_what_is_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with closing(open_folder(str(tmp_path))) as folder:
        for name, flags in (("pipe", os.O_RDONLY), ("pipe", os.O_RDWR), ("pipe", os.O_WRONLY), ("link", os.O_RDONLY)):
            with pytest.raises(Untrusted, match=f"{tmp_path / name} is no regular file"):
                open_file(name, folder, flags)
        with pytest.raises(FileNotFoundError):
            open_file("absent", folder, os.O_RDONLY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Cache(tmp_path / "absent").get(KEY) is None


def test_an_entry_that_is_whole_but_no_program_is_compiled_anew(tmp_path: Path) -> None:
    program = rd.algorithm(lambda x: x * 2, x="f32[n]").trace()
    cache = Cache(tmp_path)
    compile_program(program, cache=cache)
    (entry,) = cache.entries()
    good = cache.get(entry.key)
    assert good is not None
    for data, metadata in (
        (good[0], {}),
        (good[0], {"signature": 5}),
        (good[0], {"signature": "[" * 100_000}),
        (b"no object", good[1]),
    ):
        cache.put(entry.key, data, metadata)
        assert compile_program(program, cache=cache)(np.ones(3, "f")).tolist() == [2, 2, 2]
        assert cache.get(entry.key) == good
