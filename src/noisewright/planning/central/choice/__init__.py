"""Which mechanism plans a workload, and how the others compare."""
