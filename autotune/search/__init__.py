"""Which candidate to measure next: evolutionary search led by the cost model; random and grid search to compare it with."""
