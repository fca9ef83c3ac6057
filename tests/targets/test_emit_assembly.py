"""The machine code of inner loops: no calls, no gathers, no spills, one instruction where one exists."""

import re

import pytest
from emission import array, assembly_of, compile_body, index, n

import raido as rd
from raido.algo.graph.dtypes import bool_, f32, i32
from raido.algo.graph.expr import Op, SizeVar, const, fresh
from raido.algo.graph.index import add, mul
from raido.schedule.nest.nodes import Alloc, Block, For, Let, Store, VectorStore, While
from raido.schedule.nest.values import LaneFold, Ramp, Read, Splat, VectorRead, VectorVar

LANES = 16
CPU = "skylake-avx512"


def loops(assembly):
    """The innermost loops: instructions from a label to a backward jump to it, with no label of another loop between."""
    found, lines = [], [line.split("#")[0].strip() for line in assembly.splitlines()]
    labels = {line[:-1]: k for k, line in enumerate(lines) if re.match(r"\.LBB\w+:$", line)}
    for k, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\.LBB\w+)$", line)
        if jump and labels.get(jump.group(1), k) < k:
            found.append([i for i in lines[labels[jump.group(1)] : k + 1] if i and not i.startswith(".")])
    return found


def loop_with(compiled, instruction):
    """The shortest loop that contains an instruction."""
    chosen = [body for body in loops(compiled.assembly) if any(i.startswith(instruction) for i in body)]
    assert chosen, f"no loop contains {instruction}"
    return min(chosen, key=len)


def is_clean(body):
    return not any(i.startswith("call") or "gather" in i or "(%rsp)" in i for i in body)


def over_rows(body_of, inputs, output, cpu=CPU):
    """for x in 0..n by gangs: output[x] = body(x)."""
    x = fresh("x")
    return compile_body(
        [For(x, index(0), n, LANES, Block((VectorStore(output, (x,), body_of(x)),)))], inputs, [output], cpu=cpu
    )


@pytest.mark.parametrize("cpu, register", [("x86-64-v2", "xmm"), ("haswell", "ymm"), ("skylake-avx512", "zmm")])
def test_a_sum_is_loads_additions_and_stores(cpu, register):
    a, b = array("a", f32, n), array("b", f32, n)
    read = lambda x, d: VectorRead(a, (add(x, d),), 1, LANES, None)
    body = loop_with(over_rows(lambda x: Op("add", f32, (read(x, 0), read(x, 1))), [a], b, cpu), ("addps", "vaddps"))
    assert is_clean(body)
    assert any(register in i for i in body)
    assert len([i for i in body if not re.match("v?mov|v?addps", i)]) <= 6


@pytest.mark.parametrize("dtype", [f32, i32])
@pytest.mark.parametrize("named", [True, False])
def test_lanes_that_stay_as_they_are_are_stored_with_the_others(dtype, named):
    """A masked store takes some processors as long as twenty instructions."""
    a, b, x = array("a", dtype, n), array("b", dtype, n), fresh("x")
    new, old = (VectorRead(each, (x,), 1, 8, None) for each in (a, b))
    chosen = Op("select", dtype, (Op("lt", bool_, (new, Splat(const(dtype, 3), 8))), new, old))
    name = VectorVar("step", dtype, 8, fresh("v").serial)
    inside = (Let(name, chosen), VectorStore(b, (x,), name)) if named else (VectorStore(b, (x,), chosen),)
    compiled = compile_body([For(x, index(0), n, 8, Block(inside))], [a], [b], cpu="haswell")
    body = loop_with(
        compiled, ("vmovups %ymm", "vmovdqu %ymm", "vmovups\t%ymm", "vmovdqu\t%ymm", "vmaskmov", "vpmaskmov")
    )
    assert is_clean(body)
    assert not any("maskmov" in i for i in body)


def test_a_stencil_of_four_rows_keeps_its_rows_in_registers():
    h, w = SizeVar("h"), SizeVar("w")
    a, b = array("a", f32, h, w), array("b", f32, h, w)
    y, x, row = fresh("y"), fresh("x"), fresh("row")
    at = lambda dy, dx: VectorRead(a, (add(row, dy), add(x, dx)), 1, LANES, None)
    total = at(0, 0)
    for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        total = Op("add", f32, (total, at(dy, dx)))
    fifth = Op("mul", f32, (total, Splat(const(f32, 0.2), LANES)))
    rows = For(row, y, add(y, 4), 1, Block((VectorStore(b, (row, x), fifth),)), "unroll")
    across = For(x, index(1), add(w, -16), LANES, Block((rows,)))
    compiled = compile_body([For(y, index(1), add(h, -4), 4, Block((across,)))], [a], [b], (h, w), CPU)
    body = loop_with(compiled, "vmulps")
    assert is_clean(body)
    loads = [i for i in body if re.search(r"\(%r\w+.*\), %zmm", i)]
    assert len(loads) < 20, "rows are shared between the four"


def test_a_register_tile_spills_nothing():
    rows, k = 12, SizeVar("k")
    a, b, c = array("a", f32, rows, k), array("b", f32, k, 32), array("c", f32, rows, 32)
    acc = array("acc", f32, rows, 2, scope="register", lanes=LANES)
    names = [[fresh(f"{part}{k}") for part in "iv"] for k in range(3)]
    r = fresh("r")

    def over(level, statement):
        i, v = names[level]
        inner = For(v, index(0), index(2), 1, Block((statement(i, v),)), "unroll")
        return For(i, index(0), index(rows), 1, Block((inner,)), "unroll")

    zero = over(0, lambda i, v: Store(acc, (i, v), Splat(const(f32, 0), LANES)))
    product = lambda i, v: (Splat(Read(a, (i, r), None), LANES), VectorRead(b, (r, mul(v, LANES)), 1, LANES, None))
    update = over(1, lambda i, v: Store(acc, (i, v), Op("fma", f32, (*product(i, v), Read(acc, (i, v), None)))))
    store = over(2, lambda i, v: VectorStore(c, (i, mul(v, LANES)), Read(acc, (i, v), None)))
    statements = [Alloc(acc), zero, For(r, index(0), k, 1, Block((update,))), store]
    body = loop_with(compile_body(statements, [a, b], [c], (k,), CPU), "vfmadd")
    assert len([i for i in body if i.startswith("vfmadd")]) == 24
    assert not [i for i in body if re.search(r"zmm\d+, -?\d*\(%rsp\)", i)]
    assert not any(i.startswith("call") for i in body)


def test_a_masked_while_loop_lives_in_registers():
    out, state = array("o", i32, n), array("s", f32, scope="register", lanes=LANES)
    count = array("c", i32, scope="register", lanes=LANES)
    x = fresh("x")
    now, on = VectorVar("now", f32, LANES, fresh("v").serial), VectorVar("on", bool_, LANES, fresh("v").serial)
    ones = Splat(const(i32, 1), LANES)
    squared = Op("fma", f32, (now, now, Splat(const(f32, 0.3), LANES)))
    more = Op("add", i32, (Read(count, (), None), ones))
    body = (
        Alloc(state),
        Alloc(count),
        Store(state, (), Op("cast", f32, (Ramp(x, 1, LANES),))),
        Store(count, (), Splat(const(i32, 0), LANES)),
        While(
            Block((Let(now, Read(state, (), None)), Let(on, Op("lt", bool_, (now, Splat(const(f32, 4), LANES)))))),
            LaneFold("logical_or", on),
            Block(
                (
                    Store(state, (), Op("select", f32, (on, squared, now))),
                    Store(count, (), Op("select", i32, (on, more, Read(count, (), None)))),
                )
            ),
        ),
        VectorStore(out, (x,), Read(count, (), None)),
    )
    inner = loop_with(compile_body([For(x, index(0), n, LANES, Block(body))], [], [out], cpu=CPU), "vfmadd")
    assert is_clean(inner)
    assert len(inner) < 16


@pytest.mark.parametrize(
    "name, instruction",
    [
        ("sqrt", "vsqrtps"),
        ("floor", "vrndscaleps"),
        ("rint", "vrndscaleps"),
        ("fma", "vfmadd"),
        ("div", "vdivps"),
    ],
)
def test_native_operations_are_instructions(name, instruction):
    arity = {"fma": 3, "div": 2}.get(name, 1)
    inputs, out = [array(f"a{k}", f32, n) for k in range(arity)], array("o", f32, n)
    read = lambda x: tuple(VectorRead(a, (x,), 1, LANES, None) for a in inputs)
    assert is_clean(loop_with(over_rows(lambda x: Op(name, f32, read(x)), inputs, out), instruction))


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf"])
def test_math_functions_are_inlined_vector_code(name):
    a, out = array("a", f32, n), array("o", f32, n)
    compiled = over_rows(lambda x: Op(name, f32, (VectorRead(a, (x,), 1, LANES, None),)), [a], out)
    body = loop_with(compiled, "vfmadd")
    assert not any(i.startswith("call") or "gather" in i for i in body)


def test_a_masked_access_is_one_instruction():
    a, b = array("a", f32, n), array("b", f32, n)
    mask = Op("lt", bool_, (Ramp(index(0), 1, LANES), Splat(n, LANES)))
    store = VectorStore(b, (index(0),), VectorRead(a, (index(0),), 1, LANES, mask), 1, mask)
    text = compile_body([store], [a], [b], cpu=CPU).assembly
    assert len(re.findall(r"vmovups.*\{%k\d\}", text)) == 2
    assert "gather" not in text


def test_masked_lanes_apart_are_whole_vectors_shuffled():
    halved = rd.algorithm(lambda a: (a[:, ::2] + a[:, 1::2]) / 2, a="f32[h, w]", name="halved")
    s = halved.schedule()
    (stage,) = s.stages
    s[stage].vectorize("x").tail("x", "mask")
    assert "gather" not in assembly_of(halved, "skylake-avx512", s)


def test_llvm_gives_lanes_to_no_loop_by_itself():
    @rd.algorithm
    def rows(a: rd.f32["n", 10]):
        return rd.sum(a, axis=1, name="out")

    schedule = rows.schedule()
    schedule["out"].split("x", 4096).parallel("xo")
    assembly = assembly_of(rows, CPU, schedule)
    assert "vaddss" in assembly and "vaddps" not in assembly and "gather" not in assembly


def test_sums_of_columns_are_cleared_kept_and_joined_in_the_lanes_of_the_columns():
    @rd.algorithm
    def columns(a: rd.f32["h", "w"]):
        return rd.sum(a, axis=0, name="out")

    assembly = assembly_of(columns, CPU)
    assert (
        "vaddss" not in assembly
        and columns.schedule().nest_text().count("for x in 0..w by vector, interleave 2:") == 2 * 6
    )
