"""Specialises parallel loops of kernels for several threads: the branch of a loop for a single thread is removed.

    parallel c in 0..n, alone p:                       parallel c in 0..n:
      if p: sum from the end of the last chunk           total of the chunk; …
      else: total of the chunk; …          becomes

Iterations of a launch never all run on one thread.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from raido.algo.graph.expr import Var
from raido.schedule.nest.nodes import Block, For, If, Statement
from raido.schedule.nest.walk import with_blocks


def by_many_threads(block: Block, alone: Set[Var] = frozenset()) -> Block:
    """The statements without branches for a single thread; `alone`: the variables of enclosing loops that say whether one runs."""
    found: list[Statement] = []
    for s in block.statements:
        if isinstance(s, If) and s.condition in alone:
            found += by_many_threads(s.orelse or Block(()), alone).statements
        elif isinstance(s, For) and s.alone is not None:
            found.append(replace(s, alone=None, body=by_many_threads(s.body, alone | {s.alone})))
        else:
            found.append(with_blocks(s, lambda inner: by_many_threads(inner, alone)))
    return Block(tuple(found))
