"""Sizes in users' text, `"n // 4 + 1"`: parsed by Python's own parser, with a bound on the numbers in them.

Types and tests on sizes share this syntax. Canonical forms hold 64-bit numbers, so a text whose numbers may exceed those is refused before
anything is built of it.
"""

from __future__ import annotations

import ast
import math

LARGEST = (1 << 63) - 1  # sizes are i64


def parse_size_text(text: str) -> ast.expr:
    """The syntax tree of an expression; raises `SyntaxError` (or `RecursionError`) for any failure of Python's parser."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (ValueError, MemoryError) as error:
        raise SyntaxError(str(error)) from error


def magnitude(tree: ast.expr) -> int:
    """An upper bound of every constant and coefficient in the canonical form of a size."""
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return abs(tree.value)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        return magnitude(parse_size_text(tree.value))
    if isinstance(tree, ast.BinOp):
        left, right = magnitude(tree.left), magnitude(tree.right)
        return left + right if isinstance(tree.op, ast.Add | ast.Sub) else max(left, 1) * max(right, 1)
    if isinstance(tree, ast.UnaryOp):
        return magnitude(tree.operand)
    return math.prod(max(magnitude(part), 1) for part in tree.args) if isinstance(tree, ast.Call) else 1
