"""The interface of a compiled program as plain data: its arguments, sizes, results, checks and fault sites.

A `Signature` holds no code and no graph, survives JSON unchanged, and is all that `Executable`, the cache and exported libraries know. The
entry function it describes has the flat C form

    int32_t entry(T0* in0, …, int64_t size0, …, U0* out0, …, int64_t* existential0, …, RdFault* fault)

with inputs, sizes, outputs and existentials in the order of the fields here. All arrays are C-contiguous, of any alignment; an array of
rank 0 is a pointer to one element; complex numbers are interleaved pairs. An output of unbounded size is `U0** out0` instead: the caller
passes a pointer to NULL, and the entry stores there the address of memory of the runtime, which the caller then owns. The entry returns 0
for success; it failed when it returned another number, or wrote `fault`. A size is an int, a name, or `(op, left, right)` with op one of +
- * // % min max.

Trees describe how arrays nest: an int is an index into `inputs` (or `outputs`), {"tuple": [tree, …]}, {"record": {field: tree}},
{"namedtuple": {"name": name, "fields": {field: tree}}}, {"size": name} for an `rd.size` argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from raido.algo.documents import parse_json
from raido.algo.errors import TargetError
from raido.algo.graph import expr
from raido.algo.graph.program import Program, Site
from raido.algo.graph.read_sizes import read_size
from raido.algo.trace.trees import branches

SizeExpr: TypeAlias = "int | str | tuple[str, SizeExpr, SizeExpr]"
Tree: TypeAlias = Any  # JSON-able, see above

FORMAT = 1
_DEEPEST = 1000  # brackets: a size that is a sum of as many sizes nests as deeply
OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}
_PRIMITIVES = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "floormod": "%",
    "minimum": "min",
    "maximum": "max",
}
_SHORT_NAMES = {
    "bool": "bool_",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True, slots=True)
class Value:
    """An array of the flat interface: its name in messages, NumPy dtype name ("float32", "complex64") and shape.

    `site`: index of the source line that computes a result, -1 where unknown.
    """

    name: str
    dtype: str
    shape: tuple[SizeExpr, ...]
    site: int = -1

    def __str__(self) -> str:
        short = _SHORT_NAMES.get(self.dtype, self.dtype)
        return f"{short}[{', '.join(map(read_size, self.shape))}]" if self.shape else short


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """A condition on the sizes of a call, `left` = `right`; the owners name, for the message, the dimensions they belong to."""

    left: SizeExpr
    right: SizeExpr
    left_owner: str
    right_owner: str
    site: int = -1


@dataclass(frozen=True, slots=True)
class Existential:
    """A size known only after the run. Outputs are allocated at its `bound` and cut to the size; without a bound (None) the program
    allocates them."""

    name: str
    bound: SizeExpr | None


@dataclass(frozen=True, slots=True)
class FaultSite:
    """A line of the user's code that can fault (line 0: unknown), and the array there whose size is at fault, as "f32[n, m]"."""

    file: str
    line: int
    text: str
    array: str = ""


def _leaves(tree: Tree) -> Iterator[int | str]:
    """Indices of arrays, and names of sizes, in a tree of arguments."""
    if isinstance(tree, int):
        yield tree
        return
    ((kind, body),) = tree.items()
    if kind == "size":
        yield body
        return
    for branch in branches(kind, body):
        yield from _leaves(branch)


@dataclass(frozen=True, slots=True)
class Signature:
    """The interface of a compiled program; `entry` is the symbol of its entry function, `requires` the CPU features that its code needs."""

    name: str
    inputs: tuple[Value, ...]
    sizes: tuple[str, ...]
    outputs: tuple[Value, ...]
    input_tree: Tree
    output_tree: Tree
    checks: tuple[SizeCheck, ...] = ()
    existentials: tuple[Existential, ...] = ()
    sites: tuple[FaultSite, ...] = ()
    entry: str = "entry"
    requires: tuple[str, ...] = ()

    @property
    def made(self) -> tuple[bool, ...]:
        """For each output, whether the program allocates it."""
        loose = {existential.name for existential in self.existentials if existential.bound is None}
        return tuple(any(name in loose for size in v.shape for name in size_names(size)) for v in self.outputs)

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Names and types of the arguments in order, structures flattened: `("img", "f32[h, w]")`, `("steps", "size")`."""
        return [
            (leaf, "size") if isinstance(leaf, str) else (self.inputs[leaf].name, str(self.inputs[leaf]))
            for leaf in _leaves(self.input_tree)
        ]

    def __repr__(self) -> str:
        takes = ", ".join(f"{name}: {kind}" for name, kind in self.arguments)
        gives = ", ".join(f"{name}: {value}" if (name := result_name(value)) else str(value) for value in self.outputs)
        return f"<Signature {self.name}({takes}) -> {gives}>"

    def to_json(self) -> str:
        """The signature as one line of JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Signature:
        """The inverse of `to_json`; raises `TargetError` for any other text."""
        try:
            data = parse_json(text, _DEEPEST)
            if data.pop("format") != FORMAT:
                raise TargetError("the signature was written by another version of raido")
            tables = (
                ("inputs", Value),
                ("outputs", Value),
                ("checks", SizeCheck),
                ("existentials", Existential),
                ("sites", FaultSite),
            )
            for field, kind in tables:
                data[field] = tuple(kind(**{k: _frozen(v) for k, v in row.items()}) for row in data[field])
            return Signature(**{**data, "sizes": tuple(data["sizes"]), "requires": tuple(data["requires"])})
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            if isinstance(error, TargetError):
                raise
            raise TargetError(f"not a signature: {error}") from error


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def evaluate_size(size: SizeExpr, sizes: Mapping[str, int]) -> int:
    """The value of a size expression; raises `KeyError` for a name that `sizes` lacks."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return sizes[size]
    op, left, right = size
    return OPERATIONS[op](evaluate_size(left, sizes), evaluate_size(right, sizes))


def solve_size(size: SizeExpr, actual: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Solves `size` = `actual` for its one unknown name, in which it must be linear; empty if no non-negative integer solves it."""
    unknown = [name for name in size_names(size) if name not in sizes]
    line = size_line(size, unknown[0], sizes) if len(unknown) == 1 else None
    if line is None or not line[1] or (actual - line[0]) % line[1] or (actual - line[0]) // line[1] < 0:
        return {}
    return {unknown[0]: (actual - line[0]) // line[1]}


def size_line(size: SizeExpr, name: str, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """a, b of `size` = a + b·name; None where it is not of that form."""
    if size == name:
        return 0, 1
    if not isinstance(size, tuple) or name not in size_names(size):
        return evaluate_size(size, sizes), 0
    left, right = size_line(size[1], name, sizes), size_line(size[2], name, sizes)
    if left is None or right is None or size[0] not in ("+", "-", "*"):
        return None
    if size[0] == "*":
        return None if left[1] and right[1] else (left[0] * right[0], left[0] * right[1] + left[1] * right[0])
    sign = 1 if size[0] == "+" else -1
    return left[0] + sign * right[0], left[1] + sign * right[1]


def size_text(size: SizeExpr) -> str:
    """A size expression as a user would write it: `min(n + 1, 2*m)`."""
    if not isinstance(size, tuple):
        return str(size)
    op, left, right = size
    if op == "+" and isinstance(right, int) and right < 0:
        op, right = "-", -right
    if op in ("min", "max"):
        return f"{op}({size_text(left)}, {size_text(right)})"
    parts = [
        f"({size_text(x)})" if isinstance(x, tuple) and x[0] not in ("min", "max") else size_text(x)
        for x in (left, right)
    ]
    return f" {op} ".join(parts)


def result_name(value: Value) -> str:
    """The name of a result in a dict or a named tuple, "edges", or its path there, "[0].edges"; "" for a result known by its index alone."""
    path = value.name.removeprefix("result")
    return path.removeprefix(".") if "." in path else ""


def size_names(size: SizeExpr) -> list[str]:
    """Distinct names in a size expression, by first occurrence."""
    if isinstance(size, str):
        return [size]
    return list(dict.fromkeys(n for part in size[1:] for n in size_names(part))) if isinstance(size, tuple) else []


def leaf_paths(tree: Tree, prefix: str = "") -> list[tuple[int, str]]:
    """Arrays of a tree in order, as pairs of index and path such as ".x" or "[0].y"."""
    if isinstance(tree, int):
        return [(tree, prefix)]
    ((kind, body),) = tree.items()
    if kind == "size":
        return []
    names = range(len(body)) if kind == "tuple" else body if kind == "record" else body["fields"]
    path_parts = [f"[{name}]" if kind == "tuple" else f".{name}" for name in names]
    parts = branches(kind, body)
    return [
        leaf for path_part, part in zip(path_parts, parts, strict=True) for leaf in leaf_paths(part, prefix + path_part)
    ]


def size_of(e: expr.Expr) -> SizeExpr:
    """A size expression of the graph as plain data; raises `TargetError` for an expression that is no size (a traced value)."""
    if isinstance(e, expr.Const):
        return int(e.value)
    if isinstance(e, expr.SizeVar):
        return e.name
    if isinstance(e, expr.Op) and e.name in _PRIMITIVES and len(e.args) == 2:
        return (_PRIMITIVES[e.name], size_of(e.args[0]), size_of(e.args[1]))
    raise TargetError(f"internal: {e!r} is not a size")


def _value(
    name: str, array: expr.Array, is_complex: bool, shape: tuple[expr.Expr, ...] | None = None, site: int = -1
) -> Value:
    """An array of the flat interface. For complex numbers the graph's last dimension (real, imaginary) becomes part of the dtype."""
    sizes = tuple(size_of(size) for size in (array.shape if shape is None else shape))
    if is_complex:
        return Value(name, f"complex{2 * array.dtype.bits}", sizes[:-1], site)
    return Value(name, array.dtype.numpy_name, sizes, site)


def signature_of(
    program: Program,
    entry: str,
    sites: tuple[FaultSite, ...] = (),
    requires: tuple[str, ...] = (),
    shapes: Sequence[tuple[expr.Expr, ...]] = (),
    existentials: Mapping[str, expr.Expr | None] | None = None,
) -> Signature:
    """The signature of a program that is compiled to a function called `entry`.

    `shapes` are those of the results, `existentials` the sizes in them that data decides, with their bounds (None: unbounded).
    """
    shapes = shapes or [result.shape for result in program.results]
    lines = list(sites)

    def number(site: Site | None) -> int:
        if site is None:
            return -1
        line = FaultSite(site.file, site.line, site.text)
        if line not in lines:
            lines.append(line)
        return lines.index(line)

    checks = [
        SizeCheck(size_of(c.left), size_of(c.right), c.left_owner, c.right_owner, number(c.site))
        for c in program.size_checks
    ]
    lines_of_results = [
        number(program.sites.get(r.form) if isinstance(r, expr.Result) else None) for r in program.results
    ]
    paths = dict(leaf_paths(program.output_tree))
    return Signature(
        name=program.name,
        inputs=tuple(_value(p.name, p, i in program.complex_inputs) for i, p in enumerate(program.parameters)),
        sizes=tuple(size.name for size in program.sizes),
        outputs=tuple(
            _value("result" + paths.get(i, ""), r, i in program.complex_outputs, shape, lines_of_results[i])
            for i, (r, shape) in enumerate(zip(program.results, shapes, strict=True))
        ),
        input_tree=program.input_tree,
        output_tree=program.output_tree,
        checks=tuple(checks),
        existentials=tuple(
            Existential(name, None if bound is None else size_of(bound)) for name, bound in (existentials or {}).items()
        ),
        sites=tuple(lines),
        entry=entry,
        requires=requires,
    )
