"""`rd.random`: random numbers from keys, as in `jax.random`."""

from raido.algo.library.random import bits, choice, fold_in, integers, key, normal, permutation, split, uniform
from raido.algo.trace.publishing import publish

__all__ = ["bits", "choice", "fold_in", "integers", "key", "normal", "permutation", "split", "uniform"]

publish(globals())
