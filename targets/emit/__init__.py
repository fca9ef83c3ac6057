"""From a gang nest to functions of TVM's `tirx`: values, statements, kernels; what TIR cannot say is called (`raido.targets.llvm`)."""
