"""Strategies for Gaussian noise, one family a file, and the bounds that say how good they are."""
