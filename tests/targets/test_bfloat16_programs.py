"""Programs of bf16 under compilation: every kind of stage and loop gives the interpreter's bits, in memory and from an exported library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import raido as rd

Pair = rd.record(first=rd.bf16, second=rd.f32)


@rd.algorithm
def stages(x: rd.bf16["n"], y: rd.bf16["n"], places: rd.i64["n"], offsets: rd.i64["m"], a: rd.bf16["h", "k"]):
    halved = rd.map(lambda v: rd.while_loop(lambda s: rd.abs(s) > 1, lambda s: s / 2, v), x)
    return {
        "elementwise": rd.where(x > y, rd.exp(x) * y + 1.5, x / y) - rd.floor(y),
        "divergent": halved,
        "bits": rd.view(y, rd.u16),
        "folds": (rd.sum(x), rd.argmin(y), rd.mean(x)),
        "prefixes": rd.scan(rd.add, 0, x),
        "order": rd.argsort(y),
        "kept": rd.filter(lambda v: v > 0, y),
        "bins": rd.reduce_by_index(rd.full(3, rd.bf16(0)), rd.add, 0, places, x),
        "segments": rd.segmented_reduce(rd.add, 0, x, offsets),
        "stencil": rd.stencil(lambda p: (p[-1] + p[1]) * 0.5, x, boundary="mirror"),
        "gathered": rd.gather(y, places * 7 - 3, mode="wrap"),
        "changed": x.at[1].set(2.7).at[3:].add(0.5),
        "products": rd.matmul(a, a.T, dtype=rd.f32),
        "records": rd.map(lambda v, w: Pair(first=v + w, second=rd.f32(v) * w), x, y),
    }


def arguments(n: int = 77) -> tuple[np.ndarray, ...]:
    """Numbers whose sums are bf16, in any order; NaN, infinities, zeros of both signs and subnormal numbers beside them."""
    random = np.random.default_rng(n)
    x = random.integers(-1, 2, n).astype(bfloat16)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3.14, -1e38], bfloat16)
    y = np.where(random.random(n) < 0.3, random.choice(odd, n), random.standard_normal(n).astype(bfloat16))
    offsets = np.array([0, n // 3, n // 3, n])
    return x, y, random.integers(0, 3, n), offsets, random.integers(-2, 3, (5, 6)).astype(bfloat16)


def same(got: Any, want: Any) -> None:
    """Equal types, shapes and bits, any NaN being any other."""
    if isinstance(want, (dict, tuple)):
        pairs = [(got[k], want[k]) for k in want] if isinstance(want, dict) else zip(got, want, strict=True)
        for pair in pairs:
            same(*pair)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    wide = [each.astype(np.float32) if each.dtype == bfloat16 else each for each in (got, want)]
    np.testing.assert_array_equal(*wide)
    number = ~np.isnan(wide[1]) if wide[1].dtype.kind == "f" else np.ones(got.shape, bool)
    np.testing.assert_array_equal(np.signbit(wide[0][number]), np.signbit(wide[1][number]))


def test_stages_give_the_interpreters_bits(tmp_path: Path) -> None:
    executable = stages.compile()
    for n in (77, 2):
        given = arguments(n)
        same(executable(*given), stages.interpret(*given))
    path = executable.export(tmp_path / "libstages.so")
    given = arguments()
    same(rd.load(path)(*given), stages.interpret(*given))
    header = (tmp_path / "stages.h").read_text()
    assert (
        "const uint16_t* x" in header
        and "input, bfloat16[n] (bfloat16 bits: the upper half of IEEE binary32)" in header
    )


def test_schedules_change_nothing() -> None:
    @rd.algorithm
    def folds(x: rd.bf16["n"], places: rd.i64["n"]):
        total = rd.sum(x, name="total")
        bins = rd.reduce_by_index(rd.full(3, rd.bf16(0)), rd.add, 0, places, x, name="bins")
        return total, bins, rd.max(x, name="most"), rd.map(lambda v: rd.sqrt(rd.abs(v) * 3 + 1), x, name="roots")

    s = folds.schedule()
    s["total"].split("r", 64).parallel("ro").vectorize("ri")
    s["most"].vectorize("r", interleave=2)
    s["bins"].strategy("atomic", reproducible=False).parallel("r")
    s["roots"].vectorize("x", 4)
    x, _, places, *_ = arguments(1000)
    same(folds.compile(schedule=s)(x, places), folds.interpret(x, places))


def test_scalars_go_in_and_come_out() -> None:
    scaled = rd.algorithm(a="bf16[n]", by="bf16")(lambda a, by: (a * by, by + 1))
    a = np.array([1, 2.5], bfloat16)
    for by in (bfloat16(0.3), np.asarray(bfloat16(0.3)), 0.3):
        product, more = scaled(a, by)
        same(product, a * bfloat16(0.3))
        assert isinstance(more, bfloat16) and more == bfloat16(0.3) + bfloat16(1)
    strided = np.arange(8, dtype=np.float32).astype(bfloat16)[::2]
    out = np.zeros(4, bfloat16)
    assert scaled.interpret(strided, 2)[0].tolist() == (strided * bfloat16(2)).tolist()
    doubled = rd.algorithm(a="bf16[n]")(lambda a: a + a)
    assert doubled(strided, out=out) is out and out.tolist() == [0, 4, 8, 12]
