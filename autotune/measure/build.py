"""The role of a builder's process: compiles schedules to objects, and computes features. TVM is loaded here only."""

from __future__ import annotations

import time
from typing import Any

from raido.algo.errors import RaidoError
from raido.autotune.features import features_of
from raido.autotune.measure.programs import unpack_program
from raido.schedule.lower import lower
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.child import ChildFailed
from raido.targets.compile import compilation_for
from raido.targets.serve import Answer, limit_memory
from raido.targets.target import Target


class Builder:
    """Requests of a builder: `program` sets the task, `build` compiles one schedule, `features` computes its features."""

    def __init__(self) -> None:
        import raido.targets.tvm_corner  # noqa: F401  loaded now: the first candidate is not the slower for it

        self._empty: Schedule | None = None
        self._target = Target()
        self._sizes: dict[str, int] = {}

    def program(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"program", "target", "sizes", "memory"} and the program's constants, for later requests; `memory` limits the address
        space, in bytes beyond the present size."""
        self._target = Target(**message["target"])
        self._empty = Schedule(form_stages(unpack_program(message["program"], blobs)), (), self._target)
        self._sizes = message["sizes"]
        limit_memory(message["memory"])
        return {}, ()

    def build(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"schedule": JSON}; returns {"signature", "seconds"} and the object, specialised for the sizes."""
        assert self._empty is not None
        start = time.perf_counter()
        try:
            schedule = Schedule.from_json(message["schedule"], self._empty)
            work = compilation_for(schedule.graph.program, self._target, schedule, self._sizes)
            code, signature = work.object_bytes, work.signature.to_json()
        except RaidoError as error:
            raise ChildFailed("compile", f"{type(error).__name__}: {error}") from None
        return {"signature": signature, "seconds": time.perf_counter() - start}, (code,)

    def features(self, message: dict[str, Any], blobs: list[bytearray]) -> Answer:
        """Takes {"schedule": JSON}; returns {"features"}, as numbers."""
        assert self._empty is not None
        try:
            schedule = Schedule.from_json(message["schedule"], self._empty)
            nest = lower(schedule.graph, schedule.variants(), self._target.machine)
        except RaidoError as error:
            raise ChildFailed("compile", f"{type(error).__name__}: {error}") from None
        return {"features": features_of(nest, self._target.machine, self._sizes).tolist()}, ()
