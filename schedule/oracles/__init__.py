"""What nests and kernels mean, and whether they keep to it: tests hold the compiler against it. Nothing that compiles imports it."""
