"""Functions of libraries over NumPy, such as SciPy, that receive a traced value: their names in messages, and their replacements."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

import numpy as np

from raido.algo.errors import TraceError
from raido.algo.graph.program import Site
from raido.algo.trace.calling import EndlessCall, endless_call
from raido.algo.trace.locations import complaint, is_passed, library_module, public_module, site_in, user_site
from raido.algo.trace.remedies import rd_form, remedy_in
from raido.algo.trace.value import Array

_DEEP = 50  # nested calls of one user function: more are taken for endless recursion
_OUTSIDE = "the call outside of the algorithm, of an argument or a result"
_WINDOWS = 'rd.stencil(lambda p: …, a, boundary="symmetric")'
_OF_SCIPY = {
    "cdist": "rd.sqrt(rd.sum((a[:, None] - b[None]) ** 2, axis=-1))",
    "expit": "1 / (1 + rd.exp(-x))",
    "fftconvolve": "rd.convolve",
    "lfilter": "rd.loop with out.at[i].set(value) in its state",
    "log_softmax": "x - rd.logsumexp(x, axis=-1, keepdims=True)",
    "logit": "rd.log(x / (1 - x))",
    "ndtr": "rd.erfc(-x / math.sqrt(2)) / 2",
    "xlogy": "rd.where(x == 0, 0, x * rd.log(y))",
}


def library_complaint() -> str | None:
    """Returns the error message where a library function in the user's line converts a traced value to a NumPy array; None where none does."""
    module = library_module()
    return None if module is None else _complaint(module, _name_in(user_site().text, module))


def foreign_ufunc_complaint(ufunc: Any) -> str | None:
    """Returns the error message for a universal function that is not NumPy's own; None for NumPy's."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc or name not in dir(sys.modules.get("scipy.special")):
        return None
    return _complaint("scipy.special", name)


def failure_of_library(error: Exception) -> TraceError | None:
    """Returns the replacement for an error that a library over NumPy raised on a traced value; None for other errors."""
    links, link = [], error.__traceback__
    while link is not None:
        links.append(link)
        link = link.tb_next
    called = max((k for k, each in enumerate(links) if not is_passed(each.tb_frame)), default=len(links))
    inner = [each.tb_frame for each in links[called + 1 :]]
    module = next(filter(None, map(public_module, inner)), None)
    if module is None or not any(isinstance(value, Array) for frame in inner for value in frame.f_locals.values()):
        return None
    site = site_in(links[called].tb_frame, links[called].tb_lineno)
    return TraceError(_complaint(module, _name_in(site.text, module), site))


def failure_of_python(error: Exception) -> TraceError | None:
    """Returns the replacement for an error by which Python, or NumPy's own code, refused a traced value, or for an endless recursion of a
    user's function; None for other errors."""
    links, link = [], error.__traceback__
    while link is not None:
        links.append(link)
        link = link.tb_next
    users = [
        s
        for s in links
        if not is_passed(s.tb_frame) and not s.tb_frame.f_globals.get("__name__", "").startswith("numpy")
    ]
    if not users:
        return None
    site = site_in(users[-1].tb_frame, users[-1].tb_lineno)
    if isinstance(error, RecursionError):
        code, count = Counter(each.tb_frame.f_code for each in users).most_common(1)[0]
        if 10 * len(users) < len(links) and count < _DEEP:
            return None
        return EndlessCall(endless_call(code.co_name, site))
    text = str(error)
    if isinstance(error, TypeError) and text.startswith("unhashable type: 'Array'"):
        remedy = "rd.array(values)[i] for a table; rd.unique(a) for a set of elements"
        return TraceError(
            complaint("a traced value as a key of a dict or an element of a set", remedy=remedy, site=site)
        )
    if isinstance(error, TypeError) and text == "'Array' object is not callable":
        remedy = "a.shape[0] for the size of an axis, a[i] for an element"
        return TraceError(complaint("an array is called as a function", remedy=remedy, site=site))
    if isinstance(error, TypeError) and "<traced " in text:
        head, remedy = remedy_in(site.text, "np", "numpy") or ("a function outside of raido", None)
        head = f"`{head}`" if remedy else head
        return TraceError(
            complaint(f"{head} of a traced value", why=None if remedy else text, remedy=remedy, site=site)
        )
    return None


def _complaint(module: str, name: str | None, site: Site | None = None) -> str:
    library = module.partition(".")[0]
    why = f"functions of {library} take NumPy arrays; a traced value stands for one that is known when the program runs"
    return complaint(
        f"`{module}{'.' + name if name else ''}` of a traced value", why=why, remedy=_remedy(module, name), site=site
    )


def _remedy(module: str, name: str | None) -> str:
    if module == "scipy.ndimage":
        return f"{_WINDOWS}, or {_OUTSIDE}"
    home = module.rpartition(".")[2]
    dotted = f"{home}.{name}" if home in ("fft", "linalg") else name
    form = rd_form(dotted) if dotted is not None else None
    if name in _OF_SCIPY or form is None:
        form = _OF_SCIPY.get(name or "")
    return form or _OUTSIDE


def _name_in(line: str, module: str) -> str | None:
    """Returns the first function of the module that a line of code calls; None where it calls none."""
    known = dir(sys.modules.get(module))
    return next((name for name in re.findall(r"([A-Za-z_0-9]+)\(", line) if name in known), None)
