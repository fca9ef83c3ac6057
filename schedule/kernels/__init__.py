"""Scalar nests cut into kernels, and the host plan of their launches: plain data, the same for every device."""
