"""Schedules written by earlier versions (`kept_schedules.json`, of commit c246df8) are read with their old meaning."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))
from scheduled_programs import trace

from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.oracles.checker import check_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

KEPT = json.loads(Path(__file__).with_name("kept_schedules.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(KEPT))
def test_kept_schedules_are_read(name: str) -> None:
    document = KEPT[name]
    read = Schedule.from_json(json.dumps(document), form_stages(trace(*name.partition(" ")[0].split("/"))))
    complete = read.complete(Machine())
    unsaid = [
        step.name == "when" or step.argument("name") == "radix" or step.stage.endswith("::ranges")
        for step in complete.directives
    ]  # as yet
    said = [step.name for step, new in zip(complete.directives, unsaid, strict=True) if not new]
    assert said == [step["do"] for step in document["steps"]]
    check_nest(lower(complete.graph, complete.variants()), "scalar")
    copies = {step["with"]["copies"] for step in document["steps"] if "copies" in step["with"]}
    assert all(f"replicas={number}" in str(complete) for number in copies)
    assert Schedule.from_json(complete.to_json(), complete) == complete
