"""raido's mathematical functions beside glibc's libmvec, one thread, arrays in cache: `python benchmarks/math_functions.py [NAME …]`.

Both sides are the same loop of vector loads and stores through the same code generator; one computes the recipe, the other calls the vector
function of libmvec. Figures are nanoseconds per element, the best of many runs, and the ratio of libmvec's time to raido's (above 1: raido
is faster). `--write` puts the table into docs/math.md.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from raido.algo.graph.dtypes import DType, f32, f64, i64
from raido.algo.graph.expr import Op, const, fresh
from raido.algo.graph.primitives import PRIMITIVES
from raido.algo.recipes import FUNCTIONS
from raido.schedule.nest.nodes import Block, For, Let, Nest, Produce, VectorStore
from raido.schedule.nest.values import Buffer, VectorRead, VectorVar
from raido.targets import tvm_corner as tvm
from raido.targets.emit.program import emit_program
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.loader import load_object
from raido.targets.native import Fault

COUNT, ITERATIONS = 4096, 16
DOMAIN = {
    **dict.fromkeys(("exp", "exp2", "sin", "cos", "tan"), (-10.0, 10.0)),
    **dict.fromkeys(("log", "log2", "log10"), (0.01, 100.0)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-1.0, 1.0)),
    "log1p": (-0.9, 100.0),
    "acosh": (1.0, 10.0),
    "erf": (-3.0, 3.0),
    "erfc": (-3.0, 3.0),
    "pow": (0.1, 10.0),
}
MARK = "<!-- table: python benchmarks/math_functions.py --write -->"


def compile_recipe(name: str, dtype: DType, lanes: int, cpu: str) -> Any:
    """A nest that maps the function over an array, `ITERATIONS` times."""
    shape = (const(i64, COUNT),)
    arity = PRIMITIVES[name].arity
    sources = tuple(Buffer(f"in{k}", dtype, shape, "parameter", fresh("b").serial, (), 1, None) for k in range(arity))
    result = Buffer("out", dtype, shape, "parameter", fresh("b").serial, (), 1, None)
    x = fresh("x")
    reads = [VectorVar(f"v{k}", dtype, lanes, fresh("v").serial) for k in range(arity)]
    body: list[Any] = [Let(v, VectorRead(s, (x,), 1, lanes, None)) for v, s in zip(reads, sources, strict=True)]
    body.append(VectorStore(result, (x,), Op(name, dtype, tuple(reads))))
    loop = For(x, const(i64, 0), const(i64, COUNT), lanes, Block(tuple(body)))
    iterations = For(fresh("t"), const(i64, 0), const(i64, ITERATIONS), 1, Block((loop,)))
    nest = Nest("math", sources, (), (result,), Block((Produce("math", Block((iterations,))),)))
    can = Capabilities(lanes * dtype.bits, fused=True, byte_shuffle=True)
    return load(tvm.CompiledModule(emit_program(nest, "entry", can), cpu), arity + 2)


def compile_libmvec(name: str, dtype: DType, lanes: int, cpu: str) -> Any:
    """The same loop around the vector function of libmvec, or None where it has none."""
    arity = PRIMITIVES[name].arity
    letter = {16: "b", 32: "d", 64: "e"}[lanes * dtype.itemsize]
    symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}{'f' if dtype is f32 else ''}"
    try:
        getattr(ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL), symbol)
    except (OSError, AttributeError):
        return None
    pointers = [tvm.pointer(f"p{k}", dtype) for k in range(arity + 1)]
    fault = tvm.pointer("fault", i64)
    buffers = [tvm.flat_buffer(f"b{k}", dtype, COUNT, data=p) for k, p in enumerate(pointers)]
    t, x = tvm.Var("t", "int64"), tvm.Var("x", "int64")
    one = tvm.IntImm("int64", 1)
    place = tvm.Ramp(x * lanes, one, lanes)
    value = tvm.call(symbol, tvm.type_name(dtype, lanes), *(tvm.BufferLoad(b, [place]) for b in buffers[:-1]))
    body: Any = tvm.BufferStore(buffers[-1], value, [place])
    body = tvm.For(x, one - one, tvm.IntImm("int64", COUNT // lanes), tvm.ForKind.SERIAL, body)
    body = tvm.For(t, one - one, tvm.IntImm("int64", ITERATIONS), tvm.ForKind.SERIAL, body)
    body = tvm.sequence([*(tvm.DeclBuffer(b, data=p) for b, p in zip(buffers, pointers, strict=True)), body])
    return load(tvm.CompiledModule({"entry": tvm.function("entry", [*pointers, fault], body)}, cpu), arity + 2)


def load(module: tvm.CompiledModule, pointers: int) -> Any:
    """The function `entry` of an object."""
    loaded = load_object(module.object_bytes())
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * pointers)(loaded.address("entry"))
    return lambda *given, keep=loaded: function(*given)


def nanoseconds(function: Any, name: str, dtype: DType) -> float:
    """The best time an element."""
    low, high = DOMAIN.get(name, (-5.0, 5.0))
    random = np.random.default_rng(1)
    # One allocation at unlike offsets within the page, so that loads and stores never look alike to the processor.
    arrays = list(np.empty((3, COUNT + 320 // dtype.itemsize), dtype.numpy)[: PRIMITIVES[name].arity + 1, :COUNT])
    for array in arrays:
        array[:] = random.uniform(low, high, COUNT)
    fault = Fault()
    pointers = [*(a.ctypes.data for a in arrays), ctypes.addressof(fault)]
    best = float("inf")
    for _ in range(30):
        start = time.perf_counter()
        function(*pointers)
        best = min(best, time.perf_counter() - start)
    return best / (COUNT * ITERATIONS) * 1e9


def main(
    names: Annotated[list[str] | None, typer.Argument(help="functions; all by default")] = None,
    cpu: Annotated[str, typer.Option(help="as LLVM calls it")] = "skylake-avx512",
    bits: Annotated[int, typer.Option(help="width of a vector")] = 512,
    write: Annotated[bool, typer.Option("--write", help="put the table into docs/math.md")] = False,
) -> None:
    rows = [
        "| function | f32 ours | f32 libmvec | ratio | f64 ours | f64 libmvec | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names or FUNCTIONS:
        cells = []
        for dtype in (f32, f64):
            lanes = bits // dtype.bits
            turns = []
            for _ in range(4):  # in turn, and compiled anew: other work comes in waves, and where code lies matters
                functions = [compile_recipe(name, dtype, lanes, cpu), compile_libmvec(name, dtype, lanes, cpu)]
                turns.append([nanoseconds(f, name, dtype) if f else None for f in functions])
            ours, theirs = (min(filter(None, times), default=None) for times in zip(*turns, strict=True))
            assert ours
            cells += [f"{ours:.2f}", f"{theirs:.2f}" if theirs else "–", f"{theirs / ours:.2f}" if theirs else "–"]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    if write:
        path = Path(__file__).parent.parent / "docs" / "math.md"
        head, _, rest = path.read_text().partition(MARK)
        tail = rest.partition("\n\n\n")[2]
        path.write_text(f"{head}{MARK}\n\n" + "\n".join(rows) + f"\n\n\n{tail}".rstrip("\n") + "\n")


if __name__ == "__main__":
    typer.run(main)
