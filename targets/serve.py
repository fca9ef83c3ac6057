"""Main loop of a child process: sets limits, then serves requests until the parent is gone.

Requests arrive on a thread of their own, so that the end of the connection, which is the end of the parent, ends the process whatever the
main thread is doing. A role, "module:Class", is a class with a method for every request: `(message, blobs) -> (answer, blobs)`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import resource
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from raido.targets.child import ChildFailed
from raido.targets.messages import Blob, receive, send

Answer: TypeAlias = "tuple[dict[str, Any], Sequence[Blob]]"


def serve(role: str, descriptor: int, settings: str) -> None:
    """Serves requests over the socket `descriptor` until it is closed."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the parent decides what becomes of it
    options = json.loads(settings)
    if options.get("cpus"):
        os.sched_setaffinity(0, options["cpus"])
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # short of memory, the system takes this process first
    requests: queue.Queue[tuple[dict[str, Any], list[bytearray]]] = queue.Queue()
    connection = socket.socket(fileno=descriptor)
    threading.Thread(target=_listen, args=(connection, requests), daemon=True).start()
    handlers = _handlers(role)
    limit_memory(options.get("memory", 0))
    while True:
        message, blobs = requests.get()
        try:
            answer, results = handlers(message["do"])(message, blobs)
        except ChildFailed as failed:
            answer, results = {"failure": failed.kind, "detail": failed.detail}, ()
        except MemoryError as error:
            answer, results = {"failure": "memory", "detail": str(error) or "no memory left"}, ()
        except Exception as error:
            answer, results = {"failure": "compile", "detail": f"{type(error).__name__}: {error}"}, ()
        send(connection, answer, results)


def limit_memory(extra: int) -> None:
    """Limits the process's address space to its present size plus `extra` bytes (0: no limit)."""
    if extra:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + extra
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _listen(connection: socket.socket, requests: queue.Queue[tuple[dict[str, Any], list[bytearray]]]) -> None:
    while True:
        request = receive(connection)
        if request is None:
            os._exit(0)
        requests.put(request)


def _handlers(role: str) -> Callable[[str], Callable[[dict[str, Any], list[bytearray]], Answer]]:
    """A role's methods by name. Only the role's module is imported, so a child loads nothing that other roles need."""
    module, _, name = role.partition(":")
    worker = getattr(importlib.import_module(module), name)()
    return lambda name: getattr(worker, name)
