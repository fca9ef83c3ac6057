"""What a schedule looks like to the cost model: numbers from its scalar nest, without compiling anything.

ends        what is expected of arrays that hold the ends of loops
forms       integers as affine forms over loops
operations  what operations cost
likelihood  how often a condition holds
loops       the tree of loops and their work
values      what expressions cost, in the loops around them
gather      nest → tree
traffic     bytes into each cache, and an estimate of the time
vector      tree → features
"""

from raido.autotune.features.vector import ESTIMATE, FEATURES, VERSION, features_of

__all__ = ["ESTIMATE", "FEATURES", "VERSION", "features_of"]
