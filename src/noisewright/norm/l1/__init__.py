"""Strategies for noise that is calibrated to L1 distances."""
