"""Handmade stage graphs, so that tests of schedules need neither the tracer nor the forming of stages."""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.dtypes import f16, f32, i64
from raido.algo.graph.expr import (
    ArrayLoop,
    Axis,
    Expr,
    Generate,
    Item,
    Load,
    Op,
    Parameter,
    Reduce,
    Result,
    SizeVar,
    const,
    fresh,
    fresh_parameter,
)
from raido.algo.graph.program import Program, Site
from raido.schedule.stages.stage import ControlStage, Stage, StageGraph

H, W, N, M, K = (SizeVar(name) for name in "hwnmk")


def image(name: str = "img") -> Parameter:
    return Parameter(name, f32, (H, W), 0)


def add(*values: Expr) -> Expr:
    total = values[0]
    for value in values[1:]:
        total = Op("add", f32, (total, value))
    return total


def mul(a: Expr, b: Expr) -> Expr:
    return Op("mul", f32, (a, b))


def clamp(i: Expr, n: Expr) -> Expr:
    return Op("clamp_index", i64, (i, n))


def stage(name: str, extents: dict[str, Expr], body, reduction=None, line: int = 0, text: str = "") -> Stage:
    """A stage over named axes; `body(*vars)` gives its expression, `reduction(*vars)` a Reduce whose item is the body."""
    axes = tuple(Axis(fresh(axis), extent) for axis, extent in extents.items())
    variables = [axis.var for axis in axes]
    reduce = reduction(*variables) if reduction else None
    bodies = (Item(reduce, 0),) if reduce else (body(*variables),)
    site = Site("blur.py", line, text) if line else None
    return Stage(name, (name,), Generate(axes, bodies), axes, reduce, bodies, site=site)


def at(source, *indices: Expr) -> Load:
    array = Result(source.form, 0) if isinstance(source, Stage) else source
    return Load(array, indices, False)


def summed(extents: dict[str, Expr], value, commutative: bool = True, operator=None) -> Reduce:
    """A sum over named reduction axes, or a fold by another operator."""
    axes = tuple(Axis(fresh(axis), extent) for axis, extent in extents.items())
    left, right = fresh("a", f32), fresh("b", f32)
    return Reduce(
        axes,
        (left,),
        (right,),
        ((operator or add)(left, right),),
        (const(f32, 0.0),),
        (value(*(axis.var for axis in axes)),),
        commutative,
        "add" if commutative else "",
    )


def graph(name: str, parameters, stages, results=None) -> StageGraph:
    results = results or stages[-1:]
    arrays = tuple(Result(s.form, 0) for s in results)
    sizes = tuple(dict.fromkeys(e for p in parameters for e in p.shape if isinstance(e, SizeVar)))
    program = Program(name, tuple(parameters), sizes, arrays, [0], 0, order=tuple(s.form for s in stages))
    return StageGraph(program, tuple(stages), arrays, {})


def blur() -> StageGraph:
    """rows: three neighbours along x; cols: three neighbours of rows along y."""
    img = image()
    rows = stage(
        "rows",
        {"y": H, "x": W},
        lambda y, x: add(*(at(img, y, clamp(index.add(x, d), W)) for d in (-1, 0, 1))),
        line=7,
        text="rows = rd.stencil(…)",
    )
    cols = stage(
        "cols",
        {"y": H, "x": W},
        lambda y, x: add(*(at(rows, clamp(index.add(y, d), H), x) for d in (-1, 0, 1))),
        line=8,
        text="return rd.stencil(…)",
    )
    return graph("blur", [img], [rows, cols])


def matmul() -> StageGraph:
    """c[i, j] = sum over r of a[i, r] * b[r, j]."""
    a, b = Parameter("a", f32, (N, K), 0), Parameter("b", f32, (K, M), 0)
    c = stage(
        "c",
        {"i": N, "j": M},
        None,
        lambda i, j: summed({"r": K}, lambda r: mul(at(a, i, r), at(b, r, j))),
        line=3,
        text="return rd.tabulate(…)",
    )
    return graph("sgemm", [a, b], [c])


def narrow_product() -> StageGraph:
    """c[i, j] = sum over r of a[i, r] * b[r, j], of f16 in f32."""
    a, b = Parameter("a", f16, (N, K), 0), Parameter("b", f16, (K, M), 0)
    wide = lambda e: Op("cast", f32, (e,))
    c = stage(
        "c",
        {"i": N, "j": M},
        None,
        lambda i, j: summed({"r": K}, lambda r: mul(wide(at(a, i, r)), wide(at(b, r, j)))),
        line=3,
        text="return rd.matmul(a, b, dtype=rd.f32)",
    )
    return graph("product", [a, b], [c])


def map_and_sum() -> StageGraph:
    """y = 2x, kept, and its sum."""
    x = Parameter("x", f32, (N,), 0)
    y = stage("y", {"x": N}, lambda i: mul(at(x, i), const(f32, 2.0)))
    total = stage("sum", {}, None, lambda: summed({"r": N}, lambda r: at(y, r)))
    return graph("both", [x], [y, total], [y, total])


def diamond() -> StageGraph:
    """`base` is read by `left` (above and below) and `right` (beside); `out` adds them."""
    img = image()
    base = stage("base", {"y": H, "x": W}, lambda y, x: mul(at(img, y, x), const(f32, 3.0)))
    left = stage("left", {"y": H, "x": W}, lambda y, x: add(at(base, clamp(index.sub(y, 1), H), x), at(base, y, x)))
    right = stage("right", {"y": H, "x": W}, lambda y, x: add(at(base, y, clamp(index.add(x, 1), W)), at(base, y, x)))
    out = stage("out", {"y": H, "x": W}, lambda y, x: add(at(left, y, x), at(right, y, x)))
    return graph("diamond", [img], [base, left, right, out])


def gather() -> StageGraph:
    """out[i] = table2[index[i]], where table2 doubles a table."""
    table, where = Parameter("table", f32, (M,), 0), Parameter("where", i64, (N,), 0)
    doubled = stage("doubled", {"x": M}, lambda i: mul(at(table, i), const(f32, 2.0)))
    out = stage("out", {"x": N}, lambda i: at(doubled, at(where, i)))
    return graph("lookup", [table, where], [doubled, out])


def checked_gather() -> StageGraph:
    """`gather` with positions that are checked."""
    table, where = Parameter("table", f32, (M,), 0), Parameter("where", i64, (N,), 0)
    doubled = stage("doubled", {"x": M}, lambda i: mul(at(table, i), const(f32, 2.0)))
    out = stage("out", {"x": N}, lambda i: Load(Result(doubled.form, 0), (at(where, i),), True))
    return graph("lookup", [table, where], [doubled, out])


def ordered() -> StageGraph:
    """A reduction under an operator that is not commutative, over two axes."""
    img = image()
    total = stage("total", {}, None, lambda: summed({"ry": H, "rx": W}, lambda ry, rx: at(img, ry, rx), False))
    return graph("fold", [img], [total])


def columns(operator=None) -> StageGraph:
    """total[x]: a fold of twice img[r, x] over r, not commutative; `operator(x)` takes two values."""
    img = image()
    double = stage("double", {"y": H, "x": W}, lambda y, x: mul(at(img, y, x), const(f32, 2.0)))
    by = operator or (lambda x: add)
    total = stage("total", {"x": W}, None, lambda x: summed({"r": H}, lambda r: at(double, r, x), False, by(x)))
    return graph("columns", [img], [double, total])


def columns_apart() -> StageGraph:
    """The same by an operator that depends on the column."""
    return columns(lambda x: lambda a, b: add(mul(a, Op("cast", f32, (x,))), b))


def columns_from_memory() -> StageGraph:
    """The same by an operator that reads an array."""
    table = Parameter("table", f32, (N,), 0)
    return columns(lambda x: lambda a, b: add(mul(a, at(table, index.as_index(0))), b))


def chain() -> StageGraph:
    """a, then b, then c, each pointwise in one dimension."""
    x = Parameter("x", f32, (N,), 0)
    a = stage("a", {"x": N}, lambda i: mul(at(x, i), const(f32, 2.0)))
    b = stage("b", {"x": N}, lambda i: add(at(a, i), const(f32, 1.0)))
    c = stage("c", {"x": N}, lambda i: mul(at(b, i), at(b, i)))
    return graph("chain", [x], [a, b, c])


def folded() -> StageGraph:
    """out[i] = weights[i] * sum over r of a[i, r] * weights[i], divided by norm, a sum over all of x."""
    a, x = Parameter("a", f32, (N, K), 0), Parameter("x", f32, (M,), 0)
    norm = stage("norm", {}, None, lambda: summed({"r": M}, lambda r: at(x, r)))
    weights = stage("weights", {"i": N}, lambda i: mul(at(a, i, index.as_index(0)), at(norm)))
    i = Axis(fresh("i"), N)
    fold = summed({"r": K}, lambda r: mul(at(a, i.var, r), at(weights, i.var)))
    bodies = (mul(Item(fold, 0), at(weights, i.var)),)
    out = Stage("out", ("out",), Generate((i,), bodies), (i,), fold, bodies)
    return graph("folded", [a, x], [norm, weights, out])


def stepped() -> StageGraph:
    """start = 2 img, then a loop `steps` of five iterations of a stage `life`."""
    img = image()
    start = stage("start", {"y": H, "x": W}, lambda y, x: mul(at(img, y, x), const(f32, 2.0)))
    state = fresh_parameter("state", f32, (H, W))
    life = stage(
        "steps/life", {"y": H, "x": W}, lambda y, x: add(at(state, clamp(index.add(y, 1), H), x), at(state, y, x))
    )
    form = ArrayLoop(const(i64, 5), fresh("t"), (state,), (Result(start.form, 0),), (Result(life.form, 0),))
    steps = ControlStage("steps", ("steps",), form, form.state, form.init, form.results, (life,))
    return graph("stepped", [img], [start, steps])


def siblings() -> StageGraph:
    """a and b of x; c reads b one further along."""
    x = Parameter("x", f32, (N,), 0)
    a = stage("a", {"x": N}, lambda i: mul(at(x, i), const(f32, 2.0)))
    b = stage("b", {"x": N}, lambda i: mul(at(x, i), const(f32, 3.0)))
    c = stage("c", {"x": N}, lambda i: at(b, clamp(index.add(i, 1), N)))
    return graph("siblings", [x], [a, b, c], [a, b, c])


def crossed() -> StageGraph:
    """b reads a, d reads c."""
    x = Parameter("x", f32, (N,), 0)
    a = stage("a", {"x": N}, lambda i: mul(at(x, i), const(f32, 2.0)))
    b = stage("b", {"x": N}, lambda i: at(a, clamp(index.add(i, 1), N)))
    c = stage("c", {"x": N}, lambda i: mul(at(x, i), const(f32, 3.0)))
    d = stage("d", {"x": N}, lambda i: at(c, clamp(index.add(i, 1), N)))
    return graph("crossed", [x], [a, b, c, d], [a, b, c, d])


def fanned() -> StageGraph:
    """Of one image: `double`; `kept`, an output too; their ordered `folds` along rows; `table`, gathered from; `out` of all."""
    img = image()
    double = stage("double", {"y": H, "x": W}, lambda y, x: mul(at(img, y, x), const(f32, 2.0)))
    kept = stage("kept", {"y": H, "x": W}, lambda y, x: mul(at(img, y, x), const(f32, 3.0)))
    table = stage("table", {"y": H, "x": W}, lambda y, x: mul(at(img, y, x), const(f32, 4.0)))
    folds = stage("folds", {"y": H}, None, lambda y: summed({"r": W}, lambda r: at(img, y, r), False))
    out = stage(
        "out",
        {"y": H, "x": W},
        lambda y, x: add(at(double, y, x), at(folds, y), at(table, Op("cast", i64, (at(kept, y, x),)), x)),
    )
    return graph("fanned", [img], [double, kept, table, folds, out], [kept, out])


def relay() -> StageGraph:
    """a and b of x; c reads b, d reads c."""
    x = Parameter("x", f32, (N,), 0)
    a = stage("a", {"x": N}, lambda i: mul(at(x, i), const(f32, 2.0)))
    b = stage("b", {"x": N}, lambda i: mul(at(x, i), const(f32, 3.0)))
    c = stage("c", {"x": N}, lambda i: at(b, clamp(index.add(i, 1), N)))
    d = stage("d", {"x": N}, lambda i: add(at(c, i), const(f32, 1.0)))
    return graph("relay", [x], [a, b, c, d], [a, d])


def unsharp() -> StageGraph:
    """Planes of colour: gray of three planes, blurred along both axes, and each plane scaled by their ratio."""
    three = index.as_index(3)
    img = Parameter("img", f32, (three, H, W), 0)
    gray = stage("gray", {"y": H, "x": W}, lambda y, x: add(*(at(img, index.as_index(c), y, x) for c in range(3))))
    rows = stage(
        "rows", {"y": H, "x": W}, lambda y, x: add(*(at(gray, y, clamp(index.add(x, d), W)) for d in (-1, 0, 1)))
    )
    cols = stage(
        "cols", {"y": H, "x": W}, lambda y, x: add(*(at(rows, clamp(index.add(y, d), H), x) for d in (-1, 0, 1)))
    )
    ratio = stage("ratio", {"y": H, "x": W}, lambda y, x: Op("div", f32, (at(cols, y, x), at(gray, y, x))))
    out = stage("out", {"z": three, "y": H, "x": W}, lambda z, y, x: mul(at(img, z, y, x), at(ratio, y, x)))
    return graph("unsharp", [img], [gray, rows, cols, ratio, out])


def convolution() -> StageGraph:
    """Five by five taps, as a reduction over a small array."""
    img, taps = image(), Parameter("taps", f32, (index.as_index(5), index.as_index(5)), 0)
    extents = {"ry": index.as_index(5), "rx": index.as_index(5)}
    out = stage(
        "out",
        {"y": H, "x": W},
        None,
        lambda y, x: summed(
            extents,
            lambda ry, rx: mul(
                at(img, clamp(index.sub(index.add(y, ry), 2), H), clamp(index.sub(index.add(x, rx), 2), W)),
                at(taps, ry, rx),
            ),
        ),
    )
    return graph("convolution", [img, taps], [out])
