"""The one module that imports TVM: the constructors of TIR, and the call of the code generator, that raido relies on.

Import it only where code is generated (it takes most of a second). The functions that we build need none of TVM's passes: buffers are flat,
vectors explicit, integer division and math are helper functions in LLVM assembly, errors travel in memory of our own.

Known limits that callers respect: `Return` takes only 0; a `Bind` of a vector of bool is impossible; signed and unsigned arithmetic of 32
and 64 bits is emitted as never overflowing; `NE` on floats is the ordered comparison. `tests/targets/test_tvm_contract.py` tests each of
these separately.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from typing import Any

with contextlib.redirect_stderr(open(os.devnull, "w")):
    import tvm
from tvm import tirx
from tvm.ir import Op as IrOp
from tvm.ir import PointerType, PrimType, StringImm
from tvm.tirx import AttrStmt, PrimFunc, Return, SeqStmt

from raido.algo.graph.dtypes import DType, bf16, bool_

TVM_VERSION: str = tvm.__version__

Var, IntImm, FloatImm = tirx.Var, tirx.IntImm, tirx.FloatImm
Add, Sub, Mul, Div, Min, Max, RShift = tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, tirx.RShift
LT, LE, GT, GE, EQ, NE = tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE
And, Not, Select, Cast = tirx.And, tirx.Not, tirx.Select, tirx.Cast
Ramp: Any = tirx.Ramp  # TVM's annotations refuse the plain ints that it takes as lanes
Broadcast: Any = tirx.Broadcast
BufferLoad, BufferStore, AllocBuffer, DeclBuffer = tirx.BufferLoad, tirx.BufferStore, tirx.AllocBuffer, tirx.DeclBuffer
Bind, Evaluate, IfThenElse, While = tirx.Bind, tirx.Evaluate, tirx.IfThenElse, tirx.While
For, ForKind = tirx.For, tirx.ForKind
# The constructors under those of TVM's Python, which import modules and convert arguments in every call: ten times as long.
_make_call, _make_variable = tvm.get_global_func("ir.Call"), tvm.get_global_func("ir.Var")
_make_buffer_type, _make_buffer = tvm.get_global_func("tirx.BufferType"), tvm.get_global_func("tirx.BufferVar")
_CALL_EXTERN = IrOp.get("tirx.call_extern")
# Vectors are explicit already: which loops have lanes is for the schedule to say. Nobody steps through the code: two searches that only
# cost time.
_OPTIONS = (
    "-vectorize-loops:bool=false",
    "-interleave-loops:bool=false",
    "-vectorize-slp:bool=false",
    "-livedebugvalues-input-bb-limit:uint=0",
    "-livedebugvalues-input-dbg-value-limit:uint=0",
)


@functools.lru_cache(4096)
def integer(dtype: str, value: int) -> Any:
    """An integer literal, cached: nodes are immutable, so one node serves every occurrence."""
    return IntImm(dtype, value)


@functools.lru_cache(4096)
def _text(value: str) -> Any:
    """A string literal."""
    return StringImm(value)


@functools.cache
def _type(name: str) -> Any:
    """The TVM type of a name."""
    return PointerType(PrimType("void")) if name == "handle" else PrimType(name)


def variable(name: str, type_or_name: Any) -> Any:
    """A TIR variable of a type, or of a type's name."""
    return _make_variable(name, _type(type_or_name) if isinstance(type_or_name, str) else type_or_name, None)


@functools.cache
def type_name(dtype: DType, lanes: int = 1) -> str:
    """TVM's name of a type: "float32x16". bf16 is "uint16", on which TVM does no arithmetic."""
    kind = {"b": "bool", "f": "float", "i": "int", "u": "uint"}["u" if dtype is bf16 else dtype.kind]
    base = kind if dtype is bool_ else f"{kind}{dtype.bits}"
    return base if lanes == 1 else f"{base}x{lanes}"


def pointer(name: str, dtype: DType) -> Any:
    """A variable that points to elements of a memory type."""
    return _make_variable(name, pointer_type(dtype), None)


@functools.cache
def pointer_type(dtype: DType) -> Any:
    """The type of a pointer to elements of a memory type."""
    return PointerType(_type(type_name(dtype)))


def flat_buffer(
    name: str, dtype: DType, size: int, data: Any = None, alignment: int | None = None, scope: str = ""
) -> Any:
    """A one-dimensional buffer of a memory type, assumed aligned to its elements only."""
    scope = scope if data is None else data.ty.storage_scope
    return _make_buffer(name, _buffer_type(scope, type_name(dtype), size, alignment or dtype.itemsize), None)


@functools.lru_cache(4096)
def _buffer_type(scope: str, dtype: str, size: int, alignment: int) -> Any:
    return _make_buffer_type(scope, dtype, (IntImm("int64", size),), (), None, alignment, 0, None, (), None)


def call(symbol: str, result: Any, *args: Any) -> Any:
    """A call of a C function by its symbol; `result` is a type or its name."""
    result = _type(result) if isinstance(result, str) else result
    return _make_call(result, _CALL_EXTERN, (_text(symbol), *args), None, (), None)


def address_of(element: Any) -> Any:
    """The address of a loaded element."""
    return tirx.op.call_intrin("handle", "tirx.address_of", element)


def if_then_else(condition: Any, yes: Any, no: Any) -> Any:
    """One of two values; only the chosen one is evaluated."""
    return tirx.if_then_else(condition, yes, no)


def barrier() -> Any:
    """A barrier for the threads of a block."""
    return Evaluate(tirx.op.call_intrin("int32", "tirx.tvm_storage_sync", StringImm("shared")))


def bind_axis(tag: str, variable: Any, extent: int, body: Any) -> Any:
    """`body` with a variable bound to the thread's index along an axis of the launch, "blockIdx.x" … "threadIdx.z"."""
    axis: Any = tirx.IterVar
    return AttrStmt(axis(None, variable, axis.ThreadIndex, tag), "thread_extent", IntImm("int32", extent), body)


def kernel(symbol: str, parameters: Sequence[Any], body: Any) -> Any:
    """A device function, the code of one thread. Its pointers never alias."""
    return PrimFunc(list(parameters), body).with_attr("global_symbol", symbol).with_attr("tirx.noalias", True)


def sequence(statements: Sequence[Any]) -> Any:
    """Statements in order; a no-op for none."""
    if not statements:
        return Evaluate(IntImm("int32", 0))
    return statements[0] if len(statements) == 1 else SeqStmt(list(statements))


def function(symbol: str, parameters: Sequence[Any], body: Any, helpers: str = "") -> Any:
    """`int32_t symbol(parameters)` that returns 0. Pointers never alias. `helpers` is LLVM assembly to link in."""
    zero, one = IntImm("int32", 0), IntImm("int32", 1)
    if helpers:
        body = AttrStmt(zero, "pragma_import_llvm", StringImm(helpers), body)
    body = AttrStmt("default", "device_id", zero, AttrStmt("default", "device_type", one, body))
    made = PrimFunc(list(parameters), SeqStmt([body, Return(zero)]), ret_type=PrimType("int32"))
    return made.with_attr("global_symbol", symbol).with_attr("tirx.noalias", True)


def bind_target(functions: dict[str, Any], cpu: str, turned_off: Sequence[str] = ()) -> tuple[Any, Any]:
    """The functions as a TVM module for a processor, and TVM's target for it, without the features that are turned off."""
    options: dict[str, Any] = {"kind": "llvm", "mcpu": cpu, "cl-opt": list(_OPTIONS)}
    if turned_off:
        options["mattr"] = [f"-{name}" for name in turned_off]
    target = tvm.target.Target(options)
    bound = target.with_host(target)
    return tvm.IRModule({name: f.with_attr("target", bound) for name, f in functions.items()}), target


def functions_to_json(functions: dict[str, Any]) -> str:
    """Functions by symbol as JSON text, for another process."""
    return tvm.ir.save_json(tvm.IRModule(functions))


def functions_from_json(text: str) -> dict[str, Any]:
    """The inverse of `functions_to_json`."""
    module: Any = tvm.ir.load_json(text)
    return {variable.name_hint: function for variable, function in module.functions.items()}


class CompiledModule:
    """Compiled TIR functions: object bytes, and text on demand."""

    def __init__(self, functions: dict[str, Any], cpu: str, turned_off: Sequence[str] = ()) -> None:
        self.functions, target = bind_target(functions, cpu, turned_off)
        self._module = tvm.get_global_func("target.build.llvm")(self.functions, target)

    def object_bytes(self) -> bytes:
        """The relocatable object, written to a memory file: LLVM ends the process when it cannot write, as to a full disk."""
        with os.fdopen(os.memfd_create("raido"), "rb") as file:
            self._module.write_to_file(f"/proc/self/fd/{file.fileno()}", "o")
            file.seek(0)
            return file.read()

    def text(self, form: str) -> str:
        """The text of form "tir", "llvm" (after optimisation) or "asm"."""
        if form == "tir":
            return self.functions.script()
        return self._module.inspect_source({"llvm": "ll", "asm": "asm"}[form])


def llvm_cpus() -> tuple[str, ...]:
    """CPU names that LLVM knows for x86-64."""
    target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu"})
    return tuple(str(name) for name in tvm.get_global_func("target.llvm_get_cpu_archlist")(target))


def llvm_features(cpu: str) -> tuple[str, ...]:
    """Features that LLVM gives a CPU, by LLVM's names, tuning features included."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
    return tuple(sorted(str(name) for name in tvm.get_global_func("target.llvm_get_cpu_features")(target)))
