"""The graph: typed, interned nodes, sizes with their proofs, the primitives, and `Program`, the result of tracing."""
