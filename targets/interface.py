"""Base class of executables on any device: arguments by position and keyword, sources, printing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raido.algo.errors import ArgumentError, TargetError, explain
from raido.algo.html import table, titled
from raido.algo.trace.arguments import arrange, parameter_names
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.remedies import near_names
from raido.algo.trace.tracebacks import bordered
from raido.targets.signature import Signature, result_name, size_text

Source = str | Callable[[], str]


@bordered
class Interface(NearAttributes):
    """Base class of executables. `_sources` maps kinds to text, or to functions that return it."""

    __slots__ = ()
    _display_name = "exe"
    signature: Signature
    _sources: Mapping[str, Source]

    def _arranged(self, arrays: tuple[Any, ...], named: Mapping[str, Any], option: str = "out") -> tuple[Any, ...]:
        """Positional and keyword arguments in the signature's order. Raises `ArgumentError` for an unknown keyword; `option` is the
        caller's own keyword parameter, offered as a near name."""
        name, names = self.signature.name, parameter_names(self.signature)
        arranged, others = arrange(name, names, arrays, named)
        if others:
            unknown = next(iter(others))
            near = ", ".join(f"{word}=" for word in near_names(unknown, [*names, option]))
            said = {"try": near or None, "takes": ", ".join(names) or "nothing"}
            raise ArgumentError(explain(f"{name} has no argument {unknown!r}", **said))
        return arranged

    def source(self, kind: str) -> str:
        """The program's text of a kind: "nest", "tir", "llvm", "asm" or another that the target offers. Raises `TargetError`, which lists
        the kinds."""
        try:
            text = self._sources[kind]
        except KeyError:
            kinds = ", ".join(f'"{name}"' for name in self._sources) or "none (it was loaded from a library)"
            raise TargetError(
                f'{self.signature.name}: there is no source of kind "{kind}"; there is: {kinds}'
            ) from None
        return text if isinstance(text, str) else text()

    def _meant(self, name: str) -> str | None:
        called = self.signature.name
        if name in self._sources or name in ("show", "print", "lower", "code", "stages"):
            kind = name if name in self._sources else "nest"
            return f'exe.source("{kind}")' + (f", {called}.schedule()" if name == "schedule" else "")
        if name in ("run", "call"):
            return "exe(…), or call = exe.bind(…) and call.run()"
        if name in ("interpret", "trace", "compile", "schedule"):
            return f"{called}.{name}(…), of the algorithm"
        return {"benchmark": "exe.time(…)", "timeit": "exe.time(…)", "save": 'exe.export("lib.so")'}.get(name)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {kind}" for name, kind in self.signature.arguments)
        outputs = ", ".join(
            f"{name}: {value}" if (name := result_name(value)) else str(value) for value in self.signature.outputs
        )
        ghosts = "".join(
            f", {e.name}" + ("" if e.bound is None else f" <= {size_text(e.bound)}")
            for e in self.signature.existentials
        )
        return f"<Executable {self.signature.name}({inputs}) -> {outputs}{ghosts}>"

    def _repr_html_(self) -> str:
        rows = [("argument", name, kind) for name, kind in self.signature.arguments]
        given = [name for name, kind in self.signature.arguments if kind == "size"]
        rows += [("size", name, "i64") for name in self.signature.sizes if name not in given]
        rows += [("result", result_name(value), str(value)) for value in self.signature.outputs]
        return titled(f"Executable {self.signature.name}{self._described()}", table(("", "name", "type"), rows))

    def _described(self) -> str:
        """Suffix of the HTML title, such as ", at most 4 threads"."""
        return ""
