"""How hard a workload is: factorization norms, each with a bound on how far from least it is."""
