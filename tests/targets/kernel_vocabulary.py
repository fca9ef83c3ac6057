"""Helpers with which tests write kernels in plain TIR: literals, accesses, axes of a launch, and kernels with their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import IterVar

from raido.algo.graph.dtypes import DType
from raido.targets import tvm_corner as T

Expression = Any
UNBOUNDED = 1 << 40


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments in order (arrays and scalars), the blocks of its launch, and the arrays after it."""

    function: Any
    arguments: Sequence[Any]
    grid: tuple[int, int, int]
    expected: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.function.attrs["global_symbol"])


def integer(value: int, dtype: str = "int32") -> Expression:
    return T.IntImm(dtype, value)


def number(dtype: DType, value: float) -> Expression:
    return T.FloatImm(T.type_name(dtype), value)


def native(name: str, dtype: DType, *operands: Expression) -> Expression:
    """The call of a native operation."""
    return tirx.op.call_pure_extern(T.type_name(dtype), f"raido_{name}", *operands)


def atomic(name: str, dtype: DType, element: Expression, *values: Expression) -> Expression:
    """The call of an atomic update of an element."""
    address = tirx.op.call_intrin("handle", "tirx.address_of", element)
    return tirx.op.call_extern(T.type_name(dtype), f"raido_atomic_{name}", address, *values)


def barrier() -> Any:
    return T.Evaluate(tirx.op.call_intrin("int32", "tirx.tvm_storage_sync", StringImm("shared")))


def memory(name: str, dtype: DType, size: int, scope: str) -> Any:
    """An array of a block ("shared") or of a thread ("local")."""
    made: Any = tirx.decl_buffer
    return made((integer(size, "int64"),), T.type_name(dtype), name=name, layout=None, scope=scope)


def at(buffer: Any, index: Expression) -> Expression:
    return T.BufferLoad(buffer, [index])


def put(buffer: Any, index: Expression, value: Expression) -> Any:
    return T.BufferStore(buffer, value, [index])


def when(condition: Expression, *then: Any) -> Any:
    return T.IfThenElse(condition, T.sequence(then), None)


def ramp(start: Expression, lanes: int) -> Expression:
    return T.Ramp(start, T.IntImm(start.ty.dtype, 1), lanes)


class Axes:
    """The variables of a launch: `b` counts blocks, `t` the threads of a block, `i` both, as i64."""

    def __init__(self, block: tuple[int, int, int]) -> None:
        self.block = block
        self.b = [T.Var(f"b{a}", "int32") for a in "xyz"]
        self.t = [T.Var(f"t{a}", "int32") for a in "xyz"]

    def along(self, axis: int = 0) -> Expression:
        wide = [T.Cast("int64", v) for v in (self.b[axis], self.t[axis])]
        return wide[0] * self.block[axis] + wide[1]

    @property
    def i(self) -> Expression:
        return self.along()

    def around(self, body: Any) -> Any:
        """The body inside the attributes of the launch."""
        for axis, name in enumerate("xyz"):
            for kind, variable, extent in (("threadIdx", self.t, self.block[axis]), ("blockIdx", self.b, 1)):
                which = IterVar(None, variable[axis], IterVar.ThreadIndex, f"{kind}.{name}")
                body = T.AttrStmt(which, "thread_extent", integer(extent), body)
        return body


def kernel(
    name: str,
    kinds: Sequence[DType | str],
    make: Callable[..., Sequence[Any]],
    block: tuple[int, int, int] = (64, 1, 1),
) -> Any:
    """A function whose parameters are pointers (a dtype) and scalars (TIR's name of a type); `make(axes, *them)` gives the body."""
    axes, parameters, given, declared = Axes(block), [], [], []
    for k, kind in enumerate(kinds):
        if isinstance(kind, str):
            parameters.append(T.Var(f"s{k}", kind))
            given.append(parameters[-1])
        else:
            parameters.append(T.pointer(f"p{k}", kind))
            given.append(T.flat_buffer(f"a{k}", kind, UNBOUNDED, parameters[-1]))
            declared.append(T.DeclBuffer(given[-1], data=parameters[-1]))
    body = axes.around(T.sequence([*declared, *make(axes, *given)]))
    return T.PrimFunc(parameters, body).with_attr("global_symbol", name).with_attr("tirx.noalias", True)


def blocks(count: int, size: int = 64) -> tuple[int, int, int]:
    return (-(-count // size), 1, 1)


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)
