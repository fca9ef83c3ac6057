"""Replay: from recorded directives to a plan for every stage.

`apply_directive` is the only function that changes a state: it finds the directive's rule, lets it check and rewrite, checks the invariants
that hold after every directive, and turns a `Refusal` into the user's `ScheduleError`. `replay` does so for whole schedules, `when` branches
included; a branch starts from the directives recorded before it. The branches of a stage are kept in its plan; a branch of the program has
plans of its own, over the program specialised for the sizes that its test fixes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from raido.algo.errors import ScheduleError
from raido.algo.graph.expr import Expr
from raido.algo.passes.specialise import specialise
from raido.schedule.checks.invariants import check_state
from raido.schedule.directives import RULES
from raido.schedule.directives.recorder import Rule
from raido.schedule.directives.sharing import follow_leaders
from raido.schedule.machine import Gpu
from raido.schedule.plan import Branch, Variant
from raido.schedule.recorded import PART, Directive
from raido.schedule.refusal import Refusal, listed, refused
from raido.schedule.stages.stage import Stage, StageGraph, is_array_loop
from raido.schedule.state import State, initial_state, nearest, resolve
from raido.schedule.strategies.array_loops import apply_to_loop
from raido.schedule.strategies.parameters import sizes_and_axes
from raido.schedule.strategies.plans_of_parts import DIRECTIVES, apply_to_part, owner_of
from raido.schedule.text.serialise import call_text
from raido.schedule.text.sizes import decided, fixed_sizes, parse_test, sizes_of

T = TypeVar("T")
IN_BRANCHES = (*DIRECTIVES, "strategy", "partition_boundaries", "stream_stores", "prefetch")  # of a branch of one stage
WORDS = ("axis", "a", "b", "stage", "consumer", "array", "kind", "scope", "name")
LISTS = ("axes", "names", "layout")


def apply_directive(state: State, directive: Directive) -> State:
    """Returns the state after one directive; raises `ScheduleError` where the directive is illegal."""
    if directive.name == "when":
        return apply_branch(state, directive)
    try:
        entry = find_rule(directive.name)
        arguments: dict[str, object] = dict(directive.args)
        check_arguments(entry, arguments)
        part = owner_of(state, directive.stage)
        if part is not None:
            return apply_to_part(state, *part, entry, arguments)
        name = resolve(state.uses.stages, directive.stage)
        if is_array_loop(state.uses.stages[name]):
            after = apply_to_loop(state, name, entry, arguments)
        else:
            after = entry.apply(state, name, **arguments)
        check_state(after, state)
        return after
    except Refusal as refusal:
        raise refusal_error(state, directive, refusal) from None


def apply_branch(state: State, directive: Directive) -> State:
    """Returns the state after a `when` of one stage, whose branch starts from the stage's directives so far."""
    ((text, inner),) = directive.branches
    try:
        name = resolve(state.uses.stages, directive.stage)
        test = parse_test(text, sizes_and_axes(state, name), 'when("x > 4096")')
        inside = branch_state(state, name)
        for each in inner:
            check_in_branch(each, name)
            inside = apply_directive(inside, each)
        if inside.graph is not state.graph:
            scanned = state.stage(name).scan is not None
            way, made = ("runs", "another scan") if scanned else ("gather", "a map")
            raise Refusal(
                f'strategy "{way}" replaces "{name}" by {made}, and the branches of a stage differ only in their loops',
                "a branch of the program: s.when(…)",
            )
        plan = state.plans[name]
        branch = Branch(text, test, inside.plans[name])
        after = replace(state, plans={**state.plans, name: replace(plan, instead=(*plan.instead, branch))})
        check_state(after, state)
        return after
    except Refusal as refusal:
        headline = f'cannot branch on a test in stage "{directive.stage}"'
        raise refused(headline, refusal, f".when({text!r})", directive.site) from None


def branch_state(state: State, name: str) -> State:
    """Returns the state in which a branch of a stage begins."""
    return replace(state, plans={**state.plans, name: replace(state.plan(name), instead=())})


def check_in_branch(directive: Directive, name: str) -> None:
    """Refuses a directive that a branch of a stage cannot have."""
    if directive.stage.partition(PART)[0] != name:
        raise Refusal(
            f'a branch of stage "{name}" cannot schedule "{directive.stage}"', "a branch of the program: s.when(…)"
        )
    if directive.name not in IN_BRANCHES:
        raise Refusal(
            f"a branch of one stage cannot contain {directive.name}, which affects other stages or memory",
            "a branch of the program: s.when(…)",
            directives=listed(IN_BRANCHES),
        )


def find_rule(directive: str) -> Rule:
    """Returns the rule of a directive; refuses an unknown directive, listing all."""
    if directive not in RULES:
        raise Refusal(
            f'there is no directive "{directive}"', nearest(directive, RULES), directives=listed(sorted(RULES))
        )
    return RULES[directive]


def check_arguments(entry: Rule, arguments: Mapping[str, object]) -> None:
    """Refuses arguments that the directive does not take or of the wrong type, and missing ones."""
    for name in entry.required:
        if name not in arguments:
            raise Refusal(f'the argument "{name}" is missing')
    for name, value in arguments.items():
        if name not in entry.required and name not in entry.defaults:
            if not entry.keywords:
                raise Refusal(f'there is no argument "{name}"', arguments=listed((*entry.required, *entry.defaults)))
            continue
        optional = name in entry.defaults or (entry.name, name) == ("cache", "axis")
        if value is None and optional:
            continue
        if name in WORDS and not isinstance(value, str):
            raise Refusal(f"`{name}` is a name, not {value!r}")
        if name in LISTS and not (isinstance(value, tuple) and all(isinstance(each, str) for each in value)):
            given = value[0] if isinstance(value, tuple) and len(value) == 1 and name == entry.spread else ()
            names = ", ".join(f'"{each}"' for each in given) if isinstance(given, tuple) else ""
            raise Refusal(
                f"`{name}` is a sequence of names, not {value!r}", f"{entry.name}({names})" if names else None
            )


def refusal_error(state: State, directive: Directive, refusal: Refusal) -> ScheduleError:
    """Returns the `ScheduleError` for a refused directive."""
    entry = RULES.get(directive.name)
    stage: object = None
    there = {}
    try:
        name = resolve(state.uses.stages, directive.stage)
        stage = state.uses.stages[name]
        if isinstance(stage, Stage):
            there = {"axes": listed(loop.name for loop in state.plans[name].loops)}
    except Refusal:
        name = directive.stage
    headline = f'cannot {directive.name} stage "{name}"'
    if entry is not None:
        words = {**entry.defaults, **dict(directive.args)}
        fields = dict.fromkeys(entry.required, "…") | words
        own = next((p for p in ("producer", "guest", "reader") if "{" + p + "}" in entry.phrase), "stage")
        headline = "cannot " + entry.phrase.format(**{**fields, own: name})
        headline = headline.replace(f'at loop "None" of "{words.get("stage")}"', "outside all loops")
    said = call_text(directive)
    part = owner_of(state, directive.stage)
    if part is not None:
        owner, short = part
        stage, said = state.uses.stages[owner], f'.part("{short}"){said}'
        in_words = f'part "{short}" of stage "{owner}"'
        headline, why = (text.replace(f'stage "{directive.stage}"', in_words) for text in (headline, refusal.why))
        refusal = Refusal(why, refusal.remedy, **refusal.legal)
    return refused(headline, refusal, said, directive.site, getattr(stage, "site", None), **there)


def run(state: State, directives: Iterable[Directive]) -> State:
    """Returns the state after all directives, `when` branches of the program left out."""
    for directive in directives:
        if not directive.branches_program:
            state = apply_directive(state, directive)
    return state


def replay(graph: StageGraph, directives: Iterable[Directive], gpu: Gpu | None = None) -> tuple[Variant, ...]:
    """Returns the plans of all stages: one variant for each `when` of the program, in order, and the general one last."""
    state, branches = run_with_branches(initial_state(graph, gpu), directives)
    return (*branches, variant_of(state))


def run_with_branches(state: State, directives: Iterable[Directive]) -> tuple[State, tuple[Variant, ...]]:
    """Returns the state after all directives outside `when` branches, and one variant for each branch."""
    variants: list[Variant] = []
    graph, before = state.graph, []
    for directive in taken_directives(graph, directives):
        if directive.branches_program:
            test, _ = test_of(graph, directive)
            ((_, inner),) = directive.branches
            inside = in_branch(graph, state, before, test, partial(run, directives=inner))
            variants.append(replace(variant_of(inside), test=test))
        else:
            state = apply_directive(state, directive)
            before.append(directive)
    return state, tuple(variants)


def taken_directives(graph: StageGraph, directives: Iterable[Directive]) -> Iterator[Directive]:
    """Yields the directives that matter for the known sizes of a specialised program.

    A branch whose test is false for them is dropped; one whose test is true is entered, and the directives after it are dropped.
    """
    for directive in directives:
        holds = test_of(graph, directive)[1] if directive.branches_program else None
        if holds is None:
            yield directive
        elif holds:
            ((_, inner),) = directive.branches
            yield from inner
            return


def test_of(graph: StageGraph, directive: Directive) -> tuple[Expr, bool | None]:
    """Returns the test of a branch of the program, and its value; None where known sizes do not decide it."""
    ((text, _),) = directive.branches
    try:
        test = parse_test(text, sizes_of(graph.program))
    except Refusal as refusal:
        raise refused("cannot branch on a test", refusal, f".when({text!r})", directive.site) from None
    return test, decided(test)


def in_branch(graph: StageGraph, state: State, before: Sequence[Directive], test: Expr, act: Callable[[State], T]) -> T:
    """Returns `act` of the state in which a branch begins: the directives so far over the program specialised for the sizes that the test
    fixes.

    Where those directives are refused there, since the stages of known sizes may be others, `act` is given `state`.
    """
    with contextlib.suppress(ScheduleError):
        special = specialised(graph, before, test, state.gpu)
        if special is not None:
            return act(special)
    return act(state)


def specialised(graph: StageGraph, before: Sequence[Directive], test: Expr, gpu: Gpu | None) -> State | None:
    """Returns the state after some directives over the program specialised for the sizes that a test fixes; None where it fixes none.

    Programs with results of unbounded size are not specialised: two forms of the program could not share their memory.
    """
    program = specialise(graph.program, fixed_sizes(test))
    if program is graph.program or any(counted.bound is None for counted in graph.counts):
        return None
    from raido.schedule.stages.form_stages import form_stages

    alike = bool(before)
    return run(initial_state(form_stages(program, alike, alike and not graph.mapped), gpu), before)


def variant_of(state: State) -> Variant:
    """Returns the variant of a state, without a test."""
    final = follow_leaders(state)
    return Variant(None, tuple(final.plans.values()), final.graph, tuple(final.array_loops.values()))
