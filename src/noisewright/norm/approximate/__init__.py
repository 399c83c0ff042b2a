"""Norms of all matrices near a workload: within α, or in a box."""
