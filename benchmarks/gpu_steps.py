"""Steps run in order by a process of their own: when a step hangs, or ends the process, a new process continues after it.

The process prints a line of JSON for each result; `follow` reads them, and ends the process when it prints nothing for too long.
"""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

MARK = "step: "
Message = dict[str, Any]
"""{"about": …} once; {"begin": k, "name": …}; {"so far": …}, which is kept if the step does not end; {"name": …, "found": …};
{"next": k}: a new process is to begin at step k, None: all are done."""


@dataclass(frozen=True)
class Step:
    """A piece of work and its name."""

    name: str
    run: Callable[[], Any]


def attempt(step: Step) -> Any:
    """The findings of a step, or {"wrong": …} where it fails."""
    try:
        return step.run()
    except (Exception, SystemExit) as error:  # whatever happens in a step, the others go on
        return {"wrong": in_a_line(error)}


def in_a_line(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return text if isinstance(error, SystemExit) else f"{type(error).__name__}: {text}"


def is_wrong(found: Any) -> bool:
    """Whether a step has failed."""
    return isinstance(found, dict) and "wrong" in found


def run_here(steps: Iterable[Step]) -> Iterator[Message]:
    """The messages of steps that run in this process, one after the other."""
    for step in steps:
        yield {"name": step.name, "found": attempt(step)}


def tell_steps(steps: Sequence[Step], begin: int) -> None:
    """Runs the steps from number `begin` on, and tells of each. After a failure a new process is asked for, since a device may be lost for
    all; it repeats the step, unless that was its process' first, since an earlier one may have lost the device."""
    for k, step in enumerate(steps[begin:], begin):
        tell({"begin": k, "name": step.name})
        found = attempt(step)
        if is_wrong(found) and k > begin:
            tell({"next": k})
            return
        tell({"name": step.name, "found": found})
        if is_wrong(found) and k + 1 < len(steps):
            tell({"next": k + 1})
            return
    tell({"next": None})


def tell_so_far(found: Any) -> None:
    tell({"so far": found})


def tell(message: Message) -> None:
    print(MARK + json.dumps(message), flush=True)


def follow(command: Callable[[int], Sequence[str]], patience: float, deadline: float) -> Iterator[Message]:
    """Findings that processes tell, each of which runs the words that `command` gives of the step at which it begins.

    A step has `patience` seconds, all have until `deadline`, of `time.monotonic`; one that has no answer by then, or none because its
    process has ended, is {"wrong": …}.
    """
    begin: int | None = 0
    while begin is not None and time.monotonic() < deadline:
        begin = yield from _one_process(command(begin), patience, deadline)


def _one_process(command: Sequence[str], patience: float, deadline: float) -> Generator[Message, None, int | None]:
    """The findings that one process tells; returns the step at which the next one begins, None where none is to. Of a step that does not
    end they are those so far, and "unfinished" says why."""
    lines: queue.Queue[str | None] = queue.Queue()
    at, name, so_far = -1, "", {}
    lost = lambda why: {"name": name, "found": so_far | {"unfinished" if so_far else "wrong": why}}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        assert child.stdout is not None
        threading.Thread(target=_pump, args=(child.stdout, lines), daemon=True).start()
        try:
            while True:
                left = deadline - time.monotonic()
                try:
                    line = lines.get(timeout=max(0.0, min(patience, left)))
                except queue.Empty:
                    why = f"no answer within {patience:.0f} s" if left > patience else "no time was left"
                    yield lost(why)
                    return at + 1 if left > patience and at >= 0 else None
                if line is None:
                    yield lost(_last_words(child.wait(), errors))
                    return at + 1 if at >= 0 else None
                message = _message(line)
                if "next" in message:
                    return message["next"]
                if "begin" in message:
                    at, name, so_far = message["begin"], message["name"], {}
                elif "so far" in message:
                    so_far = message["so far"]
                elif message:
                    yield message
        finally:
            child.kill()


def _message(line: str) -> Message:
    """The message of a line, before which a library may have said something; {} where there is none."""
    _, mark, text = line.partition(MARK)
    try:
        return json.loads(text) if mark else {}
    except ValueError:
        return {}


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _last_words(status: int, errors: IO[str]) -> str:
    errors.seek(0)
    said = [line.strip() for line in errors.read().splitlines() if line.strip()]
    return f"the process ended with status {status}{': ' + said[-1] if said else ''}"
