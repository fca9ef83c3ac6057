"""Rows of programs whose elements have small private arrays, in loops that data ends."""

from __future__ import annotations

import numpy as np

import raido as rd
from rows.row import Row, aligned, drawn, uniform

QUEENS = 10
FULL = (1 << QUEENS) - 1
FEW = 1000  # instructions that a program of the machine below may take


@rd.algorithm
def queens(places: rd.i32["n"]):
    """For each placement of two queens, the number of ways to complete it to ten: a search with four stacks for each element."""

    def ways(place):
        first, second = 1 << (place % QUEENS), 1 << (place // QUEENS % QUEENS)
        columns, left, right = first | second, (first << 2) | (second << 1), (first >> 2) | (second >> 1)
        apart = (second & (first | (first << 1) | (first >> 1))) == 0
        stack = rd.zeros(QUEENS, rd.i32).at[0]
        start = (
            rd.where(apart, 0, -1),
            *(stack.set(e) for e in (FULL & ~(columns | left | right), columns, left, right)),
        )

        def step(state):
            top, free, columns, left, right, found = state
            f = free[top]
            bit = f & -f
            c, a, b = columns[top] | bit, (left[top] | bit) << 1, (right[top] | bit) >> 1
            pushed, after = (f != 0) & (c != FULL), rd.minimum(top + 1, QUEENS - 1)
            rest = free.at[top].set(f & ~bit)
            return (
                rd.where(f == 0, top - 1, rd.where(pushed, top + 1, top)),
                rd.where(pushed, rest.at[after].set(FULL & ~(c | a | b)), rest),
                rd.where(pushed, columns.at[after].set(c), columns),
                rd.where(pushed, left.at[after].set(a), left),
                rd.where(pushed, right.at[after].set(b), right),
                found + ((f != 0) & (c == FULL)).astype(rd.i32),
            )

        return rd.while_loop(lambda state: state[0] >= 0, step, (*start, rd.i32(0)))[-1]

    return rd.map(ways, places)


def queens_by_numpy(places: np.ndarray) -> np.ndarray:
    def ways(columns: int, left: int, right: int) -> int:
        free, found = FULL & ~(columns | left | right), int(columns == FULL)
        while free:
            bit = free & -free
            free &= ~bit
            found += ways(columns | bit, (left | bit) << 1, (right | bit) >> 1)
        return found

    def of_two(place: int) -> int:
        first, second = 1 << place % QUEENS, 1 << place // QUEENS
        apart = not second & (first | first << 1 | first >> 1)
        return ways(first | second, first << 2 | second << 1, first >> 2 | second >> 1) if apart else 0

    table = np.array([of_two(place) for place in range(QUEENS**2)], np.int32)
    return table[places]


@rd.algorithm
def byte_code(code: rd.i32["m"], xs: rd.i32["n"]):
    """A machine of 24 registers that runs one program for each element, of instructions of an operation, two registers and a number."""

    def run(x):
        def step(state):
            at, registers, steps = state
            word = code[at]
            operation, a, b, number = word & 15, (word >> 4) & 7, (word >> 8) & 7, word >> 16
            u, v = registers[a], registers[b]
            value = rd.where(operation == 4, u >> 1, u & v)
            for k, each in ((3, u * v), (2, u - v), (1, u + v), (0, number)):
                value = rd.where(operation == k, each, value)
            jumps = ((operation == 6) & (u != 0)) | ((operation == 7) & (u == 0)) | (operation == 8)
            written = rd.where(operation < 6, registers.at[a].set(value), registers)
            return at + rd.where(jumps, number, 1).astype(rd.i32), written, steps + 1

        goes_on = lambda state: (state[0] < code.shape[0]) & (state[2] < FEW)
        return rd.while_loop(goes_on, step, (rd.i32(0), rd.zeros(24, rd.i32).at[0].set(x), rd.i32(0)))[1][1]

    return rd.map(run, xs)


def steps_to_one(scale: int) -> list[np.ndarray]:
    """A program that counts the steps by which 3 x + 1 and x / 2 lead to 1, and numbers."""
    words = [
        (0, 2, 0, 1),
        (0, 4, 0, 3),
        (0, 3, 0, 0),
        (1, 3, 0, 0),
        (2, 3, 2, 0),
        (7, 3, 0, 11),
        (1, 1, 2, 0),
        (0, 5, 0, 0),
        (1, 5, 0, 0),
        (5, 5, 2, 0),
        (6, 5, 0, 3),
        (4, 0, 0, 0),
        (8, 0, 0, -10),
        (3, 0, 4, 0),
        (1, 0, 2, 0),
        (8, 0, 0, -13),
    ]
    code, xs = aligned((len(words),), "i4"), aligned((max(20_000 // scale, 16),), "i4")
    code[:] = [operation | a << 4 | b << 8 | number << 16 for operation, a, b, number in words]
    xs[:] = np.random.default_rng(4).integers(1, 60, xs.shape)
    return [code, xs]


def byte_code_by_numpy(code: np.ndarray, xs: np.ndarray) -> np.ndarray:
    def run(x: int) -> int:
        registers, at, steps = [x] + [0] * 23, 0, 0
        while at < len(code) and steps < FEW:
            word = int(code[at])
            operation, a, number = word & 15, word >> 4 & 7, word >> 16
            u, v = registers[a], registers[word >> 8 & 7]
            if operation < 6:
                registers[a] = (number, u + v, u - v, u * v, u >> 1, u & v)[operation]
            jumps = (operation == 6 and u) or (operation == 7 and not u) or operation == 8
            at, steps = at + (number if jumps else 1), steps + 1
        return registers[1]

    known = {x: run(x) for x in np.unique(xs).tolist()}
    return np.array([known[x] for x in xs.tolist()], np.int32)


@rd.algorithm
def insertion_sorts(rows: rd.f32["n", 32]):
    def sort(row):
        def insert(k, a):
            value = a[k]
            larger = lambda s: (s[0] > 0) & (s[1][rd.maximum(s[0] - 1, 0)] > value)
            at, b = rd.while_loop(larger, lambda s: (s[0] - 1, s[1].at[s[0]].set(s[1][s[0] - 1])), (k, a))
            return b.at[at].set(value)

        return rd.loop(32, insert, row)

    return rd.map(sort, rows)


PRIVATE: dict[str, Row] = {
    "queens": Row(
        "ten queens by stacks, for each of 2,000 starts",
        queens,
        drawn((2000,), high=100, dtype="i4"),
        queens_by_numpy,
    ),
    "byte_code": Row("byte code of 24 registers, for 20,000 numbers", byte_code, steps_to_one, byte_code_by_numpy),
    "insertion_sorts": Row(
        "insertion sorts of 100,000 rows of 32",
        insertion_sorts,
        lambda scale: [uniform(max(100_000 // scale, 16), 32)],
        lambda rows: np.sort(rows, axis=1),
    ),
}
