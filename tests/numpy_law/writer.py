"""Drawing a program statement by statement: raido's source, beside the results expected from NumPy.

NumPy's side is evaluated while drawing, so that every shape is known; a statement that NumPy refuses is not drawn, or ends the program. A
program is source (`Drawn.source`), runs by itself, and is a function of its seed.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

import raido as rd
from numpy_law import near, neighbours, oracle
from numpy_law.arguments import COMPLEX, DTYPES, KINDS, LAYOUTS, argument, indices, numpy_dtype, raido_name

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
LONG = (63, 64, 65, 100, 257, 511)  # of vectors: several gangs and a rest
MOST_ELEMENTS = 600  # of a parameter
LARGEST = 4000  # of a result
NAMES: dict[str, Any] = {
    "np": np,
    "rd": rd,
    "near": near,
    "neighbours": neighbours,
    "oracle": oracle,
    "argument": argument,
    "indices": indices,
}
NESTED = 0.35  # how often an operand is an expression
FAULTING = 0.6  # how often a statement that must fail is kept
REFUSED = 0.2  # how often one that NumPy refuses is
REFUSALS = (ValueError, TypeError, IndexError, OverflowError, ArithmeticError)  # NumPy's


@dataclass(frozen=True)
class Value:
    """An array of the program.

    `raido` and `numpy` are the expressions; `array` is what it is for the arguments drawn. `ones`: dimensions whose size is the literal
    1, which broadcast. `firm`: every bit is decided. `by_data`: sizes may be decided by the data, so that none is known in tracing.
    """

    raido: str
    numpy: str
    array: np.ndarray
    ones: frozenset[int] = frozenset()
    firm: bool = True
    by_data: bool = False
    uses: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        return raido_name(self.array.dtype)

    @property
    def kind(self) -> str:
        return self.array.dtype.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


@dataclass(frozen=True)
class Draft:
    """An expression in both languages, over some operands. `ones` are dimensions of the literal size 1 in the result."""

    raido: str
    numpy: str
    operands: tuple[Value, ...]
    ones: tuple[int, ...] = ()
    by_data: bool = False
    result: bool = False  # to be a result only: not a plain array


Production = Callable[["Writer"], "Draft | None"]


@dataclass
class Statement:
    name: str
    draft: Draft
    uses: tuple[str, ...]


class Writer:
    """Writes one program. `families` are productions with weights."""

    def __init__(self, seed: int, families: Sequence[tuple[Production, float]]) -> None:
        self.seed = seed
        self.random = Random(f"numpy {seed}")
        self.families = families
        self.contract = self.random.random() < 0.25
        self.known = self.random.random() < 0.4  # sizes are ints in the signature
        self.depth = 0
        self.parameters: list[tuple[str, str, str]] = []  # name, annotation, argument
        self.scope: list[Value] = []
        self.sizes: dict[int, str] = {}
        self.statements: list[Statement] = []
        self.faults = False
        self.base = self._base()
        for _ in range(self.random.randint(1, 3)):
            self.new()

    # What is drawn from

    def _base(self) -> tuple[int, ...]:
        """The shape that parameters are parts of, so that they broadcast."""
        random = self.random
        rank = random.choice((0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5))
        shape = [0 if random.random() < 0.06 else random.choice(SIZES) for _ in range(rank)]
        if rank == 1 and random.random() < 0.3:
            return (random.choice(LONG),)
        while prod(shape) > MOST_ELEMENTS:
            largest = shape.index(max(shape))
            shape[largest] = max(1, shape[largest] // 3)
        return tuple(shape)

    def new(
        self, dtype: str | None = None, shape: Sequence[int] | None = None, kind: Any = None, text: str | None = None
    ) -> Value:
        """A parameter more, of a shape that broadcasts with the others where none is given; `text` makes its argument."""
        random = self.random
        dtype = dtype or random.choice((*DTYPES, random.choice(COMPLEX)))
        if shape is None:
            shape = self.base[random.choice((0, 0, 0, random.randint(0, len(self.base)))) :]
            shape = tuple(1 if random.random() < 0.12 else n for n in shape)
        name = f"a{len(self.parameters)}"
        layout = random.choice(("plain", "plain", *LAYOUTS))
        kind = kind or random.choice(KINDS)
        if text is None:
            text = f"argument({dtype!r}, {tuple(shape)}, {kind!r}, {layout!r}, {self.seed % 1000003 + len(self.parameters)})"
        tokens = [self._size(n) for n in shape]
        annotation = f"rd.{dtype}[{', '.join(tokens)}]" if tokens else f"rd.{dtype}"
        self.parameters.append((name, annotation, text))
        ones = frozenset(k for k, n in enumerate(shape) if n == 1)
        value = Value(name, name, np.asarray(eval(text, NAMES)), ones, uses=(name,))
        self.scope.append(value)
        return value

    def indices(self, shape: Sequence[int], low: int, high: int, dtype: str | None = None) -> Value:
        """A parameter of integers in low … high − 1."""
        dtype = dtype or self.random.choice(("i8", "i16", "i32", "i64", "i64", "u8", "u16", "u32"))
        seed = self.random.randrange(10**6)
        return self.new(dtype, shape, text=f"indices({dtype!r}, {tuple(shape)}, {low}, {high}, {seed})")

    def _size(self, n: int) -> str:
        """A size in a signature: itself, or one name for all that are equal; 1 always itself, so that it broadcasts."""
        if self.known or n == 1 or self.random.random() < 0.1:
            return str(n)
        return f'"{self.sizes.setdefault(n, "nmkhwpqrst"[len(self.sizes) % 10] + "x" * (len(self.sizes) // 10))}"'

    def pick(
        self,
        kinds: str = "biuf",
        ranks: Sequence[int] = range(6),
        fits: Callable[[Value], bool] = lambda v: True,
        firm: bool = False,
        nested: bool = True,
    ) -> Value | None:
        """An array of the scope, the later ones more often, or an expression over it; one of an unfirm value only where not `firm`."""
        suits = lambda v: v.kind in kinds and v.ndim in ranks and (v.firm or not firm) and fits(v)
        if nested and self.depth < 2 and not self.contract and self.random.random() < NESTED:
            made = self.nested()
            if made is not None and suits(made):
                return made
        fitting = [v for v in self.scope if suits(v)]
        if not fitting:
            return None
        return self.random.choices(fitting, [1 + k for k in range(len(fitting))])[0]

    def take(self, kinds: str = "biuf", ranks: Sequence[int] = range(6), **options: Any) -> Value:
        """As `pick`; a parameter more where the scope has none that suits."""
        found = self.pick(kinds, ranks, **options)
        if found is not None:
            return found
        dtypes = [d for d in (*DTYPES, *COMPLEX) if numpy_dtype(d).kind in kinds]
        rank = self.random.choice([r for r in ranks if r <= 3] or [min(ranks)])
        shape = tuple(self.random.choice(SIZES[:8]) for _ in range(rank))
        return self.new(self.random.choice(dtypes), shape)

    def nested(self) -> Value | None:
        """An exact expression over the scope."""
        self.depth += 1
        try:
            made = self.draft()
        finally:
            self.depth -= 1
        if made is None or made[1] is None or not isinstance(made[1], np.ndarray) or made[0].result:
            return None
        draft, array = made
        return self.value(f"({draft.raido})", f"({draft.numpy})", draft, array)

    def draft(self) -> tuple[Draft, Any] | None:
        """A draft and its value: an array, a `Near`, a tuple; None where it must fail."""
        for _ in range(40):
            productions, weights = zip(*self.families, strict=True)
            (produce,) = self.random.choices(productions, weights)
            count = len(self.parameters)
            draft = made = None
            may_fail = self.depth == 0 and len(self.statements) > 0
            try:
                draft = produce(self)
                made = self.evaluated(draft) if draft is not None else None
            except oracle.Raises:
                if draft is not None and may_fail and self.random.random() < FAULTING:
                    return draft, None
            except REFUSALS:
                if draft is not None and may_fail and self.random.random() < REFUSED:
                    return draft, None
            if draft is not None and made is not None and size_of(made) <= LARGEST:
                return draft, made
            del self.parameters[count:]  # whatever the draft asked for
            self.scope = [v for v in self.scope if v.raido[0] != "a" or v.raido in {p[0] for p in self.parameters}]
        return None

    def evaluated(self, draft: Draft) -> Any:
        """NumPy's value."""
        names = NAMES | {v.raido: v.array for v in self.scope}
        with np.errstate(all="ignore"):
            made = eval(draft.numpy, names)
        return made if isinstance(made, (near.Near, tuple)) else np.asarray(made)

    def value(self, raido: str, numpy: str, draft: Draft, made: Any) -> Value:
        """What a draft makes, as an operand."""
        array = made.rounded if isinstance(made, near.Near) else made
        by_data = draft.by_data or any(v.by_data for v in draft.operands)
        known = self.known and not by_data
        ones = {k for k, n in enumerate(array.shape) if n == 1 and (known or k in draft.ones)}
        firm = not isinstance(made, near.Near) and all(v.firm for v in draft.operands)
        uses = tuple(dict.fromkeys(name for v in draft.operands for name in v.uses))
        return Value(raido, numpy, array, frozenset(ones), firm, by_data, uses)

    # What is written

    def statement(self) -> bool:
        """One more statement; False where none can follow."""
        made = self.draft()
        if made is None:
            return False
        draft, array = made
        name = f"t{len(self.statements)}"
        uses = tuple(dict.fromkeys(name for v in draft.operands for name in v.uses))
        self.statements.append(Statement(name, draft, uses))
        if array is None:
            self.faults = True
            return False
        if not isinstance(array, tuple):
            self.scope.append(replace(self.value(name, name, draft, array), uses=(name,)))
        return True

    def source(self, statements: Sequence[Statement] | None = None) -> str:
        """A program that runs: the algorithm, its arguments and, for each result, what it must be, given those before it."""
        chosen = self.statements if statements is None else statements
        head = f"@rd.algorithm{'' if self.contract else '(contract=False)'}\ndef program("
        lines = [head + ", ".join(f"{name}: {annotation}" for name, annotation, _ in self.parameters) + "):"]
        lines += [f"    {s.name} = {s.draft.raido}" for s in chosen]
        lines += [f"    return {', '.join(s.name for s in chosen)}", "", "", "arguments = ["]
        lines += [f"    {text}," for _, _, text in self.parameters]
        lines += ["]", "expected = {"]
        lines += [f'    "{s.name}": lambda {", ".join(s.uses)}: {s.draft.numpy},' for s in chosen]
        return "\n".join([*lines, "}", ""])


def size_of(made: Any) -> int:
    """How many elements a result has; 0 for a tuple."""
    return 0 if isinstance(made, tuple) else np.size(made.value if isinstance(made, near.Near) else made)


IMPORTS = """import numpy as np

import raido as rd
from numpy_law import near, neighbours, oracle
from numpy_law.arguments import argument, indices
from numpy_law.law import hold

"""


@dataclass(frozen=True)
class Drawn:
    """A program: its algorithm, its arguments, and functions of arguments and earlier results that give what it must return."""

    source: str
    algorithm: Any
    arguments: list[Any]
    expected: dict[str, Callable[..., Any]]

    def script(self) -> str:
        """A file that runs, with `tests` on Python's path."""
        return f"{IMPORTS}\n{self.source}\n\nhold(program, arguments, expected)\n"


def build(source: str, label: str) -> Drawn:
    """The program of some source."""
    file = f"<{label}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = dict(NAMES)
    exec(compile(source, file, "exec"), names)
    return Drawn(source, names["program"], names["arguments"], names["expected"])
