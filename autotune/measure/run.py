"""The role of a runner's process: loads code, runs it on the inputs, checks it against the reference and times it. TVM is never loaded.

The inputs and the reference (the default schedule's results) are made once and kept; each candidate's code and results are freed after its
measurement. A crash ends the process only: the parent starts another and repeats the request.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from raido.algo.errors import RaidoError
from raido.algo.graph.program import Program
from raido.autotune.measure.agreement import difference, flat_results
from raido.autotune.measure.inputs import made_inputs
from raido.autotune.measure.measurement import Protocol
from raido.targets.child import ChildFailed
from raido.targets.compile import compilation_for
from raido.targets.executable import Call
from raido.targets.outputs import build_result
from raido.targets.serve import Answer
from raido.targets.signature import Signature, Tree
from raido.targets.target import Target

NO_PROGRAM = Program("", (), (), (), {"tuple": []}, {"tuple": []})
"""The program of a measured candidate: machine code is loaded for its target, whatever program it was compiled from."""


class Runner:
    """Requests of a runner: `inputs` first, `reference` next, then `measure` and `compare` any number of times."""

    def __init__(self) -> None:
        self._target = Target()
        self._arrays: list[Any] = []
        self._sizes: dict[str, int] = {}
        self._default: Call | None = None
        self._reference: list[np.ndarray] = []
        self._bounds: list[float] = []

    def inputs(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"specs", "sizes", "places", "target"} and the bytes of given arrays: every candidate's inputs and device."""
        self._target = Target(**message["target"])
        self._arrays = made_inputs(message["specs"], blobs, message["places"])
        self._sizes = message["sizes"]
        if self._target.machine.gpu is not None:
            from raido.targets.devices.array import device_array

            self._arrays = [device_array(array, self._target) for array in self._arrays]
        return {}, ()

    def reference(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"signature", "bounds"} and an object, whose results are the reference; returns {"seconds"} of the run."""
        call = self._call(message["signature"], blobs[0])
        start = time.perf_counter()
        _run(call)
        seconds = time.perf_counter() - start
        self._bounds = message["bounds"]
        self._default = call
        self._reference = [np.array(array, copy=True) for array in flat_results(call.result())]
        return {"seconds": seconds}, ()

    def measure(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"signature", "protocol", "best"} and an object; returns {"seconds": every timed run, "relative": to the default schedule}."""
        assert self._default is not None
        call = self._call(message["signature"], blobs[0], self._default)
        self._checked(call)
        runs, quotients = timed(call, self._default, Protocol(**message["protocol"]), message["best"])
        return {"seconds": runs, "relative": statistics.median(quotients)}, ()

    def compare(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"signatures", "protocol"} and objects; returns {"seconds": for each one time per round}, measured by turns."""
        protocol = Protocol(**message["protocol"])
        calls: list[Call] = []
        for signature, code in zip(message["signatures"], blobs, strict=True):
            call = self._call(signature, code, calls[0] if calls else None)
            _run(call)
            calls.append(call)
        return {"seconds": in_turns(calls, protocol)}, ()

    def _call(self, signature: str, code: bytearray, like: Call | None = None) -> Call:
        """A call on the inputs; its results share the memory of `like`, so that candidates differ by their code alone.

        On a device results have memory of their own, whose blocks have the same alignment.
        """
        interface = Signature.from_json(signature)
        executable = compilation_for(NO_PROGRAM, self._target, None, {}).load(bytes(code), interface, {})
        arguments = [_argument(tree, self._arrays, self._sizes) for tree in interface.input_tree["tuple"]]
        if like is None or self._target.machine.gpu is not None:
            return executable.bind(*arguments)
        return executable.bind(*arguments, out=build_result(interface.output_tree, like.outputs))

    def _checked(self, call: Call) -> None:
        _run(call)
        found = flat_results(call.result())
        for number, (got, want, bound) in enumerate(zip(found, self._reference, self._bounds, strict=True)):
            wrong = difference(np.asarray(got), want, bound)
            if wrong:
                raise ChildFailed("wrong", f"result {number}: {wrong}")


def timed(call: Call, default: Call, protocol: Protocol, best: float | None) -> tuple[list[float], list[float]]:
    """Times a call, after its warm-up, by the protocol: its runs in seconds, and the quotient of each and a run of the default schedule
    beside it. `best`: the least quotient of any candidate so far."""
    calls = (default, call)
    firsts = [each.time() for each in calls]
    if best is not None and firsts[1] > protocol.hopeless * best * firsts[0]:
        return firsts[1:], [firsts[1] / firsts[0]]
    numbers = [_repeats(first, protocol) for first in firsts]
    begun = time.perf_counter()
    runs: list[float] = []
    quotients: list[float] = []
    while len(runs) < protocol.runs:
        passed = time.perf_counter() - begun
        if len(runs) >= 2 and (passed > protocol.seconds or (passed >= protocol.least and _agree(quotients, protocol))):
            break
        if best is not None and len(runs) >= protocol.agree and min(quotients) > protocol.behind * best:
            break
        usual, taken = (each.time(number) for each, number in zip(calls, numbers, strict=True))
        runs.append(taken)
        quotients.append(taken / usual)
    return runs, quotients


def _repeats(seconds: float, protocol: Protocol) -> int:
    """The number of runs of `seconds` each in one timing."""
    return 1 if seconds >= protocol.shortest else min(100_000, int(protocol.shortest / max(seconds, 1e-8)) + 1)


def _agree(quotients: list[float], protocol: Protocol) -> bool:
    middle = statistics.median(quotients)
    return sum(abs(each - middle) <= protocol.spread * middle for each in quotients) >= protocol.agree


def in_turns(calls: list[Call], protocol: Protocol) -> list[list[float]]:
    """Times of several calls by turns, one of each per round, each round starting with the next one, so that disturbances affect all."""
    numbers = [_repeats(call.time(), protocol) for call in calls]
    seconds: list[list[float]] = [[] for _ in calls]
    begun = time.perf_counter()
    for turn in range(10 * protocol.rounds):
        passed = time.perf_counter() - begun
        if turn >= 3 and (
            passed > protocol.final_seconds or (turn >= protocol.rounds and passed >= protocol.final_least)
        ):
            break
        for k in range(len(calls)):
            which = (turn + k) % len(calls)
            seconds[which].append(calls[which].time(numbers[which]))
    return seconds


def _run(call: Call) -> None:
    try:
        call.run()
    except RaidoError as error:
        raise ChildFailed("fault", f"{type(error).__name__}: {error}") from None


def _argument(tree: Tree, arrays: list[Any], sizes: dict[str, int]) -> Any:
    """One argument in the structure of the signature."""
    if isinstance(tree, int):
        return arrays[tree]
    ((kind, body),) = tree.items()
    if kind == "size":
        return sizes[body]
    if kind == "record":
        return {name: _argument(part, arrays, sizes) for name, part in body.items()}
    parts = body if kind == "tuple" else body["fields"].values()
    return tuple(_argument(part, arrays, sizes) for part in parts)
