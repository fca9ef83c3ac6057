"""Error messages for arguments that do not fit a parameter: they show the expected type beside the argument."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import ArgumentError, explain
from raido.algo.trace.context import running
from raido.algo.trace.trees import branches

if TYPE_CHECKING:
    from raido.algo.trace.arguments import Leaf, Takes, Tree

LITERALS = (bool, int, float, complex)


def counted(n: int, noun: str) -> str:
    """Returns a number with a noun in the right grammatical number: `1 argument`, `2 arguments`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def describe(takes: Takes, tree: Tree) -> str:
    """Returns the text of an expected argument, as signatures print it."""
    if isinstance(tree, int):
        return f"{takes.inputs[tree].name}: {takes.inputs[tree]}"
    ((kind, body),) = tree.items()
    if kind == "size":
        return f"{body}: size"
    if kind in ("record", "namedtuple"):
        fields = body if kind == "record" else body["fields"]
        return f"({', '.join(f'{name}: {_type_text(takes, part)}' for name, part in fields.items())})"
    return f"({', '.join(describe(takes, part) for part in branches(kind, body))})"


def _type_text(takes: Takes, tree: Tree) -> str:
    """Returns the type of a record's field as text: of its array, or of its nested fields."""
    return str(takes.inputs[tree]) if isinstance(tree, int) else describe(takes, tree)


def _sequence(argument: Any) -> str | None:
    """Returns the description of a list of numbers with NumPy's dtype and shape for it; None where NumPy finds no single dtype."""
    try:
        array = np.array(argument)
    except (ValueError, OverflowError):
        return None
    return f"a {type(argument).__name__} of {array.dtype}, of shape {array.shape}"


def _came(argument: Any) -> str:
    if isinstance(argument, (list, tuple, range)) and (said := _sequence(argument)) is not None:
        return said
    if isinstance(argument, str):
        return argument if argument.startswith(("the fields", "a traced value")) else f"the string {argument[:40]!r}"
    if isinstance(argument, np.ndarray) and argument.ndim == 0:
        return f"one value of dtype {argument.dtype}"
    if isinstance(argument, np.ndarray):
        return f"an array of dtype {argument.dtype} and shape {argument.shape}"
    if isinstance(argument, np.generic):
        return f"{argument!r} (dtype {argument.dtype})"
    if isinstance(argument, LITERALS):
        return f"{type(argument).__name__} {argument!r}"
    return f"{type(argument).__module__}.{type(argument).__qualname__}".removeprefix("builtins.")


def traced_remedy() -> str:
    """Returns the remedy for a traced value passed to a call: inside an algorithm, another algorithm is called by its name."""
    if running() is not None:
        return (
            "the algorithm itself, f(x): inside of another one it is inlined; not its executable, and not f.interpret"
        )
    return "np.array(…): functions of raido work inside of algorithms"


def no_array_remedy(argument: Any) -> str | None:
    """Returns the remedy for an argument that is no array; None where none is known."""
    if isinstance(argument, str):
        return "np.frombuffer(s.encode(), np.uint8) for text, np.load(path) for a file's numbers; a keyword-only parameter for an option"
    if isinstance(argument, (np.random.Generator, np.random.RandomState)):
        return "rd.random.key(seed), for a parameter of type u32[2]"
    if dataclasses.is_dataclass(argument):
        return "vars(p), a dict, whose parts are p.a inside; or typing.NamedTuple instead of a dataclass"
    if type(argument).__module__.startswith("scipy.sparse"):
        return "m.data, m.indices and m.indptr of m.tocsr(), three arrays; or m.toarray()"
    if isinstance(argument, bytes):
        return "np.frombuffer(b, np.uint8) for the bytes as numbers"
    return None


def wrong(takes: Takes, wanted: str, came: Any) -> ArgumentError:
    """Returns the `ArgumentError` for an argument of the wrong structure."""
    return ArgumentError(f"{takes.name}: {wanted}, got {_came(came)}")


def misfit(
    takes: Takes, leaf: Leaf, name: str, came: Any, hint: str | None = None, why: str | None = None
) -> ArgumentError:
    """Returns the `ArgumentError` for an array: the expected type, the description of the argument, the reason and the remedy."""
    scalar = " (a scalar)" if not leaf.shape else ""
    return ArgumentError(
        explain(
            f'{takes.name}: argument "{name}" must be {leaf}{scalar}, got {_came(came)}',
            **{"why": why, "try": hint},
        )
    )


def bytes_text(count: float) -> str:
    """Returns an amount of memory in the unit that fits, with four significant digits."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TB"
