"""The loops of one stage: order, tails, register tiles, peeling at boundaries, accumulators of reductions."""
