"""Workloads with closed forms, and what is built of them."""
