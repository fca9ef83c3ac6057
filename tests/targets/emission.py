"""Compiling hand-built gang nests and running them on NumPy arrays, for the tests of the emitter."""

import ctypes
import functools

import numpy as np
import pytest
from processors import lacking, needs, widest_here

import raido as rd
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import SizeVar, const, fresh
from raido.schedule.nest.nodes import Block, Nest
from raido.schedule.nest.values import Buffer
from raido.targets.compile import Compilation
from raido.targets.loader import load_object
from raido.targets.native import Fault
from raido.targets.target import Target

CPUS = ("x86-64-v2", "haswell", "skylake-avx512")
WIDEST = widest_here(CPUS)
n = SizeVar("n")

# For tests that run code; those that only look at it take all of `CPUS`.
every_cpu = pytest.mark.parametrize("cpu", [needs(cpu) for cpu in CPUS])


def assembly_of(algorithm, cpu, schedule=None, **sizes):
    """The assembly of a program for a processor that need not be this one."""
    return Compilation(algorithm.trace(), rd.Target("llvm", cpu=cpu), schedule, sizes).source("asm")


def index(value):
    return const(i64, value)


def array(name, dtype, *shape, scope="parameter", lanes=1, data=None):
    extents = tuple(index(extent) if isinstance(extent, int) else extent for extent in shape)
    return Buffer(name, dtype, extents, scope, fresh(name).serial, (), lanes, data)


class Compiled:
    """A compiled nest: call it with input arrays, sizes, and output arrays that it fills; returns the fault record.

    A test that calls code which this machine cannot run is skipped there.
    """

    def __init__(self, nest, cpu=WIDEST):
        from raido.targets.emit.program import emit_program
        from raido.targets.tvm_corner import CompiledModule

        self.module = CompiledModule(emit_program(nest, "entry", Target("llvm", cpu).capabilities), cpu)
        self.loaded = load_object(self.module.object_bytes())
        self.lacking = lacking(cpu)
        count = len(nest.inputs) + len(nest.sizes) + len(nest.outputs) + 1
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)(self.loaded.address("entry"))

    @functools.cached_property
    def assembly(self):
        return self.module.text("asm")

    def __call__(self, inputs=(), sizes=(), outputs=()):
        if self.lacking:
            pytest.skip(self.lacking)
        fault = Fault()
        pointers = lambda arrays: [a.ctypes.data for a in arrays]
        assert all(isinstance(a, np.ndarray) and a.flags.c_contiguous for a in (*inputs, *outputs))
        assert self.entry(*pointers(inputs), *sizes, *pointers(outputs), ctypes.addressof(fault)) == 0
        return fault


def compile_body(statements, inputs=(), outputs=(), sizes=(n,), cpu=WIDEST, host=False):
    """A nest whose only kernel (or, with `host`, whose host plan) holds these statements."""
    from raido.schedule.nest.nodes import Produce

    block = Block(tuple(statements))
    body = block if host else Block((Produce("stage", block),))
    return Compiled(Nest("test", tuple(inputs), tuple(sizes), tuple(outputs), body), cpu)
