"""JAX's loop with a lower bound, `fori_loop`, as `rd.loop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from raido.algo.language import ufuncs
from raido.algo.language.control import loop
from raido.algo.trace.building import Number, Several, Single, Tuples
from raido.algo.trace.value import Array


@overload
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Several], Several], init_val: Tuples, *, name: str | None = None
) -> Several: ...
@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Array], Array | Number],
    init_val: Single,
    *,
    name: str | None = None,
) -> Array: ...
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, name: str | None = None
) -> Any:
    """The state after `state = body_fun(i, state)` for i = lower … upper − 1, from `init_val`, as in `jax.lax.fori_loop`.

    The bounds are ints, sizes or traced integers; where `upper <= lower` the result is `init_val`. The state and its dtypes
    are those of `rd.loop`.

    Example:
        >>> rd.algorithm(lambda x: rd.fori_loop(2, 5, lambda i, s: s * i, x)).interpret(np.array([1, 10]))
        array([ 24, 240])
    """
    if isinstance(lower, int) and isinstance(upper, int):
        return loop(max(upper - lower, 0), lambda i, state: body_fun(i + lower, state), init_val, name=name)
    count = ufuncs.maximum(ufuncs.subtract(upper, lower), 0)
    return loop(count, lambda i, state: body_fun(i + lower, state), init_val, name=name)
