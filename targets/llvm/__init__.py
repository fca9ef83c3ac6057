"""Functions written as LLVM assembly: instructions as text, every primitive operation, memory access, and the helpers made of them."""
