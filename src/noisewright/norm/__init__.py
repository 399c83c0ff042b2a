"""How hard a workload is: factorization norms, each with a bound on how far from least it is.

Strategies for L1, found by descent and without such a bound, are here for both models to use.
"""
