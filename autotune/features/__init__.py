"""Features of a schedule for the cost model: numbers from its scalar nest, without compiling anything.

ends        expected values of arrays that hold loop bounds
forms       integers of a nest as affine forms over its loops
likelihood  probability of conditions
values      cost of expressions, in the loops around them
gather      nest → tree of loops (`schedule.cost`)
vector      tree → features
"""

from raido.autotune.features.vector import ESTIMATE, FEATURES, VERSION, features_of

__all__ = ["ESTIMATE", "FEATURES", "VERSION", "features_of"]
