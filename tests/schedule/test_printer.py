"""Golden text of nests at both levels."""

from raido.algo.graph.dtypes import bool_, f32, i64
from raido.algo.graph.expr import Const, Op, SizeVar, const, fresh
from raido.algo.graph.index import add, mul
from raido.schedule.nest.nodes import Alloc, Block, Check, Fold, For, If, Let, Nest, Produce, Store, VectorStore
from raido.schedule.nest.printer import print_nest, print_statement
from raido.schedule.nest.values import Buffer, Ramp, Read, Splat, VectorRead

n, w = SizeVar("n"), SizeVar("w")
image = Buffer("img", f32, (n, w), "parameter", 0, (), 1, None)
out = Buffer("out", f32, (n, w), "parameter", 0, (), 1, None)


def test_a_scalar_nest_reads_like_the_design():
    y, x = fresh("y"), fresh("x")
    below = Op("clamp_index", i64, (add(y, -1), n))
    value = Op("div", f32, (Op("add", f32, (Read(image, (below, x), None), Read(image, (y, x), None))), const(f32, 2)))
    loop = For(x, const(i64, 0), w, 1, Block((Store(out, (y, x), value),)), kind="vector", lanes=16, interleave=2)
    rows = For(y, const(i64, 0), n, 1, Block((loop,)), kind="parallel", grain=4)
    assert print_nest(Nest("blur", (image,), (n, w), (out,), Block((Produce("out", Block((rows,))),)))) == (
        "nest blur(img: f32[n, w]) -> out: f32[n, w]\n"
        "  produce out:\n"
        "    parallel y in 0..n grain 4:\n"
        "      for x in 0..w by vector 16, interleave 2, tail mask:\n"
        "        out[y, x] = (img[clamp(y - 1), x] + img[y, x]) / 2.0\n"
    )


def test_vectors_show_their_lanes_and_masks():
    x = fresh("x")
    mask = Op("lt", bool_, (Ramp(x, 1, 8), Splat(w, 8)))
    read = VectorRead(image, (const(i64, 0), mul(x, 2)), 2, 8, mask)
    store = VectorStore(out, (const(i64, 1), x), Op("mul", f32, (read, Splat(const(f32, 0.5), 8))), 1, mask)
    assert print_statement(store) == (
        "out[1, x +: 8] = (img[0, 2*x +: 8 by 2] where (x +: 8) < w) * 0.5 where (x +: 8) < w\n"
    )


def test_names_are_unique_within_their_scope():
    outer, inner = fresh("x"), fresh("x")
    body = Block((Store(out, (outer, inner), const(f32, 1)),))
    nested = For(outer, const(i64, 0), n, 1, Block((For(inner, outer, w, 4, body, kind="unroll"),)))
    assert print_statement(nested) == ("for x in 0..n:\n  unroll x_2 in x..w step 4:\n    out[x, x_2] = 1.0\n")


def test_folds_checks_and_allocations():
    acc = Buffer("acc", f32, (), "register", 1, (), 1, None)
    left, right, i = fresh("left", f32), fresh("right", f32), fresh("i")
    step = Op("fma", f32, (Read(image, (i, i), None), const(f32, 3), left))
    fold = Fold((acc,), (), (step,), (left,), (right,), (Op("add", f32, (left, right)),), (const(f32, 0),), "add")
    check = Check(Op("lt", bool_, (i, n)), "index", 0, (const(i64, 0), i, n))
    guarded = If(Op("lt", bool_, (i, w)), Block((fold,)), Block(()))
    block = Block((Alloc(acc), Let(i, add(n, -1)), check, guarded))
    assert print_statement(block) == (
        "acc: f32 register\n"
        "i = n - 1\n"
        "check i < n else index (0, i, n)\n"
        "if i < w:\n"
        "  fold acc = fma(img[i, i], 3.0, acc) by add\n"
        "else:\n"
        "  pass\n"
    )


def test_shared_parts_of_a_large_expression_are_named():
    value: Op | Const | Read = Read(image, (n, w), None)
    for _ in range(8):
        value = Op("mul", f32, (value, value))
    text = print_statement(Store(out, (n, w), value))
    assert len(text) < 400
    assert text.splitlines()[-1].startswith("out[n, w] = t")


def test_a_loop_with_the_name_of_a_size_is_numbered():
    t, size = fresh("t"), SizeVar("t")
    held, single = Buffer("n", f32, (size,), "heap", 1, (), 1, None), Buffer("w", f32, (), "register", 2, (), 1, None)
    store = Store(held, (t,), Op("add", f32, (Read(image, (t, n), None), Read(single, (), None))))
    loop = For(t, const(i64, 0), size, 1, Block((store,)))
    assert print_nest(Nest("f", (image,), (n, w, size), (), Block((Alloc(held), Alloc(single), loop)))) == (
        "nest f(img: f32[n, w]) -> \n"
        "  n: f32[t] heap\n"
        "  w_2: f32 register\n"
        "  for t_2 in 0..t:\n"
        "    n[t_2] = img[t_2, n] + w_2\n"
    )
    assert print_statement(loop) == "for t_2 in 0..t:\n  n[t_2] = img[t_2, n] + w_2\n"


def test_shared_parts_have_names_of_their_own():
    size, t2 = SizeVar("t1"), fresh("t2", f32)
    value: Op | Const | Read = Read(image, (size, w), None)
    for _ in range(8):
        value = Op("mul", f32, (value, value))
    store = Store(out, (size, w), Op("add", f32, (value, t2)))
    lines = print_statement(For(t2, const(i64, 0), n, 1, Block((store,)))).splitlines()
    assert lines[0] == "for t2 in 0..n:"
    assert [line.split(" = ")[0].strip() for line in lines[1:]] == [
        "t3",
        "t4",
        "t5",
        "t6",
        "t7",
        "t8",
        "t9",
        "out[t1, w]",
    ]
    assert lines[-1].endswith("+ t2")
