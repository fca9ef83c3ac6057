"""The Nest, explicit loops over buffers: its nodes, its grammar as a check, its text, and its interpreter."""
