"""Inner loops of whole programs on every instruction set: no calls, no gathers, and each state in its register."""

import re

import numpy as np
import pytest
from emission import CPUS, assembly_of, every_cpu
from test_emit_assembly import is_clean, loops

import raido as rd


@rd.algorithm
def mandelbrot(n: rd.size):
    def escape(y, x):
        cr, ci = rd.f32(x) * (3.0 / rd.f32(n)) - 2.0, rd.f32(y) * (3.0 / rd.f32(n)) - 1.5

        def inside(state):
            zr, zi, steps = state
            return (zr * zr + zi * zi <= 4.0) & (steps < 256)

        def step(state):
            zr, zi, steps = state
            return zr * zr - zi * zi + cr, 2.0 * zr * zi + ci, steps + 1

        return rd.while_loop(inside, step, (rd.f32(0.0), rd.f32(0.0), rd.i32(0)))[2]

    return rd.tabulate((n, n), escape, name="steps")


@rd.algorithm
def blur(image: rd.u8["h", "w"]):
    wide = image.astype(rd.f32)
    return rd.stencil(lambda p: (p[0, -1] + 2 * p[0, 0] + p[0, 1]) * 0.25, wide, boundary="clamp", name="out")


def vector_loops(algorithm, cpu, schedule=None):
    """Loops with arithmetic on whole registers."""
    register = {"x86-64-v2": "xmm", "haswell": "ymm", "skylake-avx512": "zmm"}[cpu]
    s = algorithm.schedule()
    if schedule is not None:
        schedule(s)
    return [body for body in loops(assembly_of(algorithm, cpu, s)) if any(register in i for i in body)]


def shortest(found, instruction, count):
    """The innermost of the loops that have the instruction so many times."""
    return min((body for body in found if sum(instruction in i for i in body) == count), key=len)


def keeps_its_state(body):
    """Nothing is called, gathered or stored; what does not change may be read from the stack where registers are few."""
    return not any(re.search(r"^call|gather|, -?[0-9]*\(%rsp\)$", i) for i in body)


@pytest.mark.parametrize("cpu", CPUS)
def test_a_divergent_loop_lives_in_registers(cpu):
    body = shortest(vector_loops(mandelbrot, cpu, lambda s: s["steps"].vectorize("x")), "mulps", 2)
    assert is_clean(body) if cpu == "skylake-avx512" else keeps_its_state(body)
    assert len(body) <= {"x86-64-v2": 96, "haswell": 24, "skylake-avx512": 18}[cpu]


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_two_gangs_side_by_side_live_in_registers(cpu):
    body = shortest(vector_loops(mandelbrot, cpu, lambda s: s["steps"].vectorize("x", interleave=2)), "vmulps", 4)
    assert is_clean(body) if cpu == "skylake-avx512" else keeps_its_state(body)
    assert len(body) <= {"haswell": 44, "skylake-avx512": 30}[cpu]


@pytest.mark.parametrize("cpu", CPUS)
def test_bytes_widen_in_registers(cpu):
    body = min((b for b in vector_loops(blur, cpu) if any("pmovzxb" in i for i in b)), key=len)
    assert is_clean(body)


@every_cpu
@pytest.mark.parametrize("lanes", [2, 4, 16, 64])
def test_counts_under_a_mask_may_have_any_number_of_lanes(cpu, lanes):
    @rd.algorithm
    def digits(n: rd.u8["k"]):
        halve = lambda s: (s[0] // 2, s[1] + 1)
        return rd.map(lambda x: rd.while_loop(lambda s: s[0] > 0, halve, (x, rd.u8(0)))[1], n, name="digits")

    n = np.arange(100, dtype=np.uint8)
    s = digits.schedule()
    s["digits"].vectorize("x", lanes)
    np.testing.assert_array_equal(digits.compile(f"llvm:{cpu}", schedule=s)(n), digits.interpret(n))


def distances(a, b):
    def squared(i, j):
        return rd.sum(rd.tabulate((a.shape[1],), lambda k: (a[i, k] - b[j, k]) ** 2))

    return rd.tabulate((a.shape[0], b.shape[0]), squared)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("program", [distances, lambda a, b: rd.matmul(a, b.T)])
def test_rows_of_any_length_leave_a_tile_its_registers(program, dtype):
    """Twelve rows whose pitch is not known need an address each, and LLVM reads all of them at once where it may."""
    cpu = "skylake-avx512"
    algorithm = rd.algorithm(program, a=f"{dtype}[n, d]", b=f"{dtype}[m, d]")
    found = loops(assembly_of(algorithm, cpu, algorithm.schedule().complete(rd.Target(cpu=cpu).machine)))
    body = shortest(found, "vfmadd", 24)
    assert not any(re.search("%zmm.*rsp|rsp.*%zmm", i) for i in body)
    assert len(body) <= 90


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_searches_do_not_wait_for_their_conditions(cpu):
    """A counter to which the condition is added, as a number, waits for each element to be loaded and compared."""

    @rd.algorithm
    def place(table: rd.f64["n"], values: rd.f64["m"]):
        n = table.shape[0]
        further = lambda value: lambda i: (i < n) & (value > table[rd.minimum(i, n - 1)])
        return rd.map(lambda value: rd.while_loop(further(value), lambda i: i + 1, 0), values)

    search = min((loop for loop in loops(assembly_of(place, cpu)) if any("ucomisd" in i for i in loop)), key=len)
    assert not any(i.startswith("set") for i in search)
    table = np.arange(40.0)
    assert (place(table, table + 0.5) == np.arange(1, 41)).all()
