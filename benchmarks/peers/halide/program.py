"""A pipeline in Halide with its parameters: compiled under its handwritten schedule, or under one of Halide's autoschedulers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import halide as hl
import numpy as np

x, y, z, c = (hl.Var(n) for n in "xyzc")
xo, xi, yo, yi, zo, zi, u, v = (hl.Var(n) for n in ("xo", "xi", "yo", "yi", "zo", "zi", "u", "v"))

Call = Callable[[], object]
Build = Callable[[Sequence[np.ndarray], str], "Program"]


@dataclass(frozen=True)
class Program:
    """A pipeline for arrays of exactly these shapes: `arrays` are the inputs, in the order of `params`, then the outputs of `out`.

    `variables` are those of `out`, innermost first, bound to the shape of its results.
    """

    out: hl.Func
    params: Sequence[hl.ImageParam]
    arrays: Sequence[np.ndarray]
    variables: Sequence[hl.Var]

    def __post_init__(self) -> None:
        for var, n in zip(self.variables, reversed(self.arrays[-1].shape), strict=True):
            self.out.bound(var, 0, n)

    def compile(self) -> Call:
        """A call without arguments that fills the outputs."""
        return compiled(hl.Pipeline([self.out]), self.params, self.arrays)

    def autoschedule(self, name: str, threads: int) -> bytes:
        """The pipeline as one of Halide's autoschedulers schedules it, serialised."""
        hl.load_plugin(f"{hl.install_dir()}/lib64/libautoschedule_{name.lower()}.so")
        ranges = lambda array: [(0, n) for n in reversed(array.shape)]
        for param, array in zip(self.params, self.arrays, strict=False):
            param.set_estimates(ranges(array))
        pipeline = hl.Pipeline([self.out])
        self.out.set_estimates(ranges(self.arrays[-1]))
        pipeline.apply_autoscheduler(hl.get_host_target(), hl.AutoschedulerParams(name, {"parallelism": threads}))
        return hl.serialize_pipeline(pipeline)

    def restore(self, serialised: bytes) -> Call:
        """The result of `autoschedule`, compiled for the arrays of this program."""
        pipeline = hl.deserialize_pipeline(serialised, {param.name(): param.parameter() for param in self.params})
        return compiled(pipeline, self.params, self.arrays)


def compiled(pipeline: hl.Pipeline, params: Sequence[hl.ImageParam], arrays: Sequence[np.ndarray]) -> Call:
    """Compiles a pipeline, and binds it to arrays."""
    call = pipeline.compile_to_callable(list(params), hl.get_host_target())
    buffers = [hl.Buffer(a) for a in arrays]
    return lambda: call(*buffers)


def input_of(array: np.ndarray, name: str = "I") -> hl.ImageParam:
    """A parameter for an array of exactly that shape."""
    kinds = {"f4": hl.Float(32), "u2": hl.UInt(16), "i4": hl.Int(32)}
    param = hl.ImageParam(kinds[array.dtype.str[1:]], array.ndim, name)
    stride = 1
    for d, n in enumerate(reversed(array.shape)):
        param.dim(d).set_min(0).set_extent(n)
        if d:
            param.dim(d).set_stride(stride)
        stride *= n
    return param
