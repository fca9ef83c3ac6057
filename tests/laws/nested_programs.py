"""Random programs with nested arrays, for the test of asymptotic work: rows made, folded, scanned, filtered, sorted and updated in maps and
loops.

A program is a function of a matrix `a` of n rows of m, a row `b`, and a column `c`. Rows and numbers are drawn as expressions over the
variables in scope, to a given depth; float sums are of values of moderate size, so results are compared with a tolerance.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import raido as rd


@dataclass(frozen=True)
class NestedProgram:
    """A program of (f32[n, m], f32[m], f32[n]) and its source."""

    seed: int
    source: str
    algorithm: Any

    def arguments(self, n: int, m: int) -> list[np.ndarray]:
        """Arguments of n rows of m."""
        rng = np.random.default_rng(self.seed)
        return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((n, m), (m,), (n,))]


def nested_program(seed: int) -> NestedProgram:
    """Program number `seed`."""
    source = f"@rd.algorithm\ndef program(a: rd.f32['n', 'm'], b: rd.f32['m'], c: rd.f32['n']):\n    return {_Draw(seed).result()}\n"
    file = f"<nested_program({seed})>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"rd": rd, "np": np}
    exec(compile(source, file, "exec"), names)
    return NestedProgram(seed, source, names["program"])


class _Draw:
    """One program's expressions. Names in scope: rows and numbers, by the functions around."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(f"nested {seed}")
        self.count = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def result(self) -> str:
        rows, numbers = ["b"], ["rd.f32(0.5)"]
        r, x = self.name("r"), self.name("x")
        number = self.number(3, [*rows, r], [*numbers, x])
        row = self.row(3, [*rows, r], [*numbers, x])
        mapped = f"rd.map(lambda {r}, {x}: {{}}, a, c)"
        numbers_of_rows, rows_of_rows = mapped.format(number), mapped.format(row)
        k = self.name("k")
        return self.draw.choice(
            (
                numbers_of_rows,
                rows_of_rows,
                f"rd.sum({numbers_of_rows})",
                f"rd.scan(rd.add, 0.0, {numbers_of_rows})",
                f"rd.filter(lambda v: v > 0.1, {numbers_of_rows})",
                f"rd.sum({rows_of_rows}, axis=0)",
                f"rd.max({rows_of_rows}, axis=1)",
                f"({rows_of_rows}).T",
                f"rd.loop(3, lambda {k}, a: rd.tanh({rows_of_rows}), a)",
                f"({rows_of_rows})[::-1] * 2.0",
                f"rd.sort({numbers_of_rows})",
                f"({rows_of_rows}) @ b",
            )
        )

    def number(self, depth: int, rows: list[str], numbers: list[str]) -> str:
        """An expression of a number."""
        if depth == 0:
            return self.draw.choice(numbers)
        row = lambda: self.row(depth - 1, rows, numbers)
        number = lambda: self.number(depth - 1, rows, numbers)
        i, s = self.name("i"), self.name("s")
        v = self.name("v")
        return self.draw.choice(
            (
                lambda: f"rd.sum({row()})",
                lambda: f"rd.max({row()})",
                lambda: f"rd.sum({row()} * {row()})",
                lambda: f"({row()})[-1]",
                lambda: f"rd.sin({number()} + {number()})",
                lambda: f"rd.loop(3, lambda {i}, {s}: {self.number(depth - 1, rows, [*numbers, s])} * 0.5, {number()})",
                lambda: f"rd.sum(rd.filter(lambda {v}: {v} > {number()}, {row()}))",
                lambda: f"rd.cond({number()} > 0, lambda: {number()}, lambda: {number()})",
                lambda: f"rd.sum(rd.map(lambda {v}: {self.number(depth - 1, rows, [*numbers, v])}, {row()}))",
            )
        )()

    def row(self, depth: int, rows: list[str], numbers: list[str]) -> str:
        """An expression of a row of m numbers."""
        if depth == 0:
            return self.draw.choice(rows)
        row = lambda: self.row(depth - 1, rows, numbers)
        number = lambda: self.number(depth - 1, rows, numbers)
        i, y, v = self.name("i"), self.name("y"), self.name("v")
        return self.draw.choice(
            (
                lambda: f"({row()} * {number()})",
                lambda: f"({row()} + {row()})",
                lambda: f"rd.exp(-({row()}))",
                lambda: f"rd.scan(rd.add, 0.0, {row()})",
                lambda: f"rd.sort({row()})",
                lambda: f"({row()})[::-1]",
                lambda: f"rd.stencil(lambda p: 0.5 * p[-1] - p[1], {row()}, boundary='clamp')",
                lambda: f"rd.map(lambda {v}: {self.number(depth - 1, rows, [*numbers, v])}, {row()})",
                lambda: f"rd.loop(3, lambda {i}, {y}: rd.tanh({self.row(depth - 1, [*rows, y], numbers)}), {row()})",
                lambda: (
                    f"rd.loop({y}.shape[0] - 1, lambda {i}, {y}: {y}.at[{i} + 1].set({y}[{i} + 1] - 0.5 * {y}[{i}]), {row()})".replace(
                        f"{y}.shape[0]", "b.shape[0]"
                    )
                ),
                lambda: f"rd.where({row()} > 0, {row()}, {number()})",
            )
        )()
