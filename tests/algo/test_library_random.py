"""`rd.random`: the generators are those of the papers, the distributions are right, and the bits are the same on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import raido as rd
from raido.algo.library.generators import philox4x32, threefry2x32

GENERATORS = ["threefry", "philox"]
LONG = 1 << 16  # elements of a sample: a mean of uniform numbers is within 4 sigma = 0.0045 of 1/2

# Random123 1.14, tests/kat_vectors: key, counter, words
THREEFRY_20 = [
    ([0, 0], [0, 0], [0x6B200159, 0x99BA4EFE]),
    ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 2, [0x1CB996FC, 0xBB002BE7]),
    ([0x13198A2E, 0x03707344], [0x243F6A88, 0x85A308D3], [0xC4923A9C, 0x483DF7A0]),
]
PHILOX_10 = [
    ([0, 0], [0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0xA4093822, 0x299F31D0],
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the interpreter."""
    return rd.algorithm(function).interpret(*arguments)


def key(seed: int, generator: str = "threefry") -> np.ndarray:
    return rd.random.key(seed, generator)


def of(generator: str, draw: Callable[[Any], Any], seed: int = 0) -> Any:
    """What `draw` makes of the key of a seed."""
    length = 2 if generator == "threefry" else 4
    return rd.algorithm(k=f"u32[{length}]")(lambda k: draw(k)).interpret(key(seed, generator))


@pytest.mark.parametrize(
    ("cipher", "vectors"), [(threefry2x32, THREEFRY_20), (philox4x32, PHILOX_10)], ids=["threefry", "philox"]
)
def test_the_vectors_of_random123(cipher: Any, vectors: Any) -> None:
    program = rd.algorithm(lambda k, c: rd.array(list(cipher([k[0], k[1]], [c[i] for i in range(c.shape[0])]))))
    for k, counter, words in vectors:
        k, counter = np.uint32(k), np.uint32(counter)
        typed = rd.algorithm(k="u32[2]", c=f"u32[{len(counter)}]")(program.function)
        assert typed.interpret(k, counter).tolist() == words
        assert typed(k, counter).tolist() == words


def test_threefry_is_that_of_jax() -> None:
    """jax.random.split(jax.random.key(0)) with partitionable Threefry, JAX's default since 0.5."""
    keys = run(lambda k: rd.random.split(k), key(0))
    assert keys.dtype == np.uint32 and keys.tolist() == [[1797259609, 2579123966], [928981903, 3453687069]]


def test_philox_is_the_stream_of_curand() -> None:
    """The words of block after block, the low word of the counter first."""
    words = of("philox", lambda k: rd.random.bits(k, 6))
    assert words[:4].tolist() == PHILOX_10[0][2]
    pairs = of("philox", lambda k: rd.random.bits(k, 3, rd.u64))
    assert (pairs == words[::2].astype(np.uint64) << np.uint64(32) | words[1::2]).all()


def test_keys() -> None:
    assert key(0).tolist() == [0, 0] and key(-1).tolist() == [0xFFFFFFFF] * 2 and key(5 << 32 | 7).tolist() == [5, 7]
    assert key(5 << 32 | 7, "philox").tolist() == [7, 5, 0, 0]
    for seed in (0, 3, -3, 2**62):
        for generator in GENERATORS:
            traced = run(lambda s, *, g=generator: rd.random.key(s, g), np.int64(seed))
            assert traced.tolist() == key(seed, generator).tolist() and traced.dtype == np.uint32
            inside = run(lambda *, s=seed, g=generator: rd.random.key(s, g))
            assert inside.tolist() == traced.tolist()


@pytest.mark.parametrize("generator", GENERATORS)
def test_derived_keys(generator: str) -> None:
    keys = of(generator, lambda k: rd.random.split(k, 5))
    for i in range(5):
        assert of(generator, lambda k, i=i: rd.random.fold_in(k, i)).tolist() == keys[i].tolist()
    assert len({tuple(k) for k in keys.tolist()}) == 5
    last = of(generator, lambda k: rd.random.fold_in(k, -1))
    assert last.tolist() == of(generator, lambda k: rd.random.fold_in(k, (1 << 64) - 1)).tolist()
    length = keys.shape[1]
    mapped = rd.algorithm(keys=f"u32[n, {length}]")(lambda keys: rd.map(lambda k: rd.random.uniform(k, 3), keys))
    one = rd.algorithm(k=f"u32[{length}]")(lambda k: rd.random.uniform(k, 3))
    assert (mapped.interpret(keys) == [one.interpret(k) for k in keys]).all()


@pytest.mark.parametrize("generator", GENERATORS)
def test_any_shape_holds_the_same_stream(generator: str) -> None:
    flat = of(generator, lambda k: rd.random.bits(k, 24, rd.u64))
    for shape in [(24,), (4, 6), (2, 3, 4)]:
        assert (of(generator, lambda k, s=shape: rd.random.bits(k, s, rd.u64)).ravel() == flat).all()
    assert of(generator, lambda k: rd.random.bits(k)) == of(generator, lambda k: rd.random.bits(k, 3))[0]
    assert of(generator, lambda k: rd.random.bits(k, (0, 3))).shape == (0, 3)
    length = 2 if generator == "threefry" else 4
    symbolic = rd.algorithm(k=f"u32[{length}]", n="size")(lambda k, n: rd.random.bits(k, (n, 6), rd.u64))
    assert (symbolic.interpret(key(0, generator), 4).ravel() == flat).all()
    for dtype in (np.uint8, np.uint16):
        narrow = of(generator, lambda k, d=dtype: rd.random.bits(k, 8, d))
        assert narrow.dtype == dtype and (narrow == of(generator, lambda k: rd.random.bits(k, 8)).astype(dtype)).all()


@pytest.mark.parametrize("generator", GENERATORS)
def test_bits_are_fair(generator: str) -> None:
    for dtype, count in ((rd.u32, 32), (rd.u64, 64)):
        words = of(generator, lambda k, d=dtype: rd.random.bits(k, LONG, d))
        ones = ((words[:, None] >> np.arange(count, dtype=words.dtype)) & words.dtype.type(1)).mean(0)
        assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(LONG)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("dtype", [rd.f16, rd.f32, rd.f64], ids=str)
def test_uniform(generator: str, dtype: Any) -> None:
    u = of(generator, lambda k: rd.random.uniform(k, LONG, dtype))
    assert u.dtype == dtype.numpy and u.min() >= 0 and u.max() < 1
    steps = u.astype(np.float64) * 2.0 ** (np.finfo(u.dtype).nmant + 1)
    assert (steps == np.round(steps)).all()
    wide = u.astype(np.float64)
    assert abs(wide.mean() - 0.5) < 0.0045 and abs(wide.var() - 1 / 12) < 0.001
    assert stats.chisquare(np.bincount((wide * 64).astype(int), minlength=64)).pvalue > 1e-3
    assert abs(np.corrcoef(wide[:-1], wide[1:])[0, 1]) < 0.016


def test_uniform_between_bounds() -> None:
    u = run(lambda k: rd.random.uniform(k, LONG, rd.f32, 3, 4), key(2))
    assert u.dtype == np.float32 and u.min() >= 3 and u.max() < 4
    lows = np.array([0.0, 10.0, -5.0])
    v = run(lambda k, low: rd.random.uniform(k, (1000, 3), rd.f64, low, low + 1), key(2), lows)
    assert (np.floor(v) == lows).all()
    assert (run(lambda k: rd.random.uniform(k, 9, rd.f64, 2, 2), key(2)) == 2).all()


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("dtype", [rd.f16, rd.f32, rd.f64], ids=str)
def test_normal(generator: str, dtype: Any) -> None:
    x = of(generator, lambda k: rd.random.normal(k, LONG, dtype))
    assert x.dtype == dtype.numpy and np.isfinite(x).all()
    wide = x.astype(np.float64)
    assert abs(wide.mean()) < 0.016 and abs(wide.var() - 1) < 0.023
    assert abs(stats.skew(wide)) < 0.04 and abs(stats.kurtosis(wide)) < 0.08
    bins = np.floor(stats.norm.cdf(wide) * 32).clip(0, 31).astype(int)
    assert stats.chisquare(np.bincount(bins, minlength=32)).pvalue > 1e-3


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(1, 7, rd.i64), (-3, 2, rd.i8), (0, 200, rd.u8), (-5, 3, rd.i32), (0, 8, rd.u64), (10, 11, rd.u16)],
    ids=str,
)
def test_integers(generator: str, low: int, high: int, dtype: Any) -> None:
    x = of(generator, lambda k: rd.random.integers(k, LONG, low, high, dtype))
    assert x.dtype == dtype.numpy and x.min() == low and x.max() == high - 1
    if high - low > 1:
        counts = np.bincount(x.astype(np.int64) - low, minlength=high - low)
        assert stats.chisquare(counts).pvalue > 1e-3
    length = 2 if generator == "threefry" else 4
    traced = rd.algorithm(k=f"u32[{length}]", a="i64", b="i64")(lambda k, a, b: rd.random.integers(k, 100, a, b, dtype))
    assert (traced.interpret(key(0, generator), low, high) == x[:100]).all()


@pytest.mark.parametrize("dtype", [rd.i8, rd.u16, rd.i32, rd.u32, rd.i64, rd.u64], ids=str)
def test_integers_of_the_whole_range_of_a_type(dtype: Any) -> None:
    limits = np.iinfo(dtype.numpy)
    x = run(lambda k: rd.random.integers(k, LONG, limits.min, limits.max + 1, dtype), key(4))
    middle = (x.astype(np.float64) - limits.min) / (float(limits.max) - limits.min)
    assert x.dtype == dtype.numpy and abs(middle.mean() - 0.5) < 0.0045


def test_integers_that_are_often_rejected_stay_fair() -> None:
    """Of three quarters of all words, one in four is drawn again: the three parts of the interval stay equally likely."""
    for span, dtype in ((3 << 30, rd.u32), (3 << 62, rd.u64)):
        x = run(lambda k, *, s=span, d=dtype: rd.random.integers(k, LONG, 0, s, d), key(5))
        assert stats.chisquare(np.bincount((x // (span // 3)).astype(int), minlength=3)).pvalue > 1e-3
    wide = run(lambda k: rd.random.integers(k, 1000, 0, 10**18), key(5))
    exact = [int(w) * 10**18 >> 64 for w in run(lambda k: rd.random.bits(k, 1000, rd.u64), key(5))]
    assert sum(a != b for a, b in zip(wide.tolist(), exact, strict=True)) <= 100, "high halves, but for those redrawn"


def test_integers_with_arrays_as_bounds() -> None:
    highs = np.array([1, 2, 1000])
    x = run(lambda k, h: rd.random.integers(k, (500, 3), 0, h), key(6), highs)
    assert (x.max(0) == [0, 1, x[:, 2].max()]).all() and x[:, 2].max() > 900
    assert (run(lambda k: rd.random.integers(k, 50, 3), key(6)) < 3).all()


@pytest.mark.parametrize("generator", GENERATORS)
def test_permutation(generator: str) -> None:
    order = of(generator, lambda k: rd.random.permutation(k, 1000))
    assert order.dtype == np.int64 and sorted(order) == list(range(1000)) and (order != np.arange(1000)).sum() > 900
    counts = np.zeros((3, 3), int)
    many = of(generator, lambda k: rd.map(lambda s: rd.random.permutation(s, 3), rd.random.split(k, 6000)))
    for place in range(3):
        counts[place] = np.bincount(many[:, place], minlength=3)
    assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_permutation_of_arrays() -> None:
    a = np.arange(12).reshape(3, 4)
    order = run(lambda k: rd.random.permutation(k, 4), key(1))
    assert (run(lambda k, a: rd.random.permutation(k, a, axis=-1), key(1), a) == a[:, order]).all()
    rows = run(lambda k, a: rd.random.permutation(k, a), key(1), a)
    assert sorted(rows.tolist()) == a.tolist()
    x, y = run(lambda k, a: rd.random.permutation(k, (a, -a)), key(1), a)
    assert (x == -y).all() and (x == rows).all()
    assert run(lambda k, a: rd.random.permutation(k, a), key(1), np.zeros((0, 2))).shape == (0, 2)


def test_choice() -> None:
    a = np.array([10, 20, 30, 40])
    x = run(lambda k, a: rd.random.choice(k, a, (50, 40)), key(1), a)
    assert x.shape == (50, 40) and stats.chisquare(np.bincount(x.ravel() // 10, minlength=5)[1:]).pvalue > 1e-3
    p = np.array([0.0, 0.5, 0.125, 0.375])
    for dtype in (np.float64, np.float32):
        y = run(lambda k, a, p: rd.random.choice(k, a, 8000, p=p), key(1), a, p.astype(dtype))
        counts = np.bincount(y // 10, minlength=5)[1:]
        assert counts[0] == 0 and stats.chisquare(counts[1:], 8000 * p[1:]).pvalue > 1e-3
    assert run(lambda k: rd.random.choice(k, 7), key(1)).shape == ()
    columns = run(lambda k, m: rd.random.choice(k, m, 5, axis=1), key(1), a.reshape(2, 2))
    assert columns.shape == (2, 5) and set(columns[0]) <= {10, 20} and (columns[1] == columns[0] + 20).all()


def test_choice_without_replacement() -> None:
    a = np.arange(100)
    x = run(lambda k, a: rd.random.choice(k, a, (5, 20), replace=False), key(1), a)
    assert sorted(x.ravel()) == list(range(100))
    p = np.array([0.0, 0.7, 0.2, 0.1])
    draw = lambda k: rd.random.choice(k, 4, 2, replace=False, p=rd.array(p))
    y = run(lambda k: rd.map(draw, rd.random.split(k, 4000)), key(1))
    assert (y[:, 0] != y[:, 1]).all() and (y != 0).all()
    assert stats.chisquare(np.bincount(y[:, 0], minlength=4)[1:], 4000 * p[1:]).pvalue > 1e-3
    second = np.bincount(y[y[:, 0] == 1, 1], minlength=4)[2:]
    assert stats.chisquare(second, second.sum() * np.array([2, 1]) / 3).pvalue > 1e-3


PROGRAMS = {
    "bits": lambda k: (rd.random.bits(k, (7, 11)), rd.random.bits(k, 77, rd.u64)),
    "uniform": lambda k: (rd.random.uniform(k, 1001, rd.f32), rd.random.uniform(k, (3, 50), rd.f64, -1, 1)),
    "normal": lambda k: (rd.random.normal(k, (5, 50), rd.f32), rd.random.normal(k, 100)),
    "integers": lambda k: (rd.random.integers(k, 300, 0, 3 << 30, rd.u32), rd.random.integers(k, 300, 0, 10**18)),
    "permutation": lambda k: rd.random.permutation(k, 257),
    "choice": lambda k: rd.random.choice(k, 5, 99, p=rd.array(np.array([0.1, 0.2, 0.3, 0.15, 0.25]))),
    "keys": lambda k: rd.map(lambda s: rd.random.normal(rd.random.fold_in(s, 3), 4), rd.random.split(k, 9)),
    "steps": lambda k: rd.loop(
        5, lambda i, x: x + rd.random.normal(rd.random.fold_in(k, i), 40), rd.random.uniform(k, 40)
    ),
}


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_give_the_same_bits(name: str, generator: str) -> None:
    length = 2 if generator == "threefry" else 4
    program = rd.algorithm(k=f"u32[{length}]")(lambda k: PROGRAMS[name](k))
    expected, got = program.interpret(key(9, generator)), program(key(9, generator))
    for a, b in zip(*((v,) if not isinstance(v, tuple) else v for v in (expected, got)), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_schedules_and_contraction_do_not_matter() -> None:
    draw = lambda k: rd.random.uniform(k, 1000, rd.f32, -3, 5, name="u") + rd.random.normal(k, 1000, rd.f32, name="z")
    program = rd.algorithm(k="u32[2]")(draw)
    s = program.schedule()
    s["u"].vectorize("x", 4)
    s["z"].split("x", 64).parallel("xo")
    expected = program.interpret(key(1)).tobytes()
    assert program.compile(schedule=s)(key(1)).tobytes() == expected
    assert rd.algorithm(k="u32[2]", contract=False)(draw).interpret(key(1)).tobytes() == expected


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda k: rd.random.uniform(k, 3, rd.i32), rd.DTypeError, "rd.random.uniform gives floats, not i32"),
        (lambda k: rd.random.bits(k, 3, rd.i32), rd.DTypeError, "gives unsigned integers"),
        (lambda k: rd.random.integers(k, 3, 0, 300, rd.u8), rd.DTypeError, "do not fit u8"),
        (lambda k: rd.random.integers(k, 3, 5, 5), rd.ShapeError, "no integer x with 5 <= x < 5"),
        (lambda k: rd.random.uniform(rd.random.split(k), 3), rd.ShapeError, "keys[i]"),
        (lambda k: rd.random.uniform(rd.iota(2), 3), rd.DTypeError, "rd.random.key(seed)"),
        (lambda k: rd.random.choice(k, 3, 4, replace=False), rd.ShapeError, "4 out of 3 without replacement"),
        (lambda k: rd.random.key(1.5), rd.DTypeError, "a seed is an integer"),
        (lambda k: rd.random.key(1, "mersenne"), rd.TraceError, "'threefry' or 'philox'"),
        (lambda k: rd.random.integers(k, 3, 0, k[0]), rd.ArithmeticFault, "zero"),
    ],
)
def test_refusals(function: Callable[..., Any], error: type, text: str) -> None:
    with pytest.raises(error) as refused:
        rd.algorithm(k="u32[2]")(function).interpret(key(0))
    assert text in str(refused.value)


def test_a_key_of_unknown_length_is_checked_at_the_call() -> None:
    with pytest.raises(rd.SizeMismatch):
        run(lambda k: rd.random.bits(k, 3), key(0, "philox"))
