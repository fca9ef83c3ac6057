"""Emits loops of the gang nest: parallel, unrolled, streaming, or plain serial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import i64
from raido.algo.graph.index import add, as_index, canonical, difference
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import For
from raido.targets import tvm_corner as T
from raido.targets.emit.line_loops import FEWEST, emit_on_lines
from raido.targets.emit.stream_loops import StreamLoops
from raido.targets.emit.streams import find_row_off_lines, find_stream
from raido.targets.emit.terms import Term, tir

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements

_UNROLL_LIMIT = 256


def trip_count(low: Term, high: Term, step: int) -> Term:
    """The trip count ⌈(high − low) / step⌉; not positive for an empty loop."""
    if isinstance(low, int) and isinstance(high, int):
        return -((low - high) // step)
    extent = tir(high) if isinstance(low, int) and low == 0 else T.Sub(tir(high), tir(low))
    if step == 1:
        return extent
    extent = T.Add(extent, T.IntImm("int64", step - 1))
    if step & (step - 1) == 0:
        return T.RShift(extent, T.IntImm("int64", step.bit_length() - 1))
    return T.Div(extent, T.IntImm("int64", step))


def emit_for(statements: Statements, s: For) -> None:
    """Emits a loop: as a call of the function that equal loops share, else in place."""
    if statements.outliner.call_alike(statements, s):
        statements.after_call(s)
    else:
        emit_in_place(statements, s)


def emit_in_place(statements: Statements, s: For) -> None:
    """Emits a loop in the current function."""
    if s.kind == "parallel":
        statements.outliner.launch(statements, s)
    elif s.kind == "unroll" and _unroll(statements, s):
        return
    else:
        _serial(statements, s)


def _unroll(statements: Statements, s: For) -> bool:
    """Emits copies of the body where the trip count is constant and at most `_UNROLL_LIMIT`; else returns False."""
    known = statements.unit.known
    low, high = (canonical(substitute(as_index(e), known)) for e in (s.low, s.high))
    extent = difference(high, low)
    if extent is None or -(-extent // s.step) > _UNROLL_LIMIT:
        return False
    first = statements.values.scalar(s.low)
    for k in range(0, max(extent, 0), s.step):
        known[s.var] = add(low, k)
        term = first + k if isinstance(first, int) else T.Add(first, T.IntImm("int64", k)) if k else first
        statements.unit.variables[s.var] = term
        statements.unit.index_like.add(s.var)
        statements.block(s.body.statements)
    return True


def _serial(statements: Statements, s: For) -> None:
    low, high = statements.values.prepare(s.low, s.high)
    count = trip_count(low, high, s.step)
    if isinstance(count, int) and count <= 0:
        return
    if statements.runs_at_most(s, 1):
        _once(statements, s, low, high)
        return
    stream = find_stream(s)
    if stream is not None:
        outer, statements.stream = statements.stream, StreamLoops(statements, stream)
        statements.stream.emit(s, tir(low), tir(count))
        statements.stream, statements.streams = outer, True
    elif (row := find_row_off_lines(s)) is not None and not (isinstance(count, int) and count < FEWEST):
        emit_on_lines(statements, s, row, tir(low), tir(count))
    else:
        statements.unit.out.append(emit_loop(statements, s, low, tir(count)))


def _once(statements: Statements, s: For, low: Term, high: Term) -> None:
    """Emits a loop of at most one iteration as a branch, so that LLVM looks for no induction variable."""
    unit = statements.unit
    if not isinstance(low, (int, T.Var)):
        low = unit.bind(s.var.name, i64, 1, low)
    body = statements.only_iteration(s, low)
    known = isinstance(low, int) and isinstance(high, int)
    unit.out.append(body if known else T.IfThenElse(T.LT(tir(low), tir(high)), body, None))


def emit_loop(statements: Statements, s: For, low: Term, count: Any, first: Any = None) -> Any:
    """A TIR loop over iterations first … first + count − 1 of `s` (from 0 where `first` is None).

    The counter starts at 0 where the bounds were read from memory: for any other start TVM computes start + count, replacing names by the
    loads they stand for, and memory may have changed by then.
    """
    unit = statements.unit
    if s.step == 1 and first is None and not (unit.is_read(s.low) or unit.is_read(s.high)):
        counter = T.variable(unit.fresh_name(s.var.name), "int64")
        start, value = tir(low), counter
    else:
        counter = T.variable(unit.fresh_name(s.var.name + "_round"), "int64")
        start = T.IntImm("int64", 0) if first is None else first
        value = None
    if value is None:
        scaled = T.Mul(counter, T.IntImm("int64", s.step)) if s.step != 1 else counter
        value = scaled if isinstance(low, int) and low == 0 else T.Add(tir(low), scaled)
    return T.For(counter, start, count, T.ForKind.SERIAL, statements.iteration(s, value))
