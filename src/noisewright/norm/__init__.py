"""How hard a workload is: factorization norms, each with its proof of optimality."""
