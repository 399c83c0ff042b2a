"""The search over all entries of a strategy, for workloads without symmetry."""
