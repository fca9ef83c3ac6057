"""The cost of loops on a machine: an analytical model for the tuner's features and the default schedule.

affine           indices as affine functions of loop variables
tree             trees of loops with extents, memory accesses and operations
operations       the cost of an operation
elements         cycles of expressions for one element, alone and as a lane
traffic          bytes into each cache, from the innermost loop outwards
streams          rows that a loop accesses concurrently: conflict misses, and non-temporal stores
estimate         cycles of a tree
rows             the tree of a stencil with register tiles of rows
private_loops    per-element loops with private arrays, alone and in lanes
divergent_loops  per-element loops with different trip counts, alone and in lanes
values_of_updates  values and indices of an update's iterations, alone and in lanes
"""
