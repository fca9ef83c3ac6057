"""Public functions of the language: they carry their public name and shorten tracebacks; also the error for a missing name of a module."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from raido.algo.trace.attributes import UnknownAttribute
from raido.algo.trace.remedies import meant_by, near_names
from raido.algo.trace.tracebacks import border

_OF_PACKAGES = ("__file__", "__loader__", "__package__", "__path__", "__spec__")
_LISTED = 40  # names, at most, that an error lists if none is similar: all of rd.fft, rd.linalg and rd.random


def published(module: str, name: str, value: Any) -> Any:
    """Returns a function as the public one of that name in a module; other objects are returned unchanged."""
    if not inspect.isfunction(value):
        return value
    public = border(value)
    public.__module__, public.__qualname__ = module, name
    return public


def publish(namespace: dict[str, Any]) -> None:
    """Makes the functions in the `__all__` of a module public, and the only names that `dir` lists.

    A missing name of the module raises an error that lists similar ones.
    """
    module, names = namespace["__name__"], namespace["__all__"]
    for name in names:
        if name in namespace:
            namespace[name] = published(module, name, namespace[name])
    namespace["__getattr__"] = border(lambda name: refuse_name(module, name, names))
    namespace["__dir__"] = lambda: sorted({*names, *(name for name in namespace if name.startswith("__"))})


def publish_package(function: Any, namespace: dict[str, Any]) -> None:
    """Makes the public function of a package's name, such as `rd.targets`, stand for the package `raido.targets` too.

    Importing a module of the package binds the package's name in `raido`. For both to be one object in either order of imports, the
    function itself is entered in `sys.modules`, with the attributes that imports need of a package. `help` shows the function.
    """
    home = namespace["__name__"]
    public: Any = published(home.rpartition(".")[0], home.rpartition(".")[2], function)
    vars(public).update({name: value for name, value in namespace.items() if name in _OF_PACKAGES})
    public.__name__ = home
    setattr(public, public.__qualname__, public)
    sys.modules[home] = public


def refuse_name(module: str, name: str, names: Sequence[str]) -> NoReturn:
    """Raises `UnknownAttribute`, an AttributeError, for a missing name of a module, with similar names."""
    meant = None if name.startswith("_") else meant_by(name)
    near = [] if name.startswith("_") or meant else near_names(name, names)
    prefix = module.replace("raido", "rd", 1)
    said = f"; near: {', '.join(f'{prefix}.{word}' for word in near)}" if near else ""
    if not said and len(names) < _LISTED and not name.startswith("_"):
        said = f"; it has {', '.join(sorted(names))}"
    said = said if meant is None else f"; {'it is' if meant.startswith('np.') else 'raido has'} {meant}"
    raise UnknownAttribute(f"module {module!r} has no attribute {name!r}{said}")
