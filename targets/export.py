"""Exports compiled programs as libraries that need neither Python nor TVM, and loads such libraries.

`write_library` links objects, the C runtime and a generated wrapper into one shared library, with a header beside it. Only the public
functions are visible, so any number of such libraries live in one process; it needs libc (and libm). Programs for a device are tables in
it, beside the device's runtime, which finds the driver at the first call. Everything is made in a temporary folder beside the target and
moved into place when it is whole. `load` returns the executables of a library; it compiles nothing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any

from raido.algo.errors import ExportError, TargetError
from raido.algo.trace.tracebacks import border
from raido.targets.c_names import library_name
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.export import DevicePart, write_program
from raido.targets.elf import rename_globals
from raido.targets.executable import Executable
from raido.targets.export_functions import (
    LIBRARY_SYMBOL,
    describe_function,
    public_names,
    write_version_script,
)
from raido.targets.export_header import ABI_VERSION, write_header
from raido.targets.export_wrapper import write_wrapper
from raido.targets.native import RUNTIME_SOURCES, RuntimeCalls
from raido.targets.signature import Signature

_COMPILE = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread")
_LINK = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-Wl,--as-needed")
_seen: dict[Path, tuple[int, int]] = {}
_seen_lock = threading.Lock()


def find_compiler(cc: str | Sequence[str] | None = None) -> list[str]:
    """The command of a C compiler: `cc`, else the environment's CC, else cc, gcc, clang, else the ziglang package's. Raises `ExportError`
    where there is none."""
    chosen = cc or os.environ.get("CC")
    if chosen:
        command = shlex.split(chosen) if isinstance(chosen, str) else list(chosen)
        if not command or shutil.which(command[0]) is None:
            raise ExportError(f"the C compiler {chosen!r} does not exist")
        return command
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ExportError(
        "no C compiler is found: install gcc or clang, or `pip install raido[export]`, which brings one along"
    )


def write_library(
    path: str | os.PathLike[str],
    algorithms: Sequence[tuple[str, Signature, bytes | DeviceCode]],
    cc: str | Sequence[str] | None = None,
    architectures: Sequence[str] | None = None,
) -> Path:
    """Writes a shared library of several algorithms and its header; returns the library's path.

    Each algorithm is a name, a signature, and an object's bytes or its code for a device. architectures: those that CUDA programs carry
    machine code for (None: sm_75, sm_80, sm_90, sm_100, and PTX for others).

    `build/libblur.so` gets the header `build/blur.h` and the name `blur`, the prefix of the library's own functions. Faults name the user's
    lines by the file's name, without its folder, and the compiler is told nothing of folders, so that the same program gives the same
    library wherever it stands. Raises `ExportError`, and leaves earlier files as they were, when there is no compiler, it fails, or the
    path cannot be written.
    """
    target = Path(path).absolute()
    library = header_of(target).stem
    algorithms = [(name, _without_folders(signature), code) for name, signature, code in algorithms]
    if not algorithms:
        raise ExportError(f"{target.name} would be empty: name at least one algorithm")
    device = _device_part(algorithms, architectures)
    command = find_compiler(cc)
    functions = [
        describe_function(library, name, f"raido_{i}_{signature.entry}", signature, isinstance(code, DeviceCode))
        for i, (name, signature, code) in enumerate(algorithms)
    ]
    names = public_names(library, functions)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".raido-") as folder:
            here = Path(folder)
            parts = ["wrapper.c", "raido_runtime.c"]
            programs = []
            for i, (_, _, code) in enumerate(algorithms):
                if device is not None and isinstance(code, DeviceCode):
                    parts.append(f"program_{i}.c")
                    programs.append(device.prepare(code))
                    (here / parts[-1]).write_text(write_program(functions[i], programs[-1]), encoding="ascii")
                elif isinstance(code, bytes):
                    parts.append(f"program_{i}.o")
                    (here / parts[-1]).write_bytes(rename_globals(code, f"raido_{i}_"))
            if device is not None:
                (here / "needs.c").write_text(device.write_needs(programs))
                parts += ["needs.c", *device.sources, "-ldl"]
            header = here / f"{library}.h"
            header.write_text(write_header(library, functions, device), encoding="ascii")
            (here / "wrapper.c").write_text(write_wrapper(library, functions), encoding="ascii")
            (here / "names.map").write_text(write_version_script(names))
            for source in RUNTIME_SOURCES.glob("raido_*.[ch]"):
                shutil.copyfile(source, here / source.name)
            built = here / target.name
            _run_compiler(
                [
                    *(
                        *command,
                        *_COMPILE,
                        *_LINK,
                        "-Wl,--version-script=names.map",
                        "-Xlinker",
                        "-soname",
                        "-Xlinker",
                        target.name,
                    ),
                    *(*parts, "-lm", "-o", built.name),
                ],
                here,
            )
            _publish([(built, target), (header, target.parent / header.name)], here)
    except OSError as error:
        raise ExportError(f"{target} cannot be written: {error}") from error
    return target


def _without_folders(signature: Signature) -> Signature:
    """The signature with folders removed from the source files that faults name: paths of the build machine are private."""
    return replace(signature, sites=tuple(replace(site, file=Path(site.file).name) for site in signature.sites))


def _device_part(
    algorithms: Sequence[tuple[str, Signature, bytes | DeviceCode]], architectures: Sequence[str] | None
) -> DevicePart | None:
    """The device's part of a library, None for CPU programs alone. Raises `ExportError` for programs of two device APIs, and for
    `architectures` without CUDA programs."""
    first: dict[str, str] = {}
    for name, _, code in algorithms:
        if isinstance(code, DeviceCode):
            first.setdefault(code.api, name)
    if len(first) > 1:
        said = " and ".join(f"{name} for {api}" for api, name in first.items())
        raise ExportError(f"a library has programs for one kind of device, and {said} are two: export them apart")
    if "cuda" in first:
        from raido.targets.cuda.export import part_for

        return part_for(architectures)
    if architectures is not None:
        raise ExportError("architectures= is for programs that were compiled for CUDA")
    if first:
        from raido.targets.vulkan.export import PART

        return PART
    return None


def header_of(path: str | os.PathLike[str]) -> Path:
    """The path of a library's header, beside it and named by its prefix. Raises `ExportError` for a file name that does not end in ".so"."""
    match = re.fullmatch(r"(?:lib)?([^\0]+?)\.so(?:\.\d+)*", Path(path).name)
    if match is None or "\n" in match[1]:
        raise ExportError(f'a library\'s name ends in ".so", unlike {Path(path).name!r}')
    return Path(path).with_name(f"{library_name(match[1])}.h")


def _publish(files: Sequence[tuple[Path, Path]], scratch: Path) -> None:
    """Moves new files into place, all or none: earlier files are restored when one cannot be moved."""
    done: list[tuple[Path, Path | None]] = []
    try:
        for number, (made, path) in enumerate(files):
            kept = None
            if path.is_file():
                kept = scratch / f"kept_{number}"
                shutil.copy2(path, kept)
            os.replace(made, path)
            done.append((path, kept))
    except OSError:
        for path, kept in reversed(done):
            if kept is None:
                path.unlink()
            else:
                os.replace(kept, path)
        raise


def _run_compiler(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        shown = "\n  ".join(lines[:20]) or f"exit status {done.returncode}"
        raise ExportError(f"the C compiler failed: {shlex.join(command)}\n  {shown}")


# --- loading


class _Library(ctypes.Structure):
    """The descriptor that an exported library holds of itself; its layout is fixed by `ABI_VERSION`."""

    _fields_ = (
        ("abi_version", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("metadata", ctypes.c_char_p),
        ("entries", ctypes.POINTER(ctypes.c_size_t)),
        ("missing_feature", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("set_threads", ctypes.CFUNCTYPE(None, ctypes.c_int)),
        ("set_thread_limit", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("clear_error", ctypes.CFUNCTYPE(None)),
        ("free", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


@border
def load(path: str | os.PathLike[str], name: str | None = None) -> Executable:
    """The executable in a library that raido exported; `name` selects one of several. Raises `TargetError` for any other file."""
    found = load_all(path)
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        said = "say which with name=" if name is None else f"there is no {name!r}"
        raise TargetError(f"{path} holds {', '.join(found)}: {said}")
    return found[name]


def load_all(path: str | os.PathLike[str]) -> dict[str, Executable]:
    """All executables of an exported library, by the names under which they were exported."""
    handle = _open_library(Path(path).absolute())
    try:
        describe: Any = getattr(handle, LIBRARY_SYMBOL)
    except AttributeError:
        raise TargetError(f"{path} is not a library that raido exported") from None
    describe.restype = ctypes.POINTER(_Library)
    library = describe().contents
    if library.abi_version != ABI_VERSION:
        raise TargetError(f"{path} was exported by another version of raido (interface {library.abi_version})")
    if missing := library.missing_feature():
        raise TargetError(f"{path} was compiled for a CPU with {missing.decode()}, which this one lacks")
    calls = RuntimeCalls(library.set_thread_limit, library.last_error, library.clear_error, library.free)
    found = {}
    for i, row in enumerate(loads(library.metadata)):
        signature = Signature.from_json(row["signature"])
        found[row["name"]] = Executable(signature, library.entries[i], handle, runtime=calls)
    return found


def _open_library(path: Path) -> ctypes.CDLL:
    """Opens the file that is at `path` now, through a link of another name where it was replaced since: `dlopen` would return the old one."""
    try:
        status = path.stat()
        with _seen_lock:
            replaced = _seen.setdefault(path, (status.st_dev, status.st_ino)) != (status.st_dev, status.st_ino)
        if not replaced:
            return ctypes.CDLL(str(path))
        with tempfile.TemporaryDirectory(prefix="raido-") as folder:
            link = Path(folder) / path.name
            link.symlink_to(path)
            return ctypes.CDLL(str(link))
    except OSError as error:
        raise TargetError(f"{path} cannot be loaded: {error}") from error
