"""Arg reductions down columns: indices in increasing order are not compared, and are stored as narrow as elements, whatever the loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.first_indices import keep_first_indices
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Fold, Nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule


def nest_of(dtype: str, say: Callable[[Schedule], object] | None = None, sizes: str = "n, m") -> Nest:
    """The nest of an `argmax` down the columns of an array, by default or under a schedule."""
    columns = rd.algorithm(lambda a: rd.argmax(a, axis=0, name="places"), a=f"{dtype}[{sizes}]")
    schedule = columns.schedule()
    if say is not None:
        say(schedule)
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


def kept(nest: Nest) -> Fold:
    """The first arg fold of a nest, that of the elements, once places that come in order are not compared."""
    return next(s for s in statements_within(keep_first_indices(nest).body) if isinstance(s, Fold))


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("u8", "u8"), ("i16", "i16"), ("f16", "i16"), ("f32", "i32"), ("i32", "i32"), ("f64", "i64")]
)
def test_places_are_as_wide_as_elements(dtype, narrow):
    for sizes in ("n, m", "200, m"):
        assert kept(nest_of(dtype, sizes=sizes)).buffers[1].dtype.name == narrow


ORDERS: dict[str, tuple[Callable[[Schedule], object], bool]] = {
    "rows outside": (lambda s: s["places"].reorder("r", "x").vectorize("x"), True),
    "rows in blocks": (lambda s: s["places"].split("r", 8).reorder("ro", "ri", "x").vectorize("x"), True),
    "rows in blocks around columns": (
        lambda s: s["places"].split("r", 8).reorder("ro", "x", "ri").vectorize("x"),
        True,
    ),
    "a column at a time": (lambda s: s["places"].vectorize("x"), True),
    "rows far apart": (lambda s: s["places"].split("r", 8).reorder("ri", "ro", "x").vectorize("x"), False),
    "lanes along rows": (lambda s: s["places"].vectorize("r"), False),
}


@pytest.mark.parametrize("order", ORDERS)
def test_whatever_the_loops_the_first_one_counts(order):
    say, ordered = ORDERS[order]
    nest = nest_of("f32", say)
    fold = next(s for s in statements_within(nest.body) if isinstance(s, Fold))
    assert (kept(nest).step != fold.step) == ordered
    chance = np.random.default_rng(0)
    for shape in ((1, 1), (7, 9), (16, 16), (19, 35)):
        few = chance.integers(0, 3, shape).astype("f4")
        special = chance.choice(np.array([np.nan, -np.inf, np.inf, -0.0, 0.0], "f4"), shape)
        for a in (few, special, np.full(shape, -np.inf, "f4")):
            for each in (keep_first_indices(nest), check_nest(form_gangs(nest), "gang")):
                (got,) = interpret_nest(each, [a], {"n": shape[0], "m": shape[1]})
                np.testing.assert_array_equal(got, np.argmax(a, axis=0))
