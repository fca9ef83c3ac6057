"""Bounds inference: the region of a producer that its consumers need, where it is computed, and the loops that stages share."""
