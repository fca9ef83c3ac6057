"""Compiling hand-built gang nests and running them on NumPy arrays, for the tests of the emitter."""

import ctypes
import functools

import numpy as np
import pytest

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import SizeVar, const, fresh
from raido.schedule.nest.nodes import Block, Nest
from raido.schedule.nest.values import Buffer
from raido.targets.loader import load_object
from raido.targets.native import Fault

pytest.importorskip("tvm")

CPUS = ("x86-64-v2", "haswell", "skylake-avx512")
VECTOR_BITS = dict(zip(CPUS, (128, 256, 512), strict=True))
n = SizeVar("n")


def host_has(cpu):
    """Whether this machine runs code for that CPU."""
    needs = {"x86-64-v2": {"sse4_2"}, "haswell": {"avx2", "fma"}, "skylake-avx512": {"avx512f", "avx512vl", "avx512dq"}}
    with open("/proc/cpuinfo") as file:
        flags = next(line for line in file if line.startswith("flags")).split()
    return needs[cpu] <= set(flags)


def on_cpu(cpu):
    """A test parameter that is skipped where the machine lacks that CPU's instructions."""
    return pytest.param(cpu, marks=[] if host_has(cpu) else pytest.mark.skip(reason=f"needs {cpu}"))


every_cpu = pytest.mark.parametrize("cpu", [on_cpu(cpu) for cpu in CPUS])


def index(value):
    return const(i64, value)


def array(name, dtype, *shape, scope="parameter", lanes=1, data=None):
    extents = tuple(index(extent) if isinstance(extent, int) else extent for extent in shape)
    return Buffer(name, dtype, extents, scope, fresh(name).serial, (), lanes, data)


class Compiled:
    """A compiled nest: call it with input arrays, sizes, and output arrays that it fills; returns the fault record."""

    def __init__(self, nest, cpu="skylake-avx512"):
        from raido.targets.emit.program import emit_program
        from raido.targets.tvm_corner import CompiledModule

        self.module = CompiledModule(emit_program(nest, "entry", cpu != "x86-64-v2", VECTOR_BITS[cpu]), cpu)
        self.loaded = load_object(self.module.object_bytes())
        count = len(nest.inputs) + len(nest.sizes) + len(nest.outputs) + 1
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)(self.loaded.address("entry"))

    @functools.cached_property
    def assembly(self):
        return self.module.text("asm")

    def __call__(self, inputs=(), sizes=(), outputs=()):
        fault = Fault()
        pointers = lambda arrays: [a.ctypes.data for a in arrays]
        assert all(isinstance(a, np.ndarray) and a.flags.c_contiguous for a in (*inputs, *outputs))
        assert self.entry(*pointers(inputs), *sizes, *pointers(outputs), ctypes.addressof(fault)) == 0
        return fault


def compile_body(statements, inputs=(), outputs=(), sizes=(n,), cpu="skylake-avx512", host=False):
    """A nest whose only kernel (or, with `host`, whose host plan) holds these statements."""
    from raido.schedule.nest.nodes import Produce

    block = Block(tuple(statements))
    body = block if host else Block((Produce("stage", block),))
    return Compiled(Nest("test", tuple(inputs), tuple(sizes), tuple(outputs), body), cpu)
