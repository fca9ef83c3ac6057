"""The cost of a call from Python: `python benchmarks/call_cost.py`.

The program adds two arrays of 16 numbers, so that the call dominates: raido's executable with `out=` and without, beside TVM's packed
function of the same program, called through tvm_ffi with three arrays of its own. All run in one process, in turn; the fastest turn of each
counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import raido as rd

COUNT = 16
PACKED, WITH_OUT, WITHOUT = "tvm_ffi, three arrays", "raido, out=", "raido"


@rd.algorithm(a="f32[n]", b="f32[n]")
def add(a: rd.Array, b: rd.Array) -> rd.Array:
    return a + b


def packed() -> Callable[..., Any]:
    """The sum as TVM builds it, with its checks of ranks, dtypes and sizes."""
    import tvm
    from tvm import te

    n = te.var("n", dtype="int64")
    a, b = (te.placeholder((n,), "float32", name) for name in "ab")
    total = te.compute((n,), lambda i: a[i] + b[i], name="total")
    return tvm.compile(te.create_prim_func([a, b, total]), target="llvm")["main"]


def contestants() -> dict[str, Callable[[], Any]]:
    """The calls by name; each leaves the right sum behind."""
    import tvm

    a, b, out = np.arange(COUNT, dtype="f4"), np.ones(COUNT, "f4"), np.zeros(COUNT, "f4")
    function, exe = packed(), add.compile()
    x, y, z = map(tvm.runtime.tensor, (a, b, out))
    function(x, y, z)
    for found in (z.numpy(), exe(a, b), exe(a, b, out=out)):
        np.testing.assert_array_equal(found, a + b)
    return {PACKED: lambda: function(x, y, z), WITH_OUT: lambda: exe(a, b, out=out), WITHOUT: lambda: exe(a, b)}


def cheapest(calls: Mapping[str, Callable[[], Any]], turns: int = 300, number: int = 300) -> dict[str, float]:
    """Seconds of one call of each: of the fastest of many turns, each of `number` calls."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(number):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / number)
    return best


if __name__ == "__main__":
    costs = cheapest(contestants())
    for name, seconds in costs.items():
        print(f"{name:24}{seconds * 1e9:8.0f} ns{seconds / costs[PACKED]:8.2f}")
