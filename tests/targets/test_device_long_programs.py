"""Default schedules distribute long work to many threads, whatever the shape: lavapipe ends the loops of a thread after 65,535 iterations,
and a GPU would take as long as its slowest thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

import raido as rd
from raido.targets.vulkan.library import validation_messages

LONG = 70_000  # more than lavapipe's 65,535


def spread(a: Any, count: int) -> Any:
    """Indices below `count`, of an array's elements and their places, most of them several times where elements are more."""
    flat = a.reshape(-1)
    return (flat.astype(rd.i64) + 7919 * rd.arange(flat.shape[0])) % count


FORMS: dict[str, Callable[[Any], Any]] = {
    "column sums": lambda a: rd.sum(a, axis=0),
    "column means and deviations": lambda a: (rd.mean(a, axis=0), rd.std(a, axis=0)),
    "places of the largest of columns": lambda a: rd.argmax(a, axis=0),
    "row sums": lambda a: rd.sum(a, axis=1),
    "rows made alike by a function": lambda a: rd.map(lambda row: (row - rd.mean(row)) / (rd.std(row) + 1), a),
    "running column sums": lambda a: rd.cumsum(a, axis=0),
    "running row sums": lambda a: rd.cumsum(a, axis=1),
    "sorted columns": lambda a: rd.sort(a, axis=0),
    "places of sorted rows": lambda a: rd.argsort(a, axis=1),
    "weights in bins": lambda a: rd.bincount(spread(a, 40_000), weights=a.reshape(-1), minlength=40_000),
    "weights in few bins": lambda a: rd.bincount(spread(a, 5), weights=a.reshape(-1), minlength=5),
    "rows added to rows": lambda a: rd.zeros((50, a.shape[1]), rd.f32).at[spread(a[:, 0], 50)].add(a),
    "rows set": lambda a: rd.zeros((50, a.shape[1]), rd.f32).at[spread(a[:, 0], 50)].set(a),
    "elements set": lambda a: rd.zeros(200_000, rd.f32).at[spread(a, 200_000)].set(a.reshape(-1)),
}
"""Each of an array of two dimensions."""


@pytest.fixture(scope="module", autouse=True)
def validated() -> Iterator[None]:
    validated_device()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDO_VULKAN_VALIDATE", "1")
        yield
    assert validation_messages() == (0, "")


def algorithm_of(form: Callable[[Any], Any]) -> Any:
    @rd.algorithm(a="f32[n, m]")
    def program(a: rd.Array) -> Any:
        return form(a)

    return program


def check(form: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(len(shape)).integers(0, 8, shape).astype(np.float32)
    program = algorithm_of(form)
    got, want = program.compile("vulkan")(a), program(a)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)  # folds are grouped in another way


@pytest.mark.parametrize("shape", [(LONG, 3), (3, LONG), (5, 9)])
@pytest.mark.parametrize("name", FORMS)
def test_long_arrays_of_any_shape(name: str, shape: tuple[int, int]) -> None:
    check(FORMS[name], shape)


@pytest.mark.parametrize("shape", [(3, LONG, 2), (70, LONG // 4, 65), (2, 5, 3), (3, 0, 2)])
def test_products_with_long_sums(shape: tuple[int, int, int]) -> None:
    """Of sizes that nobody knows before: a few results, tiles of them with chunks of the sums, and short sums."""
    n, k, m = shape
    chance = np.random.default_rng(k)
    a, b = (chance.integers(0, 8, size).astype(np.float32) for size in ((n, k), (k, m)))
    np.testing.assert_array_equal(product.compile("vulkan")(a, b), a @ b)


@rd.algorithm(a="f32[n, k]", b="f32[k, m]")
def product(a: rd.Array, b: rd.Array) -> Any:
    return a @ b


@pytest.mark.parametrize("form", [lambda a: a.T @ a, lambda a: rd.cov(a.T), lambda a: a.T @ (a[:, :2] + 1)])
def test_products_of_tall_matrices(form: Callable[[Any], Any]) -> None:
    check(form, (LONG, 3))
