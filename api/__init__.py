"""raido: a scheduling language for tensor and array programs.

    import raido as rd

Algorithms are pure functions of arrays (`rd.algorithm`, the combinators and NumPy's functions by their names); schedules say how they
run, targets on what. What lies above tracing is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido import linalg
from raido.algo.errors import (
    ArgumentError,
    ArithmeticFault,
    CompileError,
    CopyWarning,
    DTypeError,
    ExportError,
    IndexOutOfRange,
    RaidoError,
    ScheduleError,
    ShapeError,
    SizeMismatch,
    TargetError,
    TraceError,
    TuningError,
)
from raido.algo.graph.dtypes import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from raido.algo.graph.program import Program
from raido.algo.language import ufuncs
from raido.algo.language.combinators import elementwise, map, reduce, tabulate
from raido.algo.language.complex_functions import angle, conj, imag, real
from raido.algo.language.complexes import complex64, complex128
from raido.algo.language.control import cond, loop, while_loop
from raido.algo.language.filtering import filter, partition
from raido.algo.language.indexing import gather
from raido.algo.language.joining import concat, pad, roll, shift, stack
from raido.algo.language.keys import reduce_by_key
from raido.algo.language.making import array, iota, replicate, unzip, zip
from raido.algo.language.moves import astype, broadcast_to, expand_dims, flatten, reshape, swapaxes, transpose, view
from raido.algo.language.records import record
from raido.algo.language.reductions import all, any, argmax, argmin, dot, matmul, max, mean, min, prod, sum
from raido.algo.language.repeating import repeat
from raido.algo.language.scanning import scan
from raido.algo.language.scattering import bincount, reduce_by_index, scatter
from raido.algo.language.segments import segmented_reduce, segmented_scan
from raido.algo.language.sorting import argsort, sort, unique
from raido.algo.language.stencil import constant, stencil
from raido.algo.language.ufuncs import *  # noqa: F403
from raido.algo.library.comparing import allclose, array_equal, isclose, nan_to_num
from raido.algo.library.contraction import einsum
from raido.algo.library.diagonals import diag, diagonal, tri, tril, triu
from raido.algo.library.finding import argwhere, count_nonzero, flatnonzero, nonzero
from raido.algo.library.grids import indices, meshgrid, ravel_multi_index, unravel_index
from raido.algo.library.joining import column_stack, concatenate, dstack, hstack, vstack
from raido.algo.library.labels import one_hot, segment_sum
from raido.algo.library.linear import cross, inner, kron, matvec, outer, tensordot, trace, vdot, vecdot, vecmat
from raido.algo.library.looping import fori_loop
from raido.algo.library.making import (
    arange,
    eye,
    full,
    full_like,
    identity,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from raido.algo.library.moving import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    flip,
    fliplr,
    flipud,
    moveaxis,
    ravel,
    rot90,
    squeeze,
    tile,
)
from raido.algo.library.numbers import (
    conjugate,
    divmod,
    float_power,
    frexp,
    gcd,
    heaviside,
    lcm,
    ldexp,
    logaddexp2,
    modf,
    nextafter,
    spacing,
)
from raido.algo.library.order_statistics import lexsort, median, percentile, quantile
from raido.algo.library.running import cumprod, cumsum, diff, gradient
from raido.algo.library.scores import logsumexp, softmax
from raido.algo.library.searching import digitize, histogram, interp, isin, searchsorted
from raido.algo.library.signals import convolve, correlate
from raido.algo.library.splitting import array_split, dsplit, hsplit, split, vsplit
from raido.algo.library.statistics import average, nanmax, nanmean, nanmin, nansum, ptp, std, var
from raido.algo.library.taking import select, take, take_along_axis
from raido.algo.trace.algorithm import capture
from raido.algo.trace.locations import mark_internal
from raido.algo.trace.remedies import near_names
from raido.algo.trace.types import size
from raido.algo.trace.value import Array
from raido.algorithm import Algorithm, algorithm

if TYPE_CHECKING:
    from raido import fft, random
    from raido.autotune.jobs.autotune import autotune
    from raido.autotune.jobs.tuning import Tuning
    from raido.schedule.holes import choose
    from raido.schedule.schedule import Schedule
    from raido.targets.executable import Executable
    from raido.targets.export import load
    from raido.targets.target import Target, targets

mark_internal(__file__)
__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "ArgumentError",
    "ArithmeticFault",
    "Array",
    "CompileError",
    "CopyWarning",
    "DTypeError",
    "Executable",
    "ExportError",
    "IndexOutOfRange",
    "Program",
    "RaidoError",
    "Schedule",
    "ScheduleError",
    "ShapeError",
    "SizeMismatch",
    "Target",
    "TargetError",
    "TraceError",
    "Tuning",
    "TuningError",
    "algorithm",
    "all",
    "allclose",
    "angle",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "array",
    "array_equal",
    "array_split",
    "astype",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autotune",
    "average",
    "bf16",
    "bincount",
    "bool_",
    "broadcast_to",
    "capture",
    "choose",
    "column_stack",
    "complex64",
    "complex128",
    "concat",
    "concatenate",
    "cond",
    "conj",
    "conjugate",
    "constant",
    "convolve",
    "correlate",
    "count_nonzero",
    "cross",
    "cumprod",
    "cumsum",
    "diag",
    "diagonal",
    "diff",
    "digitize",
    "divmod",
    "dot",
    "dsplit",
    "dstack",
    "einsum",
    "elementwise",
    "expand_dims",
    "eye",
    "f16",
    "f32",
    "f64",
    "fft",
    "filter",
    "flatnonzero",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "fori_loop",
    "frexp",
    "full",
    "full_like",
    "gather",
    "gcd",
    "gradient",
    "heaviside",
    "histogram",
    "hsplit",
    "hstack",
    "i8",
    "i16",
    "i32",
    "i64",
    "identity",
    "imag",
    "indices",
    "inner",
    "interp",
    "iota",
    "isclose",
    "isin",
    "kron",
    "lcm",
    "ldexp",
    "lexsort",
    "linalg",
    "linspace",
    "load",
    "logaddexp2",
    "logsumexp",
    "loop",
    "map",
    "matmul",
    "matvec",
    "max",
    "mean",
    "median",
    "meshgrid",
    "min",
    "modf",
    "moveaxis",
    "nan_to_num",
    "nanmax",
    "nanmean",
    "nanmin",
    "nansum",
    "nextafter",
    "nonzero",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "partition",
    "percentile",
    "prod",
    "ptp",
    "quantile",
    "random",
    "ravel",
    "ravel_multi_index",
    "real",
    "record",
    "reduce",
    "reduce_by_index",
    "reduce_by_key",
    "repeat",
    "replicate",
    "reshape",
    "roll",
    "rot90",
    "scan",
    "scatter",
    "searchsorted",
    "segment_sum",
    "segmented_reduce",
    "segmented_scan",
    "select",
    "shift",
    "size",
    "softmax",
    "sort",
    "spacing",
    "split",
    "squeeze",
    "stack",
    "std",
    "stencil",
    "sum",
    "swapaxes",
    "tabulate",
    "take",
    "take_along_axis",
    "targets",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "tri",
    "tril",
    "triu",
    "u8",
    "u16",
    "u32",
    "u64",
    "unique",
    "unravel_index",
    "unzip",
    "var",
    "vdot",
    "vecdot",
    "vecmat",
    "view",
    "vsplit",
    "vstack",
    "while_loop",
    "zeros",
    "zeros_like",
    "zip",
]
__all__ += ufuncs.__all__

_LATER = {
    "autotune": "raido",  # the package, which can be called
    "fft": "raido",  # a module
    "random": "raido",
    "Tuning": "raido.autotune.jobs.tuning",
    "Schedule": "raido.schedule.schedule",
    "choose": "raido.schedule.holes",
    "Executable": "raido.targets.executable",
    "Target": "raido.targets.target",
    "targets": "raido.targets.target",
    "load": "raido.targets.export",
}


if not TYPE_CHECKING:  # a name that there is not is an error for checkers of types, too

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            near = ", ".join(f"rd.{word}" for word in near_names(name)) if not name.startswith("_") else ""
            raise AttributeError(f"module 'raido' has no attribute {name!r}" + (f"; near: {near}" if near else ""))
        import importlib

        if _LATER[name] == "raido":
            return importlib.import_module(f"raido.{name}")
        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
