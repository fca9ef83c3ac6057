"""`Algorithm`: a Python function that is traced into a `Program`, once for each signature.

An algorithm that is called on traced values is inlined: its size names are local to the call, and its stages are named below its name.
Compiling and scheduling need the layers above; the package `raido` adds them in the public class, which is derived from `Algorithm`.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import reprlib
import textwrap
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from raido.algo.errors import ArgumentError, DTypeError, RaidoError, ShapeError, TraceError, explain
from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Array as Node
from raido.algo.graph.expr import Expr, Load, Parameter, Result, SizeVar
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import substitute, topological
from raido.algo.graph.stage_names import RULE, is_stage_name
from raido.algo.language.complexes import Complex, as_complex, interleaved, kind_of, separated
from raido.algo.language.moves import moved
from raido.algo.language.records import Record, as_records
from raido.algo.passes.finish import finish_program
from raido.algo.trace.arguments import arrange, match_arguments
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.building import new_form, structure
from raido.algo.trace.calling import EndlessCall, endless_call
from raido.algo.trace.context import Trace, current, load, running, tracing
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift, takes
from raido.algo.trace.remedies import near_names
from raido.algo.trace.reserved import OPTIONS_OF_CALLS, option_names, refuse_reserved_names
from raido.algo.trace.scalars import cast
from raido.algo.trace.signature import (
    Signature,
    count_complaint,
    join_parts,
    names_of,
    read_signature,
    resolve_types,
    size_variables,
    split_parts,
    static_key,
    takes_of,
)
from raido.algo.trace.static_text import static_texts, type_texts
from raido.algo.trace.tracebacks import border
from raido.algo.trace.trees import build_tree, describe_tree, leaves, map_leaves, rebuild_tuple
from raido.algo.trace.types import ArrayType, ComplexArrayType, SizeType, Type, describe
from raido.algo.trace.value import COUNTER, STRONG, Array, is_scalar
from raido.algo.trace.weak import strengthened

DEEPEST_CALLS = 50  # nested calls of an algorithm in itself: recursion that halves a static parameter needs fewer

Kind = TypeVar("Kind", bound="Algorithm")


def _shown_call(algorithm: Algorithm, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the algorithm's `__call__` with the signature of its function: IPython shows both signatures where they differ."""
    call = functools.update_wrapper(functools.partial(type(algorithm).__call__, algorithm), function, assigned=())
    call.__doc__ = None
    return call


class Algorithm(NearAttributes):
    """A function under `@rd.algorithm`. `.trace` gives its `Program`, `.interpret` runs it on NumPy; calling it compiles it.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def double(a: rd.f32["n"]):
        ...     return 2 * a
        >>> double.interpret(np.float32([1, 2]))
        array([2., 4.], dtype=float32)
    """

    def __init__(
        self,
        function: Callable[..., Any],
        types: Mapping[str, Any] | None = None,
        contract: bool = True,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(function) or not hasattr(function, "__name__"):
            partial = isinstance(function, functools.partial)
            remedy = "a lambda, or rd.capture(f, k=…) for a static parameter of an algorithm" if partial else None
            if isinstance(function, (str, ArrayType)):
                remedy = '@rd.algorithm(x="f32[n]"): types by the names of the parameters'
            said = f"rd.algorithm makes an algorithm of a function, not of {function!r}"
            raise ArgumentError(explain(said, **{"try": remedy}))
        refuse_reserved_names(function, type(self))
        functools.update_wrapper(self, function)
        if self.__doc__ is None:  # else `help` would show the docstring of the class
            self.__doc__ = "An algorithm of raido, without a docstring of its own."
        vars(self)["__call__"] = _shown_call(self, function)
        self.function = function
        self.contract = contract
        self.fixed = dict(fixed or {})
        self._types = dict(types or {})
        self.name = _name_of(function, self._types)
        self._lock = threading.RLock()
        self._programs: dict[Any, Program] = {}

    _internal = frozenset(("arrange", "captured", "executable", "flatten", "inline", "program_for"))

    @property
    def _display_name(self) -> str:  # type: ignore[override]
        return self.__dict__.get("name", "algorithm")

    @functools.cached_property
    def signature(self) -> Signature:
        """The parameters of the function; read on first use, as annotations may name objects that are defined later."""
        return read_signature(self.function, self._types)

    @border
    def captured(self: Kind, static: Mapping[str, Any]) -> Kind:
        """Returns the algorithm with these static parameters fixed."""
        self._statics(static, complete=False)
        return type(self)(self.function, self._types, self.contract, {**self.fixed, **static})

    @border
    def trace(self, *arguments: Any, **static: Any) -> Program:
        """Returns the `Program` for these arguments or types (by default the declared types) and static parameters.

        Each combination is traced once and cached. Raises `TraceError`, `DTypeError` or `ShapeError` where the function breaks the rules of
        the language.
        """
        return self.program_for(arguments, static)

    def program_for(
        self, arguments: Sequence[Any], static: Mapping[str, Any], call: bool = False, form: str = "trace({})"
    ) -> Program:
        """Returns the program as `trace` does; with `call`, arguments are arrays and never types.

        `form` is the method that the user called, as messages write it.
        """
        arguments, static = self.arrange(arguments, static)
        types = resolve_types(self.signature, arguments, self.name, call, form)
        values = self._statics(static)
        key = (types, tuple((name, static_key(value)) for name, value in sorted(values.items())))
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = self._traced(types, values)
        return program

    def arrange(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns all positional arguments in the order of the parameters, with keyword arguments in their places, and the static
        parameters."""
        positional = [declaration.name for declaration in self.signature.positional]
        self._refuse_unknown([name for name in named if name not in positional], positional)
        return arrange(self.name, positional, arguments, named)

    def flatten(self, arguments: Sequence[Any]) -> tuple[list[np.ndarray], dict[str, int]]:
        """Returns the arrays of a call's arguments in the order of the program's parameters, and the values of the `rd.size` arguments."""
        types = resolve_types(self.signature, arguments, self.name, call=True)
        takes = takes_of(self.name, types, [declaration.name for declaration in self.signature.positional])
        arrays, sizes = match_arguments(takes, arguments)
        return [split_parts(array) for array in arrays], sizes

    @border
    def interpret(self, *arrays: Any, **static: Any) -> Any:
        """Runs the algorithm in the reference interpreter, over NumPy, and returns its result: the oracle for compiled code."""
        from raido.algo.interpreter.interpret import interpret

        arrays, static = self.arrange(arrays, static)
        flat, sizes = self.flatten(arrays)
        program = self.program_for(arrays, static, call=True)
        found = enumerate(interpret(program, flat, sizes))
        results = [join_parts(array) if k in program.complex_outputs else array for k, array in found]
        results = [array if array.ndim else array[()] for array in results]
        return build_tree(program.output_tree, results)

    @border
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if running() is not None:
            return self.inline(*arguments, **options)
        return self.run(*arguments, **options)

    def run(self, *arrays: Any, **static: Any) -> Any:
        """Returns the result for NumPy arrays: interpreted in this class, compiled in the public one."""
        return self.interpret(*arrays, **static)

    def inline(self, *arguments: Any, name: str | None = None, **static: Any) -> Any:
        """Returns the function's result for traced arguments; its stages are named below `name`, by default the algorithm's name."""
        arguments, static = self.arrange(arguments, static)
        values = self._statics(static)
        declared = self.signature.positional
        if len(arguments) != len(declared):
            raise ArgumentError(complaint(count_complaint(self.name, self.signature, len(arguments))))
        bound = [structure(as_records(argument, "takes")) for argument in arguments]
        sizes: dict[str, Expr] = {}
        pairs: list[tuple[Expr, Expr, str]] = []
        for k, declaration in enumerate(declared):
            if declaration.type is not None:
                bound[k] = _bind(declaration.type, bound[k], declaration.name, sizes, pairs)
        _unify(self.name, sizes, pairs)
        if name is not None and not is_stage_name(name):
            raise TraceError(complaint(f"{RULE}, not {name!r}"))
        trace = current()
        if trace.prefix.count(name or self.name) >= DEEPEST_CALLS:
            raise EndlessCall(endless_call(self.name))
        before, trace.prefix = trace.prefix, (*trace.prefix, name or self.name)
        try:
            return structure(as_records(self.function(*bound, **values)))
        finally:
            trace.prefix = before

    def _statics(self, given: Mapping[str, Any], complete: bool = True) -> dict[str, Any]:
        self._refuse_unknown(given)
        signature = self.signature
        values = {**signature.defaults, **self.fixed, **given}
        missing = signature.required - set(values)
        if missing and complete:
            raise ArgumentError(f"{self.name} needs the static parameter {min(missing)!r}")
        return values

    def _refuse_unknown(self, given: Iterable[str], positional: Sequence[str] = ()) -> None:
        """Raises `ArgumentError`, with similar names, for a keyword that names no static parameter and none of the parameters in
        `positional`."""
        known = {*self.signature.defaults, *self.signature.required}
        unknown = next((name for name in given if name not in known), None)
        if unknown is None:
            return
        near = near_names(unknown, {*known, *positional, *option_names(type(self))})
        labelled = {
            "try": self._option_elsewhere(unknown) or ", ".join(map(self._option_form, near)) or None,
            "takes": ", ".join(positional) or None,
            "static": ", ".join(sorted(known)) or (None if positional else "none"),
        }
        kind = "parameter" if positional else "static parameter"
        raise ArgumentError(explain(f"{self.name} has no {kind} {unknown!r}", **labelled))

    def _option_form(self, word: str) -> str:
        """Returns a keyword in the call that takes it: `word=` for a parameter or an option of calls, else a call of the method with the
        option."""
        known = {*self.signature.defaults, *self.signature.required, *(d.name for d in self.signature.positional)}
        method = option_names(type(self)).get(word, "run")
        return f"{word}=" if word in known or method in OPTIONS_OF_CALLS else f"{self.name}.{method}({word}=…)"

    def _option_elsewhere(self, word: str) -> str | None:
        """Returns the call that takes a keyword which calls of the algorithm do not take; None where no call does."""
        return None

    def _traced(self, types: Sequence[Type], static: Mapping[str, Any]) -> Program:
        from raido.algo.trace.leaks import refuse_leaks  # imported when a trace runs

        names = [d.name for d in self.signature.positional]
        flat: list[Parameter] = []
        sizes = size_variables(types, names)
        with tracing(Trace(self.contract, self.name)) as trace:
            result, complex_outputs, outputs = self._results(types, static, flat)
            refuse_leaks(outputs, flat, lambda: self._results(types, static, [])[2])
        complex_inputs = [isinstance(leaf, ComplexArrayType) for t in types for leaf in _arrays_of(t)]
        program = Program(
            name=self.name,
            parameters=tuple(flat),
            sizes=tuple(sizes),
            results=tuple(outputs),
            input_tree=takes_of(self.name, types, names).input_tree,
            output_tree=describe_tree(result),
            size_checks=tuple(trace.checks.values()),
            order=tuple(trace.order),
            names=trace.names,
            kinds=trace.kinds,
            sites=trace.sites,
            contract=self.contract,
            named_axes=frozenset(trace.named_axes),
            complex_inputs=frozenset(k for k, known in enumerate(complex_inputs) if known),
            complex_outputs=complex_outputs,
            static=static_texts(static, self.signature.defaults, self.fixed),
            types=type_texts(types, [d.type for d in self.signature.positional]),
        )
        return finish_program(program)

    def _results(
        self, types: Sequence[Type], static: Mapping[str, Any], flat: list[Parameter]
    ) -> tuple[Any, frozenset[int], list[Node]]:
        """Runs the function in the current trace; returns its result, the positions of the complex arrays in it, and the nodes of its
        arrays.

        The arrays of the arguments are appended to `flat`.
        """
        names = [d.name for d in self.signature.positional]
        given = {n for t, n in zip(types, names, strict=True) if isinstance(t, SizeType)}
        values = [_declared(t, name, flat) for t, name in zip(types, names, strict=True)]
        _require_solvable(flat, given)
        value = _called(self.function, values, static)
        if value is None:
            remedy = "return an array, a tuple of results, or a dict of them"
            raise TraceError(explain(f"{self.name} returned None", **{"try": remedy}))
        result = structure(as_records(value))
        if self.signature.result is not None:
            _check_result(self.signature.result, result, self.name)
        result, complex_outputs = interleave_complex(result)
        return result, complex_outputs, [_output(leaf) for leaf in leaves(result)]

    def __reduce__(self) -> tuple[Any, ...]:
        from raido.algo.trace.pickling import reduced

        return reduced(self)

    def __copy__(self: Kind) -> Kind:
        return self

    def __deepcopy__(self: Kind, known: Any) -> Kind:
        return self

    def __repr__(self) -> str:
        return f"<algorithm {self._heading()}>"

    def _heading(self) -> str:
        """Returns the name with the parameters, such as `blur(img: f32[h, w], *, radius=2)`."""
        signature = self.signature
        parts = [d.name if d.type is None else f"{d.name}: {d.type}" for d in signature.positional]
        static = {**dict.fromkeys(sorted(signature.required)), **signature.defaults, **self.fixed}
        if static:
            parts.append("*")
        for name, value in static.items():
            known = name in self.fixed or name in signature.defaults
            parts.append(f"{name}={reprlib.repr(value)}" if known else name)
        return f"{self.name}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from raido.algo.html import listing, titled

        try:
            lines = textwrap.dedent(inspect.getsource(self.function))
        except (OSError, TypeError):  # made by exec, or at a prompt
            lines = ""
        return titled(self._heading(), listing(lines))


def _name_of(function: Callable[..., Any], types: Mapping[str, Any]) -> str:
    """Returns the algorithm's name: the decorator's `name=`, unless that declares the type of a parameter called `name`, else the
    function's name."""
    name = types.get("name")
    if name is None or "name" in inspect.signature(function).parameters:
        name = function.__name__
        return name if name.isidentifier() and not keyword.iskeyword(name) else "algorithm"
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ArgumentError(f"the name of an algorithm is one that a function could have, not {name!r}")
    return name


def _called(function: Callable[..., Any], values: Sequence[Any], static: Mapping[str, Any]) -> Any:
    try:
        return function(*values, **static)
    except RaidoError:
        raise
    except Exception as error:
        from raido.algo.trace.libraries import failure_of_library, failure_of_python  # for errors only

        failure = failure_of_library(error) or failure_of_python(error)
        if failure is None:
            raise
        raise failure from None


def _declared(declared: Type, name: str, flat: list[Parameter]) -> Any:
    """Returns the traced value of a parameter, and appends its arrays to `flat`."""
    if isinstance(declared, tuple):
        parts = zip(names_of(declared), declared, strict=True)
        return rebuild_tuple(declared, [_declared(part, f"{name}_{own}", flat) for own, part in parts])
    if isinstance(declared, SizeType):
        return Array(SizeVar(name), COUNTER)
    if isinstance(declared, ComplexArrayType):
        flat.append(Parameter(name, declared.dtype, (*declared.shape, index.as_index(2)), 0))
        return separated(flat[-1])
    parameter = Parameter(name, declared.dtype, declared.shape, 0)
    flat.append(parameter)
    return Array(parameter) if declared.shape else Array(Load(parameter, (), False))


def _arrays_of(declared: Type) -> list[Type]:
    """Returns the types of the arrays of a parameter, in order."""
    return [leaf for leaf in leaves(declared) if not isinstance(leaf, SizeType)]


def interleave_complex(value: Any) -> tuple[Any, frozenset[int]]:
    """Returns a result with each complex array replaced by one array of (real, imaginary) pairs, and the positions of these arrays."""
    found: set[int] = set()
    count = 0

    def change(part: Any) -> Any:
        nonlocal count
        if isinstance(part, tuple) and not isinstance(part, Complex):
            return rebuild_tuple(part, [change(inner) for inner in part])
        if isinstance(part, Complex):
            found.add(count)
            part = interleaved(part)
        count += 1
        return part

    return change(value), frozenset(found)


def _require_solvable(parameters: Sequence[Parameter], given: set[str]) -> None:
    """Raises `ShapeError` where the value of some size variable cannot be solved for from the shapes of the arguments."""
    known = set(given)
    waiting = [(p, e) for p in parameters for e in p.shape]
    progress = True
    while progress:
        progress = False
        for _, extent in waiting:
            terms = index.linear(extent)[1]
            unknown = {v.name for v in _variables(extent)} - known
            if len(unknown) == 1 and any(isinstance(a, SizeVar) and a.name in unknown for a in terms):
                name = unknown.pop()
                if sum(name in {v.name for v in _variables(atom)} for atom in terms) == 1:
                    known.add(name)
                    progress = True
    for parameter, extent in waiting:
        for var in _variables(extent):
            if var.name not in known:
                labelled: dict[str, Any] = {
                    "why": f"it stands in {index.text(extent)} of {parameter.name!r} and nowhere by itself",
                    "try": f"make {var.name} a dimension of its own, or a parameter `{var.name}: rd.size`",
                }
                raise ShapeError(explain(f"the size {var.name!r} cannot be worked out from the arguments", **labelled))


def _variables(e: Expr) -> list[SizeVar]:
    return [node for node in topological(e) if isinstance(node, SizeVar)]


def _output(value: Array) -> Node:
    """Returns the node of a result, as an array that is stored for itself."""
    node = value.node
    if is_scalar(value):
        if isinstance(node, Load) and not node.checked and not node.indices and isinstance(node.array, Result):
            return node.array
        return new_form((), (node,), "elementwise")[0]
    if isinstance(node, Result):
        return node
    return moved(value.extents, lambda *indices: load(node, indices)).node


def _check_result(declared: Type, value: Any, name: str) -> None:
    """Raises where the traced result differs from the return annotation in nesting, element type or shape."""
    if isinstance(declared, tuple):
        if not isinstance(value, tuple) or len(value) != len(declared):
            raise TraceError(f"{name} is declared to return a tuple of {len(declared)}")
        for part, inner in zip(declared, value, strict=True):
            _check_result(part, inner, name)
        return
    if isinstance(declared, SizeType):
        return
    if isinstance(declared, ComplexArrayType) and isinstance(value, Complex):
        value, declared = value.real, ArrayType(declared.dtype, declared.shape)
    if isinstance(value, tuple):
        raise TraceError(f"{name} is declared to return {declared}, but returns a tuple")
    actual = describe(value.dtype, value.extents)
    if value.dtype is not declared.dtype:
        raise DTypeError(f"{name} is declared to return {declared}, but returns {actual}")
    if value.ndim != len(declared.shape):
        raise ShapeError(f"{name} is declared to return {declared}, but returns {actual}")
    for k, (a, b) in enumerate(zip(value.extents, declared.shape, strict=True)):
        current().equal_sizes(
            a, b, f"dimension {k} of the result", "what is declared", f"{name} is declared to return {declared}"
        )


def _bind(declared: Type, value: Any, name: str, sizes: dict[str, Expr], pairs: list[tuple[Expr, Expr, str]]) -> Any:
    """Checks a traced argument of an inlined algorithm against the declared type and returns it.

    The first dimension declared as a plain size variable binds it in `sizes`; every other dimension is appended to `pairs` for `_unify`.
    """
    if isinstance(declared, tuple):
        if not isinstance(value, tuple) or len(value) != len(declared):
            raise ArgumentError(complaint(f"argument {name!r} must be a tuple of {len(declared)}"))
        if isinstance(declared, Record) and isinstance(value, Record):
            if set(declared._fields) != set(value._fields):
                raise ArgumentError(complaint(f"argument {name!r} must have the fields {', '.join(declared._fields)}"))
            value = rebuild_tuple(declared, [getattr(value, field) for field in declared._fields])
        return rebuild_tuple(value, [_bind(t, v, name, sizes, pairs) for t, v in zip(declared, value, strict=True)])
    if isinstance(declared, ComplexArrayType):
        part = ArrayType(declared.dtype, declared.shape)
        if not isinstance(value, Complex) and (isinstance(value, tuple) or value.weak == STRONG):
            actual = "a tuple" if isinstance(value, tuple) else describe(value.dtype, value.extents)
            raise ArgumentError(complaint(f"argument {name!r} is {actual}; {declared} is expected"))
        return map_leaves(lambda leaf: _bind(part, leaf, name, sizes, pairs), as_complex(value))
    if isinstance(declared, SizeType):
        if isinstance(value, tuple) or value.ndim or not value.dtype.is_integer:
            raise ArgumentError(complaint(f"argument {name!r} is a size: an integer"))
        node = value.node if value.dtype is i64 else cast(value, i64)
        sizes[name] = node
        return Array(node, COUNTER)
    assert isinstance(declared, ArrayType)
    if isinstance(value, tuple):
        raise ArgumentError(complaint(f"argument {name!r} is {kind_of(value)}; {declared} is expected"))
    actual = describe(value.dtype, value.extents)
    if value.ndim != len(declared.shape):
        raise ArgumentError(complaint(f"argument {name!r} is {actual}; {declared} is expected"))
    if value.dtype is not declared.dtype:
        if not takes(value, declared.dtype):
            raise ArgumentError(complaint(f"argument {name!r} is {actual}; {declared} is expected", remedy=".astype"))
        value = strengthened(value, declared.dtype)
    for k, (extent, own) in enumerate(zip(value.extents, declared.shape, strict=True)):
        if isinstance(own, SizeVar) and own.name not in sizes:
            sizes[own.name] = extent
        else:
            pairs.append((own, extent, f"dimension {k} of {name!r}"))
    return Array(value.node, value.weak if value.weak == COUNTER else 0)


def _unify(algorithm: str, sizes: dict[str, Expr], pairs: list[tuple[Expr, Expr, str]]) -> None:
    """Solves the declared sizes that are expressions for their unbound variables, and requires each to be equal to the argument's size."""
    for own, extent, _ in pairs:
        terms = index.linear(own)[1]
        unknown = [a for a in terms if isinstance(a, SizeVar) and a.name not in sizes]
        if len(unknown) == 1 and terms[unknown[0]] == 1:
            rest = index.sub(own, unknown[0])
            known = substitute(rest, {SizeVar(n): e for n, e in sizes.items()})
            sizes[unknown[0].name] = index.sub(extent, index.canonical(known))
    values = {SizeVar(n): e for n, e in sizes.items()}
    for own, extent, where in pairs:
        expected = index.canonical(substitute(own, values))
        current().equal_sizes(extent, expected, f"{where} of {algorithm}", f"its type's {index.text(own)}")


def capture(algorithm: Kind, /, **static: Any) -> Kind:
    """Returns the algorithm with static (keyword-only) parameters fixed.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def scaled(a: rd.f32["n"], *, by=1.0):
        ...     return by * a
        >>> rd.capture(scaled, by=3.0).interpret(np.float32([1, 2]))
        array([3., 6.], dtype=float32)
    """
    if not isinstance(algorithm, Algorithm):
        raise ArgumentError(f"rd.capture takes an algorithm, not {type(algorithm).__name__}")
    return algorithm.captured(static)


def decorated(
    kind: type[Kind], function: Callable[..., Any] | None, contract: bool, types: Mapping[str, Any]
) -> Kind | Callable[[Callable[..., Any]], Kind]:
    """Returns the value of a decorator: the algorithm, or, where the decorator is called with options alone, a function that makes one."""
    if function is None:
        return border(lambda f: kind(f, types, contract))
    return kind(function, types, contract)


__all__ = ["Algorithm", "capture", "decorated", "lift"]
