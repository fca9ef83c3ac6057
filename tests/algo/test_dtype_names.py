"""NumPy's dtypes, their names and Python's number classes are accepted wherever a dtype is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import raido as rd

NAMES: list[tuple[Any, Any]] = [
    (float, np.float64),
    (int, np.int64),
    (bool, np.bool_),
    (complex, np.complex128),
    (np.float16, np.float16),
    (np.float32, np.float32),
    (np.uint8, np.uint8),
    (np.complex64, np.complex64),
    (np.dtype("int16"), np.int16),
    (np.dtype(">f4"), np.float32),
    (rd.bf16, bfloat16),
    ("bfloat16", bfloat16),
    (bfloat16, bfloat16),
    ("float64", np.float64),
    ("bool", np.bool_),
    ("uint32", np.uint32),
    ("complex64", np.complex64),
    ("i8", np.int8),
    ("f32", np.float32),
    (rd.u16, np.uint16),
]
A = np.float32([1, 2, 3])


@pytest.mark.parametrize(("name", "dtype"), NAMES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_name_is_read_everywhere(name: Any, dtype: Any) -> None:
    made = rd.algorithm(lambda a: (a.astype(name), rd.astype(a, name), rd.iota(3, name), rd.array([1, 0], name)))
    assert {result.dtype for result in made.interpret(A)} == {np.dtype(dtype)}
    given = rd.algorithm(lambda a: a, a=name)
    assert given.interpret(dtype(1)).dtype == dtype


@pytest.mark.parametrize("name", [float, "float64", np.float64, np.dtype("float64"), rd.f64])
def test_reductions_read_them(name: Any) -> None:
    functions = (rd.sum, rd.prod, rd.mean, rd.var, rd.std, rd.cumsum, rd.zeros_like)
    f = rd.algorithm(lambda a: (*(g(a, dtype=name) for g in functions), rd.einsum("i,i->", a, a, dtype=name)))
    assert {result.dtype for result in f.interpret(A)} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    ("name", "dtype"), [(int, np.int64), ("uint8", np.uint8), (np.int16, np.int16), (rd.i8, np.int8)]
)
def test_arrays_made_of_numbers_read_them(name: Any, dtype: Any) -> None:
    makers = (
        lambda: rd.zeros(3, name),
        lambda: rd.full(3, 7, name),
        lambda: rd.arange(3, dtype=name),
        lambda: rd.eye(3, dtype=name),
    )
    f = rd.algorithm(lambda: (*(make() for make in makers), rd.linspace(0, 3.9, 3, dtype=name)))
    assert {result.dtype for result in f.interpret()} == {np.dtype(dtype)}
    with pytest.raises(rd.DTypeError, match="does not fit"):
        rd.algorithm(lambda: rd.full(3, 1 << 63, name)).trace()


def test_types_read_them() -> None:
    f = rd.algorithm(a="float32[n]", b="complex128[n]")(lambda a, b: a * b)
    assert repr(f) == "<algorithm algorithm(a: f32[n], b: complex128[n])>"
    point = rd.record(x=float, y="float32")
    assert [kind.name for kind in point._types] == ["f64", "f32"]
    assert rd.algorithm(lambda a: a + 1).trace(np.float32).results[0].dtype is rd.f32


def test_annotations_read_them() -> None:
    @rd.algorithm
    def f(a: float, n: np.int32, w: "float32[k]"):  # type: ignore[name-defined]
        return w * a, n

    assert repr(f) == "<algorithm f(a: f64, n: i32, w: f32[k])>"


@pytest.mark.parametrize("value", ["f4", "<f4", "object", "datetime64", "nonsense", str, np.floating, 3, None, [1.0]])
def test_what_means_no_type_is_refused(value: Any) -> None:
    with pytest.raises(rd.DTypeError, match=r'is an element type, not (.|\n)*rd\.f32, np\.float32, "float32" or float'):
        rd.algorithm(lambda a: a.astype(value)).trace(rd.f32["n"])


def test_complex_types_are_refused_by_name_where_they_have_no_place() -> None:
    with pytest.raises(rd.DTypeError, match="complex"):
        rd.algorithm(lambda a: rd.view(a, "complex64")).trace(rd.f32["n"])
