"""Carry noise: pure privacy below every Laplace strategy, as the core of each draw is cancelled."""
