"""The search over translates of a few patterns, for symmetric workloads."""
