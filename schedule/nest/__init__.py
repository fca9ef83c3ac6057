"""The nest, explicit loops over buffers: nodes, grammar checks, passes, text, and an interpreter."""
