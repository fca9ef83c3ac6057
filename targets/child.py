"""A child process for work that may crash, hang or exhaust memory: started on demand, killed on timeout, restarted by the next request.

The child is a fresh interpreter (not a fork: threads of the parent, TVM's among them, would be half copied) with the parent's `sys.path`;
it runs nothing of the parent's script. Both talk over a socket pair (`messages`). A child ends when its parent does, whatever it is doing.
Its standard output and error are kept for the report of its death.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, Any

from raido.targets.messages import Blob, receive, send

_START = (
    "import sys; sys.path[:] = {path!r}; from raido.targets.serve import serve; serve({role!r}, {fd}, {settings!r})"
)
_LLVM_ERROR = "LLVM ERROR:"
_NO_MEMORY = ("bad_alloc", "out of memory", "MemoryError", "Cannot allocate memory")


class ChildFailed(Exception):
    """A request to a child process failed. `kind` is "compile", "crash", "hang" or "memory", or one of the role's own; `detail` is the
    evidence."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Child:
    """A child process of one role, "module:Class" (see `serve`), for one thread at a time.

    `prepare` is called with a child that has just started, to send it state before the first request.
    """

    def __init__(
        self, role: str, settings: dict[str, Any] | None = None, prepare: Callable[[Child], None] | None = None
    ) -> None:
        self.role = role
        self.prepare = prepare
        self._settings = settings or {}
        self._prepared = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._output: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id, or None while no process runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts and prepares the process, unless it runs; requests call this themselves."""
        self.launch()
        if self.prepare is not None and not self._prepared:
            self._prepared = True
            try:
                self.prepare(self)
            except BaseException:
                self.close()
                raise

    def launch(self) -> None:
        """Starts the process without preparing it, unless it runs; it imports the modules of its role in the background."""
        if self._process is not None:
            return
        self._prepared = False
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        path = [folder for folder in sys.path if isinstance(folder, str)]
        settings = json.dumps(self._settings)
        code = _START.format(path=path, role=self.role, fd=theirs.fileno(), settings=settings)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(theirs.fileno(),),
            )
        self._socket = ours

    def request(
        self, message: dict[str, Any], blobs: Sequence[Blob] = (), timeout: float | None = None
    ) -> tuple[dict[str, Any], list[bytearray]]:
        """The child's answer to a message. Raises `ChildFailed` when it reports a failure, dies, or takes longer than `timeout` seconds
        (None: no limit); in the last two cases the next request starts a new child."""
        self.start()
        assert self._socket is not None
        self._socket.settimeout(timeout)
        try:
            send(self._socket, message, blobs)
            answer = receive(self._socket)
        except TimeoutError:
            self.close()
            raise ChildFailed("hang", f"not done after {timeout:.3g} s") from None
        except OSError:
            answer = None
        except BaseException:
            self.close()  # an answer that comes later would be taken for that to the next request
            raise
        if answer is None:
            raise self._death()
        if "failure" in answer[0]:
            raise ChildFailed(answer[0]["failure"], answer[0]["detail"])
        return answer

    def close(self) -> None:
        """Kills the process, if one runs."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
        self._close_files()

    def abandon(self) -> None:
        """Drops the handles of the process without killing it: for a fork of the parent, which goes on talking to the child."""
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # no child of this process: there is nothing to wait for
        self._close_files()

    def _close_files(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._output is not None:
            self._output.close()

    def _death(self) -> ChildFailed:
        """The failure of a child that died, classified by its exit status and its last output."""
        if self._process is None or self._output is None:
            return ChildFailed("crash", "the process was closed")
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            code = None
        size = self._output.seek(0, 2)
        self._output.seek(max(0, size - (1 << 16)))
        said = self._output.read().decode(errors="replace").strip()
        if _LLVM_ERROR in said:  # what follows its first line is addresses
            said = said[said.rindex(_LLVM_ERROR) :].splitlines()[0]
        self.close()
        if code is None:
            return ChildFailed("crash", "the process closed its connection")
        if any(word in said for word in _NO_MEMORY):
            return ChildFailed("memory", said[-500:])
        if code == -signal.SIGKILL:
            return ChildFailed("memory", "killed by the system, as it does when memory runs out")
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return ChildFailed("crash", f"{how}{': ' if said else ''}{said[-500:]}")
