"""Functions written as LLVM assembly: instructions as text, every primitive operation, memory access, and helper functions made of them."""
