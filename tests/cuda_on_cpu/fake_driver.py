"""The driver without a GPU, loaded in place of libcuda.so.1 in this process."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

from cuda_twin import HERE, find_compiler

from raido.targets.native import RUNTIME_SOURCES

_FLAGS = "-std=c++17 -O1 -w -fPIC -shared -pthread -fno-gnu-unique -fvisibility=hidden -Wl,-soname,libcuda.so.1"


@functools.cache
def build_driver() -> bytes:
    """The shared library; the test is skipped where there is no C++ compiler."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "libcuda.so.1"
        command = [
            find_compiler(),
            *_FLAGS.split(),
            f"-I{RUNTIME_SOURCES}",
            str(HERE / "fake_driver.cpp"),
            "-o",
            str(out),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        return out.read_bytes()


class FakeDriver:
    """The loaded driver: settings, and counts of what is alive."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "libcuda.so.1"
            path.write_bytes(build_driver())
            self.library = ctypes.CDLL(str(path))
        self.library.fake_set.argtypes = (ctypes.c_char_p, ctypes.c_int64)
        self.library.fake_register.argtypes = (ctypes.c_char_p,) * 3
        self.library.fake_get.argtypes, self.library.fake_get.restype = (ctypes.c_char_p,), ctypes.c_int64

    def set(self, **settings: int) -> None:
        for name, value in settings.items():
            self.library.fake_set(name.encode(), value)

    def register(self, key: str, library: Path, prefix: str) -> None:
        """Makes a key machine code: that of the twins in a library whose names begin with the prefix."""
        self.library.fake_register(key.encode(), str(library).encode(), prefix.encode())

    def count(self, name: str) -> int:
        return self.library.fake_get(name.encode())

    def recover(self) -> None:
        """What only a new process has: a context without a failure."""
        self.library.fake_recover()


@functools.cache
def load_driver() -> FakeDriver:
    return FakeDriver()
