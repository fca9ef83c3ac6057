"""Parallel loops of kernels, whose iterations never all run on one thread: what a loop does where one thread is alone is left out.

parallel c in 0..n, alone p:                       parallel c in 0..n:
  if p: sum from where the last chunk ended          total of the chunk; …
  else: total of the chunk; …          becomes
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from raido.algo.graph.expr import Var
from raido.schedule.nest.nodes import Block, For, If, Statement
from raido.schedule.nest.walk import with_blocks


def by_many_threads(block: Block, alone: Set[Var] = frozenset()) -> Block:
    """The statements without what one thread does alone; `alone`: the names of loops around for whether it is."""
    found: list[Statement] = []
    for s in block.statements:
        if isinstance(s, If) and s.condition in alone:
            found += by_many_threads(s.orelse or Block(()), alone).statements
        elif isinstance(s, For) and s.alone is not None:
            found.append(replace(s, alone=None, body=by_many_threads(s.body, alone | {s.alone})))
        else:
            found.append(with_blocks(s, lambda inner: by_many_threads(inner, alone)))
    return Block(tuple(found))
