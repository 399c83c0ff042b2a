"""Proofs set size by set size, for any workload."""
