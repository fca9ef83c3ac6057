"""The recipes' promised accuracy, NumPy's special values, and equal results through every builder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raido.algo.graph.dtypes import DType, f16, f32, f64
from raido.algo.graph.expr import Const, Expr, Item, Op, Var
from raido.algo.graph.primitives import PRIMITIVES, evaluate
from raido.algo.recipes import FUNCTIONS, evaluate_recipe, expand
from raido.algo.recipes.accuracy import BOUNDS, errors, samples
from raido.algo.recipes.coefficients import COEFFICIENTS

FLOATS = [f32, f64]
NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "pow": "power",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
BINARY = ("pow", "atan2", "hypot")


def specials(dtype: DType) -> np.ndarray:
    info = np.finfo(dtype.numpy)
    positive = [0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 8.0, 1e5, 1e-10, 2**20 + 1, 1024.0, 0.1, np.inf, np.nan]
    positive += [float(x) for x in (info.max, info.tiny, info.smallest_subnormal, info.tiny * 0.75)]
    return np.array([*positive, *(-x for x in positive)], dtype.numpy)


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_stays_within_the_promised_bound(name, dtype):
    worst = max(errors(name, dtype, *samples(name, dtype, 2500)))
    assert worst <= BOUNDS[name][FLOATS.index(dtype)]


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("erf", "erfc", "rsqrt")])
def test_special_values_are_numpys(name, dtype):
    values = specials(dtype)
    args = [a.ravel() for a in np.meshgrid(values, values)] if name in BINARY else [values]
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) for a in args]
        # NumPy's f32 functions are less exact than ours: take its f64 ones and round.
        expected = getattr(np, NUMPY_NAMES.get(name, name))(*wide).astype(dtype.numpy)
        if name == "pow" and dtype is f32:
            expected = np.power(*args)  # f64 does not overflow where f32 does
        got = evaluate_recipe(name, dtype, *args)
        same = (got == expected) & (np.signbit(got) == np.signbit(expected))
        close = np.isfinite(expected) & (np.abs(got - expected) <= 3 * np.spacing(np.abs(expected)))
    wrong = ~(same | close | (np.isnan(got) & np.isnan(expected)))
    assert not wrong.any(), [(*(a[i] for a in args), got[i], expected[i]) for i in np.flatnonzero(wrong)[:5]]


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_special_values_of_functions_that_numpy_lacks(dtype):
    def at(name: str, *values: float) -> list[float]:
        return evaluate_recipe(name, dtype, np.array(values, dtype.numpy)).tolist()

    assert at("erf", np.inf, -np.inf, 0.0, 7.0) == [1.0, -1.0, 0.0, 1.0]
    assert np.signbit(at("erf", -0.0)[0])
    assert at("erfc", np.inf, -np.inf, 0.0, 30.0, -30.0) == [0.0, 2.0, 1.0, 0.0, 2.0]
    assert at("rsqrt", 0.0, 4.0, np.inf, -0.0) == [np.inf, 0.5, 0.0, -np.inf]
    assert all(np.isnan(at(name, np.nan)[0]) for name in ("erf", "erfc", "rsqrt"))


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_exact_cases_are_exact(dtype):
    powers = np.arange(-100, 100).astype(dtype.numpy)
    assert (evaluate_recipe("exp2", dtype, powers) == np.ldexp(dtype.numpy.type(1), powers.astype(int))).all()
    assert (evaluate_recipe("log2", dtype, np.ldexp(dtype.numpy.type(1), powers.astype(int))) == powers).all()
    cubes = np.arange(-50, 50).astype(dtype.numpy)
    assert (evaluate_recipe("cbrt", dtype, cubes**3) == cubes).all()
    assert (evaluate_recipe("pow", dtype, cubes, dtype.numpy.type(2)) == cubes**2).all()
    assert (evaluate_recipe("pow", dtype, np.abs(powers), dtype.numpy.type(1)) == np.abs(powers)).all()


@pytest.mark.parametrize(
    "name", ["sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "atan", "erf", "cbrt", "asinh", "atanh"]
)
@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_even_and_odd_functions_are_so_to_the_last_bit(name, dtype):
    (x,) = samples(name, dtype, 500)
    x = x[~np.isnan(x)]
    mirrored, straight = evaluate_recipe(name, dtype, -x), evaluate_recipe(name, dtype, x)
    assert np.array_equal(mirrored, straight if name in ("cos", "cosh") else -straight, equal_nan=True)


def evaluate_graph(body: Expr, environment: dict[Var, Any]) -> Any:
    """The value of a recipe's graph, every branch evaluated."""
    known: dict[Expr, Any] = dict(environment)

    def visit(e: Expr) -> Any:
        if e not in known:
            if isinstance(e, Const):
                known[e] = e.dtype.numpy.type(e.value)
            elif isinstance(e, Item):
                form: Any = e.form
                known[e] = np.where(visit(form.predicate), visit(form.then[0]), visit(form.orelse[0]))
            else:
                assert isinstance(e, Op)
                known[e] = evaluate(e.name, e.dtype, [visit(a) for a in e.args])
        return known[e]

    return visit(body)


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_computes_the_same_bits(name, dtype):
    args = samples(name, dtype, 60)
    parameters, body = expand(name, dtype)
    assert len(parameters) == PRIMITIVES[name].arity and body.dtype is dtype
    through_graph = evaluate_graph(body, dict(zip(parameters, args, strict=True)))
    assert np.array_equal(through_graph, evaluate_recipe(name, dtype, *args), equal_nan=True)


def test_sine_and_cosine_of_one_angle_share_their_work():
    def operations(e: Any, seen: set[Any]) -> set[Any]:
        if e not in seen:
            seen.add(e)
            for child in getattr(e, "args", ()):
                operations(child, seen)
            if isinstance(e, Item):
                operations(e.form.orelse[0], seen)
        return seen

    from raido.algo.recipes.builder import Value
    from raido.algo.recipes.graph import GraphBuilder

    (x,), sine = expand("sin", f32)
    cosine = FUNCTIONS["cos"](Value(GraphBuilder(), f32, x)).raw
    alone, both = operations(sine, set()), operations(cosine, operations(sine, set()))
    assert len(both) - len(alone) < 10


def test_halves_are_computed_in_f32_and_rounded():
    x = np.linspace(-10, 10, 200).astype(np.float16)
    assert (evaluate("exp", f16, (x,)) == evaluate_recipe("exp", f32, x.astype(np.float32)).astype(np.float16)).all()


def test_coefficients_are_what_the_generator_derives():
    from raido.algo.recipes import generate

    rows = {row.name: row for row in generate.FITS}
    for name, dtype in (("exp", "f32"), ("sin", "f32"), ("cosh", "f64")):
        assert tuple(generate.fit(rows[name], dtype)[0]) == COEFFICIENTS[name, dtype]
