"""Vector division of integers by a divisor common to all lanes: the interpreters' quotients and remainders, for every divisor, without
division."""

import re

import numpy as np
import pytest
from emission import CPUS, array, assembly_of, compile_body, every_cpu, index
from operands import LANES, special_values

import raido as rd
from raido.algo.graph.dtypes import dtype_named
from raido.algo.graph.expr import Op, const, fresh
from raido.algo.graph.primitives import evaluate
from raido.schedule.nest.nodes import Block, For, VectorStore
from raido.schedule.nest.values import Read, Splat, VectorRead

NAMES = ("floordiv", "floormod", "truncdiv", "truncrem")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def whole(dtype):
    """Numbers of a type: all of 8 bits, else special ones, what lies beside powers of two, and others of every size."""
    info = np.iinfo(dtype.numpy)
    if dtype.bits == 8:
        return np.arange(info.min, info.max + 1).astype(dtype.numpy)
    chance = np.random.default_rng(dtype.bits)
    near = {2**k + d for k in range(dtype.bits) for d in (-1, 0, 1)}
    near |= {int(chance.integers(2**k, 2 ** (k + 1), dtype=np.uint64)) for k in range(dtype.bits - 1)}
    near |= {-number for number in near} | {int(v) for v in special_values(dtype)}
    return np.array(sorted(v for v in near if info.min <= v <= info.max), dtype.numpy)


def padded(numbers):
    return np.concatenate([numbers, numbers[: -len(numbers) % 32]])


@pytest.mark.parametrize("lanes", [2, LANES, 32])
@pytest.mark.parametrize("name", INTEGERS)
@every_cpu
def test_all_numbers_by_all_divisors(name, cpu, lanes):
    dtype = dtype_named(name)
    numbers, divisors = padded(whole(dtype)), whole(dtype)
    x, y = fresh("x"), fresh("y")
    a, by = array("a", dtype, len(numbers)), array("by", dtype, len(divisors))
    outputs = [array(each, dtype, len(divisors), len(numbers)) for each in NAMES]
    operands = (VectorRead(a, (x,), 1, lanes, None), Splat(Read(by, (y,), None), lanes))
    body = [VectorStore(out, (y, x), Op(each, dtype, operands)) for each, out in zip(NAMES, outputs, strict=True)]
    loop = For(x, index(0), index(len(numbers)), lanes, Block(tuple(body)))
    loops = For(y, index(0), index(len(divisors)), 1, Block((loop,)))
    results = [np.empty((len(divisors), len(numbers)), dtype.numpy) for _ in NAMES]
    compile_body([loops], [a, by], outputs, (), cpu)([numbers, divisors], [], results)
    pairs = np.broadcast_arrays(numbers[None, :], divisors[:, None])
    for each, got in zip(NAMES, results, strict=True):
        wanted = evaluate(each, dtype, [np.ascontiguousarray(p) for p in pairs])
        wrong = np.argwhere(got != wanted)[:5]
        shown = [(numbers[k], divisors[d], got[d, k], wanted[d, k]) for d, k in wrong]
        assert not len(wrong), f"{each} of {name}: {shown}"


@pytest.mark.parametrize("divisor", [3, 7, 10, 641, 2**31 - 1, 2**40 + 15, -1, -3, -8, -(2**31)])
@pytest.mark.parametrize("name", ["i8", "i16", "i32", "i64", "u64"])
@every_cpu
def test_all_numbers_by_a_literal(name, cpu, divisor):
    dtype = dtype_named(name)
    info = np.iinfo(dtype.numpy)
    if not info.min <= divisor <= info.max:
        divisor = int(info.max) // 3
    numbers, x = padded(whole(dtype)), fresh("x")
    a, outputs = array("a", dtype, len(numbers)), [array(each, dtype, len(numbers)) for each in NAMES]
    operands = (VectorRead(a, (x,), 1, LANES, None), Splat(const(dtype, divisor), LANES))
    body = [VectorStore(out, (x,), Op(each, dtype, operands)) for each, out in zip(NAMES, outputs, strict=True)]
    results = [np.empty_like(numbers) for _ in NAMES]
    loop = For(x, index(0), index(len(numbers)), LANES, Block(tuple(body)))
    compile_body([loop], [a], outputs, (), cpu)([numbers], [], results)
    for each, got in zip(NAMES, results, strict=True):
        np.testing.assert_array_equal(got, evaluate(each, dtype, [numbers, dtype.numpy.type(divisor)]), each)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("cpu", CPUS)
def test_no_loop_divides(name, cpu):
    made = rd.algorithm(lambda x, w: x // w + x % w, x=f"{name}[n]", w=name)
    text = assembly_of(made, cpu, n=4096)
    assert not re.search(r"\bi?div[bwlq]\b", text)
    loops = re.findall(r"(?ms)^(\.LBB\w+):(?:(?!^\.LBB).)*?\bj\w+\s+\1\b", text)
    assert loops
    for loop in re.finditer(r"(?ms)^(\.LBB\w+):((?:(?!^\.LBB).)*?)\bj\w+\s+\1\b", text):
        assert not re.search(r"\bv?divs?[sp][sd]\b", loop.group(2)), "the factor is made again in each iteration"
