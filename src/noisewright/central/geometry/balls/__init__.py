"""Noise in the shape of balls: on queries, by directions, and on sketches of them."""
