"""Tests on sizes, and parameters computed from sizes, as users write them: `s.when("w % 16 == 0 and h > 64")`, `chunks="min(64, n //
2048)"`.

Both are parsed into expressions over sizes; sizes that a program was specialised for are constants. A divisor of 0 counts as 1, since sizes
may be 0 and schedules change no result.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from raido.algo.documents import shown
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Expr, Op, SizeVar, conjunction
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.program import Program
from raido.algo.graph.size_text import LARGEST, magnitude
from raido.schedule.refusal import Refusal, listed

ARITHMETIC = {ast.Add: index.add, ast.Sub: index.sub, ast.Mult: index.mul}
DIVISIONS = {ast.FloorDiv: index.floordiv, ast.Mod: index.mod}
EXTREMES = {"min": index.minimum, "max": index.maximum}
_LONGEST = 4000  # characters of a test
_MOST_PARTS = 300  # nodes of a test's syntax tree: some fifty comparisons; passes recurse into it
COMPARISONS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def parse_test(text: str, names: Mapping[str, Expr], example: str = 'when("w % 16 == 0")') -> Expr:
    """Parses a test into a boolean expression over the sizes in `names`; refuses anything but comparisons of arithmetic on them, and their
    combinations.
    """
    return _truth(_parse(text, "a test", names, example), names, example)


def parse_number(text: str, names: Mapping[str, Expr], example: str) -> Expr:
    """Parses arithmetic on the sizes in `names` into an expression; refuses anything else."""
    return _number(_parse(text, "a number made of sizes", names, example), names)


def sizes_of(program: Program) -> dict[str, Expr]:
    """Returns the sizes of a program by name, those that it was specialised for as constants."""
    known = {name: index.as_index(value) for name, value in program.known.items()}
    return {**known, **{size.name: size for size in program.sizes}}


def fixed_sizes(test: Expr) -> dict[str, int]:
    """Returns the sizes that a test requires to equal a constant, by name.

    >>> n, m = (SizeVar(name) for name in "nm")
    >>> fixed_sizes(parse_test("n == 480 and m > 3", {"n": n, "m": m}))
    {'n': 480}
    """
    if not isinstance(test, Op):
        return {}
    if test.name == "logical_and":
        return {**fixed_sizes(test.args[1]), **fixed_sizes(test.args[0])}
    for size, value in (test.args, test.args[::-1]) if test.name == "eq" else ():
        number = index.constant_value(value)
        if isinstance(size, SizeVar) and number is not None and number >= 0:
            return {size.name: number}
    return {}


def decided(test: Expr) -> bool | None:
    """Returns the value of a test on constants; None where sizes decide it."""
    if isinstance(test, Const):
        return bool(test.value)
    assert isinstance(test, Op)
    if test.dtype is bool_ and test.name in ("logical_and", "logical_or", "logical_not"):
        values = [decided(each) for each in test.args]
        if test.name == "logical_not":
            return None if values[0] is None else not values[0]
        settles = test.name == "logical_or"
        return settles if settles in values else None if None in values else not settles
    left, right = (index.constant_value(each) for each in test.args)
    return (
        None
        if left is None or right is None
        else bool(evaluate(test.name, bool_, [i64.numpy.type(v) for v in (left, right)]))
    )


def _parse(text: str, what: str, names: Mapping[str, Expr], example: str) -> ast.expr:
    if not isinstance(text, str):
        raise Refusal(f"{what} is a text, not {shown(text)}", example, sizes=listed(names))
    try:
        tree = ast.parse(text[: _LONGEST + 1], mode="eval").body
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # ValueError: NUL, surrogates; the last two: nested brackets
        why = getattr(error, "msg", None) or str(error)
        raise Refusal(f"it is not an expression: {why}", example, sizes=listed(names)) from None
    if len(text) > _LONGEST or sum(1 for _ in ast.walk(tree)) > _MOST_PARTS:
        raise Refusal(f"it has more than {_MOST_PARTS} parts", "two branches with shorter tests", sizes=listed(names))
    return tree


def _truth(node: ast.expr, sizes: Mapping[str, Expr], example: str) -> Expr:
    if isinstance(node, ast.BoolOp):
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        total = _truth(node.values[0], sizes, example)
        for value in node.values[1:]:
            total = Op(name, bool_, (total, _truth(value, sizes, example)))
        return total
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Op("logical_not", bool_, (_truth(node.operand, sizes, example),))
    if isinstance(node, ast.Compare):
        links, left = [], _number(node.left, sizes)
        for operator, each in zip(node.ops, node.comparators, strict=True):
            right = _number(each, sizes)
            name = COMPARISONS.get(type(operator))
            if name is None:
                raise Refusal(f"`{ast.unparse(node)}` uses a comparison that sizes do not support", example)
            links.append(Op(name, bool_, (left, right)))
            left = right
        return conjunction(links)
    raise Refusal(f"`{ast.unparse(node)}` is not a test: a test compares sizes", example, sizes=listed(sizes))


def _number(node: ast.expr, sizes: Mapping[str, Expr]) -> Expr:
    if magnitude(node) > LARGEST:
        raise Refusal(f"the numbers in {shown(ast.unparse(node))} are beyond 64 bits", sizes=listed(sizes))
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return index.as_index(node.value)
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise Refusal(f'there is no size "{node.id}"', sizes=listed(sizes))
        return sizes[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in (*ARITHMETIC, *DIVISIONS):
        left, right = _number(node.left, sizes), _number(node.right, sizes)
        if type(node.op) in ARITHMETIC:
            return ARITHMETIC[type(node.op)](left, right)
        if index.constant_value(right) == 0:
            raise Refusal(f"`{ast.unparse(node)}` divides by zero", sizes=listed(sizes))
        return DIVISIONS[type(node.op)](left, index.maximum(right, 1) if index.constant_value(right) is None else right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return index.mul(_number(node.operand, sizes), -1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EXTREMES:
        values = [_number(each, sizes) for each in node.args]
        if len(values) == 2 and not node.keywords:
            return EXTREMES[node.func.id](*values)
    raise Refusal(f"`{ast.unparse(node)}` is not arithmetic on sizes", sizes=listed(sizes))
