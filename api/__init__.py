"""raido: a scheduling language for tensor and array programs.

    import raido as rd

Algorithms are pure functions of arrays (`rd.algorithm`, the combinators, and NumPy's functions by their names); a schedule says how an
algorithm runs, a target on what. The layers above tracing (schedules, targets, autotuning) are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.errors import (
    ArgumentError,
    ArithmeticFault,
    CompileError,
    CopyWarning,
    DTypeError,
    ExportError,
    IndexOutOfRange,
    OperatorWarning,
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
from raido.algo.language.making import array, asarray, iota, replicate, unzip, zip
from raido.algo.language.moves import astype, broadcast_to, expand_dims, flatten, reshape, swapaxes, transpose, view
from raido.algo.language.records import record
from raido.algo.language.reductions import all, amax, amin, any, argmax, argmin, dot, matmul, max, mean, min, prod, sum
from raido.algo.language.repeating import repeat
from raido.algo.language.scanning import scan
from raido.algo.language.scattering import bincount, reduce_by_index, scatter
from raido.algo.language.segments import segmented_reduce, segmented_scan
from raido.algo.language.sorting import argsort, sort
from raido.algo.language.stencil import constant, stencil
from raido.algo.language.ufuncs import *  # noqa: F403
from raido.algo.language.uniques import unique
from raido.algo.library.comparing import allclose, array_equal, isclose, nan_to_num
from raido.algo.library.contraction import einsum
from raido.algo.library.finding import argwhere, count_nonzero, flatnonzero, nonzero
from raido.algo.library.joining import column_stack, concatenate, dstack, hstack, row_stack, vstack
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
    permute_dims,
    ravel,
    rollaxis,
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
from raido.algo.library.order_statistics import (
    lexsort,
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from raido.algo.library.running import cumprod, cumsum, diff, gradient
from raido.algo.library.scores import logsumexp, softmax
from raido.algo.library.searching import digitize, interp, isin, searchsorted
from raido.algo.library.splitting import array_split, dsplit, hsplit, split, vsplit
from raido.algo.library.statistics import average, ptp, std, var
from raido.algo.library.taking import select, take, take_along_axis
from raido.algo.trace.algorithm import capture
from raido.algo.trace.locations import mark_internal
from raido.algo.trace.publishing import publish, published, refuse_name
from raido.algo.trace.tracebacks import border
from raido.algo.trace.types import size
from raido.algo.trace.value import Array
from raido.algorithm import Algorithm, algorithm

if TYPE_CHECKING:
    from raido import fft, linalg, random
    from raido.algo.library.assembling import (
        append,
        block,
        broadcast_arrays,
        broadcast_shapes,
        delete,
        insert,
        resize,
        trim_zeros,
        unstack,
    )
    from raido.algo.library.bits import packbits, unpackbits
    from raido.algo.library.choosing import (
        apply_along_axis,
        apply_over_axes,
        compress,
        extract,
        fill_diagonal,
        ix_,
        piecewise,
        put_along_axis,
    )
    from raido.algo.library.correlation import corrcoef, cov
    from raido.algo.library.diagonals import diag, diagonal, tri, tril, triu
    from raido.algo.library.grids import indices, meshgrid, ravel_multi_index, unravel_index
    from raido.algo.library.histograms import histogram, histogram2d, histogram_bin_edges, histogramdd
    from raido.algo.library.integrals import cumulative_prod, cumulative_sum, ediff1d, trapezoid, unwrap
    from raido.algo.library.linalg import matrix_transpose
    from raido.algo.library.nan_statistics import (
        nanargmax,
        nanargmin,
        nancumprod,
        nancumsum,
        nanmax,
        nanmean,
        nanmin,
        nanprod,
        nanstd,
        nansum,
        nanvar,
    )
    from raido.algo.library.polynomials import polyadd, polyder, polyint, polymul, polysub, polyval, vander
    from raido.algo.library.predicates import (
        array_equiv,
        fix,
        iscomplex,
        iscomplexobj,
        isneginf,
        isposinf,
        isreal,
        isrealobj,
    )
    from raido.algo.library.rounding import round_to_tf32
    from raido.algo.library.sets import (
        intersect1d,
        setdiff1d,
        setxor1d,
        union1d,
        unique_all,
        unique_counts,
        unique_inverse,
        unique_values,
    )
    from raido.algo.library.signals import convolve, correlate
    from raido.algo.library.spaced import copy, empty, empty_like, fromfunction, geomspace, logspace
    from raido.algo.library.triangles import (
        diag_indices,
        diag_indices_from,
        diagflat,
        tril_indices,
        tril_indices_from,
        triu_indices,
        triu_indices_from,
    )
    from raido.algo.library.windows import bartlett, blackman, hamming, hanning, i0, kaiser, sinc
    from raido.autotune import autotune
    from raido.autotune.jobs.tuning import Tuning
    from raido.schedule.holes import choose
    from raido.schedule.schedule import Schedule
    from raido.targets import targets
    from raido.targets.devices.array import DeviceArray, device_array, from_dlpack
    from raido.targets.executable import Executable
    from raido.targets.export import load
    from raido.targets.target import Target

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
    "DeviceArray",
    "Executable",
    "ExportError",
    "IndexOutOfRange",
    "OperatorWarning",
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
    "amax",
    "amin",
    "angle",
    "any",
    "append",
    "apply_along_axis",
    "apply_over_axes",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "array",
    "array_equal",
    "array_equiv",
    "array_split",
    "asarray",
    "astype",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autotune",
    "average",
    "bartlett",
    "bf16",
    "bincount",
    "blackman",
    "block",
    "bool_",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "capture",
    "choose",
    "column_stack",
    "complex64",
    "complex128",
    "compress",
    "concat",
    "concatenate",
    "cond",
    "conj",
    "conjugate",
    "constant",
    "convolve",
    "copy",
    "corrcoef",
    "correlate",
    "count_nonzero",
    "cov",
    "cross",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "delete",
    "device_array",
    "diag",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "diff",
    "digitize",
    "divmod",
    "dot",
    "dsplit",
    "dstack",
    "ediff1d",
    "einsum",
    "elementwise",
    "empty",
    "empty_like",
    "expand_dims",
    "extract",
    "eye",
    "f16",
    "f32",
    "f64",
    "fft",
    "fill_diagonal",
    "filter",
    "fix",
    "flatnonzero",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "fori_loop",
    "frexp",
    "from_dlpack",
    "fromfunction",
    "full",
    "full_like",
    "gather",
    "gcd",
    "geomspace",
    "gradient",
    "hamming",
    "hanning",
    "heaviside",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "hsplit",
    "hstack",
    "i0",
    "i8",
    "i16",
    "i32",
    "i64",
    "identity",
    "imag",
    "indices",
    "inner",
    "insert",
    "interp",
    "intersect1d",
    "iota",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isin",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "ix_",
    "kaiser",
    "kron",
    "lcm",
    "ldexp",
    "lexsort",
    "linalg",
    "linspace",
    "load",
    "logaddexp2",
    "logspace",
    "logsumexp",
    "loop",
    "map",
    "matmul",
    "matrix_transpose",
    "matvec",
    "max",
    "mean",
    "median",
    "meshgrid",
    "min",
    "modf",
    "moveaxis",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "nextafter",
    "nonzero",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "packbits",
    "pad",
    "partition",
    "percentile",
    "permute_dims",
    "piecewise",
    "polyadd",
    "polyder",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "prod",
    "ptp",
    "put_along_axis",
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
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "round_to_tf32",
    "row_stack",
    "scan",
    "scatter",
    "searchsorted",
    "segment_sum",
    "segmented_reduce",
    "segmented_scan",
    "select",
    "setdiff1d",
    "setxor1d",
    "shift",
    "sinc",
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
    "trapezoid",
    "tri",
    "tril",
    "tril_indices",
    "tril_indices_from",
    "trim_zeros",
    "triu",
    "triu_indices",
    "triu_indices_from",
    "u8",
    "u16",
    "u32",
    "u64",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unpackbits",
    "unravel_index",
    "unstack",
    "unwrap",
    "unzip",
    "vander",
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
    "autotune": "raido",  # a package that is a function
    "targets": "raido",
    "fft": "raido",  # a module
    "linalg": "raido",
    "random": "raido",
    "Tuning": "raido.autotune.jobs.tuning",
    "Schedule": "raido.schedule.schedule",
    "choose": "raido.schedule.holes",
    "DeviceArray": "raido.targets.devices.array",
    "device_array": "raido.targets.devices.array",
    "from_dlpack": "raido.targets.devices.array",
    "Executable": "raido.targets.executable",
    "Target": "raido.targets.target",
    "load": "raido.targets.export",
}
_LIBRARY = {  # NumPy's less common names by module, imported at first use
    "assembling": "append block broadcast_arrays broadcast_shapes delete insert resize trim_zeros unstack",
    "bits": "packbits unpackbits",
    "choosing": "apply_along_axis apply_over_axes compress extract fill_diagonal ix_ piecewise put_along_axis",
    "correlation": "corrcoef cov",
    "histograms": "histogram histogram2d histogram_bin_edges histogramdd",
    "integrals": "cumulative_prod cumulative_sum ediff1d trapezoid unwrap",
    "linalg": "matrix_transpose",
    "nan_statistics": "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "polynomials": "polyadd polyder polyint polymul polysub polyval vander",
    "rounding": "round_to_tf32",
    "predicates": "array_equiv fix iscomplex iscomplexobj isneginf isposinf isreal isrealobj",
    "sets": "intersect1d setdiff1d setxor1d union1d unique_all unique_counts unique_inverse unique_values",
    "spaced": "copy empty empty_like fromfunction geomspace logspace",
    "triangles": "diag_indices diag_indices_from diagflat tril_indices tril_indices_from triu_indices triu_indices_from",
    "windows": "bartlett blackman hamming hanning i0 kaiser sinc",
    "diagonals": "diag diagonal tri tril triu",
    "grids": "indices meshgrid ravel_multi_index unravel_index",
    "signals": "convolve correlate",
}
_LATER |= {name: f"raido.algo.library.{family}" for family, names in _LIBRARY.items() for name in names.split()}


publish(globals())

if not TYPE_CHECKING:  # so that type checkers report unknown names, too

    def _found_later(name: str) -> Any:
        if name not in _LATER:
            refuse_name(__name__, name, __dir__())
        import importlib

        if _LATER[name] == "raido":
            return importlib.import_module(f"raido.{name}")
        globals()[name] = value = published(__name__, name, getattr(importlib.import_module(_LATER[name]), name))
        return value

    __getattr__ = border(_found_later)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *(name for name in globals() if name.startswith("__"))})
