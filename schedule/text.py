"""A schedule as Python that rebuilds it, and as JSON. Both leave out where the user wrote each step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from raido.algo.errors import ScheduleError, explain
from raido.schedule.directives import RULES
from raido.schedule.holes import Hole
from raido.schedule.steps import PART, Step, Value, plain

FORMAT = 1
WIDTH = 100


def call_text(step: Step) -> str:
    """One step as a method call, `.split("y", 32)`."""
    rule = RULES.get(step.directive)
    words: list[str] = []
    for name, value in step.args:
        if rule and name == rule.spread and isinstance(value, tuple):
            words += [value_text(each) for each in value]
        elif rule is None or name in rule.required or name in rule.positional:
            words.append(value_text(value))
        else:
            words.append(f"{name}={value_text(value)}")
    return f".{step.directive}({', '.join(words)})"


def value_text(value: Value) -> str:
    """An argument as Python."""
    if isinstance(value, Hole):
        return f"rd.choose({value_text(value.name)}, [{', '.join(value_text(plain(o)) for o in value.options)}])"
    if isinstance(value, tuple):
        return f"({', '.join(value_text(each) for each in value)}{',' if len(value) == 1 else ''})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def schedule_text(name: str, steps: Iterable[Step]) -> str:
    """The whole schedule as statements on `s`."""
    return "\n".join([f"s = {name}.schedule()", *statements("s", tuple(steps))])


def statements(handle: str, steps: Sequence[Step]) -> list[str]:
    """Steps as statements: directives of one stage in a row are chained."""
    lines: list[str] = []
    stage = None
    for step in steps:
        if step.directive == "when":
            ((test, inner),) = step.branches
            branch = handle + "w"
            lines += [f"{branch} = {handle}.when({value_text(test)})", *statements(branch, inner)]
            stage = None
        elif step.directive == "choose":
            lines.append(choose_text(handle, step))
            stage = None
        else:
            call = call_text(step)
            if step.stage == stage and len(lines[-1]) + len(call) <= WIDTH:
                lines[-1] += call
            else:
                owner, _, part = step.stage.rpartition(PART)
                view = f"{handle}[{value_text(owner or step.stage)}]"
                lines.append(f"{view}.part({value_text(part)}){call}" if owner else view + call)
            stage = step.stage
    return lines


def choose_text(handle: str, step: Step) -> str:
    """A `choose` step: one lambda for each alternative."""
    lambdas = []
    for label, inner in step.branches:
        body = statements("s", inner)
        lambdas.append(f"{label}=lambda s: {body[0] if len(body) == 1 else '(' + ', '.join(body) + ')'}")
    return f"{handle}.choose({', '.join([value_text(step.argument('name')), *lambdas])})"


def to_json(fingerprint: str, algorithm: str, steps: Iterable[Step]) -> str:
    """The schedule as JSON text with the fingerprint of its program."""
    document = {
        "raido schedule": FORMAT,
        "algorithm": algorithm,
        "program": fingerprint,
        "steps": [_step_data(step) for step in steps],
    }
    return json.dumps(document, ensure_ascii=False)


def from_json(text: str, fingerprint: str, algorithm: str) -> tuple[Step, ...]:
    """The steps in JSON text; refuses what is no schedule, or a schedule of another program."""
    try:
        document = json.loads(text)
        version, program, steps = document["raido schedule"], document["program"], document["steps"]
        if version != FORMAT:
            raise ScheduleError(explain(f"the schedule is of format {version}; this raido reads format {FORMAT}"))
        if program != fingerprint:
            raise ScheduleError(
                explain(
                    "the schedule belongs to another program",
                    why=f'it was made for "{document.get("algorithm", "?")}" with fingerprint {str(program)[:12]}; '
                    f'"{algorithm}" has {fingerprint[:12]}',
                    **{"try": "rebuild it with the Python that print(schedule) gives"},
                )
            )
        return tuple(_step_from(step) for step in steps)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ScheduleError):
            raise
        raise ScheduleError(
            explain("the text is not a schedule in JSON", why=f"{type(error).__name__}: {error}")
        ) from None


def _step_data(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {"stage": step.stage, "do": step.directive, "with": {k: _data(v) for k, v in step.args}}
    if step.branches:
        data["branches"] = [[label, [_step_data(each) for each in inner]] for label, inner in step.branches]
    return data


def _step_from(data: dict[str, Any]) -> Step:
    branches = tuple(
        (str(label), tuple(_step_from(each) for each in inner)) for label, inner in data.get("branches", ())
    )
    args = tuple((str(key), _value(value)) for key, value in data["with"].items())
    step = Step(str(data["stage"]), str(data["do"]), args, branches)
    branching = {"when": len(branches) == 1, "choose": branches and isinstance(step.argument("name"), str)}
    if not branching.get(step.directive, not branches):
        raise ValueError(f'a step "{step.directive}" has {len(branches)} branches')
    return step


def _data(value: Value) -> Any:
    if isinstance(value, Hole):
        return {"choose": value.name, "options": [_data(plain(o)) for o in value.options]}
    return [_data(each) for each in value] if isinstance(value, tuple) else value


def _value(data: Any) -> Value:
    if isinstance(data, dict):
        return Hole(str(data["choose"]), tuple(_value(o) for o in data["options"]))
    return tuple(_value(each) for each in data) if isinstance(data, list) else plain(data)
