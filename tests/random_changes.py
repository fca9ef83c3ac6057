"""Random programs that change arrays in loops: successive updates, states that are exchanged, loops in loops, in maps, in branches.

`random_change(seed)` draws the source of one, in integers, so that every schedule gives the same bits. Indices are often brought within
bounds by `%`, sometimes not: then the program may fault, and must do so everywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import raido as rd

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 13, 17)


@dataclass
class Change:
    """A drawn program: its source, the algorithm, arguments for it."""

    source: str
    algorithm: Any
    arguments: tuple[np.ndarray, ...]


def random_change(seed: int) -> Change:
    """The program of that number."""
    source = _Writer(random.Random(f"change {seed}")).program()
    scope: dict[str, Any] = {"rd": rd}
    exec(source, scope)
    draw = random.Random(f"sizes {seed}")
    chance = np.random.default_rng(seed)
    n, h, w, k = (draw.choice(SIZES) for _ in range(4))
    whole = lambda *shape: chance.integers(-9, 9, shape)
    arguments = (whole(n), whole(n), whole(h, w), whole(h, w), chance.integers(0, max(n, 1), k))
    return Change(source, scope["program"], arguments)


class _Writer:
    def __init__(self, draw: random.Random) -> None:
        self.draw, self.lines, self.count, self.depth = draw, [], 0, 1

    def program(self) -> str:
        """The whole source: lines of one algorithm over vectors a and b, matrices c and d, and indices."""
        self.lines = [
            "@rd.algorithm",
            'def program(a: rd.i64["n"], b: rd.i64["n"], c: rd.i64["h", "w"], d: rd.i64["h", "w"], p: rd.i64["k"]):',
            "    n, h, w, k = a.shape[0], *c.shape, p.shape[0]",
        ]
        vectors, matrices = ["a", "b"], ["c", "d"]
        if self.draw.random() < 0.3:
            self.say("e = a * 2 + b")
            vectors.append("e")
        if self.draw.random() < 0.3:
            self.say('f = rd.stencil(lambda q: q[0, -1] + q[1, 0], c, boundary="clamp")')
            matrices.append("f")
        for _ in range(self.draw.choice((1, 1, 2))):
            if self.draw.random() < 0.55:
                vectors.append(self.loop(vectors, self.vector_change, "t"))
            else:
                matrices.append(self.loop(matrices, self.matrix_change, "t"))
        if self.draw.random() < 0.3:
            vectors.append(self.vector_change(vectors, "0"))
        if self.draw.random() < 0.3:
            matrices.append(self.matrix_change(matrices, "0"))
        results = [vectors[-1], matrices[-1], *self.draw.sample(vectors + matrices, 1)]
        self.say(f"return {', '.join(results)}")
        return "\n".join(self.lines) + "\n"

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def new(self, kind: str = "v") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def pick(self, *options: str) -> str:
        return self.draw.choice(options)

    # Loops

    def loop(self, arrays: list[str], change: Any, index: str, nested: bool = False) -> str:
        """A loop whose states are arrays of one shape, changed once or several times each iteration."""
        count = self.draw.choice((1, 1, 2, 2, 3))
        starts = [self.draw.choice(arrays) for _ in range(count)]
        step, inner = self.new("step"), index + "i" if nested else index
        states = [self.new("s") for _ in range(count)]
        counting = self.draw.random() < 0.85 or nested
        state = states[0] if count == 1 and counting else "s"
        self.say(f"def {step}({inner + ', ' if counting else ''}{state}):")
        self.depth += 1
        if not counting:
            self.say(f"{inner}, *rest = s")
            self.say(f"{', '.join(states)}{',' if count == 1 else ''} = rest")
        elif count > 1:
            self.say(f"{', '.join(states)} = s")
        here = list(states)
        outside = self.draw.sample(arrays, min(len(arrays), 1)) if self.draw.random() < 0.3 else []
        for _ in range(self.draw.choice((1, 1, 2, 3))):
            if not nested and self.draw.random() < 0.2:
                here.append(self.loop(here + outside, change, index, nested=True))
            else:
                here.append(change(here + outside, inner, here))
        made = here[count:] or here
        after = [made[-1], *(self.draw.choice(here) for _ in range(count - 1))]
        self.draw.shuffle(after)
        if counting:
            self.say(f"return {', '.join(after)}")
        else:
            self.say(f"return {inner} + 1, {', '.join(after)}")
        self.depth -= 1
        result = self.new("r")
        iterations = (
            self.pick("3", "n", "rd.minimum(n, h)", "2", "0", "5") if not nested else self.pick("2", "n", "h", "1")
        )
        init = f"({', '.join(starts)})" if count > 1 else starts[0]
        if counting:
            self.say(f"{result} = rd.loop({iterations}, {step}, {init})")
        else:
            bound = self.pick("3", "n", "4")
            self.say(
                f"{result} = rd.while_loop(lambda s: s[0] < {bound}, {step}, (rd.i64(0), {', '.join(starts)}))[1:]"
            )
            result = self.chosen(result, count)
            return result
        return self.chosen(result, count) if count > 1 else result

    def chosen(self, result: str, count: int) -> str:
        name = self.new()
        self.say(f"{name} = {result}[{self.draw.randrange(count)}]")
        return name

    # Changes of vectors

    def place(self, t: str, n: str) -> str:
        """An index below n, mostly."""
        return self.pick(
            f"({t}) % {n}",
            f"({t} + 1) % {n}",
            f"({n} - 1 - {t}) % {n}",
            f"rd.minimum({t}, {n} - 1)",
            f"({t} * 3 + 1) % {n}",
        )

    def vector_change(self, arrays: list[str], t: str, targets: list[str] | None = None) -> str:
        x = self.draw.choice((targets or arrays)[-2:] if self.draw.random() < 0.7 else (targets or arrays))
        y = self.draw.choice(arrays)
        z = self.new()
        i = self.place(t, "n")
        far, near = self.place(t, "n"), self.place(t, "n")
        value = self.pick(
            f"{y}[{i}] + 1", f"{x}[{i}] * 2 + {y}[{far}]", "7", f"rd.sum({y})", f"{y}[{far}] - {x}[{near}]"
        )
        how = self.pick("set", "set", "add", "max")
        lo = self.pick("1", f"rd.minimum({t}, n)", f"rd.minimum({t} + 1, n)", "2", "n // 2")
        other = self.pick(x, y, f"{x} + 1", f"{x}.at[{near}].add(1)")
        test = self.pick(f"{t} % 2 == 0", f"{x}[{near}] > {y}[{far}]", f"rd.sum({x}) > 0", f"{y}[{near}] % 2 == 1")
        kinds = {
            "chosen chain": f"rd.where({test}, {x}.at[{i}].set({value}).at[{far}].{how}({y}[{near}]), {x})",
            "chosen swap": f"rd.where({test}, {x}, {x}.at[{i}].set({x}[{far}]).at[{far}].set({x}[{i}]))",
            "chosen side": f"rd.where({test}, {x}.at[{i}].{how}({value}), {x}.at[{far}].set({x}[{i}] + 7))",
            "chosen slice": f"rd.where({test}, {x}.at[{lo}:].{how}({y}[{lo}:] + 1), {x}.at[0].set({value}))",
            "chosen of three": f"rd.where({test}, {x}.at[0].set(3), rd.where({t} % 3 == 1, {x}, {x}.at[{i}].{how}(1)))",
            "old beside new": f"(lambda m: m.at[{far}].set(m[{near}] - {x}[{i}]))({x}.at[{i}].{how}({value}))",
            "old after": f"{x}.at[{i}].{how}({value}).at[{far}].max({x}[{near}])",
            "element": f"{x}.at[{i}].{how}({value})",
            "slice": f"{x}.at[{lo}:].{how}({y}[{lo}:] + 1)",
            "front": f"{x}.at[:-1].{how}({y}[1:])",
            "back": f"{x}.at[1:].{how}({x}[:-1] + {y}[1:])",
            "stride": f"{x}.at[::2].{how}({x}[::2] * 2)",
            "odd": f"{x}.at[1::2].{how}(3)",
            "reverse": f"{x}.at[::-1].set({y})",
            "where": f"rd.where(rd.iota(n) == {self.pick(t, f'{t} % n', 'n - 1')}, {y} + 1, {x})",
            "masked": f"rd.where(rd.iota(n) < {self.pick(t, '2', 'n // 2')}, {y} * 2, {x})",
            "scatter": f"rd.scatter({x}, p, {self.pick(f'{y}[p] + 1', f'{x}[p] - 1', 'rd.iota(k)', f'{x}[(p + 1) % n]')})",
            "histogram": f"rd.reduce_by_index({x}, rd.add, 0, p, {self.pick(f'{y}[p]', 'p', f'{x}[p]')})",
            "whole": f"{x} + {y}",
            "stencil": f'rd.stencil(lambda q: q[-1] + q[1], {x}, boundary="{self.pick("clamp", "wrap")}")',
            "scalar choice": f"rd.where({t} % 2 == 0, {x}.at[{i}].set({value}), {x})",
            "branch": f"rd.cond({t} % 2 == 0, lambda: {x}.at[{i}].set({value}), lambda: {other})",
            "tabulated": f"rd.tabulate(n, lambda j: rd.where(j >= {lo}, {y}[j] * 3, {x}[j]))",
            "map": f"rd.map(lambda u, v: rd.where(v > 0, u, v), {x}, {y})",
            "copy": x,
        }
        weights = {"element": 6, "slice": 3, "copy": 0.5, "whole": 0.7, "map": 0.5, "stencil": 0.7, "reverse": 0.5}
        kind = self.draw.choices(list(kinds), [weights.get(kind, 1.5) for kind in kinds])[0]
        self.say(f"{z} = {kinds[kind]}")
        return z

    # Changes of matrices

    def matrix_change(self, arrays: list[str], t: str, targets: list[str] | None = None) -> str:
        x = self.draw.choice((targets or arrays)[-2:] if self.draw.random() < 0.7 else (targets or arrays))
        y = self.draw.choice(arrays)
        z = self.new()
        i, j = self.place(t, "h"), self.place(t, "w")
        how = self.pick("set", "set", "add")
        lo = self.pick("1", f"rd.minimum(rd.minimum({t}, h), w)", f"rd.minimum(rd.minimum({t} + 1, h), w)")
        m = self.pick("w - 1", "w", "1", "2")
        row_change = self.pick(
            f"row.at[{self.place('l', 'w')}].{how}(row[{self.place('l', 'w')}] + l)",
            f"row.at[{self.place('l', 'w')}].set(row[{self.place('l', 'w')}] - {t})",
            "row.at[rd.minimum(l, w):].add(1)",
            "row + l",
            "row.at[1:].set(row[:-1])",
            "rd.where(rd.iota(w) == l, row * 2, row)",
        )
        l, o = self.place("l", "w"), self.place("l", "w")
        pair = f"s[0].at[{l}].set(s[1][{o}]), s[1].at[{self.pick(l, o)}].add(s[0][{self.pick(l, o)}])"
        side = self.draw.randrange(2)
        test = self.pick(f"{t} % 2 == 0", f"{x}[{i}, {j}] > {y}[{i}, 0]", f"rd.sum({x}) > 0")
        other = self.place(t, "h")
        kinds = {
            "chosen swap": f"rd.where({test}, {x}.at[{i}].set({x}[{other}]).at[{other}].set({x}[{i}]), {x})",
            "old rows": f"(lambda m: m.at[{other}].set(m[{i}] * 2 - {x}[{i}]))({x}.at[{i}].{how}({y}[{other}]))",
            "chosen edges": f"rd.where({test}, {x}.at[0, :].set({y}[-1, :]).at[:, -1].{how}({x}[:, 0]), {x})",
            "element": f"{x}.at[{i}, {j}].{how}({y}[{i}, {j}] + 1)",
            "row": f"{x}.at[{i}].{how}({y}[{self.place(t, 'h')}] + {x}[{i}])",
            "column": f"{x}.at[:, {j}].{how}({y}[:, {self.place(t, 'w')}] * 2)",
            "edges": f"{x}.at[0, :].set({y}[-1, :]).at[:, -1].set({x}[:, 0])",
            "block": f"{x}.at[{lo}:, {lo}:].{how}({y}[{lo}:, {lo}:] - {x}[{lo}:, 0][:, None] * {x}[0, {lo}:][None, :])",
            "shifted": f"{x}.at[1:, :].{how}({x}[:-1, :] + 1)",
            "row of sums": f"{x}.at[{i}].set(rd.sum({y}, axis=0))",
            "product": f"{x}.at[{i}].set({y}[{self.place(t, 'h')}] @ ({x}.T @ {y}))",
            "stride": f"{x}.at[::2, 1::2].{how}({x}[::2, 1::2] + {y}[::2, 1::2])",
            "triangle": f"rd.tabulate((h, w), lambda i, j: rd.where((i == {t}) & (j <= i), {y}[i, j] + 1, {x}[i, j]))",
            "rows": f"rd.map(lambda row: rd.loop({m}, lambda l, row: {row_change}, row), {x})",
            "uneven rows": f"rd.map(lambda row, i: rd.loop(i % 3 + 1, lambda l, row: {row_change}, row), {x}, rd.iota(h))",
            "row pairs": f"rd.map(lambda row, two: rd.loop({m}, lambda l, s: ({pair}), (row, two))[{side}], {x}, {y})",
            "branch": f"rd.cond({t} % 2 == 1, lambda: {x}.at[{i}].set(3), lambda: {self.pick(x, y, f'{x} * 2')})",
            "scalar choice": f"rd.where({t} % 2 == 1, {x}.at[{i}, {j}].add(1), {x})",
            "whole": f"{x} - {y}",
            "scatter": f"{x}.at[p % h].set({y}[{i}])",
            "copy": x,
        }
        weights = {"element": 4, "copy": 0.4, "whole": 0.7}
        kind = self.draw.choices(list(kinds), [weights.get(kind, 1.5) for kind in kinds])[0]
        self.say(f"{z} = {kinds[kind]}")
        return z
