"""`rd.einsum`: sums of products over labelled dimensions.

Two operands are one contraction: one reduce stage, whose axes are the labels of the result and whose reduction axes are the others. More
operands are contracted pair by pair. Dimensions of size 1 broadcast, as everywhere; repeated labels of one operand take its diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, computed_in
from raido.algo.language import reductions, ufuncs
from raido.algo.language.combinators import reduce_axes
from raido.algo.language.complexes import Complex
from raido.algo.language.moves import astype, moved, transpose
from raido.algo.language.pure import without_out
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import structure
from raido.algo.trace.context import current, load
from raido.algo.trace.existential import decided_by_data, joined_size
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike

Labels = tuple[str, ...]


class Term(NamedTuple):
    """An operand, an `Array` or `Complex`, with a label for each of its dimensions."""

    value: Any
    labels: Labels


@without_out
def einsum(
    subscripts: Any, *operands: Any, dtype: DTypeLike | None = None, optimize: Any = False, name: str | None = None
) -> Array:
    """The sums of products given by `subscripts`: "ij,jk->ik" is the matrix product; NumPy's notation, "..." included.

    A label that the result lacks is summed over; a label repeated in one operand takes its diagonal; without "->" the result has, in order,
    the labels that occur once. Subscripts may also be lists of ints after each operand. The common dtype, or `dtype`, is never widened; f16
    and bf16 are summed in f32. Two operands are one reduce stage. More are contracted in pairs: from left to right, with `optimize` True,
    "greedy" or "optimal" the cheapest pair first, or along a path as `np.einsum_path` gives it. TraceError for subscripts that do not fit
    the operands, SizeMismatch or ShapeError where sizes of one label differ.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def products(a: rd.f64["b", "n", "k"], b: rd.f64["b", "k", "m"]):
        ...     return rd.einsum("bij,bjk->bik", a, b)
        >>> products.interpret(np.ones((1, 2, 3)), np.ones((1, 3, 2)))
        array([[[3., 3.],
                [3., 3.]]])
    """
    text, given = _text_and_operands(subscripts, operands)
    values = [numbers_of(v, "rd.einsum") for v in given]
    if dtype is not None:
        values = [astype(v, dtype) for v in values]
    inputs, output = read_subscripts(text, [leaves(v)[0].ndim for v in values])
    terms = [_diagonal(Term(v, labels)) for v, labels in zip(values, inputs, strict=True)]
    _require_one_size(terms)
    for first, second in _path(terms, output, optimize):
        pair = [terms[first], terms[second]]
        rest = [term for k, term in enumerate(terms) if k not in (first, second)]
        needed = {label for term in rest for label in term.labels} | set(output)
        labels = tuple(label for label in dict.fromkeys(pair[0].labels + pair[1].labels) if label in needed)
        if not rest:
            break
        terms = [*rest, Term(contracted(pair, labels), labels)]
    return contracted(terms, output, name)


def _require_one_size(terms: Sequence[Term]) -> None:
    """Requires the sizes of a label to agree, except the literal 1, which broadcasts, and existential sizes, which are checked later."""
    sizes: dict[str, tuple[Any, str]] = {}
    for k, term in enumerate(terms, start=1):
        for label, extent in zip(term.labels, leaves(term.value)[0].extents, strict=True):
            if index.constant_value(extent) == 1 or decided_by_data(extent):
                continue
            known, owner = sizes.setdefault(label, (extent, f"axis {label!r} of operand {k}"))
            current().equal_sizes(known, extent, owner, f"axis {label!r} of operand {k}")


def contracted(terms: Sequence[Term], output: Labels, name: str | None = None) -> Any:
    """The products of one or two operands, summed over all labels that `output` lacks: one stage."""
    summed = [label for label in dict.fromkeys(label for t in terms for label in t.labels) if label not in output]
    order = [*output, *summed]
    aligned = [_aligned(term, order) for term in terms]
    product = aligned[0] if len(aligned) == 1 else ufuncs.multiply(*aligned)
    if not summed:
        return product if name is None else product.named(name)
    axes = tuple(range(len(output), len(order)))
    if isinstance(product, Complex):
        zero = map_leaves(lambda part: part.dtype(0), product)
        return reduce_axes(ufuncs.add, zero, product, axes, name=name, keep=False)
    if product.dtype is bool_:
        return reductions.any(product, axes, name=name)
    own, inside = product.dtype, computed_in(product.dtype)
    if inside is not own:
        wide = ufuncs.multiply(*(astype(v, inside) for v in aligned)) if len(aligned) == 2 else astype(product, inside)
        return astype(reductions.sum(wide, axes, dtype=inside), own, name=name)
    return as_weak(reductions.sum(product, axes, dtype=own, name=name), product)


def _aligned(term: Term, order: Sequence[str]) -> Any:
    """The operand with a dimension for every label in `order`, of size 1 where it lacks the label; missing leading dimensions are left
    out."""
    own = [label for label in order if label in term.labels]
    value = transpose(term.value, [term.labels.index(label) for label in own]) if own else term.value
    first = next((k for k, label in enumerate(order) if label in own), len(order))
    key = tuple(
        slice(None) if label in own else None for label in order[first:]
    )  # missing leading dimensions broadcast anyway
    return value[key] if None in key else value


def _diagonal(term: Term) -> Term:
    """The operand with one dimension for each distinct label: the diagonal over the dimensions of a repeated label."""
    labels = tuple(dict.fromkeys(term.labels))
    if labels == term.labels:
        return term

    def walked(array: Array) -> Array:
        sizes = {}
        shape = describe(array.dtype, array.extents)
        for label, extent in zip(term.labels, array.extents, strict=True):
            owners = (f"one dimension {label!r}", f"another dimension {label!r}")
            sizes[label] = joined_size(sizes[label], extent, *owners, shape) if label in sizes else extent
        indices_of = lambda p: tuple(p[labels.index(label)] for label in term.labels)
        return moved([sizes[label] for label in labels], lambda *p: load(array.node, indices_of(p)), weak=array.weak)

    return Term(map_leaves(walked, term.value), labels)


def _text_and_operands(subscripts: Any, operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The subscripts as text, and the operands, from either form of the call."""
    if isinstance(subscripts, str):
        return subscripts, operands
    every = (subscripts, *operands)
    inputs, arrays = [], []
    for k in range(0, len(every) - 1, 2):
        arrays.append(every[k])
        inputs.append(_letters(every[k + 1]))
    result = f"->{_letters(every[-1])}" if len(every) % 2 else ""
    return ",".join(inputs) + result, tuple(arrays)


def _letters(labels: Any) -> str:
    if not isinstance(labels, (list, tuple)):
        raise TraceError(complaint("the subscripts of rd.einsum are a str, or a list of ints after each operand"))
    letters = ""
    for label in labels:
        number = 0 if label is Ellipsis else plain_int(label, "a label of rd.einsum")
        if not 0 <= number < 52:
            raise TraceError(complaint(f"the label {number} of rd.einsum", remedy="0 to 51"))
        letters += "..." if label is Ellipsis else chr(number + (65 if number < 26 else 71))
    return letters


def read_subscripts(text: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; a dimension of "..." has a number as label, counted from the last dimension."""
    inputs, arrow, result = "".join(text.split()).partition("->")
    parts = inputs.split(",")
    if len(parts) != len(ranks):
        raise TraceError(complaint(f"rd.einsum({text!r}) names {len(parts)} operands, {len(ranks)} are given"))
    labels = [_read(part, rank, k, text) for k, (part, rank) in enumerate(zip(parts, ranks, strict=True))]
    every = [label for one in labels for label in one]
    spread = sorted({label for label in every if label.isdigit()}, key=int, reverse=True)
    if not arrow:
        once = sorted(label for label in set(every) if label.isalpha() and every.count(label) == 1)
        return labels, (*spread, *once)
    before, dots, after = result.partition("...")
    own = (*before, *(spread if dots else ()), *after)
    for label in (*before, *after):
        if not (label.isascii() and label.isalpha()):
            raise TraceError(complaint(f"{label!r} in the result of rd.einsum({text!r}): labels are letters"))
        if label not in every:
            raise TraceError(complaint(f"the result of rd.einsum({text!r}) has {label!r}, which no operand has"))
        if own.count(label) > 1:
            raise TraceError(complaint(f"the result of rd.einsum({text!r}) has {label!r} twice"))
    return labels, own


def _read(part: str, rank: int, position: int, text: str) -> Labels:
    before, dots, after = part.partition("...")
    for label in (*before, *after):
        if not (label.isascii() and label.isalpha()):
            raise TraceError(complaint(f"{label!r} in rd.einsum({text!r}): labels are letters"))
    named = len(before) + len(after)
    if named > rank or (named < rank and not dots):
        what = f"operand {position} of rd.einsum({text!r}) has {rank} dimensions, {part!r} names {named}"
        raise ShapeError(complaint(what, remedy="'...' stands for dimensions without labels" if named < rank else None))
    return (*before, *(str(k) for k in reversed(range(rank - named))), *after)


def _path(terms: Sequence[Term], output: Labels, optimize: Any) -> list[tuple[int, int]]:
    """The pair of operands to contract in turn, as positions in the list of remaining operands, to whose end the result is
    appended."""
    contractions = len(terms) - 1
    if isinstance(optimize, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in optimize):
        return _given_path([part for part in optimize if part != "einsum_path"], len(terms))
    if isinstance(optimize, (list, tuple)):
        optimize = optimize[0] if optimize else False
    if optimize not in (False, True, None, "greedy", "optimal"):
        raise TraceError(complaint(f"`optimize` is a bool, 'greedy', 'optimal' or a path, not {optimize!r}"))
    if not optimize:
        return [(0, 1)] * min(contractions, 1) + [(left, 0) for left in range(contractions - 1, 0, -1)]
    labels = [term.labels for term in terms]
    sizes = _known_sizes(terms)
    path = []
    for _ in range(contractions):
        pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
        first, second = min(pairs, key=lambda pair: _cost(labels, pair, output, sizes))
        path.append((first, second))
        made = _left_over(labels, (first, second), output)
        labels = [*(own for k, own in enumerate(labels) if k not in (first, second)), made]
    return path


def _given_path(path: Sequence[Any], count: int) -> list[tuple[int, int]]:
    """NumPy's path as pairs; its entries may name one operand, or more than two. TraceError for positions out of range."""
    pairs: list[tuple[int, int]] = []
    for contraction in path:
        operands = [plain_int(k, "an operand in a path of rd.einsum") for k in contraction]
        if (
            len(operands) < min(2, count)
            or len(set(operands)) < len(operands)
            or any(not 0 <= k < count for k in operands)
        ):
            raise TraceError(
                complaint(f"the step {tuple(contraction)} of a path of rd.einsum, where {count} operands are left")
            )
        for taken in range(len(operands) - 1):
            if taken == 0:
                pair = (operands[0], operands[1])
            else:  # the last result is at the end; the remaining operands have moved up
                gone = operands[: taken + 1]
                pair = (count - 1, operands[taken + 1] - sum(k < operands[taken + 1] for k in gone))
            pairs.append(pair)
            count -= 1
    if count != 1:
        raise TraceError(complaint(f"a path of rd.einsum leaves {count} operands, not one"))
    return pairs


def _known_sizes(terms: Sequence[Term]) -> dict[str, int]:
    """The size of each label whose size is known while tracing."""
    sizes: dict[str, int] = {}
    for term in terms:
        for label, extent in zip(term.labels, leaves(structure(term.value))[0].extents, strict=True):
            known = index.constant_value(extent)
            if known is not None:
                sizes[label] = max(known, sizes.get(label, 1))
    return sizes


def _left_over(labels: Sequence[Labels], pair: tuple[int, int], output: Labels) -> Labels:
    """The labels that the contraction of a pair keeps: those in the result or in another operand."""
    needed = set(output).union(*(own for k, own in enumerate(labels) if k not in pair))
    return tuple(label for label in dict.fromkeys(labels[pair[0]] + labels[pair[1]]) if label in needed)


def _cost(labels: Sequence[Labels], pair: tuple[int, int], output: Labels, sizes: dict[str, int]) -> tuple[int, ...]:
    """The work of contracting a pair, then its memory, each as (number of labels of unknown size, product of the known sizes), for
    comparison."""
    cost: list[int] = []
    for own in (set(labels[pair[0]] + labels[pair[1]]), _left_over(labels, pair, output)):
        work = 1
        for label in own:
            work *= sizes.get(label, 1)
        cost += [sum(label not in sizes for label in own), work]
    return (*cost, *pair)
