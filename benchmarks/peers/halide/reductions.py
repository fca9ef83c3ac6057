"""The reductions in Halide, built as in `stencils`: threads by `rfactor` over chunks, lanes by `rfactor` over lanes."""

from __future__ import annotations

from collections.abc import Sequence

import halide as hl
import numpy as np

from peers.halide.program import Program, input_of, u, v, x, xi, xo, y, yi, yo


def _lanes(f: hl.Func, inside: hl.Var, reduced: hl.RVar, lanes: int) -> None:
    """Partial sums in lanes along a reduction variable of the update of `f`."""
    ri, rv = hl.RVar("ri2"), hl.RVar("rv2")
    f.update().split(reduced, ri, rv, lanes)
    q = f.update().rfactor(rv, v)
    q.compute_at(f, inside).vectorize(v)
    q.update().reorder(v, ri).vectorize(v)


def whole(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """The sum of an array, or of the products of two."""
    params = [input_of(a, name) for a, name in zip(arrays[:-1], "AB", strict=False)]
    n = arrays[0].size
    s, r = hl.Func("s"), hl.RDom([(0, n)], "r")
    s[()] = hl.f32(0)
    s[()] += params[0][r] if len(params) == 1 else params[0][r] * params[1][r]
    program = Program(s, params, arrays, ())
    if not schedule:
        return program
    chunks, lanes = map(int, schedule.split("_"))
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    s.update().split(r.x, ro, ri, n // chunks)
    p = s.update().rfactor(ro, u)
    p.compute_root().parallel(u)
    p.update().parallel(u)
    _lanes(p, u, ri, lanes)
    return program


def row_sums(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Sums of rows, lanes along the row."""
    param = input_of(arrays[0])
    s, r = hl.Func("s"), hl.RDom([(0, arrays[0].shape[1])], "r")
    s[y] = hl.f32(0)
    s[y] += param[r.x, y]
    program = Program(s, [param], arrays, (y,))
    if not schedule:
        return program
    lanes, rows = map(int, schedule.split("_"))
    s.update().parallel(y, rows)
    _lanes(s, y, r.x, lanes)
    return program


def column_sums(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Sums of columns: tiles of columns, or chunks of rows added up afterwards."""
    param = input_of(arrays[0])
    s, r = hl.Func("s"), hl.RDom([(0, arrays[0].shape[0])], "r")
    s[x] = hl.f32(0)
    s[x] += param[x, r.x]
    program = Program(s, [param], arrays, (x,))
    if not schedule:
        return program
    kind, size = schedule.split("_")
    if kind == "tile":
        s.update().split(x, xo, xi, int(size)).reorder(xi, r.x, xo).vectorize(xi, 16).parallel(xo)
    else:
        ro, ri, rj = hl.RVar("ro"), hl.RVar("ri"), hl.RVar("rj")
        s.update().split(r.x, ro, ri, int(size))
        p = s.update().rfactor(ro, u)
        p.compute_root().parallel(u).vectorize(x, 16)
        p.update().split(ri, ri, rj, 4).reorder(rj, x, ri, u).vectorize(x, 16).unroll(rj).parallel(u)
        s.update().reorder(x, ro).vectorize(x, 16)
    return program


def sgemm(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """A product of matrices with a tile in registers and, if asked for, panels of the right factor packed."""
    left, right = input_of(arrays[0], "A"), input_of(arrays[1], "B")
    m, out, k = hl.Func("m"), hl.Func("out"), hl.RDom([(0, arrays[0].shape[1])], "k")
    m[x, y] = hl.f32(0)
    m[x, y] += left[k, y] * right[x, k]
    out[x, y] = m[x, y]
    program = Program(out, [left, right], arrays, (x, y))
    if not schedule:
        return program
    kind, rows, columns, block = schedule.split("_")
    out.split(y, yo, yi, int(block)).split(yi, yi, v, int(rows)).split(x, xo, xi, int(columns))
    out.reorder(xi, v, yi, xo, yo).parallel(yo).vectorize(xi, 16).unroll(v)
    if kind == "packb":
        packed = right.in_()
        packed.compute_at(out, xo).vectorize(packed.args()[0], 16).unroll(packed.args()[0])
    m.compute_at(out, yi).vectorize(x, 16).unroll(x).unroll(y)
    m.update().reorder(x, y, k.x).vectorize(x, 16).unroll(x).unroll(y)
    return program


REDUCTIONS = {
    "sum": (whole, ("50_64", "500_64", "500_128")),
    "dot": (whole, ("50_64", "500_64", "500_128")),
    "rows_10": (row_sums, ("64_1", "128_1")),
    "rows_1e4": (row_sums, ("16_16", "80_16")),
    "rows_1e6": (row_sums, ("4_1000", "20_1000")),
    "rows_1e7": (row_sums, ("10_10000", "5_10000", "2_10000")),
    "columns_1e4": (column_sums, ("tile_400", "chunks_500", "chunks_100")),
    "sgemm_1024": (sgemm, ("packb_8_32_256", "packb_8_32_128", "packb_4_64_256", "nopack_8_32_256")),
    "sgemm_2048": (sgemm, ("packb_8_32_256", "packb_8_32_128", "nopack_8_32_256")),
}
