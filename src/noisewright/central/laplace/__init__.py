"""Strategies for pure privacy, where L1 sensitivity decides, and their bounds."""
