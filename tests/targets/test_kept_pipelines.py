"""Pipelines that exported libraries keep on disk: entries of the code cache, under its rules, and never the reason of a failure."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

import raido as rd
from raido.targets.cache import Cache, key_of
from raido.targets.vulkan.library import Info

RUNTIME = Path(rd.__file__).parent / "targets" / "runtime"
KEY = key_of("vulkan pipelines", bytes(range(48)).hex())
DATA = bytes(range(256)) * 33
SEEN = """
#include "raido_vulkan_pipelines.c"
void* read_kept(const RdVulkanInfo* info, uint64_t* bytes) { return rd_pipelines_read(info, bytes); }
void keep(const RdVulkanInfo* info, const void* data, uint64_t bytes) { rd_pipelines_keep(info, data, bytes); }
"""


@rd.algorithm
def doubled(a: rd.f32["n"]):
    return a * 2


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """raido_vulkan_pipelines.c alone."""
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "kept.c").write_text(SEEN)
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I", str(RUNTIME), str(folder / "kept.c")]
    subprocess.run([*command, "-o", str(folder / "kept.so")], check=True)
    library = ctypes.CDLL(str(folder / "kept.so"))
    library.read_kept.restype = ctypes.c_void_p
    library.read_kept.argtypes = (ctypes.POINTER(Info), ctypes.POINTER(ctypes.c_uint64))
    library.keep.argtypes = (ctypes.POINTER(Info), ctypes.c_char_p, ctypes.c_uint64)
    library.keep.restype = None
    return library


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RAIDO_CACHE_DIR", str(tmp_path / "above" / "cache"))
    yield tmp_path / "above" / "cache"


def info() -> Info:
    return Info(identity=(ctypes.c_uint8 * 48)(*range(48)))


def read(library: Any) -> bytes | None:
    size = ctypes.c_uint64()
    found = library.read_kept(info(), ctypes.byref(size))
    return None if found is None else ctypes.string_at(found, size.value)


def keep(library: Any, data: bytes = DATA) -> None:
    library.keep(info(), data, len(data))


def test_entries_are_those_of_the_cache(kept: Any, folder: Path) -> None:
    assert read(kept) is None
    for data in (DATA, DATA[:55], b"", DATA[:64]):  # lengths at which SHA-256 pads otherwise
        keep(kept, data)
        assert Cache().get(KEY) == (data, {"by": "an exported library"}) and read(kept) == data
    Cache().put(KEY, DATA, {"device": "one"})
    assert read(kept) == DATA
    (entry,) = folder.glob("*/*")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, entry.parent, entry)]
    assert modes == [0o700, 0o700, 0o700, 0o600] and Cache().clear() == 1 and read(kept) is None


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil", [damage, link, fifo, lambda path: path.chmod(0o666), lambda path: path.parent.chmod(0o777)]
)
def test_what_is_damaged_or_may_be_anothers_is_not_read(
    spoil: Callable[[Path], object], kept: Any, folder: Path
) -> None:
    keep(kept)
    (entry,) = folder.glob("*/*")
    spoil(entry)
    assert read(kept) is None


@pytest.mark.parametrize("spoil", [lambda path: path.chmod(0o777), link])
def test_nothing_is_written_where_another_may_write(spoil: Callable[[Path], object], kept: Any, folder: Path) -> None:
    folder.mkdir(parents=True)
    spoil(folder)
    keep(kept)
    assert list(folder.iterdir()) == [] and read(kept) is None


def test_a_library_keeps_what_it_has_compiled(folder: Path, tmp_path: Path) -> None:
    device = validated_device()
    a = np.arange(5, dtype="f4")
    path = doubled.compile("vulkan").export(tmp_path / "libdoubled.so")
    Cache().clear()
    for _ in range(2):
        run = "import numpy, raido, sys; print(raido.load(sys.argv[1])(numpy.arange(5, dtype='f4')))"
        done = subprocess.run([sys.executable, "-c", run, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout == f"{a * 2}\n"
        entry = Cache().get(key_of("vulkan pipelines", device.identity))
        assert entry is not None and entry[1] == {"by": "an exported library"} and len(entry[0]) >= 32
