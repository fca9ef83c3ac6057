"""Features of a schedule for the cost model: numbers from its scalar nest, without compiling anything.

ends        what is expected of arrays that hold the ends of loops
forms       the integers of a nest as affine forms over its loops
likelihood  how often a condition holds
values      what expressions cost, in the loops around them
gather      nest → tree of loops (`schedule.cost`)
vector      tree → features
"""

from raido.autotune.features.vector import ESTIMATE, FEATURES, VERSION, features_of

__all__ = ["ESTIMATE", "FEATURES", "VERSION", "features_of"]
