"""The error for a missing attribute: it lists attributes of similar spelling, or the intended raido form."""

from __future__ import annotations

import functools
import inspect
import re
from typing import TYPE_CHECKING, Any, ClassVar

from raido.algo.errors import RaidoError, explain
from raido.algo.trace.locations import user_site
from raido.algo.trace.remedies import near_names
from raido.algo.trace.tracebacks import border


class UnknownAttribute(RaidoError, AttributeError):
    """A missing attribute."""


def _called(name: str, text: str, otherwise: str) -> str:
    """Returns the variable whose attribute a line of code accesses, where it is a single one; otherwise the given name."""
    found = set(re.findall(rf"(?<![\w.\])])(\w+)\.{name}\b", text))
    return found.pop() if len(found) == 1 else otherwise


class NearAttributes:
    """A base class whose instances report a missing attribute with the attributes of similar spelling.

    `_display_name` is the name of an instance in messages; `_site` is the label of the user's line in them.
    """

    __slots__ = ()
    _display_name: ClassVar[str]
    _site: ClassVar[str | None] = None
    _internal: ClassVar[frozenset[str]] = frozenset()  # attributes that are not for users

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._internal]

    def _meant(self, name: str) -> str | None:
        """Returns the remedy for a missing attribute other than names of similar spelling; None where there is none."""
        return None

    if not TYPE_CHECKING:  # so that unknown attributes are errors for type checkers, too

        @border
        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            own = inspect.getattr_static(type(self), name, None)
            if isinstance(own, (property, functools.cached_property)):
                return own.__get__(self, type(self))  # an existing property that raised: raises its error again
            near = near_names(
                name, [own for own in dir(type(self)) if not own.startswith("_") and own not in self._internal]
            )
            forms = [*filter(None, [self._meant(name)]), *(f".{own}" for own in near)]
            location = None if self._site is None else user_site()
            site = {} if self._site is None else {self._site: str(location)}
            called = (
                self._display_name
                if location is None or self._site != "algorithm"
                else _called(name, location.text, self._display_name)
            )
            raise UnknownAttribute(
                explain(f"{called}.{name}: there is no such attribute", **site, **{"try": ", ".join(forms) or None})
            )
