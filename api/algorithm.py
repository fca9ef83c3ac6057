"""The public class `Algorithm`: the traced function of `raido.algo` extended by compiling, scheduling and running.

The packages above `raido.algo` are imported at their first use, so that `import raido` stays quick.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

import numpy as np

from raido.algo.errors import ArgumentError, ScheduleError, explain
from raido.algo.graph.program import Program
from raido.algo.trace import algorithm as traced
from raido.algo.trace.remedies import near_names
from raido.algo.trace.static_text import keywords, static_text
from raido.algo.trace.tracebacks import border

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import TypeVar  # which checkers have; Python's own has defaults from 3.13 on

    from raido.algo.trace.value import Array
    from raido.schedule.schedule import Schedule
    from raido.targets.executable import Executable
    from raido.targets.target import Target

    # The type of the traced function's result, which a call inside another algorithm has.
    Inlined = TypeVar("Inlined", default=Any)
else:
    from typing import TypeVar

    Inlined = TypeVar("Inlined")


class Algorithm(traced.Algorithm, Generic[Inlined]):
    __doc__ = traced.Algorithm.__doc__

    if TYPE_CHECKING:
        # The first is for checkers: an argument of type Any fits it too, so that they do not take the result for an `rd.Array`.
        @overload
        def __call__(self, first: np.ndarray[Any, Any], /, *rest: Any, **options: Any) -> Any: ...
        @overload
        def __call__(self, first: Array | tuple[Array, ...], /, *rest: Any, **options: Any) -> Inlined: ...
        @overload
        def __call__(self, *arguments: Any, **options: Any) -> Any: ...
        def __call__(self, *arguments: Any, **options: Any) -> Any: ...

    @border
    def compile(
        self,
        target: Target | str | None = None,
        schedule: Schedule | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        like: Sequence[Any] = (),
        unchecked: bool = False,
        db: str | os.PathLike[str] | None = None,
        **static: Any,
    ) -> Executable:
        """Compiles the algorithm to an executable for a target ("llvm": this host's CPU) under a schedule (None: the default schedule).

        A schedule brings along the values of static (keyword-only) parameters, and the types, that it was made with:
        `f.compile(schedule=s)`. Without a schedule, static parameters are given here, `f.compile(width=200)`, or have their defaults.
        `sizes={"h": 480}` specialises; otherwise one executable serves all sizes. `like` is a tuple or list of example arguments or types,
        needed where parameters have no type. `unchecked=True` removes all checks: an index out of range is then undefined behaviour. `db`
        is a database that `rd.autotune` has written: the best schedule in it for this program, the target and the nearest sizes (those of
        `sizes`, else of the arrays in `like`) is used, or the default schedule where the database has none; `exe.source("record")` says
        which, and why.

        Errors: `ScheduleError` for a schedule of another program, `TargetError`, `TuningError`, `ArgumentError` for `schedule` beside `db`
        or an unknown keyword, and all errors of tracing.
        """
        from raido.targets.compile import compile_program
        from raido.targets.target import Target

        self._refuse_options("compile", static)
        if target is not None and not isinstance(target, str):
            target = Target.parse(
                target
            )  # TargetError for a schedule, which has a name, before the types of arguments are asked for
        if sizes is not None and not isinstance(sizes, Mapping):
            raise ArgumentError(
                explain(
                    f"{self.name}.compile: `sizes` is a dict of sizes by name, not {type(sizes).__name__}",
                    **{"try": "sizes={" + ", ".join(f'"{name}": 64' for name in self._size_names(like, static)) + "}"},
                )
            )
        if not isinstance(like, (tuple, list)):
            said = f"{self.name}.compile: `like` is a tuple with an example or a type for each argument, not {type(like).__name__}"
            raise ArgumentError(explain(said, **{"try": "like=(x,)"}))
        notes: dict[str, str] = {}
        if db is not None:
            if schedule is not None:
                raise ArgumentError("`schedule` and `db` both say which schedule to use: give one of them")
            schedule, notes["record"] = self._best_known(db, target, sizes, like, static)
        program = self._for_types(like, static) if schedule is None else self._program_of(schedule, like, static)
        if unchecked:
            from raido.algo.passes.unchecked import without_checks

            program = without_checks(program)
        return compile_program(program, target, schedule, sizes=sizes, notes=notes)

    def _for_types(self, like: Sequence[Any], static: Mapping[str, Any]) -> Program:
        """The program traced for the types or example arguments given to `compile`."""
        return self.program_for(like, static, form="compile(like=({}))")

    def _size_names(self, like: Sequence[Any], static: Mapping[str, Any]) -> list[str]:
        """The names of the sizes of the program traced for the types in `like`."""
        return [size.name for size in self._for_types(like, static).sizes]

    def _refuse_options(self, method: str, given: Mapping[str, Any]) -> None:
        """Raises ArgumentError for a keyword that is neither an option of `method` nor a parameter; suggests the call that takes it, or
        near names."""
        signature = self.signature
        known = [*(d.name for d in signature.positional), *sorted({*signature.defaults, *signature.required})]
        unknown = next((name for name in given if name not in known), None)
        if unknown is None:
            return
        options = [
            p
            for p in inspect.signature(getattr(type(self), method)).parameters.values()
            if p.name not in ("self", "static")
        ]
        names = [p.name for p in options]
        near = ", ".join(f"{word}=" for word in near_names(unknown, [*known, *names]))
        labelled = {
            "try": (self._option_elsewhere(unknown) if unknown not in names else None) or near or None,
            "takes": ", ".join([*names, *known]),
        }
        raise ArgumentError(explain(f"{self.name}.{method} has no argument {unknown!r}", **labelled))

    def _option_elsewhere(self, word: str) -> str | None:
        from raido.targets.target import Target

        if word in inspect.signature(type(self).compile).parameters:
            return f"{self.name}.compile({word}=…), which gives the function to call"
        if word in Target.__dataclass_fields__:
            return f'{self.name}.compile(rd.Target("llvm", {word}=…))'
        return None

    def _meant(self, name: str) -> str | None:
        from raido.schedule.schedule import Schedule
        from raido.targets.executable import Executable

        if name in ("autotune", "tune"):
            return f"rd.autotune({self.name}, sizes)"
        forms = []
        for kind, made in ((Schedule, "schedule()"), (Executable, "compile()")):
            member = inspect.getattr_static(kind, name, None)
            if member is not None:
                forms.append(f"{self.name}.{made}.{name}{'(…)' if callable(getattr(kind, name)) else ''}")
        return ", ".join(forms) or None

    def _best_known(
        self,
        db: str | os.PathLike[str],
        target: Target | str | None,
        sizes: Mapping[str, int] | None,
        like: Sequence[Any],
        static: Mapping[str, Any],
    ) -> tuple[Schedule | None, str]:
        """The best schedule in a database (None where it has none), and the reason as text."""
        from raido.algo.graph.bind_sizes import bind_sizes
        from raido.algo.trace.signature import is_type
        from raido.autotune.records.lookup import best_schedule
        from raido.targets.target import Target

        graph = self.schedule(*like, **static).graph
        if sizes is None and like and not any(is_type(argument) for argument in like):
            arrays, said = self.flatten(like)
            sizes = bind_sizes(graph.program, [array.shape for array in arrays], said)
        return best_schedule(db, graph, Target.parse(target), sizes)

    def _program_of(self, schedule: Schedule, like: Sequence[Any], static: Mapping[str, Any]) -> Program:
        """The program that `schedule` was made for; ScheduleError when it is not a program of this algorithm."""
        from raido.schedule.fingerprint import fingerprint
        from raido.schedule.schedule import Schedule

        if not isinstance(schedule, Schedule):
            raise ArgumentError(f"`schedule` is a schedule of {self.name}, not {type(schedule).__name__}")
        scheduled = schedule.graph.program
        if not like and not static and any(program is scheduled for program in self._programs.values()):
            return scheduled
        program = self._for_types(like, static)
        if fingerprint(program) != fingerprint(scheduled):
            raise ScheduleError(explain("the schedule belongs to another program", **self._apart(scheduled, program)))
        return program

    def _apart(self, scheduled: Program, asked: Program) -> dict[str, str]:
        """The `why` and `try` lines of an error about a schedule of another program; differing static parameters are reported first."""
        defaults = {name: static_text(name, value) for name, value in self.signature.defaults.items()}
        of_schedule, of_call = ({**defaults, **program.static} for program in (scheduled, asked))
        if scheduled.name == asked.name and of_schedule.keys() == of_call.keys() and of_schedule != of_call:
            differ = [name for name, text in of_schedule.items() if of_call[name] != text]
            theirs, ours = (keywords({name: texts[name] for name in differ}) for texts in (of_schedule, of_call))
            named = {name: of_schedule[name] for name in {**dict.fromkeys(differ), **scheduled.static, **asked.static}}
            known = any(program is scheduled for program in self._programs.values())
            remedy = "schedule=s" if known else f"schedule=s, {keywords(named)}"
            brings = ", without static parameters: the schedule has them" if known else ""
            return {
                "why": f"it was made with {theirs}; this is {self.name} with {ours}",
                "try": f"{self.name}.compile({remedy}){brings}",
            }
        return {
            "why": f'it schedules "{scheduled.name}"; this is "{asked.name}"',
            "try": f"build it from {self.name}.schedule({keywords(asked.static)})",
        }

    @border
    def schedule(self, *like: Any, target: Any = "llvm", **static: Any) -> Schedule:
        """An empty schedule of the algorithm: default heuristics for `target` fill in all choices that no directive decides.

        `like` are example arguments or types, as for `compile`. `static` are values of keyword-only parameters: the schedule is for the
        program with these values and brings them along, so that `compile(schedule=s)` leaves them out; JSON of it is read for the same
        program.

        Example:
            >>> import raido as rd
            >>> @rd.algorithm
            ... def scaled(a: rd.f32["n"], *, by=1.0):
            ...     return by * a
            >>> s = scaled.schedule(by=3.0)
            >>> scaled.compile(schedule=s)([1, 2])
            array([3., 6.], dtype=float32)
            >>> rd.Schedule.from_json(s.to_json(), scaled.schedule(by=3.0)) == s
            True
            >>> rd.Schedule.from_json(s.to_json(), rd.capture(scaled, by=3.0)) == s
            True
        """
        from raido.schedule.schedule import Schedule
        from raido.schedule.stages.form_stages import form_stages
        from raido.targets.target import Target

        self._refuse_options("schedule", static)
        Schedule.find_machine = _find_machine
        return Schedule(form_stages(self.program_for(like, static, form="schedule({})")), (), Target.parse(target))

    def executable(self, program: Program, target: str | None = None) -> Executable:
        """The executable of one of this algorithm's programs under the default schedule; compiled at first use, then kept."""
        from raido.targets.compile import compile_program

        with self._lock:
            known = self.__dict__.setdefault("_executables", {})
            found = known.get((id(program), target))
            if found is None:
                found = known[id(program), target] = (compile_program(program, target), program)
        return found[0]

    def run(self, *arrays: Any, out: Any = None, **static: Any) -> Any:
        """Runs the algorithm on arrays under the default schedule, on the device that holds them; compiles it at first use."""
        on_host = not static and (out is None or type(out) is np.ndarray)
        found = self._by_kinds.get(tuple(map(type, arrays))) if on_host else None
        if found is not None:
            return found(*arrays) if out is None else found(*arrays, out=out)
        kinds = self._kinds_of(arrays) if on_host else None
        found = None if kinds is None else self._by_kinds.get(kinds)
        if found is None:
            if static:
                arrays, static = self.arrange(arrays, static)
            program = self.program_for(arrays, static, call=True)
            found = self.executable(program, _device_of(arrays, out))
            if kinds is not None:
                self._by_kinds[kinds] = found
        return found(*arrays, out=out)

    def _kinds_of(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        """A key of the executable for arguments on the CPU.

        It has their classes where all parameters have types, else the dtype and rank of each array whose parameter has none. None instead of
        a key when an argument is neither a plain array nor a number, or a static parameter has a value that can change.
        """
        # No property: a type that there is not is an AttributeError, which a property would swallow.
        if "has_type" not in self.__dict__:
            self.__dict__["has_type"] = self._look_for_types()
        has_type = self.__dict__["has_type"]
        if has_type is None or len(arrays) != len(has_type):
            return None
        kinds = []
        for array, typed in zip(arrays, has_type, strict=True):
            if type(array) is np.ndarray:
                kinds.append(None if typed else (array.dtype, array.ndim))
            elif typed and type(array) in _NUMBERS:
                kinds.append(None)
            else:
                return None
        return tuple(map(type, arrays)) if all(has_type) else tuple(kinds)

    @functools.cached_property
    def _by_kinds(self) -> dict[tuple[Any, ...], Executable]:
        return {}

    def _look_for_types(self) -> tuple[bool, ...] | None:
        """Whether each positional parameter has a type; None when a static parameter has no value, or a value that can change."""
        statics = {**self.signature.defaults, **self.fixed}
        if self.signature.required - set(statics) or not all(type(value) in _CONSTANTS for value in statics.values()):
            return None
        return tuple(declaration.type is not None for declaration in self.signature.positional)


_NUMBERS = frozenset((bool, int, float, complex))
_CONSTANTS = frozenset((bool, int, float, complex, str, type(None)))


class Decorator(Protocol):
    """The type of `rd.algorithm(...)` with options: a function from a traced function to an `Algorithm`; parameters of a `lambda` are
    arrays."""

    @overload
    def __call__(self, function: Callable[[Array], Inlined], /) -> Algorithm[Inlined]: ...
    @overload
    def __call__(self, function: Callable[[Array, Array], Inlined], /) -> Algorithm[Inlined]: ...
    @overload
    def __call__(self, function: Callable[[Array, Array, Array], Inlined], /) -> Algorithm[Inlined]: ...
    @overload
    def __call__(self, function: Callable[..., Inlined], /) -> Algorithm[Inlined]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any: ...


@overload
def algorithm(
    function: Callable[[Array], Inlined], /, *, contract: bool = True, **types: Any
) -> Algorithm[Inlined]: ...
@overload
def algorithm(
    function: Callable[[Array, Array], Inlined], /, *, contract: bool = True, **types: Any
) -> Algorithm[Inlined]: ...
@overload
def algorithm(
    function: Callable[[Array, Array, Array], Inlined], /, *, contract: bool = True, **types: Any
) -> Algorithm[Inlined]: ...
@overload
def algorithm(function: Callable[..., Inlined], /, *, contract: bool = True, **types: Any) -> Algorithm[Inlined]: ...
@overload
def algorithm(*, contract: bool = True, **types: Any) -> Decorator: ...
def algorithm(function: Callable[..., Any] | None = None, /, *, contract: bool = True, **types: Any) -> Any:
    """Makes a function an algorithm: `@rd.algorithm`, or `@rd.algorithm(img="f32[h, w]")` with types as text.

    `contract=False` rounds after every operation; otherwise `a * b + c` written in one expression is one fused multiply-add. `types` are
    types by parameter name, and override annotations: `"f32[h, w]"`, `rd.f32["h", "w"]`, `rd.size`, tuples of these; `returns` is the type
    of the result; `name="blur"` names an algorithm whose function has no name, a `lambda`. Types as text, here or in
    `Annotated[rd.Array, "f32[h, w]"]`, are accepted by type checkers.

    Errors: `ArgumentError` for an object that is not a function, and for a parameter with the name of an option of calls or of `compile`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm(a="f32[n]", b="f32[n]")
        ... def dot(a: rd.Array, b: rd.Array) -> rd.Array:
        ...     return rd.sum(a * b)
        >>> dot.interpret(np.float32([1, 2]), np.float32([3, 4]))
        np.float32(11.0)
    """
    return traced.decorated(Algorithm, function, contract, types)


def _device_of(*arrays: Any) -> str | None:
    """The target name of the first array that is on a device; None when all arrays are on the CPU."""
    module = sys.modules.get("raido.targets.devices.array")  # None: nobody has made one
    for array in arrays:
        if array is None or isinstance(array, (np.ndarray, np.generic, int, float, str, list)):
            continue
        if module is not None and isinstance(array, module.DeviceArray):
            return array.device
        if isinstance(array, (Mapping, tuple)):
            found = _device_of(*(array.values() if isinstance(array, Mapping) else array))
        else:
            from raido.targets.cuda.where import cuda_device_of

            found = cuda_device_of(array)
        if found is not None:
            return found
    return None


def _find_machine(target: Any) -> Any:
    from raido.targets.target import Target

    return Target.parse(target).machine
