"""NumPy's functions called on traced arrays are raido's where raido has the name; all others are answered with a remedy that exists."""

from __future__ import annotations

import inspect
import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.trace.remedies import rd_function

HOMES: dict[str, Any] = {"": np, "linalg.": np.linalg, "fft.": np.fft}
NAMED = re.compile(r"\brd\.([A-Za-z_][\w.]*\w)")
A = np.array([[2.0, 1.0, 4.0], [3.0, 5.0, 9.0], [7.0, 8.0, 6.0]])
N = A.astype(np.int64)
ATTEMPTS: list[tuple[Any, ...]] = [
    (A,),
    (N,),
    (N, 2),
    (A, A),
    (N, N),
    (A[0],),
    (N[0],),
    (A[0], A[0]),
    ([A, A],),
    (A, 0, 1),
    (A, (9,)),
    (A[0], [1.0, 3.0]),
    (A[0], A[0], A[0]),
    (N > 3, A, A),
    ([N > 3], [A]),
    ("ij->j", A),
    (np.sum, 0, A),
    (N, (3, 10)),
    ((N[0], N[0]), (10, 10)),
    (A, N % 3, 0),
    ([N[0], N[1]], 0),
]
NOT_PURE = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
OF_ANY_SIGN = {"linalg.eigh", "linalg.svd"}  # vectors whose negatives serve as well
PRINTED = {
    "array2string",
    "array_repr",
    "array_str",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
    "may_share_memory",
}


def dispatched(function: Any) -> bool:
    """Whether NumPy asks its arguments first."""
    return isinstance(function, np.ufunc) or type(function).__name__ == "_ArrayFunctionDispatcher"


FUNCTIONS = {
    f"{home}{name}": getattr(module, name)
    for home, module in HOMES.items()
    for name in dir(module)
    if not name.startswith("_") and dispatched(getattr(module, name)) and name not in PRINTED | {"empty_like"}
}


def answer(function: Any, arguments: tuple[Any, ...]) -> Any:
    """NumPy's own, None where it takes no such arguments."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*(np.copy(v) if isinstance(v, np.ndarray) else v for v in arguments))
        except Exception:
            return None


def numbers(value: Any) -> list[np.ndarray]:
    """The arrays of a result; none where it has other parts."""
    if isinstance(value, (tuple, list)):
        parts = [numbers(part) for part in value]
        return list(itertools.chain(*parts)) if all(parts) else []
    return [np.asarray(value)] if np.asarray(value).dtype.kind in "biufc" else []


def parts(value: Any) -> list[Any]:
    """The arrays of a traced result, in order."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "real"):
        return list(itertools.chain(*map(parts, value)))
    return [rd.array(value) if isinstance(value, (int, float)) else value]


def test_every_function_of_numpy() -> None:
    wanted: dict[str, list[np.ndarray]] = {}
    refused: dict[str, str] = {}
    untold: list[str] = []

    def program(a: Any) -> Any:
        def traced(value: Any) -> Any:
            if isinstance(value, (tuple, list)):
                return type(value)(map(traced, value))
            if isinstance(value, np.ndarray):
                like = a if value.ndim == 2 else a[0]
                return (
                    like > 3
                    if value.dtype == bool
                    else like.astype(value.dtype) % 3
                    if value.max() < 3
                    else like.astype(value.dtype)
                )
            return value

        results: list[Any] = []
        for name, function in FUNCTIONS.items():
            tried = [v for v in ATTEMPTS if not (isinstance(function, np.ufunc) and len(v) != function.nin)]
            found = next(((v, r) for v in tried if (r := answer(function, v)) is not None), None)
            if found is None:
                continue
            try:
                got = function(*traced(found[0]))
            except rd.RaidoError as error:
                refused[name] = str(error)
                continue
            arrays = numbers(found[1])
            assert arrays, name
            wanted[name] = arrays
            results.append(tuple(parts(got)))
        return tuple(results)

    got = rd.algorithm(a="f64[3, 3]")(program).interpret(A)
    assert len(wanted) > 100
    for (name, want), own in zip(wanted.items(), got, strict=True):
        assert len(own) == len(want), name
        for g, w in zip(own, want, strict=True):
            g, w = (np.abs(g), np.abs(w)) if name in OF_ANY_SIGN else (g, w)
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9, err_msg=name)
    for name, said in refused.items():
        alone = isinstance(FUNCTIONS[name], np.ufunc)
        if not alone and rd_function(name) is not None and said.startswith("`np."):
            untold.append(f"{name}: {said}")
        for remedy in NAMED.findall(said.partition("\n  try ")[2]):
            assert rd_function(remedy) is not None, (name, said)
    assert not untold, "\n".join(untold)
    assert not NOT_PURE & wanted.keys()


def test_functions_of_traced_and_other_values() -> None:
    n = np.array([12, 18])
    f = rd.algorithm(lambda x: (np.gcd(x, 2), np.gcd(n, x), np.add(x, n), np.linalg.norm(x), np.fft.fft(x, 2)))
    a = np.array([4, 6])
    for got, want in zip(
        f.interpret(a), (np.gcd(a, 2), np.gcd(n, a), a + n, np.linalg.norm(a), np.fft.fft(a)), strict=True
    ):
        np.testing.assert_allclose(got, want)


def test_arguments_stand_where_numpy_has_them() -> None:
    a, w = np.array([[1, 3], [3, 0]]), np.array([0.5, 1.0, 2.0, 4.0], np.float32)
    f = rd.algorithm(
        lambda a, w: (
            np.repeat(a, 2),
            np.bincount(np.ravel(a), w),
            np.bincount(np.ravel(a), minlength=6),
            np.repeat(a, 2, 1),
        )
    )
    want = np.repeat(a, 2), np.bincount(a.ravel(), w), np.bincount(a.ravel(), minlength=6), np.repeat(a, 2, 1)
    for got, wanted in zip(f.interpret(a, w), want, strict=True):
        assert got.dtype == wanted.dtype and got.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: np.concatenate([x, x], casting="no"), "`np.concatenate` on a traced value: got an unexpected"),
        (lambda x: np.sum(x, out=np.zeros(())), "`out=` of rd.sum"),
        (lambda x: np.add(x, 1, out=np.zeros(3)), "`out=` of rd.add"),
        (lambda x: np.add(x, 1, where=np.ones(3, bool)), "`where=` of rd.add"),
        (lambda x: np.linalg.eig(x), "`np.linalg.eig` on a traced value"),
        (lambda x: np.sin(x), "`np.sin` on a traced value"),
        (lambda x: np.add.reduce(x), "`np.add.reduce` on a traced value"),
    ],
)
def test_refusals(function: Any, said: str) -> None:
    with pytest.raises(rd.TraceError) as caught:
        rd.algorithm(function).interpret(np.ones(3))
    assert str(caught.value).startswith(said)


def test_signatures_have_out_where_numpys_have_it() -> None:
    """`out` and `where`, by keyword, in every function that has them in NumPy and takes arrays to arrays here."""
    missing: list[str] = []
    for name, function in FUNCTIONS.items():
        own = rd_function(name)
        if own is None or not inspect.isroutine(own):
            continue
        try:
            theirs = {"out", "where"} if isinstance(function, np.ufunc) else set(inspect.signature(function).parameters)
        except ValueError:
            continue
        ours = set(inspect.signature(own).parameters)
        missing += [f"{name}: {key}" for key in ("out", "where", "initial", "keepdims") if key in theirs - ours]
    assert not missing
