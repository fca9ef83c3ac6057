"""Constant folding by the primitives' own evaluation, casts of selections of literals included; constant branches and selections are
decided.

Code generators then fold no constants by rules of their own (these differ: -0.0, NaN, division by zero). Variables bound to literals are
replaced by them. Expressions that read memory are not folded, and checks stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raido.algo.graph.expr import Const, Node, Op, Var, const
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.rewrite import transform
from raido.schedule.nest.nodes import Block, If, Let, Nest
from raido.schedule.nest.uses import PLAIN, fields_of
from raido.schedule.nest.walk import with_statements


def fold_constants(nest: Nest) -> Nest:
    """Replaces every operation on literals by its result."""
    body = _block(nest.body, {})
    if body is nest.body:
        return nest
    inputs, outputs = (tuple(transform(b, fold_literals) for b in buffers) for buffers in (nest.inputs, nest.outputs))
    return replace(nest, inputs=inputs, outputs=outputs, body=body)


def _block(block: Block, known: dict[Node, Node], keep: bool = False) -> Block:
    """Returns a folded block; `known` maps variables to literals, and memoises folded expressions.

    `keep`: variables bound to literals stay, since they are used outside the block.
    """
    statements: list[Any] = []
    inner: dict[Node, Node] = dict(known)
    for s in block.statements:
        if isinstance(s, Let) and isinstance(s.var, Var):
            value = transform(s.value, fold_literals, inner)
            inner = {k: v for k, v in inner.items() if isinstance(k, Var)} if s.var in inner else inner
            inner.pop(s.var, None)
            if isinstance(value, Const) and not keep:
                inner = {k: v for k, v in inner.items() if isinstance(k, Var)}
                inner[s.var] = value
                continue
            statements.append(s if value is s.value else Let(s.var, value))
            continue
        made = _statement(s, inner)
        if isinstance(made, If) and isinstance(made.condition, Const):
            taken = made.then if made.condition.value else made.orelse
            statements += [] if taken is None or not taken.statements else [taken]
            continue
        statements.append(made)
    return with_statements(block, statements)


def _statement(s: Any, known: dict[Node, Node]) -> Any:
    if isinstance(s, Block):
        return _block(s, known)
    changed = {}
    for name in fields_of(type(s)):
        value = getattr(s, name)
        if type(value) in PLAIN:
            continue
        new = _block(value, known, keep=True) if name == "setup" else _value(value, known)
        if new is not value:
            changed[name] = new
    return replace(s, **changed) if changed else s


def _value(value: Any, known: dict[Node, Node]) -> Any:
    if isinstance(value, Node):
        return transform(value, fold_literals, known)
    if isinstance(value, Block):
        return _block(value, known)
    if isinstance(value, tuple) and value and isinstance(value[0], Node):
        new = tuple([transform(v, fold_literals, known) for v in value])
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value


def fold_literals(e: Node) -> Node:
    """Returns the result of an operation on literals; other expressions themselves."""
    if isinstance(e, Op) and all(isinstance(a, Const) for a in e.args):
        args: list[Any] = [a.dtype.numpy.type(a.value) for a in e.args]  # type: ignore[union-attr]
        return const(e.dtype, evaluate(e.name, e.dtype, args)[()])
    if isinstance(e, Op) and e.name in ("select", "logical_and", "logical_or"):
        return _decided(e)
    if isinstance(e, Op) and e.name == "cast" and isinstance(e.args[0], Op) and _chooses_literals(e.args[0]):
        predicate, *branches = e.args[0].args
        return Op("select", e.dtype, (predicate, *(fold_literals(Op("cast", e.dtype, (b,))) for b in branches)))  # type: ignore[arg-type]
    return e


def _decided(e: Op) -> Node:
    """Returns the operand that a selection by a literal, or a conjunction or disjunction with one, reduces to; others themselves."""
    if e.name == "select":
        test, yes, no = e.args
        return e if not isinstance(test, Const) else yes if test.value else no
    for known, other in (e.args, e.args[::-1]):
        if isinstance(known, Const):
            return other if bool(known.value) is (e.name == "logical_and") else known
    return e


def _chooses_literals(e: Node) -> bool:
    """Whether a value is a selection of literals: `where(p, 1, 0)`, an i64 or f64 by itself, takes the type of the values beside it."""
    return (
        isinstance(e, Op)
        and e.name == "select"
        and all(isinstance(b, Const) or _chooses_literals(b) for b in e.args[1:])
    )
