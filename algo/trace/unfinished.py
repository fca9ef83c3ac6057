"""The forms `a.at` and `a.at[key]`, which are no values until `.set(v)` or another update follows."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from raido.algo.errors import TraceError, explain
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.locations import user_site
from raido.algo.trace.operators import Operators

_OTHER_CHANGES = {  # JAX's, and NumPy's operators
    "apply": "a.at[key].set(f(a[key]))",
    "divide": "a.at[key].multiply(1 / v)",
    "get": "a[key]",
    "maximum": "a.at[key].max(v)",
    "minimum": "a.at[key].min(v)",
    **dict.fromkeys(("mul", "times"), "a.at[key].multiply(v)"),
    "sub": "a.at[key].add(-v)",
    "power": "a.at[key].set(a[key] ** v)",
    "subtract": "a.at[key].add(-v)",
}


class Unfinished(NearAttributes):
    """A form that a method call must complete. Every operator on it raises `TraceError`. `where` is the user's line that made it."""

    __slots__ = ("where",)
    _site: ClassVar[str | None] = "algorithm"

    def __init__(self) -> None:
        self.where = user_site()

    def refuse(self, *operands: Any) -> NoReturn:
        """Raises `TraceError`: the form is used as a value."""
        remedy = "a.at[key].set(v), or .add .multiply .min .max; a[key] reads the elements"
        labelled = {"algorithm": str(self.where), "why": "it waits for a change", "try": remedy}
        raise TraceError(explain(f"{self._display_name} is used as a value", **labelled))

    def _meant(self, name: str) -> str | None:
        if self._display_name == "a.at":
            return "a.at[key].set(v)"
        return _OTHER_CHANGES.get(name)

    __call__ = __iter__ = __bool__ = __array__ = refuse


for _operator in vars(Operators):
    if _operator.startswith("__") and callable(getattr(Operators, _operator)):
        setattr(Unfinished, _operator, Unfinished.refuse)
