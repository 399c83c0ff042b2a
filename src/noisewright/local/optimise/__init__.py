"""The best ε-LDP strategy for a workload: dense, symmetric and ordered domains."""
