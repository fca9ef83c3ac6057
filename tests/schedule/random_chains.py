"""Random chains of stages with local dependences, and random placements of them, which random programs rarely have.

`random_chain(chance)` writes a program of stencils, elementwise stages, reductions and moves over integers, each stage named and most of
them read by a later one. `random_placement(schedule, chance)` prefers placement directives and those that share loops.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import numpy as np

from raido.algo.errors import ScheduleError
from raido.schedule.recorded import Directive
from raido.schedule.schedule import Schedule

SIZES = (0, 1, 2, 3, 5, 8, 9, 17)
BOUNDARIES = ("'clamp'", "'wrap'", "'mirror'", "'symmetric'", "rd.constant(3)")
PLACES = (
    *["compute_at"] * 6,
    *["compute_with"] * 5,
    *["store_at"] * 3,
    "cache",
    "cache",
    "clone",
    "clone",
    "inline",
    "root",
)
LOOPS = (
    "split",
    "split",
    "reorder",
    "reorder",
    "fuse",
    "unroll",
    "unroll by",
    "vectorize",
    "parallel",
    "partition",
    "store",
    "tail",
)
_files = count()


def random_chain(chance: Random) -> tuple[Any, list[np.ndarray], str]:
    """An algorithm, arguments for it, and its source."""
    sizes = {name: chance.choice(SIZES) for name in ("n", "m")}
    planes, rows, lines = ["a", "b"], [], []
    for k in range(chance.randint(3, 7)):
        name = f"t{k}"
        kind = chance.choice(
            (
                "stencil",
                "stencil",
                "stencil",
                "elementwise",
                "elementwise",
                "pair",
                "sum",
                "fold",
                "spread",
                "gather",
                "fork",
                "fork",
            )
        )
        moves = ("", "", "", "", "[::-1]", "[:, ::-1]")
        p = planes[-1] + chance.choice(moves)
        q = chance.choice(planes[-3:]) + chance.choice(moves)
        if kind == "stencil":
            taps = " + ".join(
                f"p[{chance.randint(-2, 2)}, {chance.randint(-2, 2)}] * {chance.randint(1, 3)}"
                for _ in range(chance.randint(1, 3))
            )
            lines.append(
                f"{name} = rd.stencil(lambda p: {taps}, {p}, boundary={chance.choice(BOUNDARIES)}).named('{name}')"
            )
            planes.append(name)
        elif kind == "elementwise":
            lines.append(f"{name} = rd.elementwise(lambda x, y: x * 3 - y, {p}, {q}).named('{name}')")
            planes.append(name)
        elif kind == "pair":
            lines.append(f"{name}, {name}b = rd.elementwise(lambda x, y: (x + y, x ^ y), {p}, {q})")
            planes += [name, f"{name}b"]
        elif kind == "fork":
            taps = [f"[{chance.randint(-2, 2)}, {chance.randint(-1, 1)}]" for _ in range(4)]
            lines.append(f"{name}l = rd.elementwise(lambda x: x * 3, {p}).named('{name}l')")
            lines.append(
                f"{name}r = rd.stencil(lambda p: p{taps[0]} ^ p{taps[1]}, {p}, boundary='clamp').named('{name}r')"
            )
            joined = f"lambda p, q: p{taps[2]} + q{taps[3]} * p[0, 0]"
            boundary = chance.choice(BOUNDARIES)
            lines.append(f"{name} = rd.stencil({joined}, {name}l, {name}r, boundary={boundary}).named('{name}')")
            planes.append(name)
        elif kind == "sum":
            lines.append(f"{name} = rd.reduce(rd.add, 0, {p}, axis=1).named('{name}')")
            rows.append(name)
        elif kind == "fold":
            operator = "lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1])"
            lines.append(f"{name} = rd.reduce({operator}, (1, 0), {p}, {p}, axis=1)[1].named('{name}')")
            rows.append(name)
        elif kind == "spread" and rows:
            lines.append(f"{name} = rd.map(lambda row, s: row + s, {p}, {chance.choice(rows)}).named('{name}')")
            planes.append(name)
        elif kind == "gather" and sizes["n"]:
            lines.append(f"{name} = rd.gather({p}, i, mode='clamp').named('{name}')")
            planes.append(name)
    made = [*planes[2:], *rows] or ["a + b"]
    results = list(dict.fromkeys([made[-1], *(name for name in made if chance.random() < 0.1)]))
    body = "\n".join(f"    {line}" for line in [*lines, f"return {', '.join(results)}"])
    head = '@rd.algorithm\ndef chain(a: rd.u32["n", "m"], b: rd.u32["n", "m"], i: rd.i64["n"]):\n'
    source = f"{head}{body}\n"
    file = f"<random chain {next(_files)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    import raido as rd

    names: dict[str, Any] = {"rd": rd}
    exec(compile(source, file, "exec"), names)
    numbers = np.random.default_rng(chance.randrange(1 << 30))
    shape = (sizes["n"], sizes["m"])
    planes_of_numbers = [numbers.integers(0, 50, shape).astype(np.uint32) for _ in range(2)]
    return names["chain"], [*planes_of_numbers, numbers.integers(0, max(1, sizes["n"]), sizes["n"])], source


def random_placement(schedule: Schedule, chance: Random) -> None:
    """Records random steps, those that are legal."""
    for _ in range(chance.choice((6, 15, 40))):
        for directive in random_directives(schedule, chance):
            with suppress(ScheduleError):
                schedule.accept(directive)
                break


def random_directives(schedule: Schedule, chance: Random) -> Iterator[Directive]:
    """Proposals for one directive, the first legal one of which is meant; none where there is nothing to say."""
    state = schedule.state
    stage = chance.choice(list(state.plans))
    loops = [loop.name for loop in state.plans[stage].loops]
    if not loops:
        return
    loop, other = chance.choice(loops), chance.choice(list(state.plans))
    if chance.random() < 0.6:
        directive = chance.choice(PLACES)
        if directive in ("compute_at", "compute_with", "store_at"):
            everywhere = [
                (name, each.name) for name, plan in state.plans.items() for each in plan.loops if name != stage
            ]
            for name, each in chance.sample(everywhere, len(everywhere)):
                yield Directive(stage, directive, (("stage", name), ("axis", each)))
            return
        arrays = [name for name in state.uses.loads.get(stage, {}) if name]
        arguments: dict[str, Any] = {
            "clone": {"consumer": other},
            "cache": {"array": chance.choice(arrays or [""]), "stage": stage, "axis": chance.choice((loop, None))},
        }.get(directive, {})
    else:
        directive = chance.choice(LOOPS)
        order = chance.sample(loops, len(loops))
        where = chance.randrange(len(loops))
        arguments = {
            "split": {"axis": loop, "factor": chance.choice((1, 2, 3, 4, 8))},
            "reorder": {"axes": tuple(order)},
            "fuse": {"a": loops[where], "b": loops[(where + 1) % len(loops)]},
            "unroll by": {"axis": loop, "factor": chance.choice((2, 3))},
            "partition": {},
            "store": chance.choice(({"layout": tuple(order)}, {"pad": 3})),
            "tail": {"axis": loop, "kind": chance.choice(("mask", "shift", "scalar"))},
        }.get(directive, {"axis": loop})
        directive = {"unroll by": "unroll", "partition": "partition_boundaries"}.get(directive, directive)
    yield Directive(
        stage, directive, tuple((k, v) for k, v in arguments.items() if v is not None or directive == "cache")
    )
