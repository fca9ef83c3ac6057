"""Nests cut into kernels, and the host plan around them: plain data, for every device."""
