"""`rd.einsum` against NumPy, over random subscripts; the stages for two operands, and for more."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import raido as rd

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 5}


def random_subscripts(draw: random.Random) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts of one to three operands, with repeated labels, ellipses and implicit results; and shapes that fit them."""
    spread = draw.choice([None, None, (2,), (3, 2)])
    operands, shapes = [], []
    for _ in range(draw.choice([1, 2, 2, 2, 3])):
        labels = [draw.choice("abcde") for _ in range(draw.randint(0, 3))]
        shape = [SIZES[label] for label in labels]
        if spread is not None and draw.random() < 0.7:
            place = draw.randint(0, len(labels))
            own = spread[draw.randint(0, len(spread)) :]
            labels.insert(place, "...")
            shape[place:place] = own
        operands.append("".join(labels))
        shapes.append(tuple(shape))
    text = ",".join(operands)
    every = sorted({label for label in text if label.isalpha()})
    if draw.random() < 0.25 and "..." not in text:
        return text, shapes
    result = draw.sample(every, draw.randint(0, len(every)))
    if "..." in text:
        result.insert(draw.randint(0, len(result)), "...")
    return f"{text}->{''.join(result)}", shapes


def numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    """Small whole numbers, whose sums of products are exact in every type."""
    values = np.random.default_rng(seed).integers(0, 2 if np.dtype(dtype).kind == "b" else 4, shape)
    return (values + 1j * values[::-1] if np.dtype(dtype).kind == "c" and values.ndim else values).astype(dtype)


def check(text: str, arrays: list[np.ndarray], **options: Any) -> None:
    count = len(arrays)
    programs = {
        1: lambda x: rd.einsum(text, x, **options),
        2: lambda x, y: rd.einsum(text, x, y, **options),
        3: lambda x, y, z: rd.einsum(text, x, y, z, **options),
    }
    ours = rd.algorithm(programs[count]).interpret(*arrays)
    expected = np.einsum(text, *arrays)
    assert ours.dtype == expected.dtype, text
    np.testing.assert_array_equal(ours, expected, err_msg=text)


@pytest.mark.parametrize("seed", range(30))
def test_random_subscripts(seed: int) -> None:
    draw = random.Random(seed)
    for k in range(10):
        text, shapes = random_subscripts(draw)
        dtype = draw.choice([np.float64, np.float32, np.int8, np.int64])
        arrays = [numbers(shape, dtype, seed + k + n) for n, shape in enumerate(shapes)]
        check(text, arrays, optimize=draw.choice([False, True, "greedy"]))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.float16, np.complex64, np.complex128])
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj->", "ii->i", "ij->j", "bij,bjk->bik", "ij,ij->ij"])
def test_every_dtype(text: str, dtype: type) -> None:
    shapes = [
        tuple({"i": 3, "j": 3, "k": 2, "b": 2}[label] for label in part) for part in text.split("->")[0].split(",")
    ]
    check(text, [numbers(shape, dtype, n) for n, shape in enumerate(shapes)])


def test_mixed_types_and_a_wished_one() -> None:
    a, b = numbers((2, 3), np.int8, 0), numbers((3, 4), np.float32, 1)
    check("ij,jk", [a, b])
    ours = rd.algorithm(lambda a, b: rd.einsum("ij,jk", a, b, dtype=np.float64)).interpret(a, b)
    assert ours.dtype == np.float64
    np.testing.assert_array_equal(ours, a.astype(float) @ b)


def test_lists_of_labels() -> None:
    a, b = numbers((2, 3), np.float64, 0), numbers((5, 3, 4), np.float64, 1)
    ours = rd.algorithm(lambda a, b: rd.einsum(a, [0, 1], b, [..., 1, 3], [..., 3, 0])).interpret(a, b)
    np.testing.assert_array_equal(ours, np.einsum(a, [0, 1], b, [..., 1, 3], [..., 3, 0]))
    implied = rd.algorithm(lambda a: rd.einsum(a, [1, 0])).interpret(a)
    np.testing.assert_array_equal(implied, np.einsum(a, [1, 0]))


def test_empty_dimensions_sum_to_zero() -> None:
    check("ij,jk->ik", [np.zeros((2, 0)), np.zeros((0, 3))])
    check("ij->j", [np.zeros((0, 3))])


def stages(function: Any, *types: Any) -> list[str]:
    """The kinds of the stages of a program, by their default names."""
    return [name.rstrip("0123456789").rstrip("_") for name in rd.algorithm(function).schedule(*types).stages]


def test_two_operands_are_one_reduce_stage() -> None:
    matrix, tensor = rd.f32["n", "m"], rd.f32["b", "n", "k"]
    assert len(stages(lambda a, b: rd.einsum("ij,jk->ik", a, b), rd.f32["n", "m"], rd.f32["m", "k"])) == 1
    assert len(stages(lambda a, t: rd.einsum("ij,bik->bkj", a, t), matrix, tensor)) == 1
    assert len(stages(lambda a, t: rd.einsum("ij,bik->", a, t), matrix, tensor)) == 1
    assert len(stages(lambda t: rd.einsum("bij,bij->b", t, t), tensor)) == 1
    assert (
        len(stages(lambda z: rd.einsum("ij,kj->ik", z, z), rd.complex64["n", "m"])) <= 2
    )  # the second one interleaves the parts
    assert len(stages(lambda t: rd.einsum("iij,jk->k", t, t[0]), rd.f32["n", "n", "n"])) == 1


def test_axes_are_those_of_a_matrix_product() -> None:
    types = rd.f32["n", "m"], rd.f32["m", "k"]
    s = rd.algorithm(lambda a, b: rd.einsum("ij,jk->ik", a, b, name="c")).schedule(*types)
    assert s["c"].axes == ("y", "x", "r")


PATHS = [
    False,
    True,
    "greedy",
    "optimal",
    ["einsum_path", (0, 1), (0, 1), (0, 1)],
    [(1, 2), (0, 2), (0, 1)],
    [(0, 1, 3), (0, 1)],
]


@pytest.mark.parametrize("optimize", PATHS)
def test_more_operands_by_any_path(optimize: Any) -> None:
    shapes = [(2, 3), (3, 4), (4, 5), (5,)]
    a, b, c, d = (numbers(shape, np.float64, n) for n, shape in enumerate(shapes))
    program = rd.algorithm(lambda a, b, c, d: rd.einsum("ij,jk,kl,l->i", a, b, c, d, optimize=optimize))
    np.testing.assert_array_equal(program.interpret(a, b, c, d), a @ b @ c @ d)


def test_the_cheapest_pair_goes_first() -> None:
    """A chain whose vector stands last: from the right there are only products of a matrix and a vector."""

    def program(a: Any, b: Any, v: Any, *, optimize: Any) -> Any:
        return rd.einsum("ij,jk,k->i", a, b, v, optimize=optimize)

    types = rd.f64[30, 40], rd.f64[40, 50], rd.f64[50]
    shapes = {}
    for optimize in (False, True):
        graph = rd.algorithm(program).schedule(*types, optimize=optimize)
        shapes[optimize] = [graph[name].axes for name in graph.stages]
    assert shapes[False] == [("y", "x", "r"), ("x", "r")]
    assert shapes[True] == [("x", "r"), ("x", "r")]


@pytest.mark.parametrize(
    ("text", "shapes", "error", "message"),
    [
        ("ij,jk", [(2, 3)], rd.TraceError, "names 2 operands, 1 are given"),
        ("ij->ii", [(2, 3)], rd.TraceError, "'i' twice"),
        ("ij->ik", [(2, 3)], rd.TraceError, "'k', which no operand has"),
        ("i.j", [(2, 3)], rd.TraceError, "labels are letters"),
        ("ijk", [(2, 3)], rd.ShapeError, "has 2 dimensions, 'ijk' names 3"),
        ("i", [(2, 3)], rd.ShapeError, "has 2 dimensions, 'i' names 1"),
        ("ij,jk", [(2, 3), (4, 2)], rd.SizeMismatch, "3"),
        ("ii", [(2, 3)], rd.SizeMismatch, "3"),
    ],
)
def test_refused_subscripts(text: str, shapes: list[tuple[int, ...]], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        check(text, [np.zeros(shape) for shape in shapes])


def test_refused_paths() -> None:
    a = np.zeros((2, 2))
    for path in ([(0, 5)], [(0, 0)], [(0, 1)], ["einsum_path", (0,)]):
        with pytest.raises(rd.TraceError, match=r"path of rd\.einsum"):
            rd.algorithm(lambda a: rd.einsum("ij,jk,kl", a, a, a, optimize=path)).interpret(a)  # noqa: B023
    with pytest.raises(rd.TraceError, match="`optimize` is a bool"):
        rd.algorithm(lambda a: rd.einsum("ij,jk,kl", a, a, a, optimize="best")).interpret(a)


def test_compiled_code_agrees() -> None:
    a, b = (
        np.random.default_rng(0).random((3, 17, 33), np.float32),
        np.random.default_rng(1).random((33, 20), np.float32),
    )
    program = rd.algorithm(
        lambda a, b: (rd.einsum("bij,jk->bki", a, b), rd.einsum("...ij->...i", a), rd.einsum("bii->b", a[:, :, :17]))
    )
    for ours, expected in zip(
        program(a, b), (np.einsum("bij,jk->bki", a, b), a.sum(-1), np.einsum("bii->b", a[:, :, :17])), strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
