"""Mechanisms that report through a Walsh–Hadamard transform."""
