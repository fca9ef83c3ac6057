"""Code generation in a child process, for processors of another kind than this machine's.

Where LLVM cannot select an instruction it ends its process, which cannot be prevented. Code for this machine's own kind of processor is
what every test compiles, so it is generated in this process; for any other, TIR is sent to a child (as JSON, a few hundred kilobytes),
which stays for the next such compilation. The child's death is a `CompileError`.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from raido.algo.errors import CompileError, explain
from raido.targets.child import Child, ChildFailed
from raido.targets.serve import Answer
from raido.targets.target import Target

ROLE = "raido.targets.cross:Generator"


class Module(Protocol):
    """Generated code: the relocatable object, and its texts by form: "tir", "llvm" (after optimisation) or "asm"."""

    def object_bytes(self) -> bytes: ...

    def text(self, form: str) -> str: ...


def generate(functions: dict[str, Any], target: Target) -> Module:
    """Compiles TIR functions for a target, in this process where the target is this machine's own kind of processor, else in the child."""
    from raido.targets.tvm_corner import CompiledModule

    if target.is_host:
        return CompiledModule(functions, target.cpu, target.turned_off)
    return _ForeignModule(functions, target)


class _ForeignModule:
    """A module whose object and texts a child process makes: the object at once, texts on demand."""

    def __init__(self, functions: dict[str, Any], target: Target) -> None:
        from raido.targets.tvm_corner import functions_to_json

        self._functions = functions
        self._target = target
        self._json = functions_to_json(functions).encode()
        self._object = self._ask("object")

    def object_bytes(self) -> bytes:
        return self._object

    def text(self, form: str) -> str:
        from raido.targets.tvm_corner import bind_target

        if form == "tir":
            return bind_target(self._functions, self._target.cpu, self._target.turned_off)[0].script()
        return self._ask(form).decode()

    def _ask(self, form: str) -> bytes:
        message = {"do": "generate", "cpu": self._target.cpu, "turned_off": self._target.turned_off, "form": form}
        remedy = "another processor of the same kind, such as x86-64-v2, x86-64-v3 or x86-64-v4"
        try:
            return _compiler.request(message, self._json)
        except ChildFailed as failed:
            why = f"{failed.kind}: {failed.detail}"
        except OSError as error:
            why = (
                f"code for another kind of processor is made by a process of its own, which cannot be started: {error}"
            )
            remedy = "this machine's own processor, or a Python whose sys.executable can be run"
        raise CompileError(explain(f"LLVM has made no code for {self._target}", why=why, **{"try": remedy}))


class _Compiler:
    """This process's code-generating child, behind a lock."""

    def __init__(self) -> None:
        self._child = Child(ROLE)
        self._lock = threading.Lock()

    def request(self, message: dict[str, Any], functions: bytes) -> bytes:
        with self._lock:
            return bytes(self._child.request(message, (functions,))[1][0])

    def close(self) -> None:
        self._child.close()

    def abandon(self) -> None:
        self._child.abandon()


def _forget() -> None:
    """Replaces the child's handle after a fork: two processes that talk to one child would take each other's answers."""
    global _compiler
    _compiler.abandon()
    _compiler = _Compiler()


_compiler = _Compiler()
os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _compiler.close())


class Generator:
    """The role of the child process: compiles the functions it is sent. It keeps the last module, to make its texts."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Any, ...], Module] | None = None

    def generate(self, message: dict[str, Any], blobs: Sequence[bytearray]) -> Answer:
        """The object, or the text of `form`, for a message {"cpu", "turned_off", "form"} with TIR functions as JSON."""
        from raido.targets.tvm_corner import CompiledModule, functions_from_json

        key = (bytes(blobs[0]), message["cpu"], *message["turned_off"])
        if self._last is None or self._last[0] != key:
            functions = functions_from_json(blobs[0].decode())
            self._last = key, CompiledModule(functions, message["cpu"], message["turned_off"])
        module, form = self._last[1], message["form"]
        return {}, (module.object_bytes() if form == "object" else module.text(form).encode(),)
