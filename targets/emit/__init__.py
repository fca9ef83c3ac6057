"""Emits a gang nest as functions of TVM's `tirx`: values, statements, kernels. Operations that TIR lacks are calls of helpers
(`raido.targets.llvm`)."""
