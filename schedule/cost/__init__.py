"""The cost of loops on a machine: the analytical model that the tuner's features and the default schedule share.

affine      indices as affine functions of loops
tree        the tree of loops: extents, accesses with their motion, operations
operations  what operations cost
traffic     bytes into each cache, from the innermost loop outwards
streams     rows that a loop goes along side by side: those that crowd a set of the cache, and those that are stored past the caches
estimate    cycles of a tree
rows        the tree of a stencil that makes some rows side by side
private_loops  loops of elements that keep arrays, alone and in lanes
divergent_loops  loops of elements that take differently many iterations, alone and in lanes
"""
