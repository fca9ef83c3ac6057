"""Size expressions in C syntax for the comments of headers, without `max` with 0 where the other operand is never negative.

C's `/` rounds towards 0 and `//` begins a comment, so a floor division is written `n / 2` where both operands are non-negative, else
`floor((n - 5) / 2)`.
"""

from __future__ import annotations

from raido.targets.signature import SizeExpr, evaluate_size, size_names, size_text


def c_size(size: SizeExpr) -> str:
    """The text of a size expression: `min((n / 2) * 2, n)`."""
    return size_text(_in_c(size))


def _in_c(size: SizeExpr) -> SizeExpr:
    """The size expression with C's operators, as `size_text` prints them; a call that raido's expressions lack, `floor(…)`, is made a name."""
    if not isinstance(size, tuple):
        return size
    if not size_names(size):
        return evaluate_size(size, {})
    op, left, right = size
    if op == "max" and 0 in (left, right):
        other = right if left == 0 else left
        if _is_natural(other):
            return _in_c(other)
    whole = _is_natural(left) and _is_natural(right)
    inside = _in_c(left), _in_c(right)
    if op == "//":
        return ("/", *inside) if whole else f"floor({size_text(('/', *inside))})"
    if op == "%" and not whole:
        return "-", inside[0], ("*", inside[1], f"floor({size_text(('/', *inside))})")
    return op, *inside


def _is_natural(size: SizeExpr) -> bool:
    """Whether a size expression is known to be non-negative; size names are."""
    if not isinstance(size, tuple):
        return isinstance(size, str) or size >= 0
    left, right = _is_natural(size[1]), _is_natural(size[2])
    return (left or right) if size[0] == "max" else size[0] != "-" and left and right
