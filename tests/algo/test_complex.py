"""Complex numbers against NumPy's: interleaved outside, pairs inside."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

FUNCTIONS = {
    "sum": lambda z, w, a: z + w,
    "difference": lambda z, w, a: z - w,
    "product": lambda z, w, a: z * w,
    "quotient": lambda z, w, a: z / w,
    "with reals": lambda z, w, a: (z + a) * 2 - a / (z + 3),
    "literals": lambda z, w, a: (1j - z) * (2 + 1j) / 3j,
    "powers": lambda z, w, a: z**3 + w**-2 + z**0,
    "negated": lambda z, w, a: -z + (+w),
}
NAMED = {
    "conj": (lambda z: rd.conj(z), np.conj),
    "abs": (lambda z: rd.abs(z), np.abs),
    "exp": (lambda z: rd.exp(z), np.exp),
    "real": (lambda z: rd.real(z) + z.real, lambda z: 2 * z.real),
    "imag": (lambda z: rd.imag(z) + z.imag, lambda z: 2 * z.imag),
    "square": (lambda z: rd.square(z), np.square),
    "mean": (lambda z: rd.mean(z), np.mean),
    "total": (lambda z: rd.sum(z, axis=0), np.sum),
    "prod": (lambda z: rd.prod(z), np.prod),
    "dot": (lambda z: rd.dot(z, z.conj()), lambda z: np.dot(z, z.conj())),
    "columns": (lambda z: rd.prod(z[:, None] * z[None], axis=0), lambda z: np.prod(np.multiply.outer(z, z), axis=0)),
    "outer": (lambda z: z[:, None] * z[None], lambda z: np.multiply.outer(z, z)),
    "reversed": (lambda z: z[::-1], lambda z: z[::-1]),
    "chosen": (lambda z: rd.where(z.real > 0, z, 0), lambda z: np.where(z.real > 0, z, 0)),
    "equal": (lambda z: (z == z[::-1]) | (z != z), lambda z: z == z[::-1]),
    "masked": (lambda z: z[z.imag > 0], lambda z: z[z.imag > 0]),
    "products": (lambda z: rd.scan(rd.multiply, 1, z), np.cumprod),
    "reduced": (lambda z: rd.reduce(rd.multiply, 1, z), np.prod),
    "sorted": (lambda z: rd.sort(z), np.sort),
    "made": (lambda z: rd.complex128(z.imag, z.real).astype(z.dtype), lambda z: z.imag + 1j * z.real),
}


def numbers(n: int, dtype: type, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=n) + 1j * random.normal(size=n)).astype(dtype)


def close(result, expected, dtype: type) -> None:
    assert result.dtype == expected.dtype
    limit = 2e-6 if dtype == np.complex64 else 1e-14
    np.testing.assert_allclose(result, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("case", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [0, 1, 17])
def test_arithmetic(case: str, dtype: type, n: int) -> None:
    z, w = numbers(n, dtype), numbers(n, dtype, 1)
    a = np.random.default_rng(2).normal(size=n).astype(z.real.dtype)
    function = FUNCTIONS[case]
    close(rd.algorithm(function).interpret(z, w, a), np.asarray(function(z, w, a), dtype), dtype)


@pytest.mark.parametrize("case", NAMED)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_functions_and_combinators(case: str, dtype: type) -> None:
    function, reference = NAMED[case]
    z = numbers(13, dtype)
    close(rd.algorithm(function).interpret(z), reference(z).astype(reference(z).dtype), dtype)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_machine_code_takes_numpys_memory_as_it_is(dtype: type) -> None:
    f = rd.algorithm(lambda z, w: (z * w + 1j, rd.sum(z), rd.abs(z), z @ w))
    z, w = numbers(33, dtype), numbers(33, dtype, 1)
    exe = f.compile(like=[z, w])
    assert exe.signature.inputs[0].dtype == np.dtype(dtype).name
    for result, expected in zip(f(z, w), (z * w + 1j, z.sum(), np.abs(z), z @ w), strict=True):
        close(result, np.asarray(expected, result.dtype), dtype)


def test_types_meet_as_numpys() -> None:
    z, a, i = numbers(3, np.complex64), np.ones(3), np.ones(3, np.int32)
    f = rd.algorithm(lambda z, a, i: (z * a, z * i, z * 2, z + 1j, a * 1j, np.complex64(1j) * a))
    expected = (z * a, z * i, z * 2, z + 1j, a * 1j, np.complex64(1j) * a)
    for result, array in zip(f.interpret(z, a, i), expected, strict=True):
        assert result.dtype == array.dtype
        np.testing.assert_allclose(result, array, rtol=1e-6)


def test_division_does_not_overflow() -> None:
    z, w = np.array([1e200 + 1e200j, 1 + 0j]), np.array([1e200 + 1e199j, 0j])
    with np.errstate(all="ignore"):
        result = rd.algorithm(lambda z, w: z / w).interpret(z, w)
    np.testing.assert_allclose(result[0], z[0] / w[0], rtol=1e-15)
    assert np.isnan(result[1].imag) or np.isinf(result[1].real)


def test_matrices_constants_and_annotations() -> None:
    matrix = np.exp(2j * np.pi * np.outer(np.arange(8), np.arange(8)) / 8)

    @rd.algorithm
    def transform(z: rd.complex128["n", 8], shift: rd.complex128) -> rd.complex128["n", 8]:
        return z @ matrix.T + shift

    z = numbers(40, np.complex128).reshape(5, 8)
    np.testing.assert_allclose(transform.interpret(z, 1 + 2j), z @ matrix.T + (1 + 2j), rtol=1e-12)
    typed = rd.algorithm(lambda z: z.T, z="complex64[a, b]")
    assert typed.interpret(np.zeros((2, 3), np.complex64)).shape == (3, 2)


def test_loops_branches_maps_and_inlined_algorithms() -> None:
    @rd.algorithm
    def step(z: rd.complex64["k"]):
        return z * z + 0.25

    @rd.algorithm
    def iterated(z: rd.complex64["n"]):
        whole = rd.loop(3, lambda t, s: step(s), z)
        single = rd.map(lambda c: rd.while_loop(lambda s: rd.abs(s) < 2, lambda s: s * s + 1j, c), z)
        return whole, single, rd.map(lambda c: rd.cond(c.real > 0, lambda: c, lambda: rd.conj(c)), z)

    z = numbers(9, np.complex64)
    whole, single, chosen = z, [], np.where(z.real > 0, z, z.conj())
    for _ in range(3):
        whole = whole * whole + np.float32(0.25)
    for c in z:
        while abs(c) < 2:
            c = c * c + np.complex64(1j)
        single.append(c)
    for result, expected in zip(iterated.interpret(z), (whole, np.array(single), chosen), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_errors_name_what_is_wrong() -> None:
    z = rd.complex64["n"]
    for function, error, words in [
        (lambda z: z < z, rd.DTypeError, "complex numbers have no order"),
        (lambda z: rd.maximum(z, 1j), rd.DTypeError, "complex numbers have no order"),
        (lambda z: rd.erf(z), rd.DTypeError, r"rd\.erf of complex numbers"),
        (lambda z: rd.complex64(z, 1), rd.DTypeError, "the parts of rd.complex64 are real"),
    ]:
        with pytest.raises(error, match=words):
            rd.algorithm(function, z=z).trace()
    with pytest.raises(rd.ArgumentError, match=r'"z" must be complex64\[n\], got an array of dtype float32'):
        rd.algorithm(lambda z: z, z=z).interpret(np.zeros(3, np.float32))


MOVES = {
    "roll": (lambda z: rd.roll(z, 1), lambda z: np.roll(z, 1)),
    "concat": (lambda z: rd.concat([z[1:], z]), lambda z: np.concatenate([z[1:], z])),
    "stack": (lambda z: rd.stack([z, -z], axis=1), lambda z: np.stack([z, -z], axis=1)),
    "pad": (lambda z: rd.pad(z, 1), lambda z: np.pad(z, 1)),
    "shift": (lambda z: rd.shift(z, 2), lambda z: np.concatenate([0 * z[:2], z[:-2]])),
    "transpose": (lambda z: rd.transpose(rd.stack([z, z])), lambda z: np.stack([z, z]).T),
    "swapaxes": (lambda z: rd.swapaxes(z[None], 0, 1), lambda z: z[:, None]),
    "reshape": (lambda z: rd.reshape(z, (-1, 1)), lambda z: z[:, None]),
    "flatten": (lambda z: rd.flatten(z[None]), lambda z: z),
    "expand_dims": (lambda z: rd.expand_dims(z, 0), lambda z: z[None]),
    "set": (lambda z: z.at[1:].set(5j), lambda z: np.array([z[0], 5j, 5j])),
    "set to a real number": (lambda z: z.at[0].set(2), lambda z: np.array([2, z[1], z[2]])),
    "add": (lambda z: z.at[0].add(1 - 1j), lambda z: z + np.array([1 - 1j, 0, 0])),
    "add to all": (lambda z: z.at[:].add(z * 1j), lambda z: z * (1 + 1j)),
    "stencil": (
        lambda z: rd.stencil(lambda p: p[-1] + p[1] * 1j, z, boundary="wrap"),
        lambda z: np.roll(z, 1) + np.roll(z, -1) * 1j,
    ),
    "broadcast_to": (lambda z: rd.broadcast_to(z, (2, *z.shape)), lambda z: np.stack([z, z])),
}


@pytest.mark.parametrize("case", MOVES)
def test_arrays_of_complex_numbers_are_moved_and_changed_as_others(case: str) -> None:
    program, expected = MOVES[case]
    z = np.array([1 + 2j, 3 - 1j, 4j])
    np.testing.assert_array_equal(rd.algorithm(program).interpret(z), expected(z))


def test_only_structures_of_one_kind_are_joined() -> None:
    with pytest.raises(rd.TraceError, match="structures of one kind"):
        rd.algorithm(lambda z: rd.concat([z, (z.real, z.imag)])).interpret(np.array([1j]))
