"""From a gang nest to functions of TVM's `tirx`: values, statements, kernels, and the LLVM helper functions they call."""
