"""The graph: typed, interned nodes, sizes and what can be proved of them, the primitives, and the `Program` that tracing yields."""
