"""Proofs from assumptions on indices hold for all numbers that the assumptions allow, whatever was proved before, with more or fewer of
them."""

import random
from itertools import product

import pytest

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, greatest, interval
from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import Op, SizeVar, const, fresh
from raido.algo.graph.rewrite import substitute

N, X, Y, Z = SizeVar("n"), fresh("x"), fresh("y"), fresh("z")
RANGES = {X: (ix.as_index(0), ix.sub(N, 1)), Y: (X, ix.add(X, 2)), Z: (ix.as_index(1), ix.as_index(3))}
KNOWN = ix.sub(N, 2)


def expression(rng):
    e = ix.as_index(rng.randint(-2, 5))
    for atom in rng.sample([N, X, Y, Z], rng.randint(1, 3)):
        e = ix.add(e, ix.mul(atom, rng.choice((-1, 1, 1, 2))))
    if rng.random() < 0.3:
        e = rng.choice((ix.minimum, ix.maximum))(e, ix.sub(rng.choice((N, X, Y)), rng.randint(-1, 2)))
    return ix.floordiv(e, 2) if rng.random() < 0.2 else e


def value(e, numbers):
    return ix.constant_value(ix.canonical(substitute(e, {v: ix.as_index(k) for v, k in numbers.items()})))


def allowed(known, ranges):
    """All small numbers that these facts allow; what has no range is any of them."""
    for n, *rest in product(range(4), repeat=4):
        numbers = dict(zip((N, X, Y, Z), (n, *rest), strict=True))
        within = all(value(low, numbers) <= numbers[v] <= value(high, numbers) for v, (low, high) in ranges.items())
        if within and all(value(e, numbers) >= 0 for e in known):
            yield numbers


@pytest.mark.parametrize("order", [(X, Y, Z), (Y, X, Z), (Z, KNOWN, Y, X), (KNOWN, X, Z)])
def test_what_is_proved_holds_whatever_was_asked_before(order):
    rng = random.Random(repr(len(order)))
    assumptions, known, ranges = [Assumptions()], [[]], [{}]
    for each in order:
        more = assumptions[-1].with_known(each) if each is KNOWN else assumptions[-1].with_range(each, *RANGES[each])
        assumptions.append(more)
        known.append([*known[-1], *([KNOWN] if each is KNOWN else [])])
        ranges.append({**ranges[-1], **({} if each is KNOWN else {each: RANGES[each]})})
    cases = [list(allowed(*each)) for each in zip(known, ranges, strict=True)]
    proved = 0
    for _ in range(40):
        e, level = expression(rng), rng.randrange(len(assumptions))
        holds = assumptions[level].nonnegative(e)
        assert not holds or all(value(e, numbers) >= 0 for numbers in cases[level]), ix.text(e)
        assert holds or not Assumptions(known[level], ranges[level]).nonnegative(e), ix.text(e)
        proved += holds
    assert proved > 5


def test_what_some_numbers_make_false_is_not_searched_and_nothing_else_is_lost(monkeypatch):
    """Numbers for which facts hold only say what no search would prove."""
    rng, searched = random.Random(3), [0, 0]
    search = Assumptions._search
    build = lambda: (
        Assumptions().with_range(X, *RANGES[X]).with_known(KNOWN).with_range(Y, *RANGES[Y]).with_range(Z, 1, 3)
    )
    expressions, answers, models = [expression(rng) for _ in range(60)], [], build().models()
    for k in range(2):
        if k:
            monkeypatch.setattr(Assumptions, "models", lambda assumptions: ())
        monkeypatch.setattr(
            Assumptions, "_search", lambda *given, k=k: (searched.__setitem__(k, searched[k] + 1), search(*given))[1]
        )
        answers.append([build().nonnegative(e) for e in expressions])
    assert answers[0] == answers[1]
    assert 0 < 3 * searched[0] < 2 * searched[1]
    assert models and all(model.value(X) <= model.value(Y) and model.value(N) >= 2 for model in models)


def test_another_range_takes_the_place_of_the_first():
    assumptions = Assumptions().with_range(X, 1, 5)
    assert assumptions.nonnegative(ix.sub(X, 1))
    assert not assumptions.with_range(X, 0, 5).nonnegative(ix.sub(X, 1))


def test_an_index_made_of_a_float_has_no_bounds():
    number = Op("cast", i64, (Op("mul", f32, (Op("cast", f32, (X,)), const(f32, 0.5))),))
    assert interval(number, {X: RANGES[X]}) is None


def test_a_known_maximum_is_its_greater_operand_where_the_other_is_too_small():
    """As of a chunk that lies inside of the max(0, n - 19) places of a window."""
    assumptions = Assumptions((), {X: (ix.as_index(0), ix.sub(N, 1))})
    chunk = ix.sub(ix.maximum(0, ix.sub(N, 19)), ix.add(X, 64))
    assert not assumptions.less(ix.add(X, 70), N)
    assert assumptions.with_known(chunk).less(ix.add(X, 70), N)
    assert not assumptions.with_known(chunk).less(ix.add(X, 90), N)
    assert not Assumptions().with_known(ix.sub(ix.maximum(0, ix.sub(N, 19)), X)).less(X, N)  # X may be negative


def test_a_number_without_its_remainder_is_a_multiple_of_the_divisor():
    m, n = SizeVar("m"), SizeVar("n")
    both = ix.add(m, n)
    assert ix.sub(m, ix.mod(m, 2)) is ix.mul(2, ix.floordiv(m, 2))
    assert ix.add(ix.sub(ix.mul(both, 3), ix.mul(ix.mod(both, 4), 3)), 5) is ix.add(ix.mul(12, ix.floordiv(both, 4)), 5)
    assert ix.sub(ix.add(m, 1), ix.mod(ix.add(m, 1), 4)) is ix.mul(4, ix.floordiv(ix.add(m, 1), 4))
    assert ix.linear(ix.sub(m, ix.mod(n, 4)))[1] == {m: 1, ix.mod(n, 4): -1}
    assert ix.linear(ix.sub(m, ix.mul(ix.mod(m, 4), 2)))[1] == {m: 1, ix.mod(m, 4): -2}


def test_a_quotient_of_an_extreme_is_the_extreme_of_quotients_where_one_of_them_is_no_division():
    m, n = SizeVar("m"), SizeVar("n")
    blocks = ix.floordiv(ix.add(m, 127), 128)
    assert ix.ceildiv(ix.minimum(ix.add(ix.mul(X, 128), 128), m), 128) is ix.minimum(ix.add(X, 1), blocks)
    assert ix.ceildiv(ix.maximum(ix.mul(X, 128), ix.sub(m, 1)), 128) is ix.maximum(X, ix.floordiv(ix.add(m, 126), 128))
    three = ix.minimum(ix.minimum(ix.mul(X, 4), m), n)
    assert ix.floordiv(three, 4) is ix.minimum(ix.minimum(X, ix.floordiv(m, 4)), ix.floordiv(n, 4))
    for kept in (ix.minimum(m, n), ix.minimum(ix.add(X, 1), m), ix.mul(ix.minimum(ix.mul(X, 4), m), 3)):
        assert isinstance(ix.floordiv(kept, 4), Op) and ix.floordiv(kept, 4).args == (kept, ix.as_index(4))
    assert ix.floordiv(ix.minimum(m, 2), 8) is ix.as_index(0)  # what a size is divided into is never negative
    for x, size, c, k in product((-3, 0, 5), (0, 1, 8, 31, 33), (-9, 0, 7), (1, 4, 8)):
        for extreme, of in ((ix.minimum, min), (ix.maximum, max)):
            quotient = ix.floordiv(ix.add(extreme(ix.add(ix.mul(X, 8), 3), m), c), k)
            value = ix.canonical(substitute(quotient, {X: const(i64, x), m: const(i64, size)}))
            assert ix.constant_value(value) == (of(8 * x + 3, size) + c) // k


def test_the_greatest_number_of_strips_is_known_where_the_greatest_length_is():
    few = ix.minimum(N, ix.as_index(30))
    assert greatest(ix.floordiv(ix.add(few, 7), 8)) == 4
    assert greatest(ix.add(ix.mul(ix.floordiv(few, 8), 8), 3)) == 27
    rest = ix.sub(ix.add(ix.mul(ix.floordiv(ix.add(X, few), 8), 8), 5), ix.mul(ix.floordiv(X, 8), 8))
    assert greatest(ix.floordiv(few, 8), Assumptions()) == 3 and greatest(rest) is None
    assert greatest(ix.floordiv(N, 8)) is None


def test_the_difference_of_two_indices_is_a_number_or_unknown():
    m, n = SizeVar("m"), SizeVar("n")
    assert ix.difference(ix.add(ix.mul(X, 3), 5), ix.mul(X, 3)) == 5 and ix.difference(7, 9) == -2
    assert ix.difference(m, m) == 0 and ix.difference(m, n) is None and ix.difference(X, 0) is None
    whole = ix.mul(4, ix.floordiv(m, 4))
    assert ix.difference(ix.sub(m, whole), ix.mod(m, 4)) == ix.constant_value(ix.sub(ix.sub(m, whole), ix.mod(m, 4)))


def test_the_tile_of_a_block_that_begins_inside_is_one():
    m = SizeVar("m")
    assumptions = Assumptions().with_range(X, 0, ix.sub(ix.ceildiv(m, 128), 1))
    length = ix.sub(ix.minimum(ix.add(ix.mul(X, 128), 128), m), ix.mul(X, 128))
    assert assumptions.decided(ix.ceildiv(length, 128)) is ix.as_index(1)
    assert ix.constant_value(assumptions.decided(ix.ceildiv(length, 32))) is None
    assert ix.constant_value(Assumptions().with_range(X, 0, m).decided(ix.ceildiv(length, 128))) is None


def test_a_multiple_of_a_strip_ends_where_the_strips_do():
    """Of multiples of one number only whole ones are asked for: strips of 32 in a block of 128 begin at 96 at the latest."""
    m = SizeVar("m")
    begun = ix.floordiv(ix.add(ix.minimum(ix.add(ix.mul(X, 128), 128), m), 31), 32)
    assumptions = Assumptions().with_range(X, 0, m).with_range(Y, 0, ix.sub(begun, ix.add(ix.mul(X, 4), 1)))
    assert assumptions.less_equal(ix.mul(Y, 32), 96)
    assert not assumptions.less_equal(ix.mul(Y, 32), 95)
    assert not assumptions.less_equal(ix.add(ix.mul(Y, 32), 32), m)


def test_what_is_known_of_multiples_holds_of_the_numbers():
    assumptions = Assumptions().with_known(ix.sub(ix.add(ix.mul(N, 2), 1), ix.mul(X, 4)))  # 4 x <= 2 n + 1, so 2 x <= n
    assert assumptions.less_equal(ix.mul(X, 2), N)
    assert assumptions.less_equal(ix.mul(X, 6), ix.mul(N, 3))
    assert not assumptions.less_equal(ix.add(ix.mul(X, 2), 1), N)
