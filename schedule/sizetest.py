"""Tests on sizes, as users write them in `s.when("w % 16 == 0 and h > 64")`: parsed into a boolean expression over sizes."""

from __future__ import annotations

import ast

from raido.algo.documents import shown
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, SizeVar
from raido.algo.graph.program import Program
from raido.algo.graph.size_text import LARGEST, magnitude
from raido.schedule.refusal import Refusal, listed

ARITHMETIC = {
    ast.Add: index.add,
    ast.Sub: index.sub,
    ast.Mult: index.mul,
    ast.FloorDiv: index.floordiv,
    ast.Mod: index.mod,
}
_LONGEST = 4000  # characters
_MOST_PARTS = 300  # of a test as Python parses it: some fifty comparisons; passes go down into it by recursion
COMPARISONS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def parse_test(text: str, program: Program) -> Expr:
    """The test as a boolean expression over the program's sizes; a refusal says what cannot stand in one."""
    sizes = {size.name: size for size in program.sizes}
    if not isinstance(text, str):
        raise Refusal(f"a test is a text, not {shown(text)}", 'when("w % 16 == 0")', sizes=listed(sizes))
    try:
        tree = ast.parse(text[: _LONGEST + 1], mode="eval").body
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # ValueError: a NUL, a surrogate; the last two: brackets
        why = getattr(error, "msg", None) or str(error)
        raise Refusal(f"it is not an expression: {why}", 'when("w % 16 == 0")', sizes=listed(sizes)) from None
    if len(text) > _LONGEST or sum(1 for _ in ast.walk(tree)) > _MOST_PARTS:
        raise Refusal(f"it has more than {_MOST_PARTS} parts", "two branches with shorter tests", sizes=listed(sizes))
    return _truth(tree, sizes)


def _truth(node: ast.expr, sizes: dict[str, SizeVar]) -> Expr:
    if isinstance(node, ast.BoolOp):
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        total = _truth(node.values[0], sizes)
        for value in node.values[1:]:
            total = Op(name, bool_, (total, _truth(value, sizes)))
        return total
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Op("logical_not", bool_, (_truth(node.operand, sizes),))
    if isinstance(node, ast.Compare):
        total = None
        left = _number(node.left, sizes)
        for operator, each in zip(node.ops, node.comparators, strict=True):
            right = _number(each, sizes)
            name = COMPARISONS.get(type(operator))
            if name is None:
                raise Refusal(f"`{ast.unparse(node)}` compares in a way that sizes do not have", 'when("w % 16 == 0")')
            link = Op(name, bool_, (left, right))
            total = link if total is None else Op("logical_and", bool_, (total, link))
            left = right
        assert total is not None
        return total
    raise Refusal(f"`{ast.unparse(node)}` is no test", 'when("w % 16 == 0")', sizes=listed(sizes))


def _number(node: ast.expr, sizes: dict[str, SizeVar]) -> Expr:
    if magnitude(node) > LARGEST:
        raise Refusal(f"the numbers in {shown(ast.unparse(node))} are beyond 64 bits", sizes=listed(sizes))
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return index.as_index(node.value)
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise Refusal(f'there is no size "{node.id}"', sizes=listed(sizes))
        return sizes[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = _number(node.left, sizes), _number(node.right, sizes)
        if isinstance(node.op, ast.FloorDiv | ast.Mod) and index.constant_value(right) == 0:
            raise Refusal(f"`{ast.unparse(node)}` divides by zero", sizes=listed(sizes))
        return ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return index.mul(_number(node.operand, sizes), -1)
    raise Refusal(f"`{ast.unparse(node)}` is not arithmetic on sizes", sizes=listed(sizes))
