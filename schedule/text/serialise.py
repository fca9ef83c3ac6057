"""Writes a schedule as Python that rebuilds it, and as JSON, and reads the JSON. Source locations of directives are left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from raido.algo.documents import Unreadable, expect, field, parse_json, shown
from raido.algo.errors import ScheduleError, explain
from raido.algo.graph.program import Program
from raido.algo.printable import printable
from raido.algo.trace.static_text import keywords
from raido.schedule.directives import RULES
from raido.schedule.fingerprint import fingerprint
from raido.schedule.holes import Hole
from raido.schedule.recorded import PART, Directive, Value, plain

FORMAT = 1
WIDTH = 100


def call_text(directive: Directive) -> str:
    """Returns one directive as a method call, such as `.split("y", 32)`."""
    rule = RULES.get(directive.name)
    words: list[str] = [value_text(test) for test, _ in directive.branches] if directive.name == "when" else []
    for name, value in directive.args:
        if rule and name == rule.spread and isinstance(value, tuple):
            words += [value_text(each) for each in value]
        elif rule is None or name in rule.required or name in rule.positional:
            words.append(value_text(value))
        else:
            words.append(f"{name}={value_text(value)}")
    return f".{directive.name}({', '.join(words)})"


def value_text(value: Value) -> str:
    """Returns an argument as Python."""
    if isinstance(value, Hole):
        return f"rd.choose({value_text(value.name)}, [{', '.join(value_text(plain(o)) for o in value.options)}])"
    if isinstance(value, tuple):
        return f"({', '.join(value_text(each) for each in value)}{',' if len(value) == 1 else ''})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def schedule_text(program: Program, directives: Iterable[Directive], kind: str = "") -> str:
    """Returns the schedule as Python statements on `s`. kind: the kind of the target, "" for a CPU.

    The first statement names the program's types and its static parameters where they are not the declared ones and the defaults.
    """
    static = dict(program.static) | ({"target": value_text(kind)} if kind else {})
    start = f"s = {program.name}.schedule({_arguments(program, static)})"
    return printable("\n".join([start, *statements("s", tuple(directives))]))  # escapes control characters


def _arguments(program: Program, static: Mapping[str, str]) -> str:
    """Returns the arguments of `schedule(…)`: the program's types and some static parameters."""
    return ", ".join((*program.types, *([keywords(static)] if static else ())))


def statements(handle: str, directives: Sequence[Directive], of_stage: bool = False) -> list[str]:
    """Returns directives as Python statements; consecutive directives of one stage are chained. of_stage: `handle` is a view of one stage."""
    lines: list[str] = []
    stage = None
    for directive in directives:
        if directive.name == "when":
            ((test, inner),) = directive.branches
            branch = handle + "w"
            whose = f"{handle}[{value_text(directive.stage)}]" if directive.stage else handle
            lines.append(f"{branch} = {whose}.when({value_text(test)})")
            lines += statements(branch, inner, of_stage=bool(directive.stage))
            stage = None
        elif directive.name == "choose":
            lines.append(choose_text(handle, directive))
            stage = None
        else:
            call = call_text(directive)
            if directive.stage == stage and len(lines[-1]) + len(call) <= WIDTH:
                lines[-1] += call
            else:
                owner, _, part = directive.stage.rpartition(PART)
                view = handle if of_stage else f"{handle}[{value_text(owner or directive.stage)}]"
                lines.append(f"{view}.part({value_text(part)}){call}" if owner else view + call)
            stage = directive.stage
    return lines


def choose_text(handle: str, directive: Directive) -> str:
    """Returns a `choose` directive as a call with one lambda for each alternative."""
    lambdas = []
    for label, inner in directive.branches:
        body = statements("s", inner)
        lambdas.append(f"{label}=lambda s: {body[0] if len(body) == 1 else '(' + ', '.join(body) + ')'}")
    return f"{handle}.choose({', '.join([value_text(directive.argument('name')), *lambdas])})"


def to_json(program: Program, directives: Iterable[Directive], kind: str = "") -> str:
    """Returns the schedule as JSON text, with the fingerprint of its program. kind: the kind of the target, "" for a CPU."""
    document = {
        "raido schedule": FORMAT,
        "algorithm": program.name,
        "program": fingerprint(program),
        **({"static": dict(program.static)} if program.static else {}),
        **({"target": kind} if kind else {}),
        "steps": [_directive_data(directive) for directive in directives],
    }
    text = json.dumps(document, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(document)


def kind_in_json(text: str) -> str:
    """Returns the kind of target of a schedule in JSON; "" for a CPU, and for text that `from_json` will refuse."""
    try:
        kind = expect(parse_json(text), dict, "the text").get("target")
    except Unreadable:
        return ""
    return kind if isinstance(kind, str) else ""


def from_json(text: str, program: Program) -> tuple[Directive, ...]:
    """Returns the directives in JSON text. Raises `ScheduleError` for text that is no schedule, and for a schedule of another program."""
    try:
        document = expect(parse_json(text), dict, "the text")
        version = field(document, "raido schedule", int, "the schedule")
        if version != FORMAT:
            raise ScheduleError(explain(f"the schedule is of format {version}; this raido reads format {FORMAT}"))
        theirs = field(document, "program", str, "the schedule")
        directives = field(document, "steps", list, "the schedule")
        if theirs != fingerprint(program):
            raise ScheduleError(explain("the schedule belongs to another program", **_apart(document, theirs, program)))
        return tuple(_directive_from(directive, f"step {k}") for k, directive in enumerate(directives, 1))
    except Unreadable as error:
        lines = {"why": str(error), "try": "the text that `Schedule.to_json` gives"}
        raise ScheduleError(explain("the text is not a schedule in JSON", **lines)) from None


def _apart(document: dict[str, Any], theirs: str, program: Program) -> dict[str, str]:
    """Returns why a schedule in JSON does not fit a program, and a remedy; differing static parameters of one algorithm are named first."""
    name = str(document.get("algorithm", "?"))[:60]
    static = {
        printable(key)[:60]: printable(expect(value, str, f"the static parameter {shown(key)}"))[:200]
        for key, value in expect(document.get("static", {}), dict, "`static` of the schedule").items()
    }
    if name == program.name and static != program.static:
        made, given = (f"with {keywords(each)}" if each else "with the defaults" for each in (static, program.static))
        captured = f", or rd.capture({name}, {keywords(static)})" if static and not program.types else ""
        return {
            "why": f"it was made for {name} {made}; this is {name} {given}",
            "try": f"rd.Schedule.from_json(text, {name}.schedule({_arguments(program, static)})){captured}",
        }
    return {
        "why": f'it was made for "{name}" with fingerprint {theirs[:12]}; "{program.name}" has {fingerprint(program)[:12]}',
        "try": "rebuild it with the Python that print(schedule) gives",
    }


def _directive_data(directive: Directive) -> dict[str, Any]:
    data: dict[str, Any] = {
        "stage": directive.stage,
        "do": directive.name,
        "with": {k: _data(v) for k, v in directive.args},
    }
    if directive.branches:
        data["branches"] = [[label, [_directive_data(each) for each in inner]] for label, inner in directive.branches]
    return data


def _directive_from(data: Any, where: str) -> Directive:
    data = expect(data, dict, where)
    stage, directive = field(data, "stage", str, where), field(data, "do", str, where)
    args = tuple((key, _value(value, f"`{key}` of {where}")) for key, value in field(data, "with", dict, where).items())
    for name in data.keys() - {"stage", "do", "with", "branches"}:
        raise Unreadable(f"{where} has a {shown(name)}, which no step has")
    branches = []
    for branch in expect(data.get("branches", []), list, f"`branches` of {where}"):
        if not (isinstance(branch, list) and len(branch) == 2 and isinstance(branch[0], str)):
            raise Unreadable(f"a branch of {where} is a label and a list of steps, not {shown(branch)}")
        inner = expect(branch[1], list, f"branch {shown(branch[0])} of {where}")
        branches.append((branch[0], tuple(_directive_from(each, f"{where}.{k}") for k, each in enumerate(inner, 1))))
    made = Directive(stage, directive, args, tuple(branches))
    branching = {"when": len(branches) == 1, "choose": bool(branches) and isinstance(made.argument("name"), str)}
    if not branching.get(directive, not branches) or len(dict(branches)) < len(branches):
        raise Unreadable(f"{where}, {shown(directive)}, has {len(branches)} branches, or two of one label")
    return made


def _data(value: Value) -> Any:
    if isinstance(value, Hole):
        return {"choose": value.name, "options": [_data(plain(o)) for o in value.options]}
    return [_data(each) for each in value] if isinstance(value, tuple) else value


def _value(data: Any, what: str) -> Value:
    if isinstance(data, dict):
        options = tuple(_value(o, f"an option of {what}") for o in field(data, "options", list, what))
        if not options or len(data) != 2:
            raise Unreadable(f"{what} is a choice without options, or with more than its name and options")
        return Hole(field(data, "choose", str, what), options)
    if isinstance(data, float):
        raise Unreadable(f"{what} is {data}, and numbers in a schedule are whole")
    return tuple(_value(each, what) for each in data) if isinstance(data, list) else plain(data)
