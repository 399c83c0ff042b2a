"""Workloads whose structure gives the optimum, or a step of the solver in linear time."""
